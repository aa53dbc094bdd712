//! The queue pairs on a shared receive queue, and the line of those that wait for a receive, as their peers have something to send.

use platform::{Charge, Platform, Weak};

use crate::{
    QueuePair,
    slot_map::{Chunk, SlotMap},
};

/// The queue pairs on a shared receive queue.
///
/// A queue pair that finds no receive goes to the end of the line. Each receive that is posted calls the first in line, and is kept
/// for it: a queue pair that comes later does not overtake, and a post wakes one queue pair, however many wait. A queue pair that was
/// called takes a receive or gives its turn up, as otherwise the receive would wait for ever: see [`WaitQueue::leave_line`].
pub(super) struct WaitQueue<P: Platform> {
    waiters: SlotMap<Waiter<P>, P>,
    first: Option<usize>,
    last: Option<usize>,
    /// Queue pairs that have been called and have not taken their receive yet.
    called: usize,
}

/// A queue pair on this queue.
pub(super) struct Waiter<P: Platform> {
    /// The peer, whose send waits.
    sender: Option<Weak<QueuePair<P>, P>>,
    turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    None,
    /// In line, between these two.
    InLine {
        before: Option<usize>,
        after: Option<usize>,
    },
    Called,
}

impl<P: Platform> WaitQueue<P> {
    /// An empty one; what it allocates is added to `charge`.
    pub(super) fn new(charge: Charge<P>) -> Self {
        Self { waiters: SlotMap::new(charge), first: None, last: None, called: 0 }
    }

    /// Takes a place, after making room for it with `chunk`; otherwise the number of places there are.
    pub(super) fn join(&mut self, chunk: &mut Option<Chunk<Waiter<P>, P>>) -> Result<usize, usize> {
        *chunk = chunk.take().and_then(|chunk| self.waiters.grow(chunk));
        self.waiters.insert(Waiter { sender: None, turn: Turn::None }).map_err(|_| self.waiters.places())
    }

    /// Leaves; the sender is to be dropped without the lock.
    pub(super) fn leave(&mut self, number: usize) -> Option<Weak<QueuePair<P>, P>> {
        let sender = self.leave_line(number);
        let _without_sender = self.waiters.remove(number);
        sender
    }

    fn turn(&mut self, number: usize) -> Option<&mut Turn> {
        self.waiters.get_mut(number).map(|waiter| &mut waiter.turn)
    }

    /// Whether it may take one of the `receives` that are there: others may be kept for those who were called.
    pub(super) fn may_take(&mut self, number: usize, receives: usize) -> bool {
        receives > self.called || self.turn(number) == Some(&mut Turn::Called)
    }

    /// Stands in line for `sender`, at its end; in the old place if it is in line already.
    pub(super) fn stand_in_line(&mut self, number: usize, sender: Weak<QueuePair<P>, P>) {
        if matches!(self.turn(number), Some(Turn::InLine { .. })) {
            return;
        }
        let before = self.last;
        let Some(waiter) = self.waiters.get_mut(number) else { return };
        if waiter.turn == Turn::Called {
            self.called = self.called.saturating_sub(1);
        }
        waiter.turn = Turn::InLine { before, after: None };
        waiter.sender = Some(sender);
        self.link(before, Some(number));
        self.last = Some(number);
    }

    /// Leaves the line, or gives up the turn or uses it: it has taken a receive, or its peer has nothing to send any more. The
    /// sender is to be dropped without the lock, and the next one called, who may be waiting for what was kept for this one.
    pub(super) fn leave_line(&mut self, number: usize) -> Option<Weak<QueuePair<P>, P>> {
        let waiter = self.waiters.get_mut(number)?;
        let sender = waiter.sender.take();
        match core::mem::replace(&mut waiter.turn, Turn::None) {
            Turn::None => {}
            Turn::Called => self.called = self.called.saturating_sub(1),
            Turn::InLine { before, after } => {
                self.link(before, after);
                self.link_back(after, before);
            }
        }
        sender
    }

    /// Calls the first in line, if one of the `receives` is not kept for another: its engine is to be scheduled.
    pub(super) fn call(&mut self, receives: usize) -> Option<Weak<QueuePair<P>, P>> {
        if receives <= self.called {
            return None;
        }
        let number = self.first?;
        let sender = self.leave_line(number);
        let waiter = self.waiters.get_mut(number)?;
        waiter.turn = Turn::Called;
        self.called = self.called.saturating_add(1);
        sender
    }

    /// Makes `next` what comes after `number`, or the first in line.
    fn link(&mut self, number: Option<usize>, next: Option<usize>) {
        match number {
            None => self.first = next,
            Some(number) => {
                if let Some(Turn::InLine { after, .. }) = self.turn(number) {
                    *after = next;
                }
            }
        }
    }

    /// Makes `previous` what comes before `number`, or the last in line.
    fn link_back(&mut self, number: Option<usize>, previous: Option<usize>) {
        match number {
            None => self.last = previous,
            Some(number) => {
                if let Some(Turn::InLine { before, .. }) = self.turn(number) {
                    *before = previous;
                }
            }
        }
    }
}
