//! The threshold of a shared receive queue: each time it is armed and the queue is below it, one notification, whoever posts,
//! takes and modifies at the same time.

mod kit;

use std::sync::Arc as StdArc;

use kit::{Arc, Connection, World, ignore, send};
use loom::thread;
use loom_models::{Kernel, Loom, Wakeup, callback, explore, faults};
use planted_atomics::Defect;
use soft_rdma::{ReceiveSource, SharedReceiveQueue};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 2;

struct Scene {
    srq: Arc<SharedReceiveQueue<Loom>>,
    connection: Connection,
    low: StdArc<Wakeup>,
}

/// A connection whose passive side receives through a shared queue.
fn scene(kernel: &Kernel, receives: usize) -> Scene {
    let world = World::new();
    let low = StdArc::new(Wakeup::default());
    let notify = callback(&low, |low: &Wakeup, _status| low.wake());
    let srq = SharedReceiveQueue::new(&world.pd, 4, 1, 0, Some(notify)).expect("a queue");
    (0..receives).for_each(|context| srq.post(context, &[]).expect("a receive"));
    let cq = world.cq(ignore());
    let receiver = world.qp(&cq, ReceiveSource::Shared(&srq));
    let connection = world.connect(kernel, &cq, receiver);
    Scene { srq, connection, low }
}

impl Scene {
    /// The model's threads have ended.
    fn end(self, kernel: &Kernel) {
        kernel.calm();
        self.connection.close(kernel);
        drop(self.srq);
        kernel.run_queued();
    }
}

/// A send takes a receive while the queue is armed: whichever is first, the queue ends below the threshold.
fn take_against_modify() {
    explore(Some(BOUND), |kernel| {
        let scene = scene(kernel, 2);
        kernel.live_for_a_while();
        let sender = scene.connection.sender.clone();
        let other = thread::spawn(move || send(&sender));
        SharedReceiveQueue::modify(&scene.srq, 0, 2).expect("to arm");
        scene.low.wait_for(1);
        other.join().expect("a thread");
        assert_eq!(scene.low.count(), 1);
        scene.end(kernel);
    });
}

/// Two sends take receives while one is posted: the queue is below the threshold in the end, and perhaps for a while before.
fn takes_against_post() {
    explore(Some(BOUND), |kernel| {
        let scene = scene(kernel, 2);
        SharedReceiveQueue::modify(&scene.srq, 0, 2).expect("to arm");
        kernel.live_for_a_while();
        let sender = scene.connection.sender.clone();
        let other = thread::spawn(move || {
            send(&sender);
            send(&sender);
        });
        scene.srq.post(2, &[]).expect("a receive");
        scene.low.wait_for(1);
        other.join().expect("a thread");
        assert_eq!(scene.low.count(), 1, "once for each time it is armed");
        scene.end(kernel);
    });
}

/// It is armed again, with the queue below, while the notification before is on its way.
fn armed_again() {
    explore(Some(BOUND), |kernel| {
        let scene = scene(kernel, 2);
        SharedReceiveQueue::modify(&scene.srq, 0, 2).expect("to arm");
        kernel.live_for_a_while();
        let sender = scene.connection.sender.clone();
        let other = thread::spawn(move || send(&sender));
        scene.low.wait_for(1);
        SharedReceiveQueue::modify(&scene.srq, 0, 2).expect("to arm");
        scene.low.wait_for(2);
        other.join().expect("a thread");
        assert_eq!(scene.low.count(), 2);
        scene.end(kernel);
    });
}

// Shows S403.
#[test]
fn takes_and_a_post_notify_once() {
    takes_against_post();
}

#[test]
fn an_arm_during_the_notification_is_not_lost() {
    armed_again();
}

#[test]
fn a_take_and_an_arm_miss_nothing() {
    take_against_modify();
}

faults! {
    a_lost_second_notification_is_found: armed_again with Atomics(Defect::TornUpdate) says "deadlock",
}
