//! NDK_MW: creation, invalidation, and how windows, their regions and their queue pairs end.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeInvalidate},
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_DEVICE_BUSY, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER_4, STATUS_SUCCESS,
    },
};

use crate::{
    bind::{READ, REMOTE, Scene},
    kit::{Buffer, Gate, Mw, Pair, Request, World},
};

/// Invalidates a window through the passive side's queue pair.
#[track_caller]
fn invalidate(pair: &Pair, mw: &Mw) {
    assert_eq!(pair.passive.qp.invalidate_window(0x17, mw, 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.expect(0x17, STATUS_SUCCESS).Type, NdkOperationTypeInvalidate);
}

/// Checks that a request waits for what stands at a gate.
#[track_caller]
fn assert_waits(mut is_done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        assert!(!is_done());
        thread::yield_now();
    }
}

#[test]
fn create_and_close() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mw = pd.create_mw().expect("a window");
    assert_eq!(world.provider.object_counts().mws, 1);
    assert_eq!(mw.token(), 0, "not bound");
    mw.close_now();
    assert_eq!(world.provider.object_counts().mws, 0);
    simkernel::at_dispatch(|_| pd.create_mw().expect("a window").close_now());
    pd.close_now();
}

#[test]
fn create_without_memory_leaves_no_trace() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mut failures = 0;
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let made = pd.create_mw();
        let happened = fault.happened();
        drop(fault);
        if let Ok(mw) = made {
            assert!(!happened);
            mw.close_now();
            break;
        }
        assert_eq!((made.err(), happened), (Some(STATUS_INSUFFICIENT_RESOURCES), true));
        assert_eq!(world.provider.object_counts().mws, 0);
        failures += 1;
    }
    assert!(failures >= 2);
    pd.close_now();
}

/// Unbound, a window shows nothing; the region and the next binding are not concerned.
// Shows S605.
#[test]
fn invalidation_shuts_the_window() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    invalidate(&scene.pair, &scene.mw);
    // Bound again it has another token, and the region was not touched.
    let second = scene.bind(0, 64, REMOTE);
    assert_eq!(scene.write(0, 64, second), STATUS_SUCCESS);
    invalidate(&scene.pair, &scene.mw);
    assert_eq!(scene.write(0, 64, second), STATUS_ACCESS_VIOLATION);
    scene.pair.assert_aborted();
    scene.close();
}

/// A window that is not bound cannot be invalidated: not before a bind, not twice.
// Shows S606.
#[test]
fn there_must_be_something_to_invalidate() {
    let world = World::new();
    for bound in [false, true] {
        let scene = Scene::new(&world);
        if bound {
            scene.bind(0, 64, REMOTE);
            invalidate(&scene.pair, &scene.mw);
        }
        assert_eq!(scene.pair.passive.qp.invalidate_window(1, &scene.mw, 0), STATUS_SUCCESS);
        let result = scene.pair.passive.expect(1, STATUS_INVALID_DEVICE_REQUEST);
        assert_eq!(result.Type, NdkOperationTypeInvalidate);
        scene.pair.assert_aborted();
        scene.close();
    }
}

