//! Small sends, several in one step.
//!
//! What a step costs besides the copy is locks and references, on both sides. Sends that fit into one SGE on each side share
//! them: the step claims a row of sends and the receives that they go to, copies without a lock, and completes all at once.
//! It takes the easy way only: the first send that is anything else, or that cannot succeed, ends the row before anything of
//! it was done, and is left to the general step. A flush, or the end of the connection, comes before or after a row, never in
//! the middle.

use platform::{Arc, Platform};

use crate::{
    Access, Completion, CompletionQueue, Flags, OperationKind, ProtectionDomain, QueuePair, Sge,
    memory::region::Range,
    memory::runs::{self, Opened},
    qp::request::{InitiatorRequest, ReceiveRequest},
    qp::{Peer, State},
    ring::copy,
    wire::Wire,
};

/// Sends of one step.
const SENDS: usize = 32;
/// Bytes of a send that is small. A row of them is shorter than other steps may be: it gains little beyond.
pub(crate) const SMALL_SEND_BYTES: u32 = 2 * 1024;

/// What became of a row of sends.
pub(super) enum Batch<P: Platform> {
    /// There is nothing to do.
    Idle,
    /// So many bytes moved; go on.
    Moved(u32),
    /// The oldest request is not for this.
    Other,
    /// The peer is another machine's.
    Remote(Arc<Wire<P>, P>),
}

/// A row of sends. It is cleared, and filled by a copy, in whole cache lines.
#[repr(align(64))]
struct Row {
    sends: [InitiatorRequest; SENDS],
    used: usize,
    /// Of those that were copied.
    bytes: u32,
    /// All that any of them has.
    flags: Flags,
}

impl Row {
    fn sends(&self) -> &[InitiatorRequest] {
        self.sends.get(..self.used).unwrap_or_default()
    }

    /// Each send with the receive it goes to.
    fn with<'a>(
        &'a self,
        receives: &'a Receives,
    ) -> impl Iterator<Item = (&'a InitiatorRequest, &'a ReceiveRequest)> + Clone {
        self.sends().iter().zip(receives)
    }
}

/// The receives that the sends of a row go to.
type Receives = [ReceiveRequest; SENDS];

impl<P: Platform> QueuePair<P> {
    /// Carries out the sends at the front of the queue, as far as they are small.
    pub(super) fn batch(this: &Arc<Self, P>) -> Batch<P> {
        let mut state = this.state.lock();
        if let Some(Peer::Remote(wire, _)) = &state.peer {
            let wire = wire.clone();
            if state.flushing_requests() {
                Self::cancel_rest(this, state);
            }
            return Batch::Remote(wire);
        }
        if !state.is_open() || state.flushing_requests() {
            Self::cancel_rest(this, state);
            return Batch::Idle;
        }
        if state.requests.len() == 0 {
            return Batch::Idle;
        }
        if state.done > 0 || !state.requests.front().is_some_and(|(_, request)| request.small) {
            return Batch::Other;
        }
        let Some(peer) = state.peer.as_ref().and_then(Peer::here) else { return Batch::Other };
        if peer.shares_receives() {
            // Each is taken in turn with others.
            drop(state);
            return Batch::Other;
        }
        let mut row = Row { sends: [InitiatorRequest::default(); SENDS], used: 0, bytes: 0, flags: Flags::empty() };
        state.claim_sends(&mut row);
        state.executing = true;
        drop(state);

        let mut receives = [ReceiveRequest::default(); SENDS];
        peer.claim_receives(&mut row, &mut receives);
        if row.used == 0 {
            Self::end_unreceived(this);
            return Batch::Other;
        }
        this.place(&peer, &mut row, &receives);
        Self::end_receives(&peer, &mut row, &receives);
        let more = Self::end_sends(this, &row);
        match row.used {
            _ if !more => Batch::Idle,
            0 => Batch::Other,
            _ => Batch::Moved(row.bytes),
        }
    }

    /// Finds the oldest receives for the sends of a row, and shortens it to those that have one with room in its first SGE.
    fn claim_receives(&self, row: &mut Row, claimed: &mut Receives) {
        let mut state = self.state.lock();
        let mut fitting = 0usize;
        if state.receive.is_none()
            && state.is_open()
            && let Some(receives) = &state.own_receives
        {
            row.used = copy(claimed, receives.run()).min(row.used);
            fitting = row.with(claimed).take_while(|(send, receive)| receive.first.length >= send.data.length).count();
        }
        state.placing = fitting > 0;
        row.used = fitting;
    }

