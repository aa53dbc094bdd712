//! Fast registration: NdkInitializeFastRegisterMr, NdkFastRegister, NdkInvalidate over logical address mappings.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_DEFER, NDK_OP_FLAG_RDMA_READ_SINK, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeFastRegister,
        NdkOperationTypeInvalidate,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_IMPLEMENTATION_LIMIT,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_REMOTE_RESOURCES,
        STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, FastRegion, Gate, Lam, Options, Pair, Unconnected, World, pattern};

const REMOTE: u32 = NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE;

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
    assert_eq!(qp.fast_register(1, mr, &unaligned, 2 * PAGE_SIZE, base, REMOTE), STATUS_INVALID_PARAMETER);
    assert_eq!(qp.fast_register(1, mr, &region.lam, PAGE_SIZE, base, 0x8000_0000), STATUS_INVALID_PARAMETER_4);
    region.register(&pair.passive, REMOTE);
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

/// Remote and local rights are those of the latest registration.
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

/// Register, use, invalidate, register elsewhere, in one chain without a wait: the order of the queue is enough.
#[test]
fn a_chain_of_registrations() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, true);
    let target = Buffer::full(&pair.passive.pd, 1);
    let token = region.mr.token();
    let (one, two) = (FastRegion::BASE, FastRegion::BASE + 0x10_0000);
    let qp = &pair.active.qp;
    let quiet = NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_DEFER;
    for round in 0..20u8 {
        region.pages.write(0, &pattern(round, 64));
        let at = |base: u64, offset: usize| crate::kit::sge(base + offset as u64, 8, token);
        assert_eq!(qp.fast_register(1, &region.mr, &region.lam, PAGE_SIZE, one, quiet | REMOTE), STATUS_SUCCESS);
        assert_eq!(qp.write(2, &[at(one, 0)], target.address(0), target.token, quiet), STATUS_SUCCESS);
        assert_eq!(qp.invalidate(3, &region.mr, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
        assert_eq!(qp.fast_register(4, &region.mr, &region.lam, PAGE_SIZE, two, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
        assert_eq!(qp.write(5, &[at(two, 8)], target.address(8), target.token, quiet), STATUS_SUCCESS);
        assert_eq!(qp.invalidate(6, &region.mr, 0), STATUS_SUCCESS);
        let results = pair.active.initiator_cq.wait(3);
        let seen: Vec<_> = results.iter().map(|r| (r.RequestContext.addr(), r.Type, r.Status)).collect();
        let expected = [
            (3, NdkOperationTypeInvalidate, STATUS_SUCCESS),
            (4, NdkOperationTypeFastRegister, STATUS_SUCCESS),
            (6, NdkOperationTypeInvalidate, STATUS_SUCCESS),
        ];
        assert_eq!(seen, expected);
        assert_eq!(target.pages.read(0, 16), pattern(round, 64)[..16]);
        assert_eq!(region.mr.token(), token, "consumers may keep it");
    }
    region.close();
    target.close();
    pair.close();
}

/// As long as the queue is deep: what the region keeps for the next registration is not the limit.
#[test]
fn a_long_chain_of_registrations() {
    const ROUNDS: usize = 7;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 4, true);
    let qp = &pair.active.qp;
    for round in 0..ROUNDS {
        let base = FastRegion::BASE + 0x10_0000 * round as u64;
        let status = qp.fast_register(round, &region.mr, &region.lam, 4 * PAGE_SIZE, base, NDK_OP_FLAG_DEFER | REMOTE);
        assert_eq!(status, STATUS_SUCCESS, "round {round}");
        let defer = if round + 1 < ROUNDS { NDK_OP_FLAG_DEFER } else { 0 };
        assert_eq!(qp.invalidate(round, &region.mr, defer), STATUS_SUCCESS);
    }
    let results = pair.active.initiator_cq.wait(2 * ROUNDS);
    assert!(results.iter().all(|result| result.Status == STATUS_SUCCESS));
    region.register(&pair.active, REMOTE);
    region.close();
    pair.close();
}

/// SMB Direct's use: FastRegister and Send without a wait; when the peer has the message the token is good.
#[test]
fn a_registration_posted_before_a_send_is_valid_when_the_send_arrives() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 4, true);
    let local = Buffer::full(&pair.passive.pd, 4);
    for round in 0..50u8 {
        let bytes = pattern(round, 4 * PAGE_SIZE);
        region.pages.write(0, &bytes);
        assert_eq!(pair.passive.qp.receive(1, &[]), STATUS_SUCCESS);
        let flags = NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_ALLOW_REMOTE_READ;
        assert_eq!(region.post(&pair.active, 2, flags), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send(3, &[], NDK_OP_FLAG_SILENT_SUCCESS), STATUS_SUCCESS);
        pair.passive.expect_receive(1, STATUS_SUCCESS);
        let sges = [local.sge(0, 4 * PAGE_SIZE)];
        assert_eq!(pair.passive.qp.read(4, &sges, region.base, region.mr.token(), 0), STATUS_SUCCESS);
        pair.passive.expect(4, STATUS_SUCCESS);
        assert_eq!(local.pages.read(0, 4 * PAGE_SIZE), bytes);
        region.invalidate(&pair.active);
    }
    region.close();
    local.close();
    pair.close();
}

