//! Close against callback: the close of a queue does not complete before a callback that runs has returned, and no callback
//! begins after that.

mod kit;

use std::sync::Arc as StdArc;

use kit::World;
use loom::thread;
use loom_models::{Cell, Kernel, Wakeup, callback, explore, faults};
use planted_atomics::Defect;
use soft_rdma::{Arm, CompletionQueue, Outcome, QueuePair, close};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 3;

#[derive(Default)]
struct Consumer {
    /// What the callback uses, and the consumer frees when the close is complete.
    memory: Cell,
    closed: Wakeup,
}

/// A completion comes, and the queue pair goes, while the consumer closes the queue and frees what its callback uses.
fn close_and_free() {
    explore(Some(BOUND), |kernel: &Kernel| {
        let world = World::new();
        let consumer = StdArc::new(Consumer::default());
        let cq = world.cq(callback(&consumer, |consumer: &Consumer, _status| {
            assert_eq!(consumer.memory.read(), 0, "a callback after the close");
            thread::yield_now();
            assert_eq!(consumer.memory.read(), 0, "the close did not wait for the callback");
        }));
        let qp = world.qp_with_receives(&cq, 1);
        CompletionQueue::arm(&cq, Arm::Any);
        kernel.live();
        let producer = thread::spawn(move || {
            QueuePair::flush(&qp);
            drop(qp);
        });
        let done = callback(&consumer, |consumer: &Consumer, ()| consumer.closed.wake());
        if close(cq, done) == Outcome::Done {
            consumer.closed.wake();
        }
        consumer.closed.wait_for(1);
        consumer.memory.add_one();
        producer.join().expect("a thread");
        assert_eq!(consumer.closed.count(), 1, "closed once");
    });
}

// Shows S307.
#[test]
fn a_close_waits_for_the_callback_and_is_the_last() {
    close_and_free();
}

faults! {
    a_close_that_sees_too_little_is_found: close_and_free with Atomics(Defect::Relaxed) says "Causality violation",
    a_close_that_never_completes_is_found: close_and_free with Atomics(Defect::TornSubtraction) says "deadlock",
}
