//! NDK_FN_SEND_AND_INVALIDATE: tokens that are invalid, return values, remarks. `invalidate.rs` has its parameters.

use std::thread;

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend},
    status::{
        STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_DATA_ERROR, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_INVALID_PARAMETER_4, STATUS_SUCCESS,
    },
};

use crate::invalidate::{REMOTE, Scene};
use crate::kit::{Buffer, FastRegion, Gate, HeldProcessors, Options, Pair, Side, Unconnected, World};

/// Sends a token that must not be invalidated, and checks what the page says of it.
#[track_caller]
pub(crate) fn assert_aborts(world: &World, pair: &Pair, token: u32) {
    let (active, passive): (&Side, &Side) = (&pair.active, &pair.passive);
    (1..3).for_each(|context| assert_eq!(passive.qp.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(active.qp.send_and_invalidate(3, &[], 0, token), STATUS_SUCCESS);
    assert_eq!(active.expect(3, STATUS_DATA_ERROR).Type, NdkOperationTypeSend);
    pair.assert_aborted();
    assert_eq!(passive.disconnected.calls()[0].value, 1, "aborted, not disconnected");
    (1..3).for_each(|context| {
        passive.expect_receive(context, STATUS_CANCELLED);
    });
    world.assert_empty(&passive.receive_cq);
}

/// "The NDK provider at the receiving peer must abort the connection ... if an invalid token was specified": no token of
/// anything, and 0.
// Shows S631.
#[test]
fn an_unknown_token_aborts_the_connection() {
    let world = World::new();
    for change in [1, 0x100, 0x8000_0000, u32::MAX] {
        let scene = Scene::new(&world);
        assert_aborts(&world, &scene.pair, scene.token ^ change);
        scene.close();
    }
    let scene = Scene::new(&world);
    assert_aborts(&world, &scene.pair, 0);
    scene.close();
}

/// A token that was valid aborts the connection too: its region is invalidated already, or closed.
// Shows S631.
#[test]
fn a_stale_token_aborts_the_connection() {
    let world = World::new();
    let scene = Scene::new(&world);
    scene.region.invalidate(&scene.pair.passive);
    assert_aborts(&world, &scene.pair, scene.token);
    scene.close();
    let Scene { pair, region, token } = Scene::new(&world);
    region.close();
    assert_aborts(&world, &pair, token);
    pair.close();
}

/// A token that the peer may not invalidate aborts the connection too: the token of a plain region, of a region without remote access, of
/// another domain, the privileged one.
// Shows S631.
#[test]
fn a_token_that_is_not_the_peers_to_invalidate_aborts_the_connection() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let plain = Buffer::full(&pair.passive.pd, 1);
    assert_aborts(&world, &pair, plain.token);
    assert_eq!(plain.mr.token(), plain.token, "it is as it was");
    plain.close();
    pair.close();

    let pair = Pair::new(&world.adapter);
    let local = FastRegion::new(&world.adapter, &pair.passive.pd, 1, false);
    local.register(&pair.passive, 0);
    assert_aborts(&world, &pair, local.mr.token());
    local.close();
    pair.close();

    let (pair, other) = (Pair::new(&world.adapter), Scene::new(&world));
    assert_aborts(&world, &pair, other.token);
    let local = Buffer::full(&other.pair.active.pd, 1);
    let written = other.pair.active.qp.write(1, &[local.sge(0, 1)], other.region.base, other.token, 0);
    assert_eq!(written, STATUS_SUCCESS);
    other.pair.active.expect(1, STATUS_SUCCESS);
    local.close();
    pair.close();
    other.close();

    let pair = Pair::new(&world.adapter);
    assert_aborts(&world, &pair, pair.passive.pd.privileged_token());
    pair.close();
}

/// "STATUS_SUCCESS: the request was posted successfully. A completion entry will be queued when the work request is
/// completed", not before: it waits for a receive, and the token stays valid as long.
// Shows S632.
#[test]
fn success_means_posted() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.active.qp.send_and_invalidate(1, &[], 0, scene.token), STATUS_SUCCESS);
    world.assert_empty(&pair.active.initiator_cq);
    // While the send waits, the token is valid: the passive side sends from the region.
    let target = Buffer::full(&pair.active.pd, 1);
    scene.region.pages.write(0, b"valid");
    assert_eq!(pair.active.qp.receive(2, &[target.sge(0, 5)]), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.send(3, &[scene.region.sge(0, 5)], 0), STATUS_SUCCESS);
    pair.passive.expect(3, STATUS_SUCCESS);
    pair.active.expect_receive(2, STATUS_SUCCESS);
    assert_eq!(target.pages.read(0, 5), b"valid");
    world.assert_empty(&pair.active.initiator_cq);
    assert_eq!(pair.passive.qp.receive(4, &[]), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    pair.passive.expect_receive(4, STATUS_SUCCESS);
    target.close();
    scene.close();
}

