//! The advertised limits of completion queues, queue pairs and shared receive queues: each is reached, and not exceeded.

use ndk_abi::{
    ndkpi::NDK_CQ_NOTIFY_ERRORS,
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_OVERRUN, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
};
use ndk_provider::Provider;
use simkernel::SimKernel;

use crate::kit::{Cq, Options, Pair, Qp, QpSizes, Srq, Unconnected, World, sge};

// Shows S105.
#[test]
fn as_many_completion_queues_as_advertised() {
    let world = World::new();
    let most = Provider::<SimKernel>::capabilities().MaxCqCount;
    let mut cqs: Vec<_> = (0..most).map(|_| world.adapter.create_cq(1).expect("a CQ")).collect();
    assert_eq!(world.adapter.create_cq(1).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    cqs.pop().into_iter().for_each(Cq::close_now);
    cqs.push(world.adapter.create_cq(1).expect("in its place"));
    cqs.into_iter().for_each(Cq::close_now);
}

// Shows S105.
#[test]
fn as_many_queue_pairs_as_advertised() {
    let world = World::new();
    let most = Provider::<SimKernel>::capabilities().MaxQpCount;
    let (pd, cq) = (world.adapter.create_pd().expect("a PD"), world.adapter.create_cq(1).expect("a CQ"));
    let sizes = QpSizes { receives: 1, requests: 1, receive_sges: 1, request_sges: 1, inline: 0 };
    let create = || pd.create_qp(&cq, &cq, 0, sizes);
    let mut qps: Vec<_> = (0..most).map(|_| create().expect("a QP")).collect();
    assert_eq!(create().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    qps.pop().into_iter().for_each(Qp::close_now);
    qps.push(create().expect("in its place"));
    qps.into_iter().for_each(Qp::close_now);
    cq.close_now();
    pd.close_now();
}

// Shows S105.
#[test]
fn as_many_shared_receive_queues_as_advertised() {
    let world = World::new();
    let most = Provider::<SimKernel>::capabilities().MaxSrqCount;
    let pd = world.adapter.create_pd().expect("a PD");
    let mut srqs: Vec<_> = (0..most).map(|_| pd.create_srq(1, 1, 0).expect("an SRQ")).collect();
    assert_eq!(pd.create_srq(1, 1, 0).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    srqs.pop().into_iter().for_each(Srq::close_now);
    srqs.push(pd.create_srq(1, 1, 0).expect("in its place"));
    srqs.into_iter().for_each(Srq::close_now);
    pd.close_now();
}

/// The deepest queue holds what it says, in order; one more is an overrun.
// Shows S105.
#[test]
fn the_deepest_completion_queue_is_filled() {
    let world = World::new();
    let info = world.adapter.info();
    let depth = info.MaxCqDepth as usize;
    let receives = info.MaxReceiveQueueDepth;
    let sizes = QpSizes { receives, receive_sges: 0, ..QpSizes::default() };
    let side = Unconnected::new(&world.adapter, 1, Options { cq_depth: info.MaxCqDepth, sizes, ..Options::default() });
    assert_eq!(world.adapter.create_cq(info.MaxCqDepth + 1).err(), Some(STATUS_INVALID_PARAMETER));
    for context in 0..depth {
        if side.qp.receive(context, &[]) == STATUS_NO_MORE_ENTRIES {
            side.qp.flush();
            assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS);
        }
    }
    side.qp.flush();
    side.receive_cq.arm(NDK_CQ_NOTIFY_ERRORS);
    world.flush_dpcs();
    assert_eq!(side.receive_cq.notified.count(), 0);
    let results = side.receive_cq.wait(depth);
    for (context, result) in results.iter().enumerate() {
        assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_CANCELLED, context));
    }
    world.assert_empty(&side.receive_cq);
    // Again, and one too many.
    for context in 0..=depth {
        if side.qp.receive(context, &[]) == STATUS_NO_MORE_ENTRIES {
            side.qp.flush();
            assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS);
        }
    }
    side.qp.flush();
    assert_eq!(side.receive_cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    side.close();
}

