//! NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE: a read whose success invalidates the token of its first SGE. And the read fence,
//! which keeps an invalidation of one's own behind the reads.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_DEFER,
        NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_RDMA_READ_SINK, NDK_OP_FLAG_READ_FENCE,
        NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeRead,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER_4,
        STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, FastRegion, Gate, Pair, World, mapping, pattern, sge};

const INVALIDATE: u32 = NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE;
const SILENT: u32 = NDK_OP_FLAG_SILENT_SUCCESS;
const FENCE: u32 = NDK_OP_FLAG_READ_FENCE;
const SINK: u32 = NDK_OP_FLAG_ALLOW_LOCAL_WRITE;

/// A pair whose active side reads into fast regions.
struct Scene {
    pair: Pair,
    sink: FastRegion,
    source: Buffer,
}

impl Scene {
    fn new(world: &World) -> Self {
        let pair = Pair::new(&world.adapter);
        let sink = FastRegion::new(&world.adapter, &pair.active.pd, 2, true);
        let source = Buffer::full(&pair.passive.pd, 2);
        source.pages.write(0, &pattern(9, 2 * PAGE_SIZE));
        Self { pair, sink, source }
    }

    fn read(&self, context: usize, length: usize, flags: u32) -> NTSTATUS {
        let sges = [self.sink.sge(0, length)];
        self.pair.active.qp.read(context, &sges, self.source.base, self.source.token, flags)
    }

    /// Whether the sink is registered: a registration on top would fail.
    #[track_caller]
    fn assert_invalid(&self) {
        self.sink.register(&self.pair.active, SINK);
        self.sink.invalidate(&self.pair.active);
    }

    #[track_caller]
    fn close(self) {
        self.sink.close();
        self.source.close();
        self.pair.close();
    }
}

/// When the read completes, its data is in memory, and the token is invalid.
// Shows S607.
#[test]
fn success_invalidates_the_token() {
    let world = World::new();
    let scene = Scene::new(&world);
    for sink in [SINK, NDK_OP_FLAG_RDMA_READ_SINK, NDK_OP_FLAG_ALLOW_REMOTE_WRITE] {
        scene.sink.register(&scene.pair.active, sink);
        scene.sink.pages.write(0, &[0; 2 * PAGE_SIZE]);
        assert_eq!(scene.read(1, 2 * PAGE_SIZE, INVALIDATE), STATUS_SUCCESS);
        let result = scene.pair.active.expect(1, STATUS_SUCCESS);
        assert_eq!(result.Type, NdkOperationTypeRead);
        assert_eq!(scene.sink.pages.read(0, 2 * PAGE_SIZE), pattern(9, 2 * PAGE_SIZE));
        scene.assert_invalid();
    }
    // A read with the invalidated token fails.
    scene.sink.register(&scene.pair.active, SINK);
    assert_eq!(scene.read(2, 8, INVALIDATE), STATUS_SUCCESS);
    assert_eq!(scene.read(3, 8, 0), STATUS_SUCCESS);
    scene.pair.active.expect(2, STATUS_SUCCESS);
    scene.pair.active.expect(3, STATUS_ACCESS_VIOLATION);
    scene.close();
}

/// It needs no remote access: the token is our own.
#[test]
fn a_local_region_will_do() {
    let world = World::new();
    let scene = Scene::new(&world);
    let sink = FastRegion::new(&world.adapter, &scene.pair.active.pd, 1, false);
    for _ in 0..3 {
        sink.register(&scene.pair.active, SINK);
        let posted = scene.pair.active.qp.read(1, &[sink.sge(0, 8)], scene.source.base, scene.source.token, INVALIDATE);
        assert_eq!(posted, STATUS_SUCCESS);
        scene.pair.active.expect(1, STATUS_SUCCESS);
    }
    sink.close();
    scene.close();
}

/// Without the flag the registration stays.
#[test]
fn without_the_flag_nothing_is_invalidated() {
    let world = World::new();
    let scene = Scene::new(&world);
    scene.sink.register(&scene.pair.active, SINK);
    for context in 0..3 {
        assert_eq!(scene.read(context, 8, 0), STATUS_SUCCESS);
        scene.pair.active.expect(context, STATUS_SUCCESS);
    }
    scene.sink.invalidate(&scene.pair.active);
    scene.close();
}

