//! Binds, invalidations, accesses and closes of windows that cross each other, in schedules that replay.

use std::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::{
    ndkpi::NdkOperationTypeBind,
    status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_SUCCESS},
};
use simkernel::{pause, scope, seeds};

use crate::{
    bind::{REMOTE, Scene},
    kit::{Buffer, Options, Pair, Unconnected, World},
};

/// Two queue pairs bind one window, each to a region of its own: the later bind unbinds the earlier. No bind fails, and one binding is
/// left.
#[test]
fn two_queue_pairs_bind_one_window() {
    for seed in seeds(40) {
        let world = World::seeded(seed);
        let options = Options::default();
        let pd = world.adapter.create_pd().expect("a PD");
        let pairs = [1, 2].map(|tag| {
            let peer = Unconnected::new(&world.adapter, tag, options);
            let (receive_cq, initiator_cq) = (peer.receive_cq, world.adapter.create_cq(64).expect("a CQ"));
            let qp = pd.create_qp(&receive_cq, &initiator_cq, tag, options.sizes).expect("a QP");
            let side = Unconnected { pd, receive_cq, initiator_cq, qp };
            Pair::of(&world.adapter, peer, side, options.limits)
        });
        let regions = [(); 2].map(|()| Buffer::full(&pd, 1));
        let mw = pd.create_mw().expect("a window");
        scope(|scope| {
            for (pair, region) in pairs.iter().zip(&regions) {
                scope.spawn(move || {
                    for context in 0..5 {
                        let posted = pair.passive.qp.bind(context, &mw, &region.mr, (region.base, 8), REMOTE);
                        assert_eq!(posted, STATUS_SUCCESS);
                        assert_eq!(pair.passive.expect(context, STATUS_SUCCESS).Type, NdkOperationTypeBind);
                    }
                });
            }
        });
        // Whichever it is.
        assert_eq!(pairs[0].passive.qp.invalidate_window(9, &mw, 0), STATUS_SUCCESS);
        pairs[0].passive.expect(9, STATUS_SUCCESS);
        regions.into_iter().for_each(Buffer::close);
        mw.close_now();
        for pair in pairs {
            pair.passive.connector.close_now();
            pair.passive.qp.close_now();
            pair.passive.initiator_cq.close_now();
            pair.active.close();
            pair.listener.close_now();
        }
        pd.close_now();
    }
}

/// The peer writes while the window is bound and invalidated: after an invalidation has completed, no write reaches the memory.
// Shows S605.
#[test]
fn nothing_is_written_after_an_invalidation() {
    let (mut written, mut refused) = (0, 0);
    for seed in seeds(60) {
        let world = World::seeded(seed);
        let scene = Scene::new(&world);
        let (pair, region, mw, local) = (&scene.pair, &scene.region, &scene.mw, &scene.local);
        local.pages.write(0, &[0xFF; 64]);
        let stop = &AtomicBool::new(false);
        let writes = scope(|scope| {
            let peer = scope.spawn(move || {
                let mut writes = 0;
                while !stop.load(Ordering::SeqCst) {
                    let token = mw.token();
                    if pair.active.qp.write(1, &[local.sge(0, 64)], region.base, token, 0) == STATUS_CONNECTION_INVALID
                    {
                        return writes;
                    }
                    match pair.active.initiator_cq.wait_one().Status {
                        STATUS_SUCCESS => writes += 1,
                        status => {
                            assert!([STATUS_ACCESS_VIOLATION, STATUS_CANCELLED].contains(&status), "{status}");
                            return writes;
                        }
                    }
                }
                writes
            });
            for round in 0..4 {
                if scene.post(round, 0, 64, REMOTE) != STATUS_SUCCESS
                    || pair.passive.initiator_cq.wait_one().Status != STATUS_SUCCESS
                {
                    break;
                }
                (0..round * 3).for_each(|_| pause());
                if pair.passive.qp.invalidate_window(round, mw, 0) != STATUS_SUCCESS
                    || pair.passive.initiator_cq.wait_one().Status != STATUS_SUCCESS
                {
                    break;
                }
                region.pages.write(0, &[0; 64]);
                (0..20).for_each(|_| pause());
                assert_eq!(region.pages.read(0, 64), [0; 64], "written after the invalidation");
            }
            stop.store(true, Ordering::SeqCst);
            peer.join().expect("the peer")
        });
        written += usize::from(writes > 0);
        refused += usize::from(writes == 0);
        scene.close();
    }
    assert!(written > 0 && refused > 0 || std::env::var("SOFTNDK_SEED").is_ok(), "{written} {refused}");
}

/// Window, region and queue pairs are closed from three threads while the peer writes through the window.
#[test]
fn closes_cross_an_access() {
    for seed in seeds(60) {
        let world = World::seeded(seed);
        let scene = Scene::new(&world);
        let token = scene.bind(0, 64, REMOTE);
        let Scene { pair, region, mw, local } = scene;
        let base = region.base;
        for context in 0..4 {
            assert_eq!(pair.active.qp.write(context, &[local.sge(0, 64)], base, token, 0), STATUS_SUCCESS);
        }
        scope(|scope| {
            scope.spawn(move || mw.close_now());
            scope.spawn(move || {
                let deregistered = region.mr.deregister();
                deregistered.wait();
                region.mr.close_now();
            });
            scope.spawn(move || {
                pair.passive.connector.close_now();
                pair.passive.qp.close_now();
            });
        });
        // The writes that found the connection ended wait for this flush.
        pair.active.qp.flush();
        let results = pair.active.initiator_cq.wait(4);
        let ended = results.iter().position(|result| result.Status != STATUS_SUCCESS).unwrap_or(4);
        let rest: Vec<_> = results[ended..].iter().map(|result| result.Status).collect();
        assert!(rest.iter().skip(1).all(|&status| status == STATUS_CANCELLED), "{rest:?}");
        local.close();
        pair.active.close();
        pair.passive.receive_cq.close_now();
        pair.passive.initiator_cq.close_now();
        pair.passive.pd.close_now();
        pair.listener.close_now();
    }
}
