//! Flushes cancel the outstanding requests and receives, for the consumer's flush or because the connection has ended.

use platform::{Arc, Deferred, Platform, SpinLockGuard, Timer, Weak};

use super::{LockedQp, PeerQp, QpState, QueuePair};
use crate::{Connector, Error, qp::receive_queue::ReceiveQueue, qp::request::Operation};

/// What a queue pair reports to its connector, after the queue pair's lock is released.
#[must_use]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// The connection has to end.
    pub(crate) fatal: bool,
    /// The queue pair is dead, and none of its requests or accesses is under way.
    pub(crate) quiesced: bool,
}

impl<P: Platform> QueuePair<P> {
    /// Cancels all outstanding requests and receives (NDK_FN_FLUSH). If a send, read or write is begun and not reported, or a receive is half
    /// filled, the connection ends, as the peer would continue that message. IRQL <= DISPATCH.
    pub fn flush(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.request_flush();
        let report = Self::unlock_and_flush(this, state);
        this.report_to_connector(report);
    }

    /// Ends the connection on this side, and flushes. True: no request or access is under way; else [`Connector::queue_pair_quiesced`] is called when
    /// none is.
    pub(crate) fn enter_error(this: &Arc<Self, P>) -> bool {
        let mut state = this.state.lock();
        state.qp_state = QpState::Error;
        state.request_flush();
        Self::unlock_and_flush(this, state).quiesced
    }

    /// A completion queue of this queue pair has failed: the connection ends, and completions that the failed queue
    /// would get are dropped. The caller holds no lock.
    pub(crate) fn queue_failed(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let report = match state.qp_state {
            QpState::Connected => {
                drop(state);
                Report { fatal: true, quiesced: false }
            }
            QpState::Idle | QpState::PeerGone => {
                state.qp_state = QpState::Error;
                state.request_flush();
                Self::unlock_and_flush(this, state)
            }
            // `connect` or `unreserve` checks for the failure.
            QpState::Connecting | QpState::Error => return,
        };
        this.report_to_connector(report);
    }

