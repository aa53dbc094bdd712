//! The queue pairs of a shared receive queue, and the line of those that wait for a receive because their peers have something to send.

use platform::{Charge, Platform, Weak};

use crate::{
    QueuePair,
    slot_map::{Chunk, SlotMap},
};

/// The queue pairs of a shared receive queue.
///
/// A queue pair that finds no receive goes to the end of the line. Each posted receive is granted to the first queue pair in line, and kept for it:
/// a later queue pair does not overtake, and a post wakes one queue pair, however many wait. A queue pair with a granted receive takes it or ends
/// its turn ([`WaitQueue::leave_line`]): else the receive would be kept for ever.
pub(super) struct WaitQueue<P: Platform> {
    waiters: SlotMap<Waiter<P>, P>,
    first: Option<usize>,
    last: Option<usize>,
    /// Queue pairs with a granted receive that they have not taken.
    granted: usize,
}

/// A queue pair of this queue.
pub(super) struct Waiter<P: Platform> {
    /// The queue pair whose engine is scheduled for the turn: the peer, or over a wire this queue pair.
    sender: Option<Weak<QueuePair<P>, P>>,
    state: WaiterState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    /// Neither in line nor granted a receive.
    Idle,
    /// In line, between two queue pairs.
    InLine {
        before: Option<usize>,
        after: Option<usize>,
    },
    Granted,
}

impl<P: Platform> WaitQueue<P> {
    /// An empty wait queue. The charge of each chunk is added to `charge`.
    pub(super) fn new(charge: Charge<P>) -> Self {
        Self { waiters: SlotMap::new(charge), first: None, last: None, granted: 0 }
    }

    /// Takes a slot, after adding `chunk`. Error: no slot is free; the number of slots, for [`SlotMap::chunk`].
    pub(super) fn join(&mut self, chunk: &mut Option<Chunk<Waiter<P>, P>>) -> Result<usize, usize> {
        *chunk = chunk.take().and_then(|chunk| self.waiters.grow(chunk));
        self.waiters.insert(Waiter { sender: None, state: WaiterState::Idle }).map_err(|_| self.waiters.slots())
    }

    /// Frees a slot. The caller drops the returned sender without the lock.
    pub(super) fn leave(&mut self, number: usize) -> Option<Weak<QueuePair<P>, P>> {
        let sender = self.leave_line(number);
        let _without_sender = self.waiters.remove(number);
        sender
    }

    fn state_of(&mut self, number: usize) -> Option<&mut WaiterState> {
        self.waiters.get_mut(number).map(|waiter| &mut waiter.state)
    }

    /// Whether a queue pair may take one of `receives` receives: some may be granted to other queue pairs.
    pub(super) fn may_take(&mut self, number: usize, receives: usize) -> bool {
        receives > self.granted || self.state_of(number) == Some(&mut WaiterState::Granted)
    }

    /// Puts a queue pair at the end of the line, for `sender`. If it is in line already, it keeps its place.
    pub(super) fn stand_in_line(&mut self, number: usize, sender: Weak<QueuePair<P>, P>) {
        if matches!(self.state_of(number), Some(WaiterState::InLine { .. })) {
            return;
        }
        let before = self.last;
        let Some(waiter) = self.waiters.get_mut(number) else { return };
        if waiter.state == WaiterState::Granted {
            self.granted = self.granted.saturating_sub(1);
        }
        waiter.state = WaiterState::InLine { before, after: None };
        waiter.sender = Some(sender);
        self.link(before, Some(number));
        self.last = Some(number);
    }

    /// Takes a queue pair out of the line, or ends its turn: it has taken a receive, or its peer has nothing left to send. The caller drops the
    /// returned sender without the lock if that may be the last reference, and unless a receive was taken grants the next queue pair a receive.
    pub(super) fn leave_line(&mut self, number: usize) -> Option<Weak<QueuePair<P>, P>> {
        let waiter = self.waiters.get_mut(number)?;
        let sender = waiter.sender.take();
        match core::mem::replace(&mut waiter.state, WaiterState::Idle) {
            WaiterState::Idle => {}
            WaiterState::Granted => self.granted = self.granted.saturating_sub(1),
            WaiterState::InLine { before, after } => {
                self.link(before, after);
                self.link_back(after, before);
            }
        }
        sender
    }

    /// Grants the first queue pair in line a receive, if one of `receives` receives is not kept for another. The caller schedules the returned
    /// sender.
    pub(super) fn grant(&mut self, receives: usize) -> Option<Weak<QueuePair<P>, P>> {
        if receives <= self.granted {
            return None;
        }
        let number = self.first?;
        let sender = self.leave_line(number);
        let waiter = self.waiters.get_mut(number)?;
        waiter.state = WaiterState::Granted;
        self.granted = self.granted.saturating_add(1);
        sender
    }

    /// Makes `next` follow `number`; without `number`, makes it the first in line.
    fn link(&mut self, number: Option<usize>, next: Option<usize>) {
        match number {
            None => self.first = next,
            Some(number) => {
                if let Some(WaiterState::InLine { after, .. }) = self.state_of(number) {
                    *after = next;
                }
            }
        }
    }

    /// Makes `previous` precede `number`; without `number`, makes it the last in line.
    fn link_back(&mut self, number: Option<usize>, previous: Option<usize>) {
        match number {
            None => self.last = previous,
            Some(number) => {
                if let Some(WaiterState::InLine { before, .. }) = self.state_of(number) {
                    *before = previous;
                }
            }
        }
    }
}
