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

/// A send and the receive it goes to.
#[derive(Clone, Copy, Default)]
struct Message {
    from: Sge,
    to: Sge,
    send_context: usize,
    receive_context: usize,
    flags: Flags,
}

/// A row of sends.
struct Row {
    messages: [Message; SENDS],
    used: usize,
}

impl Row {
    fn messages(&self) -> &[Message] {
        self.messages.get(..self.used).unwrap_or_default()
    }

    fn messages_mut(&mut self) -> &mut [Message] {
        self.messages.get_mut(..self.used).unwrap_or_default()
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
        let mut row = Row { messages: [Message::default(); SENDS], used: 0 };
        state.claim_sends(this.sizes().sges, &mut row);
        state.executing = true;
        drop(state);

        peer.claim_receives(&mut row);
        if row.used > 0 {
            row.used = this.place(&peer, row.messages());
            row.used = Self::end_receives(&peer, row.messages());
        }
        let moved = Self::end_sends(this, row.messages());
        if row.used > 0 { Batch::Moved(moved) } else { Batch::Other }
    }

    /// Finds the oldest receives for the sends of a row, and shortens it to those that have one with room in its first SGE.
    fn claim_receives(&self, row: &mut Row) {
        let mut state = self.state.lock();
        let mut claimed = 0usize;
        if state.receive.is_none()
            && state.is_open()
            && let Some(receives) = &state.own_receives
        {
            for (message, (context, first)) in row.messages_mut().iter_mut().zip(receives.run()) {
                if first.length < message.from.length {
                    break;
                }
                (message.to, message.receive_context) = (Sge { length: message.from.length, ..first }, context);
                claimed = claimed.saturating_add(1);
            }
        }
        state.placing = claimed > 0;
        row.used = claimed;
    }

    /// Copies, in order; how many messages have arrived.
    fn place(&self, peer: &Self, messages: &[Message]) -> usize {
        let mut last = None;
        let mut placed = 0usize;
        for message in messages {
            if self.place_one(peer, message, &mut last).is_none() {
                break;
            }
            placed = placed.saturating_add(1);
        }
        placed
    }

    /// Copies one message. Memory is often that of the message before: it stays open until the step ends, and deregistration
    /// waits for that.
    fn place_one(&self, peer: &Self, message: &Message, last: &mut Option<[Opened<P>; 2]>) -> Option<()> {
        let (from, to) = (&message.from, &message.to);
        if from.length == 0 || last.as_ref().is_some_and(|[source, target]| Opened::copy(target, to, source, from)) {
            return Some(());
        }
        let range = |sge: &Sge| Range { address: sge.address, length: u64::from(from.length) };
        let source = ProtectionDomain::local(&self.pd, from.token, range(from), Access::empty()).ok()?;
        let target = ProtectionDomain::local(&peer.pd, to.token, range(to), Access::LOCAL_WRITE).ok()?;
        memory::copy(&target, &source, u64::from(from.length)).ok()?;
        *last = Opened::new(from, source).zip(Opened::new(to, target)).map(|(source, target)| [source, target]);
        Some(())
    }

    /// Reports the receives of what has arrived; for how many that could be done.
    fn end_receives(this: &Arc<Self, P>, messages: &[Message]) -> usize {
        let mut state = this.state.lock();
        state.placing = false;
        let reported = CompletionQueue::push_all(
            &this.receive_cq,
            messages.iter().map(|message| Completion {
                bytes: message.from.length,
                solicited: message.flags.contains(Flags::SOLICIT),
                ..this.succeeded(OperationKind::Receive, message.receive_context)
            }),
        );
        // Who makes the queue overrun has arrived too.
        let arrived = messages.len().min(reported.saturating_add(1));
        if let Some(receives) = &mut state.own_receives {
            receives.discard(arrived);
        }
        state.receives_taken(arrived);
        Self::end_part(this, state, reported < messages.len());
        arrived
    }

    /// Ends the step, and reports the sends of what has arrived; the bytes.
    fn end_sends(this: &Arc<Self, P>, messages: &[Message]) -> u32 {
        let bytes = messages.iter().map(|message| message.from.length).sum();
        let mut state = this.state.lock();
        state.executing = false;
        state.sends_done(messages.len());
        let reported = messages.iter().filter(|message| !message.flags.contains(Flags::SILENT_SUCCESS));
        let count = reported.clone().count();
        let completions = reported.map(|message| this.succeeded(OperationKind::Send, message.send_context));
        let overrun = CompletionQueue::push_all(&this.initiator_cq, completions) < count;
        this.pd.adapter().device().counters().moved(this.meter, u64::from(bytes), messages.len() as u64);
        Self::end_part(this, state, overrun);
        bytes
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
    fn claim_sends(&self, sges_per_request: u32, row: &mut Row) {
        let (slot, requests) = self.requests.run();
        let sges_per_request = sges_per_request as usize;
        let sges = slot.checked_mul(sges_per_request).and_then(|first| self.sges.get(first..)).unwrap_or_default();
        let sges = sges.chunks(sges_per_request.max(1));
        let mut used = 0usize;
        for ((message, request), sges) in row.messages.iter_mut().zip(requests).zip(sges) {
            let (Some(request), [from, ..]) = (request.as_ref().filter(|request| request.small), sges) else { break };
            message.from = *from;
            message.send_context = request.context;
            message.flags = request.flags;
            used = used.saturating_add(1);
        }
        row.used = used;
    }
}