#[test]
fn invalidate_is_checked_inline() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    let qp = &scene.pair.passive.qp;
    for flags in [0x1000_0000, NDK_OP_FLAG_INLINE, 0x10] {
        assert_eq!(qp.invalidate_window(1, &scene.mw, flags), STATUS_INVALID_PARAMETER_4);
    }
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    let quiet = NDK_OP_FLAG_SILENT_SUCCESS;
    assert_eq!(qp.invalidate_window(1, &scene.mw, quiet | NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
    assert_eq!(scene.post(2, 0, 8, READ), STATUS_SUCCESS);
    scene.pair.passive.expect(2, STATUS_SUCCESS);
    scene.pair.passive.disconnect();
    assert_eq!(qp.invalidate_window(3, &scene.mw, 0), STATUS_SUCCESS);
    scene.pair.passive.expect(3, STATUS_CANCELLED);
    scene.close();
}

/// User-mode ND: DEVICE_BUSY while windows are bound, and nothing changes; each way to unbind a window ends that.
// Shows S604.
#[test]
fn a_region_with_windows_is_not_deregistered() {
    let world = World::new();
    for way in 0..3 {
        let Scene { pair, region, mw, local } = Scene::new(&world);
        let scene = Scene { pair, region, mw, local };
        let second = scene.pair.passive.pd.create_mw().expect("a window");
        let token = scene.bind(0, 64, REMOTE);
        let part = (scene.region.base, 8);
        assert_eq!(scene.pair.passive.qp.bind(1, &second, &scene.region.mr, part, READ), STATUS_SUCCESS);
        scene.pair.passive.expect(1, STATUS_SUCCESS);
        assert_eq!(scene.region.mr.deregister().wait(), STATUS_DEVICE_BUSY);
        invalidate(&scene.pair, &second);
        assert_eq!(scene.region.mr.deregister().wait(), STATUS_DEVICE_BUSY);
        assert_eq!(scene.region.mr.token(), scene.region.token);
        assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
        let elsewhere = Buffer::full(&scene.pair.passive.pd, 1);
        let Scene { pair, region, mw, local } = scene;
        match way {
            0 => invalidate(&pair, &mw),
            1 => {
                assert_eq!(pair.passive.qp.bind(2, &mw, &elsewhere.mr, (elsewhere.base, 8), READ), STATUS_SUCCESS);
                pair.passive.expect(2, STATUS_SUCCESS);
            }
            _ => mw.close_now(),
        }
        region.mr.deregister().succeed();
        region.mr.close_now();
        if way < 2 {
            mw.close_now();
        }
        second.close_now();
        elsewhere.close();
        local.close();
        pair.close();
    }
}

/// A bound window depends on its region (object lifetime requirements): the region's close is a plain dereference, and ends after the
/// window's close.
#[test]
fn a_region_outlives_its_windows() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    let region = scene.region.mr.close();
    world.flush_dpcs();
    assert!(!region.is_done());
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    assert_eq!(scene.region.pages.read(0, 8), [0; 8]);
    scene.mw.close_now();
    region.succeed();
    // The region's close also ends when the window is only unbound.
    let Scene { pair, mw: _, region: _, local } = scene;
    let (region, mw) = (Buffer::full(&pair.passive.pd, 1), pair.passive.pd.create_mw().expect("a window"));
    assert_eq!(pair.passive.qp.bind(1, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
    pair.passive.expect(1, STATUS_SUCCESS);
    let closing = region.mr.close();
    assert!(!closing.is_done());
    invalidate(&pair, &mw);
    closing.succeed();
    mw.close_now();
    local.close();
    pair.close();
}

/// Window and domain, closed in the wrong order with a bound window.
#[test]
fn a_domain_outlives_its_windows() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mw = pd.create_mw().expect("a window");
    let closing = pd.close();
    world.flush_dpcs();
    assert!(!closing.is_done());
    mw.close_now();
    closing.succeed();
}

/// An invalidation, or a rebind, completes after the last access by the peer has ended.
#[test]
fn unbinding_waits_for_the_access_under_way() {
    let world = World::new();
    for rebind in [false, true] {
        let scene = Scene::new(&world);
        let (active, passive) = (&scene.pair.active, &scene.pair.passive);
        let token = scene.bind(0, 2 * 4096, REMOTE);
        let gate = Gate::shut(&scene.region.pages, 1);
        let sges = [scene.local.sge(0, 2 * 4096)];
        assert_eq!(active.qp.write(1, &sges, scene.region.base, token, 0), STATUS_SUCCESS);
        gate.reached();
        let posted = if rebind { scene.post(2, 0, 8, READ) } else { passive.qp.invalidate_window(2, &scene.mw, 0) };
        assert_eq!(posted, STATUS_SUCCESS);
        assert_waits(|| !passive.initiator_cq.poll(1).is_empty());
        gate.open();
        passive.expect(2, STATUS_SUCCESS);
        active.expect(1, STATUS_SUCCESS);
        scene.close();
    }
}

/// The close of a window refuses new accesses at once, and ends after the last access; until then the region stays busy.
#[test]
fn close_waits_for_the_access_under_way() {
    let world = World::new();
    let Scene { pair, region, mw, local } = Scene::new(&world);
    assert_eq!(pair.passive.qp.bind(1, &mw, &region.mr, (region.base, 2 * 4096), REMOTE), STATUS_SUCCESS);
    pair.passive.expect(1, STATUS_SUCCESS);
    let gate = Gate::shut(&region.pages, 1);
    let (sges, token) = ([local.sge(0, 2 * 4096)], mw.token());
    assert_eq!(pair.active.qp.write(2, &sges, region.base, token, 0), STATUS_SUCCESS);
    gate.reached();
    assert_eq!(pair.active.qp.write(3, &[local.sge(0, 1)], region.base, token, 0), STATUS_SUCCESS);
    let closing = mw.close();
    assert_waits(|| closing.is_done());
    assert_eq!(region.mr.deregister().wait(), STATUS_DEVICE_BUSY);
    gate.open();
    pair.active.expect(2, STATUS_SUCCESS);
    pair.active.expect(3, STATUS_ACCESS_VIOLATION);
    closing.succeed();
    region.close();
    local.close();
    pair.close();
}

/// The close of a window refuses accesses at once, also if a posted bind still holds the window.
#[test]
fn close_shuts_the_window() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    let Scene { pair, region, mw, local } = scene;
    // A bind that waits keeps the window.
    assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.bind(2, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
    let closing = mw.close();
    assert!(!closing.is_done());
    assert_eq!(pair.active.qp.write(3, &[local.sge(0, 8)], region.base, token, 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_ACCESS_VIOLATION);
    pair.passive.initiator_cq.wait(2);
    closing.succeed();
    region.close();
    local.close();
    pair.close();
}

/// When the consumer is told that the close is complete, the region can be deregistered.
#[test]
fn the_region_is_free_when_the_close_is_reported() {
    let world = World::new();
    let scene = Scene::new(&world);
    scene.bind(0, 64, REMOTE);
    let Scene { pair, region, mw, local } = scene;
    assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.bind(2, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
    // Both requests wait: the one for a receive, the other behind it. So does the close, for the bind.
    world.flush_dpcs();
    let closing = mw.close();
    assert!(closing.pended());
    let (deregistered, mr) = (Arc::new(Mutex::new(None)), region.mr);
    let done = deregistered.clone();
    closing.completion.on_call(move |_| *done.lock().expect("no panic") = Some(mr.deregister()));
    pair.passive.qp.flush();
    closing.succeed();
    deregistered.lock().expect("no panic").take().expect("called").succeed();
    region.mr.close_now();
    pair.passive.initiator_cq.wait(2);
    local.close();
    pair.close();
}

/// A closed window's token reaches neither its region nor a window that is made after it.
#[test]
fn a_closed_windows_token_is_dead() {
    let world = World::new();
    let Scene { pair, region, mw, local } = Scene::new(&world);
    let bind = |mw: &Mw| {
        assert_eq!(pair.passive.qp.bind(1, mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
        pair.passive.expect(1, STATUS_SUCCESS);
        mw.token()
    };
    let mut seen = vec![bind(&mw), bind(&mw), bind(&mw)];
    mw.close_now();
    // The places of tokens are used in turns, so that some of these have the old one.
    for _ in 0..200 {
        let mw = pair.passive.pd.create_mw().expect("a window");
        assert_eq!(mw.token(), 0);
        let token = bind(&mw);
        assert!(!seen.contains(&token));
        seen.push(token);
        mw.close_now();
    }
    let last = seen.pop().expect("tokens");
    assert_eq!(pair.active.qp.write(2, &[local.sge(0, 1)], region.base, last, 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_ACCESS_VIOLATION);
    region.close();
    local.close();
    pair.close();
}

/// A window in a waiting request lives as long as that, also when its close has begun.
#[test]
fn a_window_in_a_waiting_bind() {
    let world = World::new();
    let Scene { pair, region, mw, local } = Scene::new(&world);
    assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.bind(2, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
    let closing: Request = mw.close();
    world.flush_dpcs();
    assert!(!closing.is_done());
    pair.passive.qp.flush();
    pair.passive.expect(1, STATUS_CANCELLED);
    pair.passive.expect(2, STATUS_CANCELLED);
    closing.succeed();
    region.close();
    local.close();
    pair.close();
}

/// After the queue pair that bound a window is closed, the window gives no access, and another queue pair may bind it.
#[test]
fn a_window_outlives_its_queue_pair() {
    let world = World::new();
    let Scene { pair, region, mw, local } = Scene::new(&world);
    let token = {
        assert_eq!(pair.passive.qp.bind(1, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
        pair.passive.expect(1, STATUS_SUCCESS);
        mw.token()
    };
    let passive = pair.passive.without_connector();
    pair.active.disconnect();
    pair.passive.connector.close_now();
    passive.qp.close_now();
    assert_eq!(region.mr.deregister().wait(), STATUS_DEVICE_BUSY);
    let options = crate::kit::Options::default();
    let qp = passive.pd.create_qp(&passive.receive_cq, &passive.initiator_cq, 3, options.sizes).expect("a QP");
    let second = crate::kit::Unconnected { qp, ..passive };
    let first = crate::kit::Unconnected::new(&world.adapter, 4, options);
    let again = Pair::of(&world.adapter, first, second, options.limits);
    assert_eq!(again.passive.qp.bind(2, &mw, &region.mr, (region.base, 8), REMOTE), STATUS_SUCCESS);
    again.passive.expect(2, STATUS_SUCCESS);
    let theirs = Buffer::full(&again.active.pd, 1);
    let write = |context, token| again.active.qp.write(context, &[theirs.sge(0, 8)], region.base, token, 0);
    assert_eq!(write(3, mw.token()), STATUS_SUCCESS);
    again.active.expect(3, STATUS_SUCCESS);
    assert_eq!(write(4, token), STATUS_SUCCESS);
    again.active.expect(4, STATUS_ACCESS_VIOLATION);
    mw.close_now();
    region.close();
    local.close();
    theirs.close();
    pair.active.close();
    pair.listener.close_now();
    again.close();
}