/// "STATUS_CONNECTION_INVALID: the queue pair (QP) is not connected": before. Afterwards it is cancelled.
// Shows S632.
#[test]
fn not_connected_is_connection_invalid() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    assert_eq!(side.qp.send_and_invalidate(1, &[], 0, 1), STATUS_CONNECTION_INVALID);
    world.assert_empty(&side.initiator_cq);
    side.close();
    let scene = Scene::new(&world);
    scene.pair.passive.disconnect();
    assert_eq!(scene.pair.passive.qp.send_and_invalidate(1, &[], 0, scene.token), STATUS_SUCCESS);
    scene.pair.passive.expect(1, STATUS_CANCELLED);
    scene.pair.active.disconnected.wait_for(1);
    assert_eq!(scene.pair.active.qp.send_and_invalidate(1, &[], 0, scene.token), STATUS_SUCCESS);
    world.assert_empty(&scene.pair.active.initiator_cq);
    scene.pair.active.disconnect();
    scene.pair.active.expect(1, STATUS_CANCELLED);
    scene.close();
}

/// "Any NDK_RESULT_EX structure that is added to a completion queue as a result of a call to this function must specify
/// NdkOperationTypeSend"; at the peer it is NdkOperationTypeReceiveAndInvalidate with the token.
// Shows S635.
#[test]
fn the_completion_types() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token), STATUS_SUCCESS);
    let sent = pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!((sent.Type, sent.ProviderErrorCode), (NdkOperationTypeSend, 0));
    let received = pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(received.Type, NdkOperationTypeReceiveAndInvalidate);
    assert_eq!(received.TypeSpecificCompletionOutput, scene.token as usize);
    scene.close();
}

/// A consumer that polls with NdkGetCqResults gets the receive; the token is invalidated as well.
#[test]
fn the_plain_poll_gets_it_too() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    let results = pair.passive.receive_cq.results(4);
    assert_eq!(results.len(), 1);
    assert_eq!((results[0].Status, results[0].RequestContext.addr()), (STATUS_SUCCESS, 1));
    scene.region.register(&pair.passive, REMOTE);
    scene.close();
}

/// A local invalidation after a remote one fails (ndkpi-completion-handling-requirements).
#[test]
fn a_local_invalidation_after_it_fails() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.invalidate(3, &scene.region.mr, 0), STATUS_SUCCESS);
    pair.passive.expect(3, STATUS_INVALID_DEVICE_REQUEST);
    scene.close();
}

/// Upon receive completion, not before the data is there: an access that another connection has under way ends first.
// Shows S628.
#[test]
fn the_receive_completes_after_the_last_access_to_the_region() {
    let world = World::new();
    let options = Options::default();
    let Scene { pair, region, token } = Scene::new(&world);
    // A second connection into the domain writes; the gate stops the write.
    let passive = pair.passive.without_connector();
    let second = Unconnected {
        qp: passive.pd.create_qp(&passive.receive_cq, &passive.initiator_cq, 3, options.sizes).expect("a QP"),
        ..passive
    };
    let other = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 4, options), second, options.limits);
    let local = Buffer::full(&other.active.pd, 1);
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let gate = Gate::shut(&region.pages, 0);
    assert_eq!(other.active.qp.write(5, &[local.sge(0, 100)], region.base, token, 0), STATUS_SUCCESS);
    gate.reached();
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, token), STATUS_SUCCESS);
    for _ in 0..1000 {
        assert!(pair.passive.receive_cq.poll(1).is_empty());
        thread::yield_now();
    }
    gate.open();
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    other.active.expect(5, STATUS_SUCCESS);
    local.close();
    other.active.close();
    other.passive.connector.close_now();
    other.passive.qp.close_now();
    other.listener.close_now();
    Scene { pair, region, token }.close();
}

/// "Minimum supported server: Windows Server 2012 R2", which has NDKPI 1.2: a consumer of version 1 has it.
// Shows S636.
#[test]
fn a_consumer_of_version_1_has_it() {
    let world = World::new();
    let adapter = world.open(1, 2).expect("an adapter");
    let pair = Pair::new(&adapter);
    let region = FastRegion::new(&adapter, &pair.passive.pd, 1, true);
    region.register(&pair.passive, REMOTE);
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let flags = NDK_OP_FLAG_DEFER;
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, region.mr.token()), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], 0x4000_0000, 0), STATUS_INVALID_PARAMETER_4);
    pair.active.expect(2, STATUS_SUCCESS);
    let received = pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(received.Type, NdkOperationTypeReceiveAndInvalidate);
    region.close();
    pair.close();
    world.close_adapter(adapter);
}

/// "IRQL: <= DISPATCH_LEVEL", and a post does nothing but queue.
// Shows S636.
#[test]
fn it_can_be_posted_at_dispatch_level() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let held = HeldProcessors::new();
    simkernel::at_dispatch(|_| {
        assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token), STATUS_SUCCESS);
    });
    drop(held);
    pair.active.expect(2, STATUS_SUCCESS);
    scene.close();
}
