//! Fast registration: NdkInitializeFastRegisterMr, NdkFastRegister, NdkInvalidate over logical address mappings.

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_RDMA_READ_SINK,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CONNECTION_INVALID, STATUS_IMPLEMENTATION_LIMIT, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, FastRegion, Lam, Options, Pair, Unconnected, World, pattern};

pub(crate) const REMOTE: u32 = NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE;

/// Pages in any order, a first byte offset, a made-up base address: the region is what they say, to the byte.
#[test]
fn a_region_is_its_page_list() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (offset, length) = (700, 2 * PAGE_SIZE + 100);
    let mut region = FastRegion::at(&world.adapter, &pair.passive.pd, 4, offset, length, true);
    assert_eq!(region.lam.pages.len(), 3);
    region.lam.pages.swap(1, 2);
    region.register(&pair.passive, REMOTE);
    let local = Buffer::full(&pair.active.pd, 4);
    let bytes = pattern(5, length);
    local.pages.write(0, &bytes);
    let token = region.mr.token();
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, length)], region.base, token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    let first = PAGE_SIZE - offset;
    assert_eq!(region.pages.read(0, offset), vec![0; offset]);
    assert_eq!(region.pages.read(offset, first), bytes[..first]);
    assert_eq!(region.pages.read(2 * PAGE_SIZE, PAGE_SIZE), bytes[first..first + PAGE_SIZE]);
    let rest = length - first - PAGE_SIZE;
    assert_eq!(region.pages.read(PAGE_SIZE, rest), bytes[first + PAGE_SIZE..]);
    assert_eq!(region.pages.read(PAGE_SIZE + rest, 1), [0]);
    let sges = [local.sge(PAGE_SIZE, length - 3)];
    assert_eq!(pair.active.qp.read(2, &sges, region.base + 3, token, 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(local.pages.read(PAGE_SIZE, length - 3), bytes[3..]);
    // The length is less than the pages hold: one byte more is outside.
    assert_eq!(pair.active.qp.read(3, &[local.sge(0, 1)], region.base + length as u64, token, 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_REMOTE_RESOURCES);
    region.close();
    local.close();
    pair.close();
}

/// Pages that follow each other in the region only: a small send from, and into, the end of one and the beginning of the next.
#[test]
fn small_sends_across_two_pages() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let regions = [&pair.active, &pair.passive].map(|side| {
        let mut region = FastRegion::new(&world.adapter, &side.pd, 3, false);
        region.lam.pages.swap(1, 2);
        region.register(side, NDK_OP_FLAG_ALLOW_LOCAL_WRITE);
        region
    });
    let [from, to] = &regions;
    let bytes = pattern(9, 32);
    from.pages.write(PAGE_SIZE - 16, &bytes[..16]);
    from.pages.write(2 * PAGE_SIZE, &bytes[16..]);
    for (context, length) in [(1, 32), (2, 24)] {
        assert_eq!(pair.passive.qp.receive(context, &[to.sge(PAGE_SIZE - 16, 32)]), STATUS_SUCCESS);
        let sges = [from.sge(PAGE_SIZE - 16, length)];
        assert_eq!(pair.active.qp.send(context, &sges, 0), STATUS_SUCCESS);
        pair.active.expect(context, STATUS_SUCCESS);
        pair.passive.expect_receive(context, STATUS_SUCCESS);
        let placed = [to.pages.read(PAGE_SIZE - 16, 16), to.pages.read(2 * PAGE_SIZE, length - 16)].concat();
        assert_eq!(placed, bytes[..length]);
        to.pages.write(PAGE_SIZE - 16, &[0; 16]);
    }
    regions.into_iter().for_each(FastRegion::close);
    pair.close();
}

#[test]
fn initialize_is_limited() {
    let world = World::new();
    let most = world.adapter.info().FRMRPageCount;
    let pd = world.adapter.create_pd().expect("a PD");
    let mr = pd.create_mr(true).expect("an MR");
    assert_eq!(mr.initialize_fast(most + 1, true).wait(), STATUS_IMPLEMENTATION_LIMIT);
    assert_eq!(mr.initialize_fast(u32::MAX, true).wait(), STATUS_IMPLEMENTATION_LIMIT);
    assert_eq!(mr.token(), 0);
    mr.initialize_fast(most, true).succeed();
    assert_ne!(mr.token(), 0);
    mr.close_now();
    pd.close_now();
}

/// What does not fit is refused inline, and neither the queue pair nor the region suffers.
#[test]
fn what_does_not_fit_is_refused_inline() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 4, true);
    let (qp, mr) = (&pair.passive.qp, &region.mr);
    let page = PAGE_SIZE as u64;
    let lam = |pages: usize, offset: u32| Lam {
        pages: region.lam.pages.iter().copied().cycle().take(pages).collect(),
        first_byte_offset: offset,
    };
    let base = FastRegion::BASE;
    for (mapping, length, address, expected) in [
        (lam(4, 0), 4 * PAGE_SIZE + 1, base, STATUS_INVALID_PARAMETER),
        (lam(4, 1), 4 * PAGE_SIZE, base + 1, STATUS_INVALID_PARAMETER),
        (lam(4, 0), 0, base, STATUS_INVALID_PARAMETER),
        (lam(0, 0), 1, base, STATUS_INVALID_PARAMETER),
        (lam(4, 0), PAGE_SIZE, base + 1, STATUS_INVALID_PARAMETER),
        (lam(4, 1), PAGE_SIZE, base, STATUS_INVALID_PARAMETER),
        (lam(4, PAGE_SIZE as u32), PAGE_SIZE, base, STATUS_INVALID_PARAMETER),
        (lam(4, 0), PAGE_SIZE, 0u64.wrapping_sub(page), STATUS_INVALID_PARAMETER),
        (lam(5, 0), PAGE_SIZE, base, STATUS_IMPLEMENTATION_LIMIT),
    ] {
        assert_eq!(qp.fast_register(1, mr, &mapping, length, address, REMOTE), expected, "{length} at {address:#x}");
    }
    let mut unaligned = lam(2, 0);
    unaligned.pages[1].QuadPart += 8;
    for _ in 0..2 {
        assert_eq!(qp.fast_register(1, mr, &unaligned, 2 * PAGE_SIZE, base, REMOTE), STATUS_INVALID_PARAMETER);
    }
    assert_eq!(qp.fast_register(1, mr, &region.lam, PAGE_SIZE, base, 0x8000_0000), STATUS_INVALID_PARAMETER_4);
    // What was refused has used up nothing that the initialisation allocated.
    let fault = world.session.fail_allocation(1);
    region.register(&pair.passive, REMOTE);
    assert!(!fault.happened());
    drop(fault);
    region.invalidate(&pair.passive);
    world.assert_empty(&pair.passive.initiator_cq);
    region.close();
    pair.close();
}