/// Both queues of the deepest queue pair take what they say, in order, and no more; again when they have been emptied.
// Shows S105.
#[test]
fn the_deepest_queue_pair_is_filled() {
    let world = World::new();
    let info = world.adapter.info();
    let (requests, receives) = (info.MaxInitiatorQueueDepth, info.MaxReceiveQueueDepth);
    let sizes = QpSizes { receives, requests, ..QpSizes::default() };
    let options = Options { cq_depth: requests.max(receives), sizes, ..Options::default() };
    let Pair { active, passive, listener } = Pair::with(&world.adapter, options);
    for _ in 0..2 {
        // The sends wait, then the receives do.
        (0..requests as usize).for_each(|context| assert_eq!(active.qp.send(context, &[], 0), STATUS_SUCCESS));
        assert_eq!(active.qp.send(0, &[], 0), STATUS_NO_MORE_ENTRIES);
        for context in 0..requests as usize {
            assert_eq!(passive.qp.receive(context, &[]), STATUS_SUCCESS);
            passive.expect_receive(context, STATUS_SUCCESS);
            active.expect(context, STATUS_SUCCESS);
        }
        (0..receives as usize).for_each(|context| assert_eq!(passive.qp.receive(context, &[]), STATUS_SUCCESS));
        assert_eq!(passive.qp.receive(0, &[]), STATUS_NO_MORE_ENTRIES);
        for context in 0..receives as usize {
            assert_eq!(active.qp.send(context, &[], 0), STATUS_SUCCESS);
            passive.expect_receive(context, STATUS_SUCCESS);
            active.expect(context, STATUS_SUCCESS);
        }
    }
    Pair { active, passive, listener }.close();
}

/// The deepest queue takes what it says, keeps it in order, and takes no more.
// Shows S105.
#[test]
fn the_deepest_shared_receive_queue_is_filled() {
    let world = World::new();
    let most = world.adapter.info().MaxSrqDepth;
    let base = Unconnected::new(&world.adapter, 1, Options::default());
    assert_eq!(base.pd.create_srq(most + 1, 1, 0).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(base.pd.create_srq(0, 1, 0).err(), Some(STATUS_INVALID_PARAMETER));
    let srq = base.pd.create_srq(most, 1, 0).expect("an SRQ");
    let qp = base.pd.create_qp_with_srq(&base.receive_cq, &base.initiator_cq, &srq, 2, QpSizes::default());
    base.qp.close_now();
    let passive = Unconnected { qp: qp.expect("a QP"), ..base };
    let pair = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 3, Options::default()), passive, (1, 1));
    (0..most as usize).for_each(|context| assert_eq!(srq.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(srq.receive(0, &[]), STATUS_NO_MORE_ENTRIES);
    for context in 0..100 {
        assert_eq!(pair.active.qp.send(context, &[], 0), STATUS_SUCCESS);
        pair.passive.expect_receive(context, STATUS_SUCCESS);
        pair.active.expect(context, STATUS_SUCCESS);
    }
    (0..100).for_each(|context| assert_eq!(srq.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(srq.receive(0, &[]), STATUS_NO_MORE_ENTRIES);
    pair.active.close();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    srq.close_now();
    [base.receive_cq, base.initiator_cq].into_iter().for_each(Cq::close_now);
    base.pd.close_now();
    pair.listener.close_now();
}

/// A queue pair that was made for no entries takes none, and takes what has none.
#[test]
fn requests_without_entries() {
    let world = World::new();
    let sizes = QpSizes { receive_sges: 0, request_sges: 0, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { sizes, ..Options::default() });
    for side in [&pair.active, &pair.passive] {
        assert_eq!(side.qp.send(1, &[sge(0, 1, 0)], 0), STATUS_DATA_OVERRUN);
        assert_eq!(side.qp.receive(1, &[sge(0, 1, 0)]), STATUS_DATA_OVERRUN);
    }
    pair.message(2, false);
    pair.passive.expect_receive(2, STATUS_SUCCESS);
    pair.close();
}

/// What a queue was made for, and what the adapter can.
#[test]
fn entries_of_a_shared_receive() {
    let world = World::new();
    let most = world.adapter.info().MaxReceiveRequestSge;
    let pd = world.adapter.create_pd().expect("a PD");
    assert_eq!(pd.create_srq(4, most + 1, 0).err(), Some(STATUS_INVALID_PARAMETER));
    for sges in [0, 1, most] {
        let srq = pd.create_srq(4, sges, 0).expect("an SRQ");
        let list = vec![sge(0, 1, 0); sges as usize + 1];
        for depth in [4, 5] {
            srq.modify(depth, 0).succeed();
            assert_eq!(srq.receive(1, &list[1..]), STATUS_SUCCESS, "{sges}, depth {depth}");
            assert_eq!(srq.receive(1, &list), STATUS_DATA_OVERRUN, "{sges}, depth {depth}");
        }
        srq.close_now();
    }
    pd.close_now();
}