/// Of several SGEs it is the first one's, also if that has no bytes.
// Shows S607.
#[test]
fn only_the_first_token_is_invalidated() {
    let world = World::new();
    let scene = Scene::new(&world);
    let active = &scene.pair.active;
    let second = FastRegion::new(&world.adapter, &active.pd, 1, true);
    second.register(active, SINK);
    for first in [0, 100] {
        scene.sink.register(active, SINK);
        let sges = [scene.sink.sge(0, first), second.sge(0, 50), second.sge(60, 50)];
        assert_eq!(active.qp.read(1, &sges, scene.source.base, scene.source.token, INVALIDATE), STATUS_SUCCESS);
        active.expect(1, STATUS_SUCCESS);
        scene.assert_invalid();
        let bytes = pattern(9, first + 100);
        assert_eq!(second.pages.read(0, 50), bytes[first..first + 50]);
        assert_eq!(second.pages.read(60, 50), bytes[first + 50..]);
    }
    second.invalidate(active);
    second.close();
    scene.close();
}

/// A read of no bytes invalidates as any other; without an SGE there is nothing to invalidate.
#[test]
fn a_read_of_nothing() {
    let world = World::new();
    let scene = Scene::new(&world);
    scene.sink.register(&scene.pair.active, SINK);
    assert_eq!(scene.read(1, 0, INVALIDATE), STATUS_SUCCESS);
    scene.pair.active.expect(1, STATUS_SUCCESS);
    scene.assert_invalid();
    assert_eq!(scene.pair.active.qp.read(2, &[], 0, 0, INVALIDATE), STATUS_SUCCESS);
    scene.pair.active.expect(2, STATUS_SUCCESS);
    scene.close();
}

/// A token that cannot be invalidated fails the read: of a plain region, the privileged one.
#[test]
fn what_cannot_be_invalidated_fails_the_read() {
    let world = World::new();
    for privileged in [false, true] {
        let scene = Scene::new(&world);
        let active = &scene.pair.active;
        let plain = Buffer::full(&active.pd, 1);
        let mdl = plain.pages.mdl(0, PAGE_SIZE, Buffer::INDEX);
        let lam = mapping(&world.adapter, &mdl, PAGE_SIZE).expect("a mapping");
        let sges = match privileged {
            true => [sge(lam.pages[0].QuadPart.cast_unsigned(), 8, active.pd.privileged_token())],
            false => [plain.sge(0, 8)],
        };
        assert_eq!(active.qp.read(1, &sges, scene.source.base, scene.source.token, INVALIDATE), STATUS_SUCCESS);
        assert_eq!(active.expect(1, STATUS_INVALID_DEVICE_REQUEST).Type, NdkOperationTypeRead);
        scene.pair.assert_aborted();
        assert_eq!(plain.mr.token(), plain.token, "the region is as it was");
        plain.close();
        scene.close();
    }
}

/// A token of another domain is refused before anything is read, and not invalidated.
#[test]
fn another_domains_token_is_safe() {
    let world = World::new();
    let scene = Scene::new(&world);
    let theirs = FastRegion::new(&world.adapter, &scene.pair.passive.pd, 1, true);
    theirs.register(&scene.pair.passive, SINK);
    for length in [0, 8] {
        let pair = Pair::new(&world.adapter);
        let source = Buffer::full(&pair.passive.pd, 1);
        assert_eq!(
            pair.active.qp.read(1, &[theirs.sge(0, length)], source.base, source.token, INVALIDATE),
            STATUS_SUCCESS
        );
        let expected = if length == 0 { STATUS_INVALID_DEVICE_REQUEST } else { STATUS_ACCESS_VIOLATION };
        pair.active.expect(1, expected);
        source.close();
        pair.close();
    }
    theirs.invalidate(&scene.pair.passive);
    theirs.close();
    scene.close();
}

/// A failed read is reported as such; the connection ends.
#[test]
fn a_failed_read_fails_as_ever() {
    let world = World::new();
    let scene = Scene::new(&world);
    scene.sink.register(&scene.pair.active, SINK);
    let address = scene.source.address(2 * PAGE_SIZE - 4);
    let sges = [scene.sink.sge(0, 8)];
    assert_eq!(scene.pair.active.qp.read(1, &sges, address, scene.source.token, INVALIDATE | SILENT), STATUS_SUCCESS);
    scene.pair.active.expect(1, STATUS_REMOTE_RESOURCES);
    scene.pair.assert_aborted();
    scene.close();
}

