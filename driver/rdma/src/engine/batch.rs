//! Small sends, several in one step.
//!
//! What a step costs besides the copy is locks and references, on both sides. Sends that fit into one SGE on each side share
//! them: the step claims a row of sends and the receives that they go to, copies without a lock, and completes all at once.
//! It takes the easy way only: the first send that is anything else, or that cannot succeed, ends the row before anything of
//! it was done, and is left to the general step. A flush, or the end of the connection, comes before or after a row, never in
//! the middle.

use platform::{Arc, Platform, SpinLockGuard, Weak};

use crate::{
    Access, Completion, CompletionQueue, Flags, OperationKind, ProtectionDomain, QueuePair, Sge,
    memory::{self, Opened},
    qp::{Phase, State},
    region::Range,
    request::{InitiatorRequest, ReceiveRequest},
    ring::copy,
};

/// Sends of one step.
const SENDS: usize = 32;
/// Bytes of a send that is small. A row of them is shorter than other steps may be: it gains little beyond.
pub(crate) const SMALL_SEND_BYTES: u32 = 2 * 1024;

/// What became of a row of sends.
pub(super) enum Batch {
    /// There is nothing to do.
    Idle,
    /// So many bytes moved; go on.
    Moved(u32),
    /// The oldest request is not for this.
    Other,
}

/// A row of sends, and the receives they go to.
#[repr(align(64))]
struct Row {
    sends: [InitiatorRequest; SENDS],
    receives: [ReceiveRequest; SENDS],
    used: usize,
}

impl Row {
    fn sends(&self) -> &[InitiatorRequest] {
        self.sends.get(..self.used).unwrap_or_default()
    }

    fn messages(&self) -> impl Iterator<Item = (&InitiatorRequest, &ReceiveRequest)> + Clone {
        self.sends().iter().zip(&self.receives)
    }
}

impl<P: Platform> QueuePair<P> {
    /// Carries out the sends at the front of the queue, as far as they are small.
    pub(super) fn batch(this: &Arc<Self, P>) -> Batch {
        let mut state = this.state.lock();
        if !state.is_open() || state.flushing_requests() || state.requests.len() == 0 {
            return Batch::Idle;
        }
        if state.done > 0 || !state.requests.front().is_some_and(|(_, request)| request.small) {
            return Batch::Other;
        }
        let Some(peer) = state.peer.as_ref().and_then(Weak::upgrade) else { return Batch::Other };
        if peer.shares_receives() {
            // Each is taken in turn with others.
            drop(state);
            return Batch::Other;
        }
        let (sends, receives) = ([InitiatorRequest::default(); SENDS], [ReceiveRequest::default(); SENDS]);
        let mut row = Row { sends, receives, used: 0 };
        state.claim_sends(&mut row);
        state.executing = true;
        drop(state);

        peer.claim_receives(&mut row);
        if row.used > 0 {
            row.used = this.place(&peer, &row);
            row.used = Self::end_receives(&peer, &row);
        }
        let (moved, more) = Self::end_sends(this, row.sends());
        match row.used {
            _ if !more => Batch::Idle,
            0 => Batch::Other,
            _ => Batch::Moved(moved),
        }
    }

    /// Finds the oldest receives for the sends of a row, and shortens it to those that have one with room in its first SGE.
    fn claim_receives(&self, row: &mut Row) {
        let mut state = self.state.lock();
        let mut fitting = 0usize;
        if state.receive.is_none()
            && state.is_open()
            && let Some(receives) = &state.own_receives
        {
            row.used = copy(&mut row.receives, receives.run()).min(row.used);
            fitting = row.messages().take_while(|(send, receive)| receive.first.length >= send.data.length).count();
        }
        state.placing = fitting > 0;
        row.used = fitting;
    }

    /// Copies, in order; how many messages have arrived. Apart, as the other loops over a row are: each has its variables in
    /// registers.
    #[inline(never)]
    fn place(&self, peer: &Self, row: &Row) -> usize {
        let mut last: Option<[Opened<P>; 2]> = None;
        let mut placed = 0usize;
        for (InitiatorRequest { data: from, .. }, ReceiveRequest { first: to, .. }) in row.messages() {
            let opened = last.as_ref().is_some_and(|[source, target]| Opened::copy(target, to, source, from));
            if !opened && self.open_and_copy(peer, from, to, &mut last).is_none() {
                break;
            }
            placed = placed.wrapping_add(1);
        }
        placed
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
            memory::copy(target.memory(), source.memory(), u64::from(from.length)).ok()?;
        }
        *last = Some([source, target]);
        Some(())
    }

    /// Reports the receives of what has arrived; for how many that could be done.
    #[inline(never)]
    fn end_receives(this: &Arc<Self, P>, row: &Row) -> usize {
        let mut state = this.state.lock();
        state.placing = false;
        let reported = CompletionQueue::push_all(
            &this.receive_cq,
            row.used,
            row.messages().map(|(send, receive)| Completion {
                bytes: send.data.length,
                solicited: send.flags.contains(Flags::SOLICIT),
                ..this.succeeded(OperationKind::Receive, receive.context)
            }),
        );
        // Who makes the queue overrun has arrived too.
        let arrived = row.used.min(reported.saturating_add(1));
        if let Some(receives) = &mut state.own_receives {
            receives.discard(arrived);
        }
        state.receives_taken(arrived);
        Self::end_part(this, state, reported < row.used);
        arrived
    }

    /// Ends the step, and reports the sends of what has arrived; the bytes, and whether there is more to do.
    #[inline(never)]
    fn end_sends(this: &Arc<Self, P>, sends: &[InitiatorRequest]) -> (u32, bool) {
        let bytes = sends.iter().map(|send| send.data.length).sum();
        let mut state = this.state.lock();
        state.executing = false;
        state.sends_done(sends.len());
        let reported = sends.iter().filter(|send| !send.flags.contains(Flags::SILENT_SUCCESS));
        let count = reported.clone().count();
        let completion = |send: &InitiatorRequest| this.succeeded(OperationKind::Send, send.context);
        let cq = &this.initiator_cq;
        // Mostly none is silent, and the loop has nothing to look at.
        let added = if count == sends.len() {
            CompletionQueue::push_all(cq, count, sends.iter().map(completion))
        } else {
            CompletionQueue::push_all(cq, count, reported.map(completion))
        };
        let overrun = added < count;
        this.pd.adapter().device().counters().moved(this.meter, u64::from(bytes), sends.len() as u64);
        let more = state.requests.len() > 0;
        Self::end_part(this, state, overrun);
        (bytes, more)
    }

    /// Ends this side's part in a step, with what waited for that.
    fn end_part(this: &Arc<Self, P>, state: SpinLockGuard<'_, State<P>, P>, fatal: bool) {
        let alive = state.phase != Phase::Dead;
        let mut after = Self::settle(this, state);
        after.fatal |= fatal && alive;
        this.finish(after);
    }
}

impl<P: Platform> State<P> {
    /// Finds the small sends at the front of the queue.
    fn claim_sends(&self, row: &mut Row) {
        row.used = copy(&mut row.sends, self.requests.run());
        row.used = row.sends().iter().take_while(|send| send.small).count();
    }
}
