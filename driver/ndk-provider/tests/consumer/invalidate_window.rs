//! NDK_FN_SEND_AND_INVALIDATE with the token of a memory window.

use ndk_abi::{
    ndkpi::{NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend},
    status::{STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
};

use crate::{
    bind::{READ, REMOTE, Scene},
    invalidate_outcome::assert_aborts,
    kit::{Buffer, Options, Pair, Unconnected, World},
};

/// Sends `token` from the active to the passive side, which must invalidate it.
#[track_caller]
fn invalidate(pair: &Pair, token: u32) {
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, token), STATUS_SUCCESS);
    let received = pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(received.Type, NdkOperationTypeReceiveAndInvalidate);
    assert_eq!(received.TypeSpecificCompletionOutput, token as usize);
    assert_eq!(pair.active.expect(2, STATUS_SUCCESS).Type, NdkOperationTypeSend);
}

/// When the receive has completed, the window is unbound: its region may be closed, and the window bound again.
// Shows S630.
#[test]
fn the_window_is_unbound() {
    let world = World::new();
    let scene = Scene::new(&world);
    for round in 0..20 {
        let token = scene.bind(round, 64, REMOTE);
        assert_eq!(scene.write(round, 64, token), STATUS_SUCCESS);
        invalidate(&scene.pair, token);
    }
    let token = scene.mw.token();
    assert_eq!(scene.write(0, 1, token), STATUS_ACCESS_VIOLATION);
    scene.region.mr.deregister().succeed();
    let Scene { pair, region, mw, local } = scene;
    region.mr.close_now();
    mw.close_now();
    local.close();
    pair.close();
}

/// A later NdkInvalidate fails (ndkpi-completion-handling-requirements).
#[test]
fn a_local_invalidation_after_it_fails() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, READ);
    invalidate(&scene.pair, token);
    assert_eq!(scene.pair.passive.qp.invalidate_window(3, &scene.mw, 0), STATUS_SUCCESS);
    scene.pair.passive.expect(3, STATUS_INVALID_DEVICE_REQUEST);
    scene.close();
}

/// A stale token aborts the connection: its window was unbound, bound again, or closed.
#[test]
fn a_stale_token_aborts_the_connection() {
    let world = World::new();
    for way in 0..4 {
        let scene = Scene::new(&world);
        let (token, passive) = (scene.bind(0, 64, REMOTE), &scene.pair.passive);
        match way {
            0 => {
                assert_eq!(passive.qp.invalidate_window(1, &scene.mw, 0), STATUS_SUCCESS);
                passive.expect(1, STATUS_SUCCESS);
            }
            1 => invalidate(&scene.pair, token),
            2 => assert_ne!(scene.bind(0, 64, REMOTE), token),
            _ => scene.mw.close_now(),
        }
        assert_aborts(&world, &scene.pair, token);
        if way < 3 {
            scene.close();
        } else {
            let mw = passive.pd.create_mw().expect("a window");
            Scene { mw, ..scene }.close();
        }
    }
}

/// A bind that is posted has given out its token, but it has not run.
#[test]
fn the_token_of_a_waiting_bind_aborts_the_connection() {
    let world = World::new();
    let scene = Scene::new(&world);
    let first = scene.bind(0, 64, REMOTE);
    assert_eq!(scene.pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(scene.post(2, 0, 64, REMOTE), STATUS_SUCCESS);
    assert_ne!(scene.mw.token(), first);
    assert_aborts(&world, &scene.pair, scene.mw.token());
    scene.pair.passive.initiator_cq.wait(2);
    scene.close();
}

/// The peer of another queue pair, in the window's domain or in another one, sends the window's token: its connection is aborted, and the
/// window still works.
// Shows T28, T35.
#[test]
fn a_window_of_another_connection_is_safe() {
    let world = World::new();
    let options = Options::default();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    let passive = scene.pair.passive.without_connector();
    let second = Unconnected {
        qp: passive.pd.create_qp(&passive.receive_cq, &passive.initiator_cq, 3, options.sizes).expect("a QP"),
        ..passive
    };
    let other = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 4, options), second, options.limits);
    assert_aborts(&world, &other, token);
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    other.active.close();
    other.passive.connector.close_now();
    other.passive.qp.close_now();
    other.listener.close_now();

    let stranger = Pair::new(&world.adapter);
    assert_aborts(&world, &stranger, token);
    stranger.close();
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    scene.close();
}

/// A token of the sender's own is not the receiver's.
#[test]
fn a_token_of_the_sender_aborts_the_connection() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (active, mw) = (&scene.pair.active, scene.pair.active.pd.create_mw().expect("a window"));
    let ours = Buffer::full(&active.pd, 1);
    assert_eq!(active.qp.bind(1, &mw, &ours.mr, (ours.base, 8), REMOTE), STATUS_SUCCESS);
    active.expect(1, STATUS_SUCCESS);
    assert_aborts(&world, &scene.pair, mw.token());
    mw.close_now();
    ours.close();
    scene.close();
}
