//! NDK_CQ: its depth, and resizing.

use std::thread;

use ndk_abi::{
    ndkpi::NDK_CQ_NOTIFY_ERRORS,
    status::{STATUS_BUFFER_OVERFLOW, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use crate::kit::{Options, Pair, World};

#[test]
fn depth_is_limited() {
    let world = World::new();
    let most = world.adapter.info().MaxCqDepth;
    world.adapter.create_cq(most).expect("a CQ").close_now();
    assert_eq!(world.adapter.create_cq(most + 1).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(world.adapter.create_cq(u32::MAX).err(), Some(STATUS_INVALID_PARAMETER));
}

// Shows S215.
#[test]
fn resize_keeps_what_is_queued() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 8, ..Options::default() });
    let cq = &pair.passive.receive_cq;
    (0..8).for_each(|context| pair.message(context, false));
    world.flush_dpcs();
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

// Shows S215.
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