/// Register, read and invalidate, over and over, without a wait: what the flag is for.
#[test]
fn a_chain_of_reads() {
    let world = World::new();
    let scene = Scene::new(&world);
    let active = &scene.pair.active;
    for round in 0..50u8 {
        scene.source.pages.write(0, &pattern(round, 2 * PAGE_SIZE));
        let quiet = SILENT | NDK_OP_FLAG_DEFER;
        for _ in 0..2 {
            assert_eq!(scene.sink.post(active, 1, SINK | quiet), STATUS_SUCCESS);
            assert_eq!(scene.read(2, 2 * PAGE_SIZE, INVALIDATE | quiet), STATUS_SUCCESS);
        }
        assert_eq!(active.qp.write(3, &[], 0, 0, 0), STATUS_SUCCESS);
        active.expect(3, STATUS_SUCCESS);
        assert_eq!(scene.sink.pages.read(0, 2 * PAGE_SIZE), pattern(round, 2 * PAGE_SIZE));
    }
    scene.assert_invalid();
    scene.close();
}

/// The read completes after the last access by the peer has ended.
#[test]
fn it_waits_for_the_access_under_way() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (active, passive) = (&scene.pair.active, &scene.pair.passive);
    scene.sink.register(active, NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
    let gate = Gate::shut(&scene.sink.pages, 1);
    let sges = [scene.source.sge(0, 8)];
    let address = scene.sink.base + PAGE_SIZE as u64;
    assert_eq!(passive.qp.write(1, &sges, address, scene.sink.mr.token(), 0), STATUS_SUCCESS);
    gate.reached();
    assert_eq!(scene.read(2, 8, INVALIDATE), STATUS_SUCCESS);
    for _ in 0..1000 {
        assert!(active.initiator_cq.poll(1).is_empty());
        thread::yield_now();
    }
    gate.open();
    active.expect(2, STATUS_SUCCESS);
    passive.expect(1, STATUS_SUCCESS);
    assert_eq!(scene.sink.pages.read(0, 8), pattern(9, 8));
    scene.assert_invalid();
    scene.close();
}

/// The flag is a read's only.
#[test]
fn other_requests_do_not_have_the_flag() {
    let world = World::new();
    let scene = Scene::new(&world);
    let qp = &scene.pair.active.qp;
    let mw = scene.pair.active.pd.create_mw().expect("a window");
    let (sink, source) = (&scene.sink, &scene.source);
    let answers = [
        qp.send(1, &[], INVALIDATE),
        qp.send_and_invalidate(1, &[], INVALIDATE, source.token),
        qp.write(1, &[], source.base, source.token, INVALIDATE),
        sink.post(&scene.pair.active, 1, INVALIDATE),
        qp.invalidate(1, &sink.mr, INVALIDATE),
        qp.invalidate_window(1, &mw, INVALIDATE),
    ];
    assert_eq!(answers, [STATUS_INVALID_PARAMETER_4; 6]);
    world.assert_empty(&scene.pair.active.initiator_cq);
    mw.close_now();
    scene.close();
}

/// NDK_OP_FLAG_READ_FENCE on five kinds of requests: each waits for the read before it.
#[test]
fn a_fenced_request_waits_for_the_read() {
    let world = World::new();
    for request in ["register", "bind", "invalidate", "invalidate a window", "write"] {
        let scene = Scene::new(&world);
        let active = &scene.pair.active;
        let (local, mw) = (Buffer::full(&active.pd, 1), active.pd.create_mw().expect("a window"));
        let bind = |context, flags| active.qp.bind(context, &mw, &local.mr, (local.base, 8), flags);
        match request {
            "invalidate" => scene.sink.register(active, SINK),
            "invalidate a window" => {
                assert_eq!(bind(1, 0), STATUS_SUCCESS);
                active.expect(1, STATUS_SUCCESS);
            }
            _ => (),
        }
        let gate = Gate::shut(&scene.source.pages, 0);
        let posted = active.qp.read(2, &[local.sge(0, 8)], scene.source.base, scene.source.token, 0);
        assert_eq!(posted, STATUS_SUCCESS);
        gate.reached();
        let posted = match request {
            "register" => scene.sink.post(active, 3, SINK | FENCE),
            "bind" => bind(3, FENCE),
            "invalidate" => active.qp.invalidate(3, &scene.sink.mr, FENCE),
            "invalidate a window" => active.qp.invalidate_window(3, &mw, FENCE),
            _ => active.qp.write(3, &[local.sge(0, 8)], scene.source.address(PAGE_SIZE), scene.source.token, FENCE),
        };
        assert_eq!(posted, STATUS_SUCCESS);
        for _ in 0..1000 {
            assert!(active.initiator_cq.poll(1).is_empty(), "{request}");
            thread::yield_now();
        }
        gate.open();
        active.expect(2, STATUS_SUCCESS);
        active.expect(3, STATUS_SUCCESS);
        if request == "write" {
            assert_eq!(scene.source.pages.read(PAGE_SIZE, 8), pattern(9, 8), "what the read has fetched");
        }
        mw.close_now();
        local.close();
        scene.close();
    }
}
