//! The completion queue with its arm: no lost wake-up, one callback for each arm, one callback at a time.

mod kit;

use std::sync::Arc as StdArc;

use kit::{Cq, World, send};
use loom::thread;
use loom_models::{Cell, Handle, Kernel, Loom, Wakeup, callback, explore, faults};
use planted_atomics::Defect;
use platform::planted::Bug;
use soft_rdma::{Arm, CompletionQueue, QueuePair};

/// Each thread is preempted at most so often in an execution: all of them take hours.
const BOUND: usize = 3;

fn take_all(cq: &Cq) -> usize {
    cq.poll(16, |_, _| {})
}

/// A consumer that polls, arms, and sleeps until its callback wakes it, against a producer of two completions. It sleeps once
/// for each arm, so a callback too few is a deadlock.
fn sleeper() {
    explore(Some(BOUND), |kernel: &Kernel| {
        let world = World::new();
        let woken = StdArc::new(Wakeup::default());
        let cq = world.cq(callback(&woken, |woken: &Wakeup, status| {
            assert_eq!(status, Ok(()));
            woken.wake();
        }));
        let qp = world.qp_with_receives(&cq, 2);
        kernel.live();
        let producer = thread::spawn(move || {
            QueuePair::flush(&qp);
            qp
        });
        let (mut taken, mut arms) = (take_all(&cq), 0);
        while taken < 2 {
            arms += 1;
            CompletionQueue::arm(&cq, Arm::Any);
            woken.wait_for(arms);
            taken += take_all(&cq);
        }
        drop(producer.join().expect("a thread"));
        assert_eq!((taken, woken.count()), (2, arms), "one callback for each arm");
        assert_eq!(take_all(&cq), 0);
    });
}

/// Moderated: one notification, by the second completion or by the timer, whichever is first.
fn moderated() {
    explore(Some(2), |kernel: &Kernel| {
        let world = World::new();
        let woken = StdArc::new(Wakeup::default());
        let cq = world.cq(callback(&woken, |woken: &Wakeup, _status| woken.wake()));
        let receiver = world.qp_with_receives(&cq, 2);
        let connection = world.connect(kernel, &cq, receiver);
        CompletionQueue::moderate(&cq, 1000, 2).expect("to moderate");
        CompletionQueue::arm(&cq, Arm::Any);
        kernel.live_for_a_while();
        send(&connection.sender);
        send(&connection.sender);
        woken.wait_for(1);
        kernel.calm();
        assert_eq!((take_all(&cq), woken.count()), (2, 1));
        connection.close(kernel);
    });
}

/// A consumer that lives in its callback: it arms, and polls until there is nothing. Two producers.
fn in_callback() {
    struct Consumer {
        cq: Handle<CompletionQueue<Loom>>,
        /// Callbacks of one queue are serialised, so nothing but this orders their access.
        calls: Cell,
        taken: Wakeup,
    }
    explore(Some(BOUND), |kernel: &Kernel| {
        let world = World::new();
        let consumer =
            StdArc::new(Consumer { cq: Handle::default(), calls: Cell::default(), taken: Wakeup::default() });
        let cq = world.cq(callback(&consumer, |consumer: &Consumer, status| {
            assert_eq!(status, Ok(()));
            consumer.calls.add_one();
            // What came before the arm makes it due at once, though the poll takes it: then a callback finds nothing.
            let taken = consumer.cq.with(|cq| {
                CompletionQueue::arm(cq, Arm::Any);
                take_all(cq)
            });
            (0..taken).for_each(|_| consumer.taken.wake());
            consumer.calls.add_one();
        }));
        consumer.cq.set(&cq);
        let [one, other] = [(); 2].map(|()| world.qp_with_receives(&cq, 1));
        CompletionQueue::arm(&cq, Arm::Any);
        kernel.live();
        let producer = thread::spawn(move || {
            QueuePair::flush(&one);
            one
        });
        QueuePair::flush(&other);
        consumer.taken.wait_for(2);
        drop(producer.join().expect("a thread"));
    });
}

// Shows S302.
#[test]
fn no_wakeup_is_lost() {
    sleeper();
}

// Shows S308.
#[test]
fn moderation_delays_but_loses_nothing() {
    moderated();
}

// Shows S306.
#[test]
fn callbacks_come_one_at_a_time_and_miss_nothing() {
    in_callback();
}

faults! {
    an_arm_that_forgets_what_is_queued_is_found: sleeper with Device(Bug::LostWakeUp) says "deadlock",
    a_callback_under_the_lock_is_found: in_callback with Device(Bug::CallbackUnderLock) says "deadlock",
    a_lost_wakeup_is_found: sleeper with Atomics(Defect::TornUpdate) says "deadlock",
    a_torn_deferred_call_is_found: in_callback with Atomics(Defect::TornUpdate) says "panicked",
}