#[test]
fn an_invalidated_token_is_refused() {
    let world = World::new();
    for is_write in [true, false] {
        let pair = Pair::new(&world.adapter);
        let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
        let local = Buffer::full(&pair.active.pd, 1);
        region.register(&pair.passive, REMOTE);
        region.invalidate(&pair.passive);
        let (sges, token) = ([local.sge(0, 1)], region.mr.token());
        let posted = match is_write {
            true => pair.active.qp.write(1, &sges, region.base, token, 0),
            false => pair.active.qp.read(1, &sges, region.base, token, 0),
        };
        assert_eq!(posted, STATUS_SUCCESS);
        pair.active.expect(1, STATUS_ACCESS_VIOLATION);
        pair.assert_aborted();
        region.close();
        local.close();
        pair.close();
    }
}

/// A registration over a valid one, and an invalidation of none, fail by completion and end the connection.
#[test]
fn registering_twice_and_invalidating_twice_fail() {
    let world = World::new();
    for twice in [NdkOperationTypeFastRegister, NdkOperationTypeInvalidate] {
        let pair = Pair::new(&world.adapter);
        let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
        region.register(&pair.passive, REMOTE);
        let posted = if twice == NdkOperationTypeInvalidate {
            region.invalidate(&pair.passive);
            pair.passive.qp.invalidate(9, &region.mr, 0)
        } else {
            region.post(&pair.passive, 9, REMOTE)
        };
        assert_eq!(posted, STATUS_SUCCESS);
        let result = pair.passive.expect(9, STATUS_INVALID_DEVICE_REQUEST);
        assert_eq!(result.Type, twice);
        pair.assert_aborted();
        region.close();
        pair.close();
    }
}

/// NDK_FN_INVALIDATE: a region that was registered with NdkRegisterMr is never invalidated.
#[test]
fn a_plain_region_is_not_invalidated() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let plain = Buffer::full(&pair.passive.pd, 1);
    assert_eq!(pair.passive.qp.invalidate(1, &plain.mr, 0), STATUS_SUCCESS);
    pair.passive.expect(1, STATUS_INVALID_DEVICE_REQUEST);
    assert_eq!(plain.mr.token(), plain.token);
    plain.close();
    pair.close();
}

/// When an invalidation completes, no access by the peer is under way any more.
#[test]
fn invalidate_waits_for_the_access_under_way() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 2, true);
    region.register(&pair.passive, REMOTE);
    let local = Buffer::full(&pair.active.pd, 2);
    let gate = Gate::shut(&region.pages, 1);
    let sges = [local.sge(0, 2 * PAGE_SIZE)];
    assert_eq!(pair.active.qp.write(1, &sges, region.base, region.mr.token(), 0), STATUS_SUCCESS);
    gate.reached();
    assert_eq!(pair.passive.qp.invalidate(2, &region.mr, 0), STATUS_SUCCESS);
    for _ in 0..1000 {
        assert!(pair.passive.initiator_cq.poll(1).is_empty());
        thread::yield_now();
    }
    gate.open();
    pair.passive.expect(2, STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    region.close();
    local.close();
    pair.close();
}

/// What a flushed registration held is free again: more rounds than a region has room for.
#[test]
fn flushed_registrations_give_back_what_they_held() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, true);
    for _ in 0..8 {
        // Behind a send that nobody receives.
        assert_eq!(pair.active.qp.send(1, &[], 0), STATUS_SUCCESS);
        assert_eq!(region.post(&pair.active, 2, REMOTE), STATUS_SUCCESS);
        pair.active.qp.flush();
        let seen: Vec<_> =
            pair.active.initiator_cq.wait(2).iter().map(|r| (r.RequestContext.addr(), r.Status)).collect();
        assert_eq!(seen, [(1, STATUS_CANCELLED), (2, STATUS_CANCELLED)]);
    }
    region.register(&pair.active, REMOTE);
    region.close();
    pair.close();
}

#[test]
fn initialize_again_while_registered_is_refused() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, false);
    region.register(&pair.active, 0);
    assert_eq!(region.mr.initialize_fast(4, true).wait(), STATUS_INVALID_DEVICE_REQUEST);
    region.invalidate(&pair.active);
    let token = region.mr.token();
    region.mr.initialize_fast(4, true).succeed();
    assert_eq!(region.mr.token(), token);
    region.register(&pair.active, REMOTE);
    region.close();
    pair.close();
}

/// NDK_FN_INITIALIZE_FAST_REGISTER_MR: as often as one likes, also at the same time. The token is one and the same, and one of
/// the calls is the last.
#[test]
fn initialize_in_parallel() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 3, true);
    let (token, mr) = (region.mr.token(), region.mr);
    thread::scope(|scope| {
        for pages in 1..3 {
            scope.spawn(move || {
                for _ in 0..200 {
                    mr.initialize_fast(pages, true).succeed();
                    assert_eq!(mr.token(), token);
                }
            });
        }
    });
    let refused = region.post(&pair.active, 1, REMOTE);
    assert_eq!(refused, STATUS_IMPLEMENTATION_LIMIT, "of three pages, which nobody asked for last");
    mr.initialize_fast(3, true).succeed();
    region.register(&pair.active, REMOTE);
    region.close();
    pair.close();
}

/// Registering and invalidating allocate nothing.
#[test]
fn the_cycle_allocates_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 16, true);
    let before = world.session.ledger().allocation_count;
    for _ in 0..50 {
        region.register(&pair.active, REMOTE);
        region.invalidate(&pair.active);
    }
    assert_eq!(world.session.ledger().allocation_count, before);
    region.close();
    pair.close();
}
