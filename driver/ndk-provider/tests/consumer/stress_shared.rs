//! Several connections at once, over what they share.

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_OP_FLAG_SILENT_SUCCESS},
    status::STATUS_SUCCESS,
    wdm::PAGE_SIZE,
};
use simkernel::{pause, scope};

use crate::kit::{Buffer, FastRegion, Options, Pair, QpSizes, Random, Unconnected, World};

/// Fast registration, use and invalidation on several connections that share a domain.
#[test]
fn registrations_on_several_connections() {
    let world = World::new();
    let domain = world.adapter.create_pd().expect("a PD");
    scope(|scope| {
        for number in 0..3u64 {
            let world = &world;
            scope.spawn(move || {
                let [active, passive] = [1, 2].map(|tag| Unconnected::new(&world.adapter, tag, Options::default()));
                passive.qp.close_now();
                passive.pd.close_now();
                let (receives, requests) = (&passive.receive_cq, &passive.initiator_cq);
                let qp = domain.create_qp(receives, requests, 2, QpSizes::default()).expect("a QP");
                let pair = Pair::of(&world.adapter, active, Unconnected { qp, pd: domain, ..passive }, (1, 1));
                let region = FastRegion::new(&world.adapter, &domain, 4, true);
                let local = Buffer::full(&pair.active.pd, 4);
                let mut random = Random::new(number);
                for round in 0..150 {
                    region.register(&pair.passive, ndk_abi::ndkpi::NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
                    let length = random.below(4 * PAGE_SIZE);
                    let flags = NDK_OP_FLAG_SILENT_SUCCESS;
                    let sges = [local.sge(0, length)];
                    let token = region.mr.token();
                    assert_eq!(pair.active.qp.write(1, &sges, region.base, token, flags), STATUS_SUCCESS);
                    assert_eq!(pair.passive.qp.receive(round, &[]), STATUS_SUCCESS);
                    if random.below(2) == 0 {
                        assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, token), STATUS_SUCCESS);
                        pair.passive.expect_receive(round, STATUS_SUCCESS);
                    } else {
                        assert_eq!(pair.active.qp.send(2, &[], flags), STATUS_SUCCESS);
                        pair.passive.expect_receive(round, STATUS_SUCCESS);
                        region.invalidate(&pair.passive);
                    }
                }
                region.close();
                local.close();
                close_but_the_domain(pair);
            });
        }
    });
    domain.close_now();
}

/// Closes all of a pair but the domain of its passive side.
fn close_but_the_domain(pair: Pair) {
    pair.active.close();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    pair.passive.receive_cq.close_now();
    pair.passive.initiator_cq.close_now();
    pair.listener.close_now();
}

/// Arming and polling on one queue that several connections complete to.
#[test]
fn one_queue_for_several_connections() {
    const EACH: usize = 400;
    let world = World::new();
    let cq = world.adapter.create_cq(1024).expect("a CQ");
    let pairs: Vec<_> = (0..3)
        .map(|tag| {
            let passive = Unconnected::new(&world.adapter, tag, Options::default());
            passive.qp.close_now();
            let qp = passive.pd.create_qp(&cq, &passive.initiator_cq, tag, QpSizes::default()).expect("a QP");
            let active = Unconnected::new(&world.adapter, tag, Options::default());
            Pair::of(&world.adapter, active, Unconnected { qp, ..passive }, (1, 1))
        })
        .collect();
    scope(|scope| {
        for pair in &pairs {
            scope.spawn(move || {
                for context in 0..EACH {
                    while pair.passive.qp.receive(context, &[]) != STATUS_SUCCESS {
                        pause();
                    }
                    while pair.active.qp.send(context, &[], NDK_OP_FLAG_SILENT_SUCCESS) != STATUS_SUCCESS {
                        pause();
                    }
                }
            });
        }
        let mut next = [0; 3];
        let mut notifications = 0;
        while next.iter().sum::<usize>() < 3 * EACH {
            cq.arm(NDK_CQ_NOTIFY_ANY);
            notifications += 1;
            cq.notified.wait_for(notifications);
            for result in cq.poll(1024) {
                let tag = result.QPContext.addr();
                assert_eq!(result.RequestContext.addr(), next[tag]);
                next[tag] += 1;
            }
        }
    });
    for pair in pairs {
        close_but_the_domain(pair);
        pair.passive.pd.close_now();
    }
    cq.close_now();
}
