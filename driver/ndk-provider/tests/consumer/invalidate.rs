//! NDK_FN_SEND_AND_INVALIDATE: one test for each statement of its documentation page.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_CQ_NOTIFY_SOLICITED, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_DEFER,
        NDK_OP_FLAG_INLINE, NDK_OP_FLAG_READ_FENCE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS,
        NDK_SGE, NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_DATA_ERROR, STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER_4,
        STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, FastRegion, Gate, Options, Pair, QpSizes, World, pattern, sge};

pub(crate) const REMOTE: u32 = NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE;

/// A pair whose passive side has a registered region; the active side invalidates it.
pub(crate) struct Scene {
    pub(crate) pair: Pair,
    pub(crate) region: FastRegion,
    pub(crate) token: u32,
}

impl Scene {
    pub(crate) fn new(world: &World) -> Self {
        Self::with(world, Options::default())
    }

    fn with(world: &World, options: Options) -> Self {
        let pair = Pair::with(&world.adapter, options);
        let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
        region.register(&pair.passive, REMOTE);
        let token = region.mr.token();
        Self { pair, region, token }
    }

    pub(crate) fn close(self) {
        self.region.close();
        self.pair.close();
    }
}

/// "posts a send request ... and supplies a token to be invalidated at the remote peer upon receive completion": when the
/// receive has completed, the token is invalid.
// Shows S628.
#[test]
fn the_token_is_invalid_when_the_receive_completes() {
    let world = World::new();
    let Scene { pair, region, token } = Scene::new(&world);
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    // The peer has lost it.
    let local = Buffer::full(&pair.active.pd, 1);
    assert_eq!(pair.active.qp.write(3, &[local.sge(0, 1)], region.base, token, 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_ACCESS_VIOLATION);
    local.close();
    Scene { pair, region, token }.close();
}

/// The region may be registered again as soon as the receive has completed: the token stays, the base may change.
// Shows S629.
#[test]
fn the_region_can_be_registered_again_at_once() {
    let world = World::new();
    let Scene { pair, mut region, token } = Scene::new(&world);
    let local = Buffer::full(&pair.active.pd, 1);
    for round in 0..50usize {
        assert_eq!(pair.passive.qp.receive(round, &[]), STATUS_SUCCESS);
        let flags = NDK_OP_FLAG_SILENT_SUCCESS;
        assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, token), STATUS_SUCCESS);
        pair.passive.expect_receive(round, STATUS_SUCCESS);
        region.base += PAGE_SIZE as u64;
        region.register(&pair.passive, REMOTE);
        assert_eq!(region.mr.token(), token);
        assert_eq!(pair.active.qp.write(3, &[local.sge(0, 1)], region.base, token, 0), STATUS_SUCCESS);
        pair.active.expect(3, STATUS_SUCCESS);
    }
    local.close();
    Scene { pair, region, token }.close();
}

/// "RequestContext: a context value to be returned in the RequestContext member of the NDK_RESULT_EX structure".
// Shows S621.
#[test]
fn the_request_context_comes_back() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    // The request context is optional: the completion returns NULL for NULL.
    for context in [usize::MAX - 12, 0] {
        assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send_and_invalidate(context, &[], 0, scene.token), STATUS_SUCCESS);
        let result = pair.active.expect(context, STATUS_SUCCESS);
        assert_eq!(result.QPContext.addr(), Pair::ACTIVE);
        pair.passive.expect_receive(1, STATUS_SUCCESS);
        scene.region.register(&pair.passive, REMOTE);
    }
    scene.close();
}

/// "pSgl: the buffers holding the data to send": from several, of any size, in order.
// Shows S622.
#[test]
fn the_buffers_are_sent() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    let (source, target) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 2));
    let bytes = pattern(7, 2 * PAGE_SIZE);
    source.pages.write(0, &bytes);
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 2 * PAGE_SIZE)]), STATUS_SUCCESS);
    let sges = [source.sge(4096, 100), source.sge(0, 0), source.sge(0, 4000), source.sge(5000, 1)];
    assert_eq!(pair.active.qp.send_and_invalidate(2, &sges, 0, scene.token), STATUS_SUCCESS);
    let received = pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(received.BytesTransferred, 4101);
    let expected = [&bytes[4096..4196], &bytes[..4000], &bytes[5000..5001]].concat();
    assert_eq!(target.pages.read(0, 4101), expected);
    assert_eq!(target.pages.read(4101, 10), [0; 10]);
    source.close();
    target.close();
    scene.close();
}

