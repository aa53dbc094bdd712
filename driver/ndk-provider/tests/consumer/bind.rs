//! NdkBind: what a bound window shows the peer, and what is refused. `mw.rs` has the life of windows.

use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_READ, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_INLINE,
        NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NdkOperationTypeBind,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CONNECTION_INVALID, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, Mw, Options, Pair, Unconnected, World, pattern, sge};

pub(crate) const READ: u32 = NDK_OP_FLAG_ALLOW_REMOTE_READ;
pub(crate) const WRITE: u32 = NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
pub(crate) const REMOTE: u32 = READ | WRITE;

/// A pair whose passive side has a region that only windows show the peer, and a window. The active side is the peer.
pub(crate) struct Scene {
    pub(crate) pair: Pair,
    pub(crate) region: Buffer,
    pub(crate) mw: Mw,
    /// The peer's memory.
    pub(crate) local: Buffer,
}

impl Scene {
    pub(crate) const PAGES: usize = 2;

    pub(crate) fn new(world: &World) -> Self {
        Self::over(world, NDK_MR_FLAG_ALLOW_LOCAL_WRITE)
    }

    /// The region is registered with `flags`.
    fn over(world: &World, flags: u32) -> Self {
        let pair = Pair::new(&world.adapter);
        let region = Buffer::new(&pair.passive.pd, Self::PAGES, flags);
        let mw = pair.passive.pd.create_mw().expect("a window");
        let local = Buffer::full(&pair.active.pd, Self::PAGES);
        Self { pair, region, mw, local }
    }

    /// Posts a bind of `length` bytes from `offset` on.
    pub(crate) fn post(&self, context: usize, offset: usize, length: usize, flags: u32) -> NTSTATUS {
        self.pair.passive.qp.bind(context, &self.mw, &self.region.mr, (self.region.address(offset), length), flags)
    }

    /// Binds and waits; gives the token.
    #[track_caller]
    pub(crate) fn bind(&self, offset: usize, length: usize, flags: u32) -> u32 {
        assert_eq!(self.post(0xB1, offset, length, flags), STATUS_SUCCESS);
        assert_eq!(self.pair.passive.expect(0xB1, STATUS_SUCCESS).Type, NdkOperationTypeBind);
        self.mw.token()
    }

    /// The peer writes `length` bytes to `offset` of the region.
    #[track_caller]
    pub(crate) fn write(&self, offset: usize, length: usize, token: u32) -> NTSTATUS {
        let sges = [self.local.sge(0, length)];
        assert_eq!(self.pair.active.qp.write(0x11, &sges, self.region.address(offset), token, 0), STATUS_SUCCESS);
        self.pair.active.initiator_cq.wait_one().Status
    }

    /// The peer reads `length` bytes from `offset` of the region.
    #[track_caller]
    pub(crate) fn read(&self, offset: usize, length: usize, token: u32) -> NTSTATUS {
        let sges = [self.local.sge(PAGE_SIZE, length)];
        assert_eq!(self.pair.active.qp.read(0x12, &sges, self.region.address(offset), token, 0), STATUS_SUCCESS);
        self.pair.active.initiator_cq.wait_one().Status
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.mw.close_now();
        self.region.close();
        self.local.close();
        self.pair.close();
    }
}

/// The peer reads and writes what the window shows, in place, by the addresses of the region.
// Shows S601.
#[test]
fn the_peer_reaches_the_part() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(100, PAGE_SIZE, REMOTE);
    let bytes = pattern(3, PAGE_SIZE);
    scene.local.pages.write(0, &bytes);
    assert_eq!(scene.write(100, PAGE_SIZE, token), STATUS_SUCCESS);
    assert_eq!(scene.region.pages.read(100, PAGE_SIZE), bytes);
    assert_eq!(scene.region.pages.read(0, 100), [0; 100]);
    assert_eq!(scene.read(300, 500, token), STATUS_SUCCESS);
    assert_eq!(scene.local.pages.read(PAGE_SIZE, 500), bytes[200..700]);
    // The peer has read and written by the window's token: the region's own token gives it no rights.
    assert_eq!(scene.read(300, 500, scene.region.token), STATUS_ACCESS_VIOLATION);
    scene.close();
}

