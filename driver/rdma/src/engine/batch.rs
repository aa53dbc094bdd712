//! Small sends, several in one step.
//!
//! What a step costs besides the copy is locks and references, on both sides. Sends that fit into one SGE on each side share
//! them: the step claims a row of sends and the receives that they go to, copies without a lock, and completes all at once.
//! It takes the easy way only: the first send that is anything else, or that cannot succeed, ends the row before anything of
//! it was done, and is left to the general step. A flush, or the end of the connection, comes before or after a row, never in
//! the middle.

use platform::{Arc, Platform, SpinLockGuard, Weak};

use super::STEP_BYTES;
use crate::{
    Access, Completion, CompletionQueue, Flags, OperationKind, ProtectionDomain, QueuePair, Sge,
    memory::{self, Opened},
    qp::{Phase, State},
    region::Range,
    request::{InitiatorRequest, Operation},
};

/// Sends of one step.
const SENDS: usize = 32;
/// Bytes of a send that is small: a step of them is not longer than any other.
const SEND_BYTES: u32 = STEP_BYTES / SENDS as u32;

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
    silent: bool,
    solicited: bool,
}

/// A row of sends.
struct Row {
    messages: [Message; SENDS],
    used: usize,
}

impl Row {
    fn messages(&self) -> &[Message] {
        self.messages.get(..self.used).unwrap_or(&[])
    }
}

impl<P: Platform> QueuePair<P> {
    /// Carries out the sends at the front of the queue, as far as they are small.
    pub(super) fn batch(this: &Arc<Self, P>) -> Batch {
        let mut state = this.state.lock();
        if !state.is_open() || state.flushing_requests() || state.requests.len() == 0 {
            return Batch::Idle;
        }
        if state.done > 0 || !state.requests.front().is_some_and(|(_, request)| is_small(request)) {
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
        if state.receive.is_none() && state.is_open() {
            while let Some(message) = row.messages.get_mut(claimed).filter(|_| claimed < row.used)
                && let Some((context, sges)) = state.own_receives.as_ref().and_then(|receives| receives.get(claimed))
            {
                let first = sges.first().copied().unwrap_or_default();
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
        messages.iter().take_while(|message| self.place_one(peer, message, &mut last).is_some()).count()
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
                solicited: message.solicited,
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
        let reported = messages.iter().filter(|message| !message.silent);
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

/// Whether a request is a send that a row takes.
fn is_small<P: Platform>(request: &InitiatorRequest<P>) -> bool {
    let plain = matches!(request.operation, Operation::Send(None)) && !request.flags.contains(Flags::INLINE);
    plain && request.sges <= 1 && request.length <= SEND_BYTES
}

impl<P: Platform> State<P> {
    /// Finds the small sends at the front of the queue.
    fn claim_sends(&self, sges_per_request: u32, row: &mut Row) {
        for (distance, message) in row.messages.iter_mut().enumerate() {
            let Some((slot, request)) = self.requests.get(distance).filter(|(_, request)| is_small(request)) else {
                break;
            };
            let sges = self.sges_of(slot, request.sges, sges_per_request).unwrap_or(&[]);
            *message = Message {
                from: sges.first().copied().unwrap_or_default(),
                to: Sge::default(),
                send_context: request.context,
                receive_context: 0,
                silent: request.flags.contains(Flags::SILENT_SUCCESS),
                solicited: request.flags.contains(Flags::SOLICIT),
            };
            row.used = row.used.saturating_add(1);
        }
    }
}
