//! Fast registration: registrations, invalidations and what uses the region, one after the other. `fast_register.rs` has what one
//! registration is.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeFastRegister,
        NdkOperationTypeInvalidate,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_IMPLEMENTATION_LIMIT, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};

use crate::fast_register::REMOTE;
use crate::kit::{Buffer, FastRegion, Gate, HeldProcessors, Lam, Pair, World, pattern};

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
// Shows S505.
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

// Shows S605.
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

/// An invalidation completes after the last access by the peer has ended.
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
        // The registration waits behind a send, for which the peer has no receive.
        assert_eq!(pair.active.qp.send(1, &[], 0), STATUS_SUCCESS);
        assert_eq!(region.post(&pair.active, 2, REMOTE), STATUS_SUCCESS);
        pair.active.qp.flush();
        let seen: Vec<_> =
            pair.active.initiator_cq.wait(2).iter().map(|r| (r.RequestContext.addr(), r.Status)).collect();
        assert_eq!(seen, [(1, STATUS_CANCELLED), (2, STATUS_CANCELLED)]);
    }
    // So the next post needs no memory.
    let fault = world.session.fail_allocation(1);
    region.register(&pair.active, REMOTE);
    drop(fault);
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

/// The limit of the last initialisation counts, also if a registration was posted before it.
#[test]
fn initialize_again_behind_a_posted_registration() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let qp = &pair.active.qp;
    for (before, after) in [(1, 4), (4, 1)] {
        let region = FastRegion::new(&world.adapter, &pair.active.pd, before, true);
        let other = FastRegion::new(&world.adapter, &pair.active.pd, 5, true);
        let post = |context, pages: usize| {
            let lam = Lam { pages: other.lam.pages[..pages].to_vec(), first_byte_offset: 0 };
            qp.fast_register(context, &region.mr, &lam, pages * PAGE_SIZE, other.base, REMOTE)
        };
        let held = HeldProcessors::new();
        assert_eq!(region.post(&pair.active, 0, REMOTE), STATUS_SUCCESS);
        assert_eq!(qp.invalidate(1, &region.mr, 0), STATUS_SUCCESS);
        region.mr.initialize_fast(after as u32, true).succeed();
        assert_eq!(post(2, after), STATUS_SUCCESS);
        assert_eq!(qp.invalidate(3, &region.mr, 0), STATUS_SUCCESS);
        drop(held);
        (0..4).for_each(|context| _ = pair.active.expect(context, STATUS_SUCCESS));
        for _ in 0..3 {
            assert_eq!(post(4, after + 1), STATUS_IMPLEMENTATION_LIMIT, "{after} pages");
            assert_eq!(post(4, after), STATUS_SUCCESS, "{after} pages");
            pair.active.expect(4, STATUS_SUCCESS);
            region.invalidate(&pair.active);
        }
        region.close();
        other.close();
    }
    pair.close();
}

/// NDK_FN_INITIALIZE_FAST_REGISTER_MR: a consumer may call it any number of times, also in parallel. The token stays, and the last call
/// sets the limit.
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
// Shows S507.
#[test]
fn the_cycle_allocates_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 16, true);
    // The listener allocates for the next connection of another machine.
    world.flush_dpcs();
    let before = world.session.ledger().allocation_count;
    for _ in 0..50 {
        region.register(&pair.active, REMOTE);
        region.invalidate(&pair.active);
    }
    assert_eq!(world.session.ledger().allocation_count, before);
    region.close();
    pair.close();
}
