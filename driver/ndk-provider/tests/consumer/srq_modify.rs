//! NDK_SRQ: modification and notification beside traffic, flush of what was taken, close (ndkpi.md, section 4.3).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use ndk_abi::{
    status::{STATUS_CANCELLED, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, Cq, Gate, HeldProcessors, Options, Pair, QpSizes, Srq, Unconnected, World};

/// A connection whose passive side takes its receives from a shared queue.
struct Scene {
    srq: Srq,
    pair: Pair,
}

impl Scene {
    fn new(world: &World, depth: u32) -> Self {
        let base = Unconnected::new(&world.adapter, 0, Options { cq_depth: 4096, ..Options::default() });
        base.qp.close_now();
        let srq = base.pd.create_srq(depth, 1, 0).expect("an SRQ");
        let qp = base.pd.create_qp_with_srq(&base.receive_cq, &base.initiator_cq, &srq, 1, QpSizes::default());
        let passive = Unconnected { qp: qp.expect("a QP"), ..base };
        let active = Unconnected::new(&world.adapter, 2, Options { cq_depth: 4096, ..Options::default() });
        Self { srq, pair: Pair::of(&world.adapter, active, passive, (4, 4)) }
    }

    /// One message, received when this returns.
    fn message(&self, context: usize) {
        assert_eq!(self.pair.active.qp.send(context, &[], 0), STATUS_SUCCESS);
        self.pair.active.expect(context, STATUS_SUCCESS);
    }

    fn post(&self, context: usize) {
        assert_eq!(self.srq.receive(context, &[]), STATUS_SUCCESS);
    }

    /// Closes all but the shared queue and the completion queues of the passive side.
    fn close_connection(&self) {
        self.pair.active.close();
        self.pair.passive.connector.close_now();
        self.pair.passive.qp.close_now();
        self.pair.listener.close_now();
    }

    fn close(self) {
        self.close_connection();
        self.srq.close_now();
        [self.pair.passive.receive_cq, self.pair.passive.initiator_cq].into_iter().for_each(Cq::close_now);
        self.pair.passive.pd.close_now();
    }
}

/// A thread changes the depth while receives are posted and taken: no receive is lost, and they stay in order.
#[test]
fn modify_of_the_depth_in_traffic_loses_nothing() {
    const MESSAGES: usize = 2000;
    let world = World::new();
    let scene = Scene::new(&world, 64);
    let (srq, pair) = (scene.srq, scene.pair);
    let modifier = thread::spawn(move || {
        (0..400).for_each(|round| {
            // Never below what may be queued.
            assert_eq!(srq.modify(32 + round % 64, 0).wait(), STATUS_SUCCESS);
            thread::yield_now();
        });
    });
    let poster = thread::spawn(move || {
        let mut received = 0;
        (0..32).for_each(|context| assert_eq!(srq.receive(context, &[]), STATUS_SUCCESS));
        while received < MESSAGES {
            for result in pair.passive.receive_cq.wait(1) {
                assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_SUCCESS, received));
                received += 1;
                assert_eq!(srq.receive(received + 31, &[]), STATUS_SUCCESS);
            }
        }
    });
    for context in 0..MESSAGES {
        while pair.active.qp.send(context, &[], 0) != STATUS_SUCCESS {
            thread::yield_now();
        }
        pair.active.initiator_cq.poll(16);
    }
    modifier.join().expect("the modifier");
    poster.join().expect("the poster");
    scene.close();
}

/// Depth 0 keeps the depth; a threshold may be above it, and is below at once.
// Shows S403.
#[test]
fn a_threshold_above_the_depth_notifies_at_once() {
    let world = World::new();
    let scene = Scene::new(&world, 2);
    (0..2).for_each(|context| scene.post(context));
    scene.srq.modify(0, 3).succeed();
    assert_eq!(scene.srq.notified.wait_for(1)[0].status, STATUS_SUCCESS);
    assert_eq!(scene.srq.receive(2, &[]), STATUS_NO_MORE_ENTRIES);
    scene.close();
}