/// To the byte, on both ends; a read outside is REMOTE_RESOURCES (NDK_FN_READ).
// Shows S601.
#[test]
fn the_part_has_two_ends() {
    let world = World::new();
    for (offset, length, inside) in [
        (100, 50, true),
        (149, 1, true),
        (100, 0, true),
        (99, 1, false),
        (149, 2, false),
        (150, 1, false),
        (0, 8, false),
    ] {
        for is_write in [true, false] {
            let scene = Scene::new(&world);
            let token = scene.bind(100, 50, REMOTE);
            let (status, outside) = match is_write {
                true => (scene.write(offset, length, token), STATUS_ACCESS_VIOLATION),
                false => (scene.read(offset, length, token), STATUS_REMOTE_RESOURCES),
            };
            assert_eq!(status, if inside { STATUS_SUCCESS } else { outside }, "{length} bytes at {offset}");
            if !inside {
                scene.pair.assert_aborted();
            }
            scene.close();
        }
    }
}

// Shows S601.
#[test]
fn rights_are_those_of_the_bind() {
    let world = World::new();
    for (flags, may_read, may_write) in
        [(0, false, false), (READ, true, false), (WRITE, false, true), (REMOTE, true, true)]
    {
        for is_write in [true, false] {
            let scene = Scene::new(&world);
            // An earlier bind with all rights leaves nothing behind.
            scene.bind(0, 64, REMOTE);
            let token = scene.bind(0, 64, flags);
            let status = if is_write { scene.write(0, 8, token) } else { scene.read(0, 8, token) };
            let allowed = if is_write { may_write } else { may_read };
            assert_eq!(status, if allowed { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION }, "flags {flags:#x}");
            scene.close();
        }
    }
}

/// NDK_FN_BIND: ACCESS_VIOLATION if the region lacks the right: a remote write needs local write, a remote read nothing.
#[test]
fn remote_write_needs_local_write() {
    let world = World::new();
    let scene = Scene::over(&world, NDK_MR_FLAG_ALLOW_LOCAL_READ);
    assert_eq!(scene.post(1, 0, 8, WRITE), STATUS_ACCESS_VIOLATION);
    assert_eq!(scene.post(1, 0, 8, REMOTE), STATUS_ACCESS_VIOLATION);
    assert_eq!(scene.mw.token(), 0, "a refused bind gives no token");
    let token = scene.bind(0, 8, READ);
    assert_eq!(scene.read(0, 8, token), STATUS_SUCCESS);
    scene.close();
}

/// What does not fit is refused inline; neither the queue pair, the window nor its token suffers.
#[test]
fn what_does_not_fit_is_refused_inline() {
    let world = World::new();
    let scene = Scene::new(&world);
    let token = scene.bind(0, 64, REMOTE);
    let all = Scene::PAGES * PAGE_SIZE;
    let before = 0usize.wrapping_sub(1);
    for (offset, length, expected) in [
        (0, 0, STATUS_INVALID_PARAMETER),
        (0, all + 1, STATUS_ACCESS_VIOLATION),
        (all - 1, 2, STATUS_ACCESS_VIOLATION),
        (all, 1, STATUS_ACCESS_VIOLATION),
        (0, usize::MAX, STATUS_INVALID_PARAMETER),
    ] {
        assert_eq!(scene.post(1, offset, length, REMOTE), expected, "{length} at {offset}");
    }
    let (qp, mw, mr) = (&scene.pair.passive.qp, &scene.mw, &scene.region.mr);
    assert_eq!(qp.bind(1, mw, mr, (scene.region.base - 1, 2), REMOTE), STATUS_ACCESS_VIOLATION);
    assert_eq!(qp.bind(1, mw, mr, (before as u64, 1), REMOTE), STATUS_INVALID_PARAMETER);
    for flags in [
        0x1000_0000,
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
        0x20,
        NDK_OP_FLAG_INLINE,
        NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
        NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
    ] {
        assert_eq!(scene.post(1, 0, 8, flags), STATUS_INVALID_PARAMETER_4, "flags {flags:#x}");
    }
    assert_eq!(scene.mw.token(), token);
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    world.assert_empty(&scene.pair.passive.initiator_cq);
    scene.bind(0, all, REMOTE);
    scene.close();
}

