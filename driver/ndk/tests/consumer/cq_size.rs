//! NDK_CQ: its depth, resizing, overrun.

use std::thread;

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS},
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CONNECTION_INVALID, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
        STATUS_SUCCESS,
    },
};

use crate::cq::ARMS;
use crate::kit::{Options, Pair, QpSizes, Unconnected, World};

#[test]
fn depth_is_limited() {
    let world = World::new();
    let most = world.adapter.info().MaxCqDepth;
    world.adapter.create_cq(most).expect("a CQ").close_now();
    assert_eq!(world.adapter.create_cq(most + 1).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(world.adapter.create_cq(u32::MAX).err(), Some(STATUS_INVALID_PARAMETER));
}

#[test]
fn resize_keeps_what_is_queued() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 8, ..Options::default() });
    let cq = &pair.passive.receive_cq;
    (0..8).for_each(|context| pair.message(context, false));
    world.settle();
    assert_eq!(cq.resize(7).wait(), STATUS_BUFFER_OVERFLOW);
    assert_eq!(cq.resize(0).wait(), STATUS_INVALID_PARAMETER);
    assert_eq!(cq.resize(world.adapter.info().MaxCqDepth + 1).wait(), STATUS_INVALID_PARAMETER);
    let fault = world.session.fail_allocation(1);
    assert_eq!(cq.resize(64).wait(), STATUS_INSUFFICIENT_RESOURCES);
    drop(fault);
    cq.resize(10).succeed();
    (8..10).for_each(|context| pair.message(context, false));
    assert_eq!(cq.wait(3).len(), 3);
    cq.resize(7).succeed();
    let contexts: Vec<_> = cq.wait(7).iter().map(|result| result.RequestContext.addr()).collect();
    assert_eq!(contexts, (3..10).collect::<Vec<_>>());
    pair.close();
}

/// The size is what resize says, not more: the entry beyond it overruns.
#[test]
fn resize_sets_the_size_that_overruns() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    cq.resize(2).succeed();
    cq.arm(NDK_CQ_NOTIFY_ERRORS);
    (0..3).for_each(|context| pair.message(context, false));
    assert_eq!(cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    pair.close();
}

#[test]
fn resize_while_traffic_goes_on() {
    const MESSAGES: usize = 1500;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    let resizer = thread::spawn(move || {
        (0..300).for_each(|round| {
            // Never below what may be queued: the receive queue's depth.
            assert_eq!(cq.resize(64 + round % 200).wait(), STATUS_SUCCESS);
            thread::yield_now();
        });
    });
    for context in 0..MESSAGES {
        pair.message(context, false);
        assert_eq!(cq.wait_one().RequestContext.addr(), context);
    }
    resizer.join().expect("the resizer");
    pair.close();
}

/// NDK_FN_CQ_NOTIFICATION_CALLBACK: an overrun is reported to any arm, kills the queue and the queue pairs on it.
#[test]
fn overrun_kills_the_queue_and_its_queue_pairs() {
    for arm in ARMS {
        let world = World::new();
        let pair = Pair::with(&world.adapter, Options { cq_depth: 2, ..Options::default() });
        let cq = &pair.passive.receive_cq;
        (0..2).for_each(|context| pair.message(context, false));
        world.settle();
        if arm != NDK_CQ_NOTIFY_ERRORS {
            // What is there already has been notified of.
            cq.arm(NDK_CQ_NOTIFY_ANY);
            cq.notified.wait_for(1);
        }
        let before = cq.notified.count();
        cq.arm(arm);
        pair.message(2, false);
        let calls = cq.notified.wait_for(before + 1);
        assert_eq!(calls[before].status, STATUS_BUFFER_OVERFLOW);
        pair.assert_aborted();
        // What was there before can be polled; nothing comes after it, not even what is flushed.
        assert_eq!(cq.wait(2).len(), 2);
        pair.passive.qp.flush();
        world.assert_empty(cq);
        // The failure is told once.
        cq.arm(NDK_CQ_NOTIFY_ANY);
        world.settle();
        assert_eq!(cq.notified.count(), before + 1);
        assert_eq!(world.provider.counters().CQError, 1);
        pair.close();
    }
}

/// A queue that nobody armed tells of its death when it is armed.
#[test]
fn overrun_is_told_to_a_later_arm() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
    (0..2).for_each(|context| pair.message(context, false));
    pair.assert_aborted();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ERRORS);
    assert_eq!(pair.passive.receive_cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    pair.close();
}

/// All queue pairs of a dead queue are dead: they take no requests, and end with the first thing that would complete.
#[test]
fn overrun_ends_the_other_queue_pairs_too() {
    let world = World::new();
    let options = Options::default();
    let small = Options { cq_depth: 1, ..options };
    let passive = Unconnected::new(&world.adapter, 2, small);
    let other = Unconnected {
        qp: passive.pd.create_qp(&passive.receive_cq, &passive.initiator_cq, 3, options.sizes).expect("a QP"),
        ..passive
    };
    let one = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 1, options), passive, options.limits);
    let two = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 4, options), other, options.limits);
    assert_eq!(two.passive.qp.receive(0, &[]), STATUS_SUCCESS);
    (0..2).for_each(|context| one.message(context, false));
    one.assert_aborted();
    assert_eq!(two.passive.qp.receive(1, &[]), STATUS_CONNECTION_INVALID);
    assert_eq!(two.passive.qp.send(2, &[], 0), STATUS_CONNECTION_INVALID);
    assert_eq!(two.active.qp.send(3, &[], 0), STATUS_SUCCESS);
    two.assert_aborted();
    two.passive.connector.close_now();
    two.passive.qp.close_now();
    two.active.close();
    two.listener.close_now();
    one.close();
}

/// The queue pairs of a dead queue do not take new requests.
#[test]
fn posts_are_refused_after_an_overrun() {
    let world = World::new();
    let sizes = QpSizes { requests: 4, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, sizes, ..Options::default() });
    assert_eq!(pair.active.qp.write(1, &[], 0, 0, 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.write(2, &[], 0, 0, 0), STATUS_SUCCESS);
    pair.assert_aborted();
    assert_eq!(pair.active.qp.write(3, &[], 0, 0, 0), STATUS_CONNECTION_INVALID);
    assert_eq!(pair.active.expect(1, STATUS_SUCCESS).RequestContext.addr(), 1);
    pair.close();
}
