//! Small sends, several in one step.
//!
//! Besides the copy, a step costs locks and references on both sides. Sends that fit into one SGE on each side share these: the step
//! claims a batch of sends (`BatchSends`) and their receives, copies without a lock, and completes them together. It handles the
//! usual case only: at the first request that is not a small send, or that cannot succeed, the batch ends, and the general step
//! carries out that request from its beginning. While a device of the driver has fault rules for requests or a capture, the
//! general step carries out each. A flush or the end of the connection comes before or after a batch, never in the middle.
//!
//! A send of 64 B takes 112 instructions to post and 215 to carry out; without this path it takes 310 and 2,534 (docs/performance.md).

use platform::{Arc, Platform};

use crate::{
    Access, Completion, CompletionQueue, Flags, OperationKind, ProtectionDomain, QueuePair, Sge,
    memory::region::Range,
    memory::runs::{self, OpenMemory},
    qp::request::{InitiatorRequest, ReceiveRequest},
    qp::{LockedQp, PeerQp},
    ring::copy,
    watch,
    wire::Wire,
};

/// Sends of one batch, at most.
const SENDS: usize = 32;
/// Bytes of a small send, at most: larger sends gain little from a batch. So a batch moves fewer bytes than other steps may.
pub(crate) const SMALL_SEND_BYTES: u32 = 2 * 1024;

/// The result of a batch.
pub(super) enum BatchOutcome<P: Platform> {
    /// There is nothing to do.
    Idle,
    /// Bytes moved; there may be more to do.
    Moved(u32),
    /// The general step has to carry out the oldest request, with this peer; `None`: the peer is closed.
    NeedsStep(Option<Arc<QueuePair<P>, P>>),
    /// The peer is on another machine: the wire runs instead.
    Remote(Arc<Wire<P>, P>),
}

/// The sends of a batch. Aligned, so that it is cleared and filled in whole cache lines.
#[repr(align(64))]
struct BatchSends {
    sends: [InitiatorRequest; SENDS],
    used: usize,
    /// Bytes of the sends that were copied.
    bytes: u32,
    /// The union of the flags of the sends that were copied.
    flags: Flags,
}

impl BatchSends {
    fn sends(&self) -> &[InitiatorRequest] {
        self.sends.get(..self.used).unwrap_or_default()
    }

    /// Each send with its receive.
    fn with<'a>(
        &'a self,
        receives: &'a BatchReceives,
    ) -> impl Iterator<Item = (&'a InitiatorRequest, &'a ReceiveRequest)> + Clone {
        self.sends().iter().zip(receives)
    }
}

/// The receives of the sends in a batch.
type BatchReceives = [ReceiveRequest; SENDS];

impl<P: Platform> QueuePair<P> {
    /// Carries out the small sends at the front of the queue, up to [`SENDS`].
    pub(super) fn batch(this: &Arc<Self, P>) -> BatchOutcome<P> {
        let mut state = this.state.lock();
        if let Some(PeerQp::Remote(wire, _)) = &state.peer {
            let wire = wire.clone();
            if state.flushing_requests() {
                Self::cancel_rest(this, state);
            }
            return BatchOutcome::Remote(wire);
        }
        if !state.is_open() || state.flushing_requests() {
            Self::cancel_rest(this, state);
            return BatchOutcome::Idle;
        }
        if state.initiator_queue.len() == 0 {
            return BatchOutcome::Idle;
        }
        let peer = state.peer.as_ref().and_then(PeerQp::local);
        if state.done > 0 || watch::any() || !state.initiator_queue.front().is_some_and(|(_, request)| request.small) {
            return BatchOutcome::NeedsStep(peer);
        }
        let peer = match peer {
            Some(peer) if !peer.shares_receives() => peer,
            // Receives of a shared queue are taken one by one, in turn with other queue pairs.
            peer => return BatchOutcome::NeedsStep(peer),
        };
        let mut batch =
            BatchSends { sends: [InitiatorRequest::default(); SENDS], used: 0, bytes: 0, flags: Flags::empty() };
        state.claim_sends(&mut batch);
        state.executing = true;
        drop(state);

        let mut receives = [ReceiveRequest::default(); SENDS];
        peer.claim_receives(&mut batch, &mut receives);
        if batch.used == 0 {
            Self::end_unreceived(this);
            return BatchOutcome::NeedsStep(Some(peer));
        }
        this.place(&peer, &mut batch, &receives);
        Self::end_receives(&peer, &mut batch, &receives);
        let more = Self::end_sends(this, &batch);
        match batch.used {
            _ if !more => BatchOutcome::Idle,
            0 => BatchOutcome::NeedsStep(Some(peer)),
            _ => BatchOutcome::Moved(batch.bytes),
        }
    }

    /// Finds the oldest receives for a batch of sends. Shortens the batch to the sends whose receive has room in its first SGE.
    fn claim_receives(&self, batch: &mut BatchSends, claimed: &mut BatchReceives) {
        let mut state = self.state.lock();
        let mut fitting = 0usize;
        if state.receive.is_none()
            && state.is_open()
            && let Some(receives) = &state.receive_queue
        {
            batch.used = copy(claimed, receives.run()).min(batch.used);
            fitting =
                batch.with(claimed).take_while(|(send, receive)| receive.first.length >= send.data.length).count();
        }
        state.placing = fitting > 0;
        batch.used = fitting;
    }