    /// Unlocks the queue pair, after the flushes that are due. Requests are cancelled only while none is being
    /// executed, receives only while no access is under way. Bounded by the depths of the queues. Each operation is
    /// dropped without the lock, as it may hold the last reference to a closed region, whose close callback then runs.
    #[inline]
    pub(crate) fn unlock_and_flush<'a>(this: &'a Arc<Self, P>, state: SpinLockGuard<'a, LockedQp<P>, P>) -> Report {
        // The usual case: no flush.
        if state.qp_state != QpState::Error && !state.is_flushing() {
            return Report::default();
        }
        Self::run_flushes(this, state)
    }

    /// As [`Self::unlock_and_flush`]. `fatal`: the caller has met an error that ends the connection.
    #[inline]
    pub(crate) fn unlock_and_flush_after<'a>(
        this: &'a Arc<Self, P>,
        mut state: SpinLockGuard<'a, LockedQp<P>, P>,
        fatal: bool,
    ) -> Report {
        let alive = state.qp_state != QpState::Error;
        state.broken |= fatal;
        let mut report = Self::unlock_and_flush(this, state);
        report.fatal |= fatal && alive;
        report
    }

    /// Called by the engine when it may not carry out requests: cancels what was posted to a dead queue pair during its flush.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel_rest<'a>(this: &'a Arc<Self, P>, state: SpinLockGuard<'a, LockedQp<P>, P>) {
        if state.qp_state == QpState::Error {
            let report = Self::unlock_and_flush(this, state);
            this.report_to_connector(report);
        }
    }

    /// Cancels the request just posted to a dead queue pair: at once if it is the only request, else the flush cancels it behind the others. The
    /// caller drops the returned operation without the lock.
    pub(super) fn cancel_newest_request(&self, state: &mut LockedQp<P>) -> Option<Operation<P>> {
        // `flush_requests` counts all requests of a dead queue pair. The engine, or the thread that runs the flush, cancels them. A post cancels
        // only its own request: the operation of an earlier request may hold the last reference to an object, whose close callback would then run
        // within the post.
        let before = state.flush_requests;
        state.flush_requests = before.saturating_add(1);
        if before > 0 {
            return None;
        }
        let ended = state.finish_oldest()?;
        // An error means that the completion queue is dead; the connection has ended anyway.
        let _ended_anyway = self.complete_request(&ended, Err(Error::Canceled));
        ended.1
    }

    /// Cancels the receive just posted to a dead queue pair: at once, or after the receives that the flush has still to cancel.
    #[cold]
    #[inline(never)]
    pub(super) fn cancel_newest_receive(&self, state: &mut LockedQp<P>) {
        if state.placing || state.is_flushing() {
            // The thread that ends the access, or runs the flush, reads this count under the lock.
            state.flush_receives = state.flush_receives.saturating_add(1);
        } else if let Some(receive) = state.receive_queue.as_mut().and_then(ReceiveQueue::pop) {
            // An error means that the completion queue is dead; the connection has ended anyway.
            let _ended_anyway = self.complete_receive(&receive, Err(Error::Canceled), 0, None, false);
        }
    }

    fn run_flushes<'a>(this: &'a Arc<Self, P>, mut state: SpinLockGuard<'a, LockedQp<P>, P>) -> Report {
        let mut report = Report::default();
        let flushed = state.flush_requests > 0;
        // The bound is read once: the engine cancels requests that are posted to a dead queue pair while the lock is released here.
        for _ in 0..state.flush_requests {
            if state.executing || state.flush_requests == 0 {
                break;
            }
            state.broken |= state.done > 0 || state.outstanding > 0;
            report.fatal |= state.broken;
            let error = state.take_flush_status();
            let Some(ended) = state.finish_oldest() else { continue };
            report.fatal |= this.complete_request(&ended, Err(error)).is_err();
            drop(state);
            drop(ended);
            state = this.state.lock();
        }
        if !state.placing
            && core::mem::take(&mut state.flush_receive)
            && let Some(receive) = state.receive.take()
        {
            state.broken = true;
            report.fatal = true;
            let _fatal_anyway = this.complete_receive(&receive, Err(Error::Canceled), 0, None, false);
        }
        while !state.placing && state.flush_receives > 0 {
            state.flush_receives = state.flush_receives.saturating_sub(1);
            if let Some(receive) = state.receive_queue.as_mut().and_then(ReceiveQueue::pop) {
                report.fatal |= this.complete_receive(&receive, Err(Error::Canceled), 0, None, false).is_err();
            }
        }
        let flushing = state.is_flushing();
        let dead = state.qp_state == QpState::Error;
        if dead {
            report.fatal = false;
            report.quiesced = !flushing && !state.executing && !state.placing;
            // A dead queue pair starts no timer.
            Timer::cancel(this);
        }
        let peer = if flushed { state.peer.as_ref().and_then(PeerQp::local) } else { None };
        drop(state);
        // The peer sends no more: this queue pair leaves the line of its shared receive queue. If a cancelled send waited for a receive, the peer
        // stands in the line of the peer's shared receive queue: the peer leaves that line.
        if dead && let Some(shared) = &this.shared {
            shared.leave_line();
        }
        if let Some(peer) = peer
            && let Some(shared) = &peer.shared
        {
            shared.leave_line();
        }
        if flushed {
            // The engine did nothing during the flush. Requests posted since then may be due, or are to be cancelled.
            Deferred::schedule(this);
        }
        report
    }

    /// Reports to the connector, if there is something to report. The caller holds no lock.
    #[inline]
    pub(crate) fn report_to_connector(&self, report: Report) {
        if report.fatal || report.quiesced {
            self.call_connector(report);
        }
    }

    fn call_connector(&self, report: Report) {
        let connector = self.state.lock().connector.clone();
        if let Some(connector) = connector.as_ref().and_then(Weak::upgrade) {
            if report.fatal {
                Connector::abort(&connector);
            }
            if report.quiesced {
                Connector::queue_pair_quiesced(&connector);
            }
        }
    }
}

impl<P: Platform> LockedQp<P> {
    fn request_flush(&mut self) {
        self.flush_requests = self.initiator_queue.len();
        self.flush_receives = self.receive_queue.as_ref().map_or(0, ReceiveQueue::len);
        // True only for a receive that is claimed already. If a send claims one of the counted receives while the flush is under way,
        // `next_receive` sets this flag.
        self.flush_receive = self.receive.is_some();
    }

    fn is_flushing(&self) -> bool {
        self.flush_requests > 0 || self.flush_receives > 0 || self.flush_receive
    }

    pub(crate) fn flushing_requests(&self) -> bool {
        self.flush_requests > 0
    }
}
