//! NDK_SRQ: sharing, thresholds, modification.

use ndk_abi::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_OVERRUN, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
};

use crate::kit::{Buffer, Options, Pair, QpSizes, Srq, Unconnected, World, pattern};

/// Two connections whose passive sides share a queue, a domain and completion queues.
struct Scene {
    srq: Srq,
    one: Pair,
    two: Pair,
}

impl Scene {
    fn new(world: &World, depth: u32, sges: u32, threshold: u32) -> Self {
        let adapter = &world.adapter;
        let base = Unconnected::new(adapter, 0, Options::default());
        base.qp.close_now();
        let srq = base.pd.create_srq(depth, sges, threshold).expect("an SRQ");
        let pair = |tag| {
            let cqs = (&base.receive_cq, &base.initiator_cq);
            let qp = base.pd.create_qp_with_srq(cqs.0, cqs.1, &srq, tag, QpSizes::default()).expect("a QP");
            let active = Unconnected::new(adapter, tag + 100, Options::default());
            Pair::of(adapter, active, Unconnected { qp, ..base }, (4, 4))
        };
        Self { srq, one: pair(1), two: pair(2) }
    }

    fn send(&self, pair: &Pair, context: usize) {
        assert_eq!(pair.active.qp.send(context, &[], 0), STATUS_SUCCESS);
    }

    fn close(self) {
        for pair in [&self.one, &self.two] {
            pair.active.close();
            pair.passive.connector.close_now();
            pair.passive.qp.close_now();
            pair.listener.close_now();
        }
        self.srq.close_now();
        self.one.passive.receive_cq.close_now();
        self.one.passive.initiator_cq.close_now();
        self.one.passive.pd.close_now();
    }
}

/// The queue pairs take receives in the order of the posts; the completion names the queue pair.
// Shows S401.
#[test]
fn queue_pairs_share_receives() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 2, 0);
    let target = Buffer::full(&scene.one.passive.pd, 1);
    for context in 0..4 {
        let sges = [target.sge(context * 100, 30), target.sge(context * 100 + 50, 30)];
        assert_eq!(scene.srq.receive(context, &sges), STATUS_SUCCESS);
    }
    for (context, pair) in [&scene.one, &scene.two, &scene.two, &scene.one].into_iter().enumerate() {
        let source = Buffer::full(&pair.active.pd, 1);
        let bytes = pattern(context as u8, 40);
        source.pages.write(0, &bytes);
        assert_eq!(pair.active.qp.send(9, &[source.sge(0, 40)], 0), STATUS_SUCCESS);
        let received = pair.passive.expect_receive(context, STATUS_SUCCESS);
        assert_eq!(received.BytesTransferred, 40);
        assert_eq!(received.QPContext.addr(), if std::ptr::eq(pair, &scene.one) { 1 } else { 2 });
        let place = context * 100;
        assert_eq!([target.pages.read(place, 30), target.pages.read(place + 50, 10)].concat(), bytes);
        pair.active.expect(9, STATUS_SUCCESS);
        source.close();
    }
    target.close();
    scene.close();
}

#[test]
fn limits_are_refused_inline() {
    let world = World::new();
    let scene = Scene::new(&world, 2, 1, 0);
    let target = Buffer::full(&scene.one.passive.pd, 1);
    assert_eq!(scene.srq.receive(1, &[target.sge(0, 1), target.sge(1, 1)]), STATUS_DATA_OVERRUN);
    let most = world.adapter.info().MaxTransferLength as usize;
    assert_eq!(scene.srq.receive(1, &[target.sge(0, most + 1)]), STATUS_BUFFER_OVERFLOW);
    (0..2).for_each(|context| assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(scene.srq.receive(2, &[]), STATUS_NO_MORE_ENTRIES);
    // Queue pairs on a shared queue have no receives of their own.
    assert_eq!(scene.one.passive.qp.receive(3, &[]), STATUS_INVALID_DEVICE_REQUEST);
    target.close();
    scene.close();
}

/// Senders of several queue pairs wait, and all get a receive in the end.
#[test]
fn waiting_senders_are_served() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 0);
    for context in 0..3 {
        scene.send(&scene.one, context);
        scene.send(&scene.two, context);
    }
    world.assert_empty(&scene.one.active.initiator_cq);
    let mut counts = [0; 2];
    for context in 0..6 {
        assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS);
        let received = scene.one.passive.expect_receive(context, STATUS_SUCCESS);
        counts[received.QPContext.addr() - 1] += 1;
    }
    assert_eq!(counts, [3, 3]);
    for pair in [&scene.one, &scene.two] {
        (0..3).for_each(|context| {
            pair.active.expect(context, STATUS_SUCCESS);
        });
    }
    scene.close();
}

/// A waiting send is flushed, and its connection ends: the receive is left to the other queue pair.
// Shows S406.
#[test]
fn a_waiting_queue_pair_may_go_away() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 0);
    scene.send(&scene.one, 1);
    scene.send(&scene.two, 2);
    world.flush_dpcs();
    scene.one.active.qp.flush();
    scene.one.active.expect(1, STATUS_CANCELLED);
    scene.one.passive.disconnect();
    assert_eq!(scene.srq.receive(3, &[]), STATUS_SUCCESS);
    let received = scene.two.passive.expect_receive(3, STATUS_SUCCESS);
    assert_eq!(received.QPContext.addr(), 2);
    scene.close();
}