#[test]
fn it_needs_a_connection_and_an_initialised_fast_region() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    let raw = pair.passive.pd.create_mr(true).expect("an MR");
    let plain = Buffer::full(&pair.passive.pd, 1);
    let qp = &pair.passive.qp;
    for mr in [&raw, &plain.mr] {
        let refused = qp.fast_register(1, mr, &region.lam, PAGE_SIZE, region.base, 0);
        assert_eq!(refused, STATUS_INVALID_DEVICE_REQUEST);
    }
    let stranger = Unconnected::new(&world.adapter, 1, Options::default());
    let theirs = FastRegion::new(&world.adapter, &stranger.pd, 1, true);
    let refused = stranger.qp.fast_register(1, &theirs.mr, &theirs.lam, PAGE_SIZE, theirs.base, 0);
    assert_eq!(refused, STATUS_CONNECTION_INVALID);
    assert_eq!(stranger.qp.invalidate(1, &theirs.mr, 0), STATUS_CONNECTION_INVALID);
    region.register(&pair.passive, REMOTE);
    theirs.close();
    stranger.close();
    raw.close_now();
    plain.close();
    region.close();
    pair.close();
}

/// NDK_FN_FAST_REGISTER: ACCESS_VIOLATION if a remote right is asked for without RemoteAccess at the initialisation.
// Shows S506.
#[test]
fn remote_rights_without_remote_access_are_refused() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, false);
    for flags in [NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, REMOTE] {
        assert_eq!(region.post(&pair.passive, 1, flags), STATUS_ACCESS_VIOLATION);
    }
    region.register(&pair.passive, NDK_OP_FLAG_ALLOW_LOCAL_WRITE);
    let local = Buffer::full(&pair.active.pd, 1);
    assert_eq!(pair.active.qp.write(2, &[local.sge(0, 1)], region.base, region.mr.token(), 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_ACCESS_VIOLATION);
    local.close();
    region.close();
    pair.close();
}

/// The latest registration gives the remote and local rights.
// Shows S506.
#[test]
fn rights_are_those_of_the_registration() {
    let write = NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    let read = NDK_OP_FLAG_ALLOW_REMOTE_READ;
    for (flags, may_write, may_read, may_receive) in [
        (0, false, false, false),
        (NDK_OP_FLAG_ALLOW_LOCAL_WRITE, false, false, true),
        (NDK_OP_FLAG_RDMA_READ_SINK, false, false, true),
        (read, false, true, false),
        (write, true, false, true),
        (REMOTE, true, true, true),
    ] {
        for operation in 0..3 {
            let world = World::new();
            let pair = Pair::new(&world.adapter);
            let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
            // An earlier registration with all rights leaves nothing behind.
            region.register(&pair.passive, REMOTE);
            region.invalidate(&pair.passive);
            region.register(&pair.passive, flags);
            let local = Buffer::full(&pair.active.pd, 1);
            let (sges, token) = ([local.sge(0, 8)], region.mr.token());
            let (posted, allowed) = match operation {
                0 => (pair.active.qp.write(1, &sges, region.base, token, 0), may_write),
                1 => (pair.active.qp.read(1, &sges, region.base, token, 0), may_read),
                _ => {
                    assert_eq!(pair.passive.qp.receive(2, &[region.sge(0, 8)]), STATUS_SUCCESS);
                    (pair.active.qp.send(1, &sges, 0), may_receive)
                }
            };
            assert_eq!(posted, STATUS_SUCCESS);
            let done = pair.active.initiator_cq.wait_one().Status == STATUS_SUCCESS;
            assert_eq!(done, allowed, "flags {flags:#x}, operation {operation}");
            local.close();
            region.close();
            pair.close();
        }
    }
}

/// Consumers make the base address up: 0 will do, of which one statement of the page says no and another yes.
#[test]
fn the_base_may_be_0() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let mut region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    region.base = 0;
    region.register(&pair.passive, REMOTE);
    let local = Buffer::full(&pair.active.pd, 1);
    local.pages.write(0, b"zero");
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, 4)], 0, region.mr.token(), 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(region.pages.read(0, 4), b"zero");
    local.close();
    region.close();
    pair.close();
}