/// "nSge: the number of SGE structures in the array": no more are looked at, none is enough, and more than the queue pair has
/// room for are refused ("other status codes: an error occurred").
// Shows S622.
#[test]
fn the_number_of_buffers() {
    let world = World::new();
    let sizes = QpSizes { request_sges: 2, ..QpSizes::default() };
    let scene = Scene::with(&world, Options { sizes, ..Options::default() });
    let pair = &scene.pair;
    let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let sges = [source.sge(0, 10), source.sge(0, 20), sge(0, 30, 0xBAD_70CE)];
    assert_eq!(pair.active.qp.send_and_invalidate(1, &sges, 0, scene.token), STATUS_DATA_OVERRUN);
    world.assert_empty(&pair.active.initiator_cq);
    for count in [2, 0] {
        let token = scene.token;
        assert_eq!(pair.passive.qp.receive(2, &[target.sge(0, 64)]), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send_and_invalidate(3, &sges[..count], 0, token), STATUS_SUCCESS);
        let received = pair.passive.expect_receive(2, STATUS_SUCCESS);
        assert_eq!(received.BytesTransferred, if count == 2 { 30 } else { 0 });
        pair.active.expect(3, STATUS_SUCCESS);
        scene.region.register(&pair.passive, REMOTE);
    }
    source.close();
    target.close();
    scene.close();
}

/// "NDK_OP_FLAG_SILENT_SUCCESS: if this request succeeds, it does not generate a completion".
// Shows S623.
#[test]
fn silent_success_gives_no_completion() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let flags = NDK_OP_FLAG_SILENT_SUCCESS;
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, scene.token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    world.assert_empty(&pair.active.initiator_cq);
    scene.close();
}

/// "However, if it fails, it does generate a completion event".
// Shows S210, S623.
#[test]
fn silent_success_that_fails_gives_a_completion() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let (flags, bad) = (NDK_OP_FLAG_SILENT_SUCCESS, scene.token ^ 1);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, bad), STATUS_SUCCESS);
    assert_eq!(pair.active.expect(2, STATUS_DATA_ERROR).Type, NdkOperationTypeSend);
    scene.close();
    // Flushed is a failure too.
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], flags, scene.token), STATUS_SUCCESS);
    pair.active.qp.flush();
    assert_eq!(pair.active.expect(3, STATUS_CANCELLED).Type, NdkOperationTypeSend);
    scene.close();
}

/// "NDK_OP_FLAG_READ_FENCE: all prior read requests must be complete before the hardware begins processing this request":
/// the read fetches what the invalidation would have taken away.
// Shows S213, S624.
#[test]
fn read_fence_waits_for_earlier_reads() {
    let world = World::new();
    let Scene { pair, region, token } = Scene::new(&world);
    let sink = Buffer::full(&pair.active.pd, 2);
    region.pages.write(0, b"fenced");
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let gate = Gate::shut(&sink.pages, 1);
    assert_eq!(pair.active.qp.read(2, &[sink.sge(PAGE_SIZE, 6)], region.base, token, 0), STATUS_SUCCESS);
    let flags = NDK_OP_FLAG_READ_FENCE;
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], flags, token), STATUS_SUCCESS);
    gate.reached();
    for _ in 0..1000 {
        assert!(pair.passive.receive_cq.poll(1).is_empty());
        thread::yield_now();
    }
    gate.open();
    pair.active.expect(2, STATUS_SUCCESS);
    pair.active.expect(3, STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(sink.pages.read(PAGE_SIZE, 6), b"fenced");
    sink.close();
    Scene { pair, region, token }.close();
}

/// "NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT: the completion queue for the peer generates a notification", if it was armed with
/// NDK_CQ_NOTIFY_SOLICITED; "the peer will receive all the send requests as normal".
// Shows S625.
#[test]
fn solicit_event_notifies_a_solicited_arm() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    let cq = &pair.passive.receive_cq;
    cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    (1..4).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(pair.active.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &[], 0), STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 0);
    let flags = NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT;
    // "The notification is generated after the receive request completes": the callback finds it.
    let found = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (finds, polled) = (found.clone(), *cq);
    cq.notified.on_call(move |_| {
        let contexts = polled.poll(8).iter().map(|result| result.RequestContext.addr()).collect::<Vec<_>>();
        finds.lock().expect("no panic").extend(contexts);
    });
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], flags, scene.token), STATUS_SUCCESS);
    cq.notified.wait_for(1);
    assert_eq!(*found.lock().expect("no panic"), [1, 2, 3]);
    scene.close();
}

/// "This flag has no meaning to the receiver unless the receiver has previously called NdkArmCq with
/// NDK_CQ_NOTIFY_SOLICITED".
// Shows S625.
#[test]
fn solicit_event_means_nothing_without_an_arm() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    let flags = NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT;
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, scene.token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    scene.close();
}

/// Without the flag a solicited arm is not satisfied, although a token was invalidated.
// Shows S625.
#[test]
fn without_solicit_event_a_solicited_arm_waits() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    world.flush_dpcs();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    scene.close();
}

