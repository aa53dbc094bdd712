//! NdkBind as a work request: tokens, order, silence, flush, and windows over fast regions.

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeBind},
    status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::{
    bind::{READ, REMOTE, Scene, WRITE},
    kit::{FastRegion, Pair, Side, World, pattern},
};

const SILENT: u32 = NDK_OP_FLAG_SILENT_SUCCESS;

/// Keeps the passive side's queue waiting behind a send, until the active side receives.
#[track_caller]
fn block(side: &Side) {
    assert_eq!(side.qp.send(0x57, &[], SILENT), STATUS_SUCCESS);
}

#[track_caller]
fn unblock(pair: &Pair) {
    assert_eq!(pair.active.qp.receive(0x58, &[]), STATUS_SUCCESS);
    pair.active.expect_receive(0x58, STATUS_SUCCESS);
}

/// NDK_FN_GET_REMOTE_TOKEN_FROM_MW: the token is there as soon as NdkBind has returned, a new one each time; the one before
/// is good until the bind runs.
// Shows S602.
#[test]
fn the_token_is_there_when_the_post_returns() {
    let world = World::new();
    let scene = Scene::new(&world);
    assert_eq!(scene.mw.token(), 0, "not bound yet");
    let first = scene.bind(0, 64, REMOTE);
    assert_ne!(first, 0);
    block(&scene.pair.passive);
    assert_eq!(scene.post(2, 0, 64, REMOTE), STATUS_SUCCESS);
    let second = scene.mw.token();
    assert_ne!(second, first);
    world.flush_dpcs();
    assert_eq!(scene.write(0, 64, first), STATUS_SUCCESS);
    unblock(&scene.pair);
    scene.pair.passive.expect(2, STATUS_SUCCESS);
    assert_eq!(scene.write(0, 64, second), STATUS_SUCCESS);
    assert_eq!(scene.write(0, 64, first), STATUS_ACCESS_VIOLATION);
    scene.close();
}

/// A token that was given out is not good before its bind has run.
// Shows S602.
#[test]
fn the_token_is_not_good_before_the_bind() {
    let world = World::new();
    let scene = Scene::new(&world);
    block(&scene.pair.passive);
    assert_eq!(scene.post(2, 0, 64, REMOTE), STATUS_SUCCESS);
    assert_eq!(scene.write(0, 64, scene.mw.token()), STATUS_ACCESS_VIOLATION);
    scene.pair.passive.initiator_cq.wait(2);
    scene.close();
}

/// More binds than a token has keys: each is good, the one before is not.
#[test]
fn many_binds_in_a_row() {
    let world = World::new();
    let scene = Scene::new(&world);
    let mut last = 0;
    for round in 0..600 {
        let token = scene.bind(round, 8, REMOTE);
        assert_ne!(token, last);
        assert_eq!(scene.write(round, 8, token), STATUS_SUCCESS);
        last = token;
    }
    scene.bind(0, 8, REMOTE);
    assert_eq!(scene.write(600, 8, last), STATUS_ACCESS_VIOLATION);
    scene.close();
}