/// NDK_FN_CREATE_SRQ, NDK_FN_MODIFY_SRQ: notified once when the number of receives falls below the threshold, for each
/// modification with a threshold above 0.
// Shows S403.
#[test]
fn the_threshold_notifies_once_for_each_arm() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 2);
    let notified = scene.srq.notified;
    (0..4).for_each(|context| assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS));
    scene.srq.modify(0, 3).succeed();
    world.flush_dpcs();
    assert_eq!(notified.count(), 0, "4 are not below 3");
    scene.send(&scene.one, 1);
    scene.one.active.expect(1, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(notified.count(), 0, "3 are not below 3");
    scene.send(&scene.two, 2);
    assert_eq!(notified.wait_for(1)[0].status, STATUS_SUCCESS);
    // Disarmed now.
    scene.send(&scene.one, 3);
    scene.one.active.expect(3, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(notified.count(), 1);
    // Already below: at once.
    scene.srq.modify(0, 2).succeed();
    notified.wait_for(2);
    // Threshold 0 keeps what is, here: disarmed.
    scene.srq.modify(16, 0).succeed();
    scene.send(&scene.one, 4);
    scene.one.active.expect(4, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(notified.count(), 2);
    scene.close();
}

/// Threshold 0 keeps an arm too.
#[test]
fn modify_of_the_depth_keeps_the_arm() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 0);
    (0..2).for_each(|context| assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS));
    scene.srq.modify(0, 2).succeed();
    scene.srq.modify(4, 0).succeed();
    world.flush_dpcs();
    assert_eq!(scene.srq.notified.count(), 0);
    scene.send(&scene.one, 1);
    scene.srq.notified.wait_for(1);
    scene.close();
}

/// A new queue is empty; it does not notify before it is modified.
// Shows S403.
#[test]
fn a_new_queue_is_not_armed() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 4);
    assert_eq!(scene.srq.receive(1, &[]), STATUS_SUCCESS);
    scene.send(&scene.one, 1);
    scene.one.active.expect(1, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(scene.srq.notified.count(), 0);
    scene.close();
}

// Shows S405.
#[test]
fn modify_keeps_what_is_queued() {
    let world = World::new();
    let scene = Scene::new(&world, 4, 1, 0);
    (0..4).for_each(|context| assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(scene.srq.modify(3, 0).wait(), STATUS_BUFFER_OVERFLOW);
    let most = world.adapter.info().MaxSrqDepth;
    assert_eq!(scene.srq.modify(most + 1, 0).wait(), STATUS_INVALID_PARAMETER);
    [most, 4].into_iter().for_each(|depth| scene.srq.modify(depth, 0).succeed());
    assert_eq!(scene.srq.receive(4, &[]), STATUS_NO_MORE_ENTRIES);
    let fault = world.session.fail_allocation(1);
    assert_eq!(scene.srq.modify(8, 0).wait(), STATUS_INSUFFICIENT_RESOURCES);
    drop(fault);
    scene.srq.modify(6, 0).succeed();
    (4..6).for_each(|context| assert_eq!(scene.srq.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(scene.srq.receive(6, &[]), STATUS_NO_MORE_ENTRIES);
    for context in 0..6 {
        scene.send(&scene.two, context);
        scene.two.passive.expect_receive(context, STATUS_SUCCESS);
    }
    scene.srq.modify(1, 0).succeed();
    assert_eq!(scene.srq.receive(7, &[]), STATUS_SUCCESS);
    assert_eq!(scene.srq.receive(8, &[]), STATUS_NO_MORE_ENTRIES);
    scene.close();
}

/// A flush of a queue pair does not take the receives of a shared queue.
// Shows S406.
#[test]
fn flush_leaves_the_shared_receives() {
    let world = World::new();
    let scene = Scene::new(&world, 4, 1, 0);
    assert_eq!(scene.srq.receive(1, &[]), STATUS_SUCCESS);
    scene.one.passive.qp.flush();
    world.assert_empty(&scene.one.passive.receive_cq);
    scene.send(&scene.two, 2);
    scene.two.passive.expect_receive(1, STATUS_SUCCESS);
    scene.close();
}

/// The notification may refill and arm again.
#[test]
fn the_notification_may_refill() {
    let world = World::new();
    let scene = Scene::new(&world, 8, 1, 0);
    let srq = scene.srq;
    srq.notified.on_call(move |_| {
        (0..4).for_each(|context| {
            srq.receive(context, &[]);
        });
        // Completes inline.
        srq.modify(0, 2);
    });
    srq.modify(0, 2).succeed();
    for context in 0..40 {
        let pair = if context % 2 == 0 { &scene.one } else { &scene.two };
        scene.send(pair, context);
        pair.active.expect(context, STATUS_SUCCESS);
        scene.one.passive.receive_cq.wait_one();
    }
    // The callback uses the queue, so it must not be under way when that is closed.
    world.flush_dpcs();
    scene.close();
}