/// "Requests that complete with an error always match the NDK_CQ_NOTIFY_SOLICITED notification type": on both sides.
// Shows S634.
#[test]
fn errors_match_a_solicited_arm() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    pair.active.initiator_cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &[], 0, scene.token ^ 1), STATUS_SUCCESS);
    pair.active.initiator_cq.notified.wait_for(1);
    pair.passive.receive_cq.notified.wait_for(1);
    scene.close();
}

/// "NDK_OP_FLAG_INLINE: the memory referenced by the SGEs should be transferred inline. Also, the MemoryRegionToken value
/// might be invalid": the data is what it was at the post, from unregistered memory.
// Shows S626.
#[test]
fn inline_data_is_copied_at_the_post() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    let target = Buffer::full(&pair.passive.pd, 1);
    let mut text = *b"inline";
    let sges = [sge(text.as_mut_ptr().expose_provenance() as u64, 6, 0xBAD_70CE)];
    assert_eq!(pair.active.qp.send_and_invalidate(2, &sges, NDK_OP_FLAG_INLINE, scene.token), STATUS_SUCCESS);
    text.fill(b'!');
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 16)]), STATUS_SUCCESS);
    assert_eq!(pair.passive.expect_receive(1, STATUS_SUCCESS).BytesTransferred, 6);
    assert_eq!(target.pages.read(0, 7), b"inline\0");
    assert_eq!(text, *b"!!!!!!");
    target.close();
    scene.close();
}

/// "Inline requests do not need to limit the number of entries in the SGE list to the MaxInitiatorRequestSge value".
// Shows S626.
#[test]
fn inline_requests_may_have_more_sges() {
    let world = World::new();
    let sizes = QpSizes { request_sges: 1, ..QpSizes::default() };
    let scene = Scene::with(&world, Options { sizes, ..Options::default() });
    let pair = &scene.pair;
    let target = Buffer::full(&pair.passive.pd, 1);
    let text = pattern(9, 40);
    let sges: Vec<NDK_SGE> =
        text.iter().map(|byte| sge(std::ptr::from_ref(byte).expose_provenance() as u64, 1, 0)).collect();
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 64)]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(2, &sges, NDK_OP_FLAG_INLINE, scene.token), STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!(target.pages.read(0, 40), text);
    target.close();
    scene.close();
}

/// "The amount of memory transferred inline must be within the inline data limits of the queue pair."
// Shows S626.
#[test]
fn inline_data_is_limited() {
    let world = World::new();
    let sizes = QpSizes { inline: 32, ..QpSizes::default() };
    let scene = Scene::with(&world, Options { sizes, ..Options::default() });
    let pair = &scene.pair;
    let target = Buffer::full(&pair.passive.pd, 1);
    let mut text = pattern(9, 33);
    let address = text.as_mut_ptr().expose_provenance() as u64;
    let post = |length: usize| {
        let sges = [sge(address, 16, 0), sge(address + 16, length - 16, 0)];
        pair.active.qp.send_and_invalidate(2, &sges, NDK_OP_FLAG_INLINE, scene.token)
    };
    assert_eq!(post(33), STATUS_INVALID_PARAMETER_4);
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 64)]), STATUS_SUCCESS);
    assert_eq!(post(32), STATUS_SUCCESS);
    assert_eq!(pair.passive.expect_receive(1, STATUS_SUCCESS).BytesTransferred, 32);
    assert_eq!(target.pages.read(0, 32), text[..32]);
    target.close();
    scene.close();
}

/// "NDK_OP_FLAG_DEFER: it may defer indicating the request to hardware": it is carried out when the chain ends.
// Shows S627.
#[test]
fn defer_is_carried_out_with_the_chain() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    (1..3).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
    let token = scene.token;
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], NDK_OP_FLAG_DEFER, token), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(4, &[], 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_SUCCESS);
    pair.active.expect(4, STATUS_SUCCESS);
    assert_eq!(pair.passive.expect_receive(1, STATUS_SUCCESS).Type, NdkOperationTypeReceiveAndInvalidate);
    pair.passive.expect_receive(2, STATUS_SUCCESS);
    scene.close();
}

/// A post that fails inline starts what was deferred before it (NDKPI Deferred Processing Scheme).
// Shows S627.
#[test]
fn a_failed_post_starts_what_was_deferred() {
    let world = World::new();
    let scene = Scene::new(&world);
    let pair = &scene.pair;
    assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(3, &[], NDK_OP_FLAG_DEFER, scene.token), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send_and_invalidate(4, &[], 0x4000_0000, scene.token), STATUS_INVALID_PARAMETER_4);
    pair.active.expect(3, STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    scene.close();
}