    /// Copies, in order, and shortens the row to what has arrived. Apart, as the other loops over a row are: each has its
    /// variables in registers.
    #[inline(never)]
    fn place(&self, peer: &Self, row: &mut Row, receives: &Receives) {
        let mut last: Option<[Opened<P>; 2]> = None;
        let (mut placed, mut bytes, mut all_flags) = (0usize, 0u32, Flags::empty());
        for (InitiatorRequest { data: from, flags, .. }, ReceiveRequest { first: to, .. }) in row.with(receives) {
            let opened = last.as_ref().is_some_and(|[source, target]| Opened::copy(target, to, source, from));
            if !opened && self.open_and_copy(peer, from, to, &mut last).is_none() {
                break;
            }
            placed = placed.wrapping_add(1);
            bytes = bytes.wrapping_add(from.length);
            all_flags |= *flags;
        }
        (row.used, row.bytes, row.flags) = (placed, bytes, all_flags);
    }

    /// Copies a message from and to memory that is not open. The next one's is often the same: it stays open until the step
    /// ends, and deregistration waits for that.
    #[inline(never)]
    fn open_and_copy(&self, peer: &Self, from: &Sge, to: &Sge, last: &mut Option<[Opened<P>; 2]>) -> Option<()> {
        if from.length == 0 {
            return Some(());
        }
        let range = |sge: &Sge| Range { address: sge.address, length: u64::from(from.length) };
        let source = ProtectionDomain::local(&self.pd, from.token, range(from), Access::empty()).ok()?;
        let target = ProtectionDomain::local(&peer.pd, to.token, range(to), Access::LOCAL_WRITE).ok()?;
        let (source, target) = (Opened::new(from, source)?, Opened::new(to, target)?);
        if !Opened::copy(&target, to, &source, from) {
            runs::copy(target.memory(), source.memory(), u64::from(from.length)).ok()?;
        }
        *last = Some([source, target]);
        Some(())
    }

    /// Reports the receives of what has arrived, and shortens the row to those for which that could be done.
    #[inline(never)]
    fn end_receives(this: &Arc<Self, P>, row: &mut Row, receives: &Receives) {
        let mut state = this.state.lock();
        state.placing = false;
        let reported = CompletionQueue::push_all(
            &this.receive_cq,
            row.used,
            row.flags.contains(Flags::SOLICIT),
            row.with(receives).map(|(send, receive)| Completion {
                bytes: send.data.length,
                solicited: send.flags.contains(Flags::SOLICIT),
                ..this.succeeded(OperationKind::Receive, receive.context)
            }),
        );
        if P::notices_data() {
            let (count, bytes) = (u32::try_from(reported).unwrap_or(u32::MAX), row.bytes);
            this.notice_completed(OperationKind::Receive, count, bytes, Ok(()));
        }
        // Who makes the queue overrun has arrived too.
        let arrived = row.used.min(reported.saturating_add(1));
        if let Some(receives) = &mut state.own_receives {
            receives.discard(arrived);
        }
        state.receives_taken(arrived);
        let overrun = reported < row.used;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, overrun));
        row.used = arrived;
        if overrun {
            row.bytes = row.sends().iter().fold(0, |bytes, send| bytes.wrapping_add(send.data.length));
        }
    }

    /// Ends the step: there is no receive, or not the right one. The oldest send goes on to wait, if it does.
    #[inline(never)]
    fn end_unreceived(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.executing = false;
        this.report_to_connector(Self::unlock_and_flush(this, state));
    }

    /// Ends the step, and reports the sends of what has arrived; whether there is more to do.
    #[inline(never)]
    fn end_sends(this: &Arc<Self, P>, row: &Row) -> bool {
        let sends = row.sends();
        let mut state = this.state.lock();
        state.executing = false;
        state.sends_done(sends.len());
        let completion = |send: &InitiatorRequest| this.succeeded(OperationKind::Send, send.context);
        let cq = &this.initiator_cq;
        let overrun = if row.flags.contains(Flags::SILENT_SUCCESS) {
            let reported = sends.iter().filter(|send| !send.flags.contains(Flags::SILENT_SUCCESS));
            let count = reported.clone().count();
            CompletionQueue::push_all(cq, count, false, reported.map(completion)) < count
        } else {
            // Mostly: a loop that has nothing to look at.
            CompletionQueue::push_all(cq, sends.len(), false, sends.iter().map(completion)) < sends.len()
        };
        if P::notices_data() {
            let count = u32::try_from(sends.len()).unwrap_or(u32::MAX);
            this.notice_completed(OperationKind::Send, count, 0, Ok(()));
        }
        this.pd.adapter().device().counters().moved(this.meter, u64::from(row.bytes), sends.len() as u64);
        let more = state.requests.len() > 0;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, overrun));
        more
    }
}

impl<P: Platform> State<P> {
    /// Finds the small sends at the front of the queue.
    fn claim_sends(&self, row: &mut Row) {
        row.used = copy(&mut row.sends, self.requests.run());
        row.used = row.sends().iter().take_while(|send| send.small).count();
    }
}