/// Window, region and queue pair are of one domain.
#[test]
fn everything_is_of_one_domain() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (ours, theirs) = (&scene.pair.passive, &scene.pair.active);
    let strange = theirs.pd.create_mw().expect("a window");
    let (part, mw, mr) = ((scene.region.base, 8), &scene.mw, &scene.region.mr);
    assert_eq!(ours.qp.bind(1, &strange, mr, part, READ), STATUS_ACCESS_VIOLATION);
    assert_eq!(ours.qp.bind(1, mw, &scene.local.mr, part, READ), STATUS_ACCESS_VIOLATION);
    assert_eq!(theirs.qp.bind(1, mw, mr, part, READ), STATUS_ACCESS_VIOLATION);
    assert_eq!(ours.qp.bind(1, mw, mr, part, READ), STATUS_SUCCESS);
    ours.expect(1, STATUS_SUCCESS);
    strange.close_now();
    scene.close();
}

#[test]
fn it_needs_a_connection_and_a_registered_region() {
    let world = World::new();
    let scene = Scene::new(&world);
    let empty = scene.pair.passive.pd.create_mr(false).expect("a region");
    let part = (scene.region.base, 8);
    assert_eq!(scene.pair.passive.qp.bind(1, &scene.mw, &empty, part, 0), STATUS_INVALID_DEVICE_REQUEST);
    let stranger = Unconnected::new(&world.adapter, 1, Options::default());
    let (mw, mr) = (stranger.pd.create_mw().expect("a window"), Buffer::full(&stranger.pd, 1));
    assert_eq!(stranger.qp.bind(1, &mw, &mr.mr, (mr.base, 8), READ), STATUS_CONNECTION_INVALID);
    assert_eq!(mw.token(), 0);
    world.assert_empty(&stranger.initiator_cq);
    mw.close_now();
    mr.close();
    stranger.close();
    empty.close_now();
    scene.close();
}

/// A window belongs to the queue pair that bound it (InfiniBand's type 2): the peer of another queue pair in the domain has no access.
// Shows S603, T28.
#[test]
fn a_window_is_of_its_queue_pair() {
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
    let local = Buffer::full(&other.active.pd, 1);
    assert_eq!(other.active.qp.write(1, &[local.sge(0, 1)], scene.region.base, token, 0), STATUS_SUCCESS);
    other.active.expect(1, STATUS_ACCESS_VIOLATION);
    assert_eq!(scene.write(0, 64, token), STATUS_SUCCESS);
    local.close();
    other.active.close();
    other.passive.connector.close_now();
    other.passive.qp.close_now();
    other.listener.close_now();
    scene.close();
}

/// Several windows over one region, overlapping, each with its own part and rights.
#[test]
fn windows_overlap() {
    let world = World::new();
    let scene = Scene::new(&world);
    let second = scene.pair.passive.pd.create_mw().expect("a window");
    let token = scene.bind(0, 100, READ);
    let part = (scene.region.address(50), 100);
    assert_eq!(scene.pair.passive.qp.bind(2, &second, &scene.region.mr, part, WRITE), STATUS_SUCCESS);
    scene.pair.passive.expect(2, STATUS_SUCCESS);
    assert_ne!(second.token(), token);
    assert_eq!(scene.read(0, 100, token), STATUS_SUCCESS);
    assert_eq!(scene.write(50, 100, second.token()), STATUS_SUCCESS);
    assert_eq!(scene.read(50, 10, second.token()), STATUS_ACCESS_VIOLATION);
    second.close_now();
    scene.close();
}

/// A window token is the peer's only: no SGE may name it.
#[test]
fn a_window_has_no_local_token() {
    let world = World::new();
    for receives in [true, false] {
        let scene = Scene::new(&world);
        let token = scene.bind(0, 64, REMOTE);
        let (sges, passive) = ([sge(scene.region.base, 8, token)], &scene.pair.passive);
        if receives {
            assert_eq!(passive.qp.receive(1, &sges), STATUS_SUCCESS);
            assert_eq!(scene.pair.active.qp.send(2, &[scene.local.sge(0, 8)], 0), STATUS_SUCCESS);
            passive.expect_receive(1, STATUS_ACCESS_VIOLATION);
        } else {
            assert_eq!(passive.qp.send(1, &sges, 0), STATUS_SUCCESS);
            passive.expect(1, STATUS_ACCESS_VIOLATION);
        }
        scene.close();
    }
}