/// A refused depth arms nothing.
// Shows S405.
#[test]
fn a_refused_modify_changes_nothing() {
    let world = World::new();
    let scene = Scene::new(&world, 4);
    (0..3).for_each(|context| scene.post(context));
    assert_ne!(scene.srq.modify(2, 4).wait(), STATUS_SUCCESS);
    assert_ne!(scene.srq.modify(u32::MAX, 4).wait(), STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(scene.srq.notified.count(), 0);
    scene.message(0);
    world.flush_dpcs();
    assert_eq!(scene.srq.notified.count(), 0);
    scene.post(3);
    scene.post(4);
    assert_eq!(scene.srq.receive(5, &[]), STATUS_NO_MORE_ENTRIES);
    scene.close();
}

/// Posts race with what takes receives. A consumer that refills in the notification only, and arms then, never dries up, and
/// gets one notification for each arm.
#[test]
fn notifications_race_with_posts() {
    const MESSAGES: usize = 2000;
    let world = World::new();
    let scene = Scene::new(&world, 64);
    let (srq, pair) = (scene.srq, scene.pair);
    let arms = Arc::new(AtomicUsize::new(1));
    let ended = Arc::new(AtomicBool::new(false));
    let (in_callback, over) = (arms.clone(), ended.clone());
    srq.notified.on_call(move |_| {
        if over.load(Ordering::SeqCst) {
            return;
        }
        // To the brim, so that it falls below again.
        while srq.receive(1, &[]) == STATUS_SUCCESS {}
        in_callback.fetch_add(1, Ordering::SeqCst);
        // Completes inline.
        srq.modify(0, 16);
    });
    srq.modify(0, 16).succeed();
    // Beside the refilling.
    let poster = thread::spawn(move || {
        for _ in 0..500 {
            srq.receive(2, &[]);
            thread::yield_now();
        }
    });
    for context in 0..MESSAGES {
        while pair.active.qp.send(context, &[], 0) != STATUS_SUCCESS {
            thread::yield_now();
        }
        pair.active.initiator_cq.poll(16);
        pair.passive.receive_cq.poll(64);
    }
    poster.join().expect("the poster");
    world.flush_dpcs();
    // All were received: none is left that waits for a receive.
    pair.passive.receive_cq.poll(4096);
    assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    ended.store(true, Ordering::SeqCst);
    world.flush_dpcs();
    let (notified, arms) = (srq.notified.count(), arms.load(Ordering::SeqCst));
    assert!(notified <= arms, "{notified} notifications for {arms} arms");
    assert!(arms - notified <= 1, "{notified} notifications for {arms} arms");
    pair.active.initiator_cq.poll(4096);
    scene.close();
}

/// NdkFlush of a queue pair with a shared queue: what it has taken for a send under way is its own, and is cancelled.
#[test]
fn flush_cancels_the_receive_that_was_taken() {
    let world = World::new();
    let scene = Scene::new(&world, 8);
    let (source, target) = (Buffer::full(&scene.pair.active.pd, 2), Buffer::full(&scene.pair.passive.pd, 2));
    assert_eq!(scene.srq.receive(1, &[target.sge(0, 2 * PAGE_SIZE)]), STATUS_SUCCESS);
    scene.post(2);
    let gate = Gate::shut(&target.pages, 1);
    assert_eq!(scene.pair.active.qp.send(3, &[source.sge(0, 2 * PAGE_SIZE)], 0), STATUS_SUCCESS);
    gate.reached();
    scene.pair.passive.qp.flush();
    gate.open();
    scene.pair.passive.expect_receive(1, STATUS_CANCELLED);
    scene.pair.assert_aborted();
    world.assert_empty(&scene.pair.passive.receive_cq);
    [source, target].into_iter().for_each(Buffer::close);
    scene.close();
}

/// The consumer closes the shared queue first: the close completes when the last queue pair is closed, which may use the queue until then.
#[test]
fn close_waits_for_the_queue_pairs() {
    let world = World::new();
    let scene = Scene::new(&world, 8);
    (0..2).for_each(|context| scene.post(context));
    let close = scene.srq.close();
    assert!(close.pended());
    scene.message(0);
    scene.pair.passive.expect_receive(0, STATUS_SUCCESS);
    world.flush_dpcs();
    assert!(!close.is_done());
    scene.close_connection();
    close.succeed();
    [scene.pair.passive.receive_cq, scene.pair.passive.initiator_cq].into_iter().for_each(Cq::close_now);
    scene.pair.passive.pd.close_now();
}

/// Closing the queue takes the arm back, and what is due but not delivered.
#[test]
fn close_drops_the_notification() {
    for due in [false, true] {
        let world = World::new();
        let scene = Scene::new(&world, 8);
        (0..2).for_each(|context| scene.post(context));
        scene.srq.modify(0, 2).succeed();
        let held = HeldProcessors::new();
        if due {
            scene.srq.modify(0, 3).succeed();
        }
        let close = scene.srq.close();
        drop(held);
        scene.message(0);
        world.flush_dpcs();
        assert_eq!(scene.srq.notified.count(), 0);
        scene.close_connection();
        close.succeed();
        [scene.pair.passive.receive_cq, scene.pair.passive.initiator_cq].into_iter().for_each(Cq::close_now);
        scene.pair.passive.pd.close_now();
    }
}
