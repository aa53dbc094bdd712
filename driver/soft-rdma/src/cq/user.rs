//! The queue pairs on a completion queue. Their connections end when the queue fails.

use core::ops::Deref;

use platform::{Arc, Deferred, Platform, Weak};

use super::{CompletionQueue, State};
use crate::{Error, QueuePair, slot_map::SlotMap};

/// Slots that one run of the deferred call searches, at most, for a queue pair to end.
const SLOTS_PER_RUN: u32 = 64;

/// The queue pairs on a completion queue; `None` in the slot of a queue pair that is being made.
pub(super) type Users<P> = SlotMap<Option<Weak<QueuePair<P>, P>>, P>;

/// A queue pair's reference to one of its completion queues.
pub(crate) struct CqUser<P: Platform> {
    cq: Arc<CompletionQueue<P>, P>,
    number: usize,
}

impl<P: Platform> CqUser<P> {
    /// Takes a slot for a queue pair that is being made. IRQL <= DISPATCH.
    pub(crate) fn new(cq: &Arc<CompletionQueue<P>, P>) -> Result<Self, Error> {
        let mut chunk = None;
        loop {
            let mut state = cq.state.lock();
            let unused = chunk.take().and_then(|chunk| state.users.grow(chunk));
            let (joined, slots) = (state.users.insert(None), state.users.slots());
            drop(state);
            drop(unused);
            match joined {
                Ok(number) => return Ok(Self { cq: cq.clone(), number }),
                Err(_none) => chunk = Some(SlotMap::chunk(slots, cq.adapter.quota())?),
            }
        }
    }

    /// Enters the queue pair in its slot, when it is made.
    pub(crate) fn set(&self, queue_pair: Weak<QueuePair<P>, P>) {
        if let Some(slot) = self.cq.state.lock().users.get_mut(self.number) {
            *slot = Some(queue_pair);
        }
    }
}

impl<P: Platform> Deref for CqUser<P> {
    type Target = Arc<CompletionQueue<P>, P>;
    fn deref(&self) -> &Self::Target {
        &self.cq
    }
}

impl<P: Platform> Drop for CqUser<P> {
    fn drop(&mut self) {
        let left = self.cq.state.lock().users.remove(self.number);
        drop(left);
    }
}

impl<P: Platform> State<P> {
    /// The next queue pair to end. `None`: no queue pair in the slots that were searched; if `ending` is `None` too, all slots have been searched.
    fn next_to_end(&mut self) -> Option<Weak<QueuePair<P>, P>> {
        for _ in 0..SLOTS_PER_RUN {
            let number = self.ending?;
            self.ending = number.checked_add(1).filter(|&next| next < self.users.slots());
            if let Some(Some(queue_pair)) = self.users.get_mut(number) {
                return Some(queue_pair.clone());
            }
        }
        None
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Ends the next queue pair of a dead queue. The deferred call runs this, and is scheduled again until all have ended. A queue pair that joins
    /// later finds the queue dead when it is posted to or connected.
    pub(super) fn end_users(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if state.ending.is_none() {
            return;
        }
        let next = state.next_to_end();
        let more = state.ending.is_some();
        drop(state);
        if let Some(queue_pair) = next.as_ref().and_then(Weak::upgrade) {
            QueuePair::queue_failed(&queue_pair);
        }
        if more {
            Deferred::schedule(this);
        }
    }
}
