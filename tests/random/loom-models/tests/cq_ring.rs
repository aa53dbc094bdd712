//! A ring of completions of the control device, as `driver/nd-ioctl` fills it: each completion comes to its user, while the ring is full, sleeps
//! and is emptied. The code is the driver's; the queue, whose part it is to schedule runs, is the model's.

#[path = "../../../../driver/nd-ioctl/src/rings/cq_ring.rs"]
#[expect(dead_code, reason = "the model asks for no notifications and replaces no ring")]
mod cq_ring;

use std::sync::Arc as StdArc;

use cq_ring::{CqRing, Room};
use loom::sync::atomic::{AtomicU32 as Count, Ordering};
use loom_models::{Kernel, Loom, RingMemory, Wakeup, explore, faults};
use nd_rings::Reader;
use ndk_abi::{describe::ZeroInit as _, softndk_ring::SOFTNDK_COMPLETION};
use planted_atomics::Defect;
use platform::{Arc, Deferred, Dispatch, RunDeferred};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 3;

/// A CQ with completions that are to be put into its ring.
struct Queue {
    deferred: Deferred<Loom>,
    ring: CqRing<RingMemory, (), Loom>,
    /// Touched by runs only.
    waiting: Count,
    /// Counts those that were put in.
    filled: StdArc<Wakeup>,
}

impl Queue {
    fn new(memory: RingMemory, waiting: u32, filled: &StdArc<Wakeup>) -> Arc<Self, Loom> {
        let queue = Self {
            deferred: Deferred::default(),
            ring: CqRing::new(memory, ()),
            waiting: Count::new(waiting),
            filled: filled.clone(),
        };
        let queue = Arc::<_, Loom>::try_new(queue).expect("memory");
        Deferred::initialize(&queue);
        queue
    }

    /// As `Cq::fill` does.
    fn fill(&self) {
        loop {
            let room = match self.ring.reserve(2) {
                Room::For(room) => room,
                Room::None => break,
                Room::BadIndex => unreachable!("the user keeps to the rules"),
            };
            let waiting = self.waiting.load(Ordering::Relaxed);
            if waiting == 0 {
                break;
            }
            let count = waiting.min(room);
            for _ in 0..count {
                self.ring.push_reserved(SOFTNDK_COMPLETION::ZERO, false);
                self.filled.wake();
            }
            self.waiting.store(waiting - count, Ordering::Relaxed);
        }
        self.ring.release();
    }
}

impl RunDeferred<Loom> for Queue {
    fn deferred(&self) -> &Deferred<Loom> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Loom>, _dispatch: &Dispatch<'_>) {
        this.fill();
    }
}

/// The user takes each of `count` completions; `doorbell` is what it does when the ring sleeps.
fn takes(kernel: &Kernel, count: usize, doorbell: fn(&Arc<Queue, Loom>)) {
    let (memory, filled) = (RingMemory::new(1), StdArc::new(Wakeup::default()));
    let queue = Queue::new(memory.clone(), count as u32, &filled);
    kernel.live();
    Deferred::schedule(&queue);
    let mut reader = Reader::new(memory);
    for taken in 1..=count {
        filled.wait_for(taken);
        assert_eq!(reader.waiting(), Ok(1));
        let mut word = [0];
        reader.copy(0, 0, &mut word);
        assert_eq!(word, [taken as u64], "the slot was filled once for each");
        reader.advance(1);
        if reader.needs_doorbell() {
            doorbell(&queue);
        }
    }
}

fn a_full_ring() {
    explore(Some(BOUND), |kernel| {
        takes(kernel, 2, |queue| {
            queue.ring.wake();
            Deferred::schedule(queue);
        });
    });
}

fn a_full_ring_without_doorbells() {
    explore(Some(BOUND), |kernel| takes(kernel, 2, |_| ()));
}

// Shows S905.
#[test]
fn each_completion_comes() {
    a_full_ring();
}

faults! {
    a_missing_fence_is_found: a_full_ring with Atomics(Defect::NoFence) says "deadlock",
    a_doorbell_that_does_nothing_is_found: a_full_ring_without_doorbells with Model("the doorbell") says "deadlock",
}
