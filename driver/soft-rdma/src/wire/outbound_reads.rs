//! What a queue pair awaits from its peer: responses to its reads (siw's ORQ), confirmations of its sends and writes, the
//! rest of a message, the end of the connection.

use iwarp::terminate::Cause;
use platform::{Arc, Platform, SpinLockGuard, Weak};

use crate::{
    Connector, Flags, QueuePair, Status,
    qp::request::SgeList,
    qp::{EndedRequest, LockedQp},
};

/// The oldest read whose response is due.
pub(super) struct OutboundRead {
    pub(super) size: u32,
    pub(super) sges: SgeList,
    /// The token to invalidate when the read succeeds.
    pub(super) invalidate: Option<u32>,
}

impl<P: Platform> QueuePair<P> {
    /// Claims the oldest read for a part of its response, until [`Self::end_response`]; `None`: the connection is over, or its requests are
    /// flushed. Error: no response is due.
    pub(super) fn begin_response(this: &Arc<Self, P>) -> Result<Option<OutboundRead>, Cause> {
        let mut state = this.state.lock();
        if state.confirms && state.open_reads > 0 && !state.oldest_is_read() {
            drop(state);
            Self::confirm(this, |state| !state.oldest_is_read());
            state = this.state.lock();
        }
        if !state.is_open() || state.flushing_requests() {
            return Ok(None);
        }
        if state.open_reads == 0 {
            return Err(Cause::OPCODE);
        }
        let (slot, &request) = state.initiator_queue.front().ok_or(Cause::LOCAL)?;
        let sges = state.sges_of(slot, &request, this.sizes().sges).unwrap_or_default();
        let invalidate =
            sges.first().filter(|_| request.flags.contains(Flags::RDMA_READ_LOCAL_INVALIDATE)).map(|sge| sge.token);
        let sges = SgeList::copy_of(sges).map_err(|_| Cause::LOCAL)?;
        // A flush waits while this is set: the response is being written to the read's memory.
        state.executing = true;
        Ok(Some(OutboundRead { size: request.data.length, sges, invalidate }))
    }

    /// Whether no response to a read is due, and no receive is half filled.
    pub(super) fn is_between_messages(&self) -> bool {
        let state = self.state.lock();
        state.open_reads == 0 && state.receive.is_none()
    }

    /// Reports the end of the stream to the connector: ended `gracefully` by the peer, or broken by either side.
    pub(super) fn peer_ended(this: &Arc<Self, P>, gracefully: bool) {
        let connector = this.state.lock().connector.clone();
        if let Some(connector) = connector.as_ref().and_then(Weak::upgrade) {
            if gracefully {
                Connector::peer_finishes(&connector);
            } else {
                Connector::abort(&connector);
            }
        }
    }

    /// Ends the claim of [`Self::begin_response`]. If the read has `ended`, completes it, and after a success the requests behind it that have
    /// ended too.
    pub(super) fn end_response(this: &Arc<Self, P>, ended: Option<Status>) {
        let mut state = this.state.lock();
        state.executing = false;
        state.open_reads = state.open_reads.saturating_sub(u32::from(ended.is_some()));
        let mut status = ended;
        Self::report_oldest(this, state, |state| match status.take() {
            Some(status) => Some((state.finish_oldest()?, status)),
            None if ended == Some(Ok(())) => Some((state.take_ended()?, Ok(()))),
            None => None,
        });
    }

    /// Completes sends and writes as placed, oldest first, as long as `is_placed` is true, and the requests behind each that have ended too. Does
    /// nothing without [`LockedQp::confirms`], after the end of the connection, or while the requests are flushed.
    pub(super) fn confirm(this: &Arc<Self, P>, is_placed: impl Fn(&mut LockedQp<P>) -> bool) {
        Self::report_oldest(this, this.state.lock(), |state| {
            if !state.confirms || !state.is_open() || state.flushing_requests() {
                return None;
            }
            let placed = state.outstanding > 0 && is_placed(state);
            Some((if placed { state.finish_oldest()? } else { state.take_ended()? }, Ok(())))
        });
    }

    /// Completes the oldest requests as long as `next` removes one: at most the queue's depth. The lock is released while a request is dropped.
    fn report_oldest<'a>(
        this: &'a Arc<Self, P>,
        mut state: SpinLockGuard<'a, LockedQp<P>, P>,
        mut next: impl FnMut(&mut LockedQp<P>) -> Option<(EndedRequest<P>, Status)>,
    ) {
        let mut fatal = false;
        while let Some((request, status)) = next(&mut state) {
            fatal |= this.complete_request(&request, status).is_err();
            drop(state);
            drop(request);
            state = this.state.lock();
        }
        this.report_to_connector(Self::unlock_and_flush_after(this, state, fatal));
    }
}
