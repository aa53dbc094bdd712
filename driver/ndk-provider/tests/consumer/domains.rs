//! Local requests name regions and windows of the queue pair's own protection domain only, as SGEs and binds do.

use ndk_abi::status::{STATUS_ACCESS_VIOLATION, STATUS_SUCCESS};

use crate::{
    bind::{READ, Scene},
    invalidate::REMOTE,
    kit::{FastRegion, Pair, World},
};

/// What is refused takes no place in the queue and none of the region's spare mappings, however often.
#[test]
fn a_strange_region_is_not_registered() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    for _ in 0..100 {
        assert_eq!(region.post(&pair.active, 1, REMOTE), STATUS_ACCESS_VIOLATION);
    }
    world.flush_dpcs();
    world.assert_empty(&pair.active.initiator_cq);
    region.register(&pair.passive, REMOTE);
    region.close();
    pair.close();
}

/// The registration stays, and so does the connection.
// Shows S606.
#[test]
fn a_strange_region_is_not_invalidated() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    region.register(&pair.passive, REMOTE);
    assert_eq!(pair.active.qp.invalidate(1, &region.mr, 0), STATUS_ACCESS_VIOLATION);
    assert_eq!(pair.passive.qp.receive(2, &[region.sge(0, 8)]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(3, &[], 0), STATUS_SUCCESS);
    pair.passive.expect_receive(2, STATUS_SUCCESS);
    pair.active.expect(3, STATUS_SUCCESS);
    region.invalidate(&pair.passive);
    region.close();
    pair.close();
}

/// The window stays bound.
// Shows S606.
#[test]
fn a_strange_window_is_not_invalidated() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, READ);
    let (ours, theirs) = (&scene.pair.passive, &scene.pair.active);
    assert_eq!(theirs.qp.invalidate_window(1, &scene.mw, 0), STATUS_ACCESS_VIOLATION);
    assert_eq!(theirs.qp.read(2, &[scene.local.sge(0, 64)], scene.region.base, token, 0), STATUS_SUCCESS);
    theirs.expect(2, STATUS_SUCCESS);
    assert_eq!(ours.qp.invalidate_window(3, &scene.mw, 0), STATUS_SUCCESS);
    ours.expect(3, STATUS_SUCCESS);
    scene.close();
}
