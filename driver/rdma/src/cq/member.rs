//! The queue pairs on a completion queue: its failure ends them.

use core::ops::Deref;

use platform::{Arc, Deferred, Platform, Weak};

use super::{CompletionQueue, State};
use crate::{Error, QueuePair, roster::Roster};

/// Places that one run of the deferred call looks at, for one queue pair at most.
const PLACES_PER_RUN: u32 = 64;

/// The queue pairs, each once it has been made.
pub(super) type Members<P> = Roster<Option<Weak<QueuePair<P>, P>>, P>;

/// A queue pair's reference to one of its completion queues.
pub(crate) struct Member<P: Platform> {
    cq: Arc<CompletionQueue<P>, P>,
    number: usize,
}

impl<P: Platform> Member<P> {
    /// Takes a place for a queue pair that is being made. IRQL <= DISPATCH.
    pub(crate) fn new(cq: &Arc<CompletionQueue<P>, P>) -> Result<Self, Error> {
        let mut chunk = None;
        loop {
            let mut state = cq.state.lock();
            let unused = chunk.take().and_then(|chunk| state.members.grow(chunk));
            let (joined, places) = (state.members.join(None), state.members.places());
            drop(state);
            drop(unused);
            match joined {
                Ok(number) => return Ok(Self { cq: cq.clone(), number }),
                Err(_none) => chunk = Some(Roster::chunk(places, cq.adapter.quota())?),
            }
        }
    }

    /// Says whose place it is.
    pub(crate) fn set(&self, queue_pair: Weak<QueuePair<P>, P>) {
        if let Some(place) = self.cq.state.lock().members.get_mut(self.number) {
            *place = Some(queue_pair);
        }
    }
}

impl<P: Platform> Deref for Member<P> {
    type Target = Arc<CompletionQueue<P>, P>;
    fn deref(&self) -> &Self::Target {
        &self.cq
    }
}

impl<P: Platform> Drop for Member<P> {
    fn drop(&mut self) {
        let left = self.cq.state.lock().members.leave(self.number);
        drop(left);
    }
}

impl<P: Platform> State<P> {
    /// The next queue pair to end, or none among the next few places; none at all once `ending` is.
    fn next_to_end(&mut self) -> Option<Weak<QueuePair<P>, P>> {
        for _ in 0..PLACES_PER_RUN {
            let number = self.ending?;
            self.ending = number.checked_add(1).filter(|&next| next < self.members.places());
            if let Some(Some(queue_pair)) = self.members.get_mut(number) {
                return Some(queue_pair.clone());
            }
        }
        None
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Ends the next queue pair of a dead queue, in the deferred call, which comes again until all are. Those that join later
    /// find the queue dead when they are posted to or connected.
    pub(super) fn end_members(this: &Arc<Self, P>) {
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