/// Bind, tell the peer, invalidate, in chains without a wait: the order of the queue is enough.
#[test]
fn a_chain_of_binds() {
    let world = World::new();
    let scene = Scene::new(&world);
    let passive = &scene.pair.passive;
    for round in 0..20 {
        for index in 0..4 {
            assert_eq!(scene.post(index, round, 8, REMOTE | SILENT | NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
            assert_eq!(passive.qp.invalidate_window(index, &scene.mw, SILENT | NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
        }
        assert_eq!(scene.post(9, round, 8, REMOTE), STATUS_SUCCESS);
        passive.expect(9, STATUS_SUCCESS);
        assert_eq!(scene.write(round, 8, scene.mw.token()), STATUS_SUCCESS);
    }
    scene.close();
}

#[test]
fn silent_success_and_flush() {
    let world = World::new();
    let scene = Scene::new(&world);
    let passive = &scene.pair.passive;
    assert_eq!(scene.post(1, 0, 8, REMOTE | SILENT), STATUS_SUCCESS);
    world.assert_empty(&passive.initiator_cq);
    let token = scene.mw.token();
    assert_eq!(scene.write(0, 8, token), STATUS_SUCCESS);
    // A flushed bind is reported, silent or not, and the window is as it was.
    assert_eq!(passive.qp.send(2, &[], 0), STATUS_SUCCESS);
    assert_eq!(scene.post(3, 0, 8, REMOTE | SILENT), STATUS_SUCCESS);
    passive.qp.flush();
    passive.expect(2, STATUS_CANCELLED);
    assert_eq!(passive.expect(3, STATUS_CANCELLED).Type, NdkOperationTypeBind);
    assert_eq!(scene.write(0, 8, token), STATUS_SUCCESS);
    scene.close();
}

/// Windows over fast regions: the registration may be one request before the bind, and stays while the window is bound.
#[test]
fn a_fast_region_can_have_windows() {
    let world = World::new();
    let scene = Scene::new(&world);
    let passive = &scene.pair.passive;
    let region = FastRegion::new(&world.adapter, &passive.pd, 1, true);
    let bind = |context, length, flags| passive.qp.bind(context, &scene.mw, &region.mr, (region.base, length), flags);
    assert_eq!(region.post(passive, 1, NDK_OP_FLAG_ALLOW_LOCAL_WRITE | SILENT), STATUS_SUCCESS);
    assert_eq!(bind(2, 64, REMOTE), STATUS_SUCCESS);
    passive.expect(2, STATUS_SUCCESS);
    let sges = [scene.local.sge(0, 64)];
    scene.local.pages.write(0, &pattern(1, 64));
    assert_eq!(scene.pair.active.qp.write(3, &sges, region.base, scene.mw.token(), 0), STATUS_SUCCESS);
    scene.pair.active.expect(3, STATUS_SUCCESS);
    assert_eq!(region.pages.read(0, 64), pattern(1, 64));
    // Not while the window is bound; then it ends, and the connection with it.
    assert_eq!(passive.qp.invalidate(4, &region.mr, 0), STATUS_SUCCESS);
    passive.expect(4, STATUS_INVALID_DEVICE_REQUEST);
    scene.pair.assert_aborted();
    let closing = region.mr.close();
    assert!(!closing.is_done());
    scene.close();
    closing.succeed();
}

#[test]
fn a_fast_region_is_checked_when_the_bind_runs() {
    let world = World::new();
    for (register, length, flags, inline, later) in [
        (None, 8, READ, STATUS_SUCCESS, STATUS_INVALID_DEVICE_REQUEST),
        (Some(0), 8, WRITE, STATUS_SUCCESS, STATUS_ACCESS_VIOLATION),
        (Some(0), PAGE_SIZE + 1, READ, STATUS_SUCCESS, STATUS_ACCESS_VIOLATION),
        (Some(0), PAGE_SIZE, READ, STATUS_SUCCESS, STATUS_SUCCESS),
    ] {
        let scene = Scene::new(&world);
        let passive = &scene.pair.passive;
        let region = FastRegion::new(&world.adapter, &passive.pd, 1, true);
        if let Some(flags) = register {
            region.register(passive, flags);
        }
        assert_eq!(passive.qp.bind(1, &scene.mw, &region.mr, (region.base, length), flags), inline);
        assert_eq!(passive.expect(1, later).Type, NdkOperationTypeBind);
        scene.mw.close_now();
        region.close();
        let mw = scene.pair.passive.pd.create_mw().expect("a window");
        Scene { mw, ..scene }.close();
    }
    // Not initialised, or without remote access: known at once.
    let scene = Scene::new(&world);
    let passive = &scene.pair.passive;
    let raw = passive.pd.create_mr(true).expect("a region");
    assert_eq!(passive.qp.bind(1, &scene.mw, &raw, (8, 8), READ), STATUS_INVALID_DEVICE_REQUEST);
    raw.initialize_fast(1, false).succeed();
    assert_eq!(passive.qp.bind(1, &scene.mw, &raw, (8, 8), READ), STATUS_ACCESS_VIOLATION);
    raw.close_now();
    scene.close();
}

/// The region is deregistered, or closed, before a bind that waits gets its turn.
#[test]
fn the_region_may_go_before_the_bind_runs() {
    let world = World::new();
    for closed in [false, true] {
        let Scene { pair, region, mw, local } = Scene::new(&world);
        block(&pair.passive);
        assert_eq!(pair.passive.qp.bind(1, &mw, &region.mr, (region.base, 8), READ), STATUS_SUCCESS);
        let closing = if closed { Some(region.mr.close()) } else { None };
        if !closed {
            region.mr.deregister().succeed();
        }
        unblock(&pair);
        pair.passive.expect(1, STATUS_INVALID_DEVICE_REQUEST);
        match closing {
            Some(closing) => closing.succeed(),
            None => region.mr.close_now(),
        }
        mw.close_now();
        local.close();
        pair.close();
    }
}

/// Binding and invalidating allocate nothing.
#[test]
fn the_cycle_allocates_nothing() {
    let world = World::new();
    let scene = Scene::new(&world);
    // The listener allocates for the next connection of another machine.
    world.flush_dpcs();
    let before = world.session.ledger().allocation_count;
    for _ in 0..50 {
        scene.bind(0, 64, REMOTE);
        assert_eq!(scene.pair.passive.qp.invalidate_window(1, &scene.mw, 0), STATUS_SUCCESS);
        scene.pair.passive.expect(1, STATUS_SUCCESS);
    }
    assert_eq!(world.session.ledger().allocation_count, before);
    scene.close();
}