    /// Copies the sends in order. Shortens the batch to the copied ones. Not inlined, like the other loops over a
    /// batch: each keeps its variables in registers.
    #[inline(never)]
    fn place(&self, peer: &Self, batch: &mut BatchSends, receives: &BatchReceives) {
        let mut last: Option<[OpenMemory<P>; 2]> = None;
        let (mut placed, mut bytes, mut all_flags) = (0usize, 0u32, Flags::empty());
        for (InitiatorRequest { data: from, flags, .. }, ReceiveRequest { first: to, .. }) in batch.with(receives) {
            let opened = last.as_ref().is_some_and(|[source, target]| OpenMemory::copy(target, to, source, from));
            if !opened && self.open_and_copy(peer, from, to, &mut last).is_none() {
                break;
            }
            placed = placed.wrapping_add(1);
            bytes = bytes.wrapping_add(from.length);
            all_flags |= *flags;
        }
        (batch.used, batch.bytes, batch.flags) = (placed, bytes, all_flags);
    }

    /// Opens the memory of one send and its receive, copies the send, and leaves the memory open in `last`: the next send often uses the same
    /// memory. While memory is open, until the batch is copied at the latest, its deregistration pends.
    #[inline(never)]
    fn open_and_copy(&self, peer: &Self, from: &Sge, to: &Sge, last: &mut Option<[OpenMemory<P>; 2]>) -> Option<()> {
        if from.length == 0 {
            return Some(());
        }
        let range = |sge: &Sge| Range { address: sge.address, length: u64::from(from.length) };
        let source = ProtectionDomain::local(&self.pd, from.token, range(from), Access::empty()).ok()?;
        let target = ProtectionDomain::local(&peer.pd, to.token, range(to), Access::LOCAL_WRITE).ok()?;
        let (source, target) = (OpenMemory::new(from, source)?, OpenMemory::new(to, target)?);
        if !OpenMemory::copy(&target, to, &source, from) {
            runs::copy(target.memory(), source.memory(), u64::from(from.length)).ok()?;
        }
        *last = Some([source, target]);
        Some(())
    }

    /// Reports the receives of the sends that were copied. Shortens the batch to the sends whose receive the completion queue took, and the send
    /// that overran it.
    #[inline(never)]
    fn end_receives(this: &Arc<Self, P>, batch: &mut BatchSends, receives: &BatchReceives) {
        let mut state = this.state.lock();
        state.placing = false;
        let completed = CompletionQueue::push_all(
            &this.receive_cq,
            batch.used,
            batch.flags.contains(Flags::SEND_AND_SOLICIT_EVENT),
            batch.with(receives).map(|(send, receive)| Completion {
                bytes: send.data.length,
                solicited: send.flags.contains(Flags::SEND_AND_SOLICIT_EVENT),
                ..this.succeeded(OperationKind::Receive, receive.context)
            }),
        );
        if P::notices_data() {
            let (count, bytes) = (u32::try_from(completed).unwrap_or(u32::MAX), batch.bytes);
            this.notice_completed(OperationKind::Receive, count, bytes, Ok(()));
        }
        // The message that overran the completion queue was placed too, so it counts as received.
        let arrived = batch.used.min(completed.saturating_add(1));
        if let Some(receives) = &mut state.receive_queue {
            receives.discard(arrived);
        }
        state.receives_taken(arrived);
        let overrun = completed < batch.used;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, overrun));
        batch.used = arrived;
        if overrun {
            batch.bytes = batch.sends().iter().fold(0, |bytes, send| bytes.wrapping_add(send.data.length));
        }
    }

    /// Ends a batch without sends: the oldest has no receive that fits. The general step decides whether it waits.
    #[inline(never)]
    fn end_unreceived(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.executing = false;
        this.report_to_connector(Self::unlock_and_flush(this, state));
    }

    /// Ends a batch: reports its sends. True: more requests are queued.
    #[inline(never)]
    fn end_sends(this: &Arc<Self, P>, batch: &BatchSends) -> bool {
        let sends = batch.sends();
        let mut state = this.state.lock();
        state.executing = false;
        state.sends_done(sends.len());
        let completion = |send: &InitiatorRequest| this.succeeded(OperationKind::Send, send.context);
        let cq = &this.initiator_cq;
        let overrun = if batch.flags.contains(Flags::SILENT_SUCCESS) {
            let not_silent = sends.iter().filter(|send| !send.flags.contains(Flags::SILENT_SUCCESS));
            let count = not_silent.clone().count();
            CompletionQueue::push_all(cq, count, false, not_silent.map(completion)) < count
        } else {
            // The usual case: the loop checks no flags.
            CompletionQueue::push_all(cq, sends.len(), false, sends.iter().map(completion)) < sends.len()
        };
        if P::notices_data() {
            let count = u32::try_from(sends.len()).unwrap_or(u32::MAX);
            this.notice_completed(OperationKind::Send, count, 0, Ok(()));
        }
        this.pd.adapter().device().counters().moved(this.counter_shard, u64::from(batch.bytes), sends.len() as u64);
        let more = state.initiator_queue.len() > 0;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, overrun));
        more
    }
}

impl<P: Platform> LockedQp<P> {
    /// Copies the small sends at the front of the queue.
    fn claim_sends(&self, batch: &mut BatchSends) {
        batch.used = copy(&mut batch.sends, self.initiator_queue.run());
        batch.used = batch.sends().iter().take_while(|send| send.small).count();
    }
}
