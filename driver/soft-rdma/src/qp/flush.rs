//! Cancelling what is outstanding: by the consumer's flush, or because the connection has ended.

use platform::{Arc, Deferred, Platform, SpinLockGuard, Timer, Weak};

use super::{Peer, Phase, QueuePair, State};
use crate::{Connector, Error, qp::receive_queue::ReceiveQueue, qp::request::Operation};

/// What the connector of a queue pair has to know, once the lock of the queue pair is free.
#[must_use]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// The connection cannot go on.
    pub(crate) fatal: bool,
    /// The queue pair is dead and nothing of it is under way any more.
    pub(crate) quiet: bool,
}

impl<P: Platform> QueuePair<P> {
    /// Cancels everything that is outstanding (NDK_FN_FLUSH). A send, read or write that is half done cannot be taken back
    /// from the peer: then the connection ends. IRQL <= DISPATCH.
    pub fn flush(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.request_flush();
        let report = Self::unlock_and_flush(this, state);
        this.report_to_connector(report);
    }

    /// Ends the connection on this side and flushes. True: nothing is under way any more; else the connector is told later.
    pub(crate) fn terminate(this: &Arc<Self, P>) -> bool {
        let mut state = this.state.lock();
        state.phase = Phase::Dead;
        state.request_flush();
        Self::unlock_and_flush(this, state).quiet
    }

    /// One of its completion queues has failed: the connection ends, and what cannot be reported any more is dropped. No lock
    /// may be held.
    pub(crate) fn queue_failed(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let report = match state.phase {
            Phase::Connected => {
                drop(state);
                Report { fatal: true, quiet: false }
            }
            Phase::Idle | Phase::PeerGone => {
                state.phase = Phase::Dead;
                state.request_flush();
                Self::unlock_and_flush(this, state)
            }
            // `connect` or `unreserve` will see it.
            Phase::Connecting | Phase::Dead => return,
        };
        this.report_to_connector(report);
    }

    /// Unlocks the queue pair, after the flushes that are due, as far as no request is under way. Bounded by the depths of the queues.
    /// Each cancelled operation is dropped without the lock: it may hold the last reference to a closed region, whose close callback
    /// then runs.
    #[inline]
    pub(crate) fn unlock_and_flush<'a>(this: &'a Arc<Self, P>, state: SpinLockGuard<'a, State<P>, P>) -> Report {
        // Mostly there is none.
        if state.phase != Phase::Dead && !state.is_flushing() {
            return Report::default();
        }
        Self::carry_out_flushes(this, state)
    }

    /// As [`Self::unlock_and_flush`], at the end of what may have been `fatal` to the connection.
    #[inline]
    pub(crate) fn unlock_and_flush_after<'a>(
        this: &'a Arc<Self, P>,
        mut state: SpinLockGuard<'a, State<P>, P>,
        fatal: bool,
    ) -> Report {
        let alive = state.phase != Phase::Dead;
        state.broken |= fatal;
        let mut report = Self::unlock_and_flush(this, state);
        report.fatal |= fatal && alive;
        report
    }

    /// The engine's part in a flush: what was posted to a dead queue pair during the flush.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel_rest<'a>(this: &'a Arc<Self, P>, state: SpinLockGuard<'a, State<P>, P>) {
        if state.phase == Phase::Dead {
            let report = Self::unlock_and_flush(this, state);
            this.report_to_connector(report);
        }
    }

    /// Cancels the request that was just posted to a dead queue pair: now, if it is the only one; else the engine cancels it behind the
    /// others. The caller drops the operation without the lock.
    pub(super) fn cancel_newest_request(&self, state: &mut State<P>) -> Option<Operation<P>> {
        // All requests of a dead queue pair are counted here. The engine, or the thread that carries out the flush, cancels them under the
        // lock, each with what it was: no other may go within a post, as its last reference may call a consumer.
        let before = state.flush_requests;
        state.flush_requests = before.saturating_add(1);
        if before > 0 {
            return None;
        }
        let ended = state.finish_oldest()?;
        // A failure is that of its completion queue: there is no connection left to end.
        let _ended_anyway = self.complete_request(&ended, Err(Error::Canceled));
        ended.1
    }

    /// Cancels the receive that was just posted to a queue pair that is dead: now, or behind what is not cancelled yet.
    #[cold]
    #[inline(never)]
    pub(super) fn cancel_newest_receive(&self, state: &mut State<P>) {
        if state.placing || state.is_flushing() {
            // Who ends the access under way, or carries out the flush, looks at this count under the lock.
            state.flush_receives = state.flush_receives.saturating_add(1);
        } else if let Some(receive) = state.own_receives.as_mut().and_then(ReceiveQueue::pop) {
            // A failure is that of its completion queue: there is no connection left to end.
            let _ended_anyway = self.complete_receive(&receive, Err(Error::Canceled), 0, None, false);
        }
    }

    fn carry_out_flushes<'a>(this: &'a Arc<Self, P>, mut state: SpinLockGuard<'a, State<P>, P>) -> Report {
        let mut report = Report::default();
        let flushed = state.flush_requests > 0;
        // What a consumer posts to a dead queue pair while the lock is free, the engine cancels.
        for _ in 0..state.flush_requests {
            if state.executing || state.flush_requests == 0 {
                break;
            }
            state.broken |= state.done > 0 || state.sent > 0;
            report.fatal |= state.broken;
            let error = state.flushed();
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
            if let Some(receive) = state.own_receives.as_mut().and_then(ReceiveQueue::pop) {
                report.fatal |= this.complete_receive(&receive, Err(Error::Canceled), 0, None, false).is_err();
            }
        }
        let flushing = state.is_flushing();
        let dead = state.phase == Phase::Dead;
        if dead {
            report.fatal = false;
            report.quiet = !flushing && !state.executing && !state.placing;
            // None is started any more.
            Timer::cancel(this);
        }
        let peer = if flushed { state.peer.as_ref().and_then(Peer::here) } else { None };
        drop(state);
        // A send that waited in the line of a shared receive queue is gone.
        if dead && let Some(shared) = &this.shared {
            shared.give_up();
        }
        if let Some(peer) = peer
            && let Some(shared) = &peer.shared
        {
            shared.give_up();
        }
        if flushed {
            // The engine stood still for the flush; and what was posted since may have stood in line already, or is to be cancelled.
            Deferred::schedule(this);
        }
        report
    }

    /// Reports to the connector, if there is something to report. No lock may be held.
    #[inline]
    pub(crate) fn report_to_connector(&self, report: Report) {
        if report.fatal || report.quiet {
            self.call_connector(report);
        }
    }

    fn call_connector(&self, report: Report) {
        let connector = self.state.lock().connector.clone();
        if let Some(connector) = connector.as_ref().and_then(Weak::upgrade) {
            if report.fatal {
                Connector::abort(&connector);
            }
            if report.quiet {
                Connector::queue_pair_quiet(&connector);
            }
        }
    }
}

impl<P: Platform> State<P> {
    fn request_flush(&mut self) {
        self.flush_requests = self.requests.len();
        self.flush_receives = self.own_receives.as_ref().map_or(0, ReceiveQueue::len);
        // One that comes later, while the lock is free in between, is not for this flush.
        self.flush_receive = self.receive.is_some();
    }

    fn is_flushing(&self) -> bool {
        self.flush_requests > 0 || self.flush_receives > 0 || self.flush_receive
    }

    pub(crate) fn flushing_requests(&self) -> bool {
        self.flush_requests > 0
    }
}
