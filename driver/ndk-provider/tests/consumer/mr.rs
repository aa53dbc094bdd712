//! NDK_MR: registration of MDL chains, rights, and its end.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_READ, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ,
        NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_MR_FLAG_RDMA_READ_SINK,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_DATA_ERROR, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_INVALID_PARAMETER, STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};
use simkernel::{Pages, seeds};

use crate::kit::{Buffer, Gate, Pair, World, pattern, sge};

/// The virtual address of an MDL is an index only: the data is in the pages of each link, wherever they are.
#[test]
fn a_chain_is_one_region() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    // Three allocations that are far from each other, contiguous by their index, with an empty link between two.
    let (one, two, three) = (Pages::new(1), Pages::new(2), Pages::new(1));
    let index = Buffer::INDEX;
    let chain = one.mdl(100, PAGE_SIZE - 100, index).chain(one.mdl(0, 0, 0));
    let chain = chain.chain(two.mdl(0, 2 * PAGE_SIZE, index + PAGE_SIZE as u64));
    let chain = chain.chain(three.mdl(0, 50, index + 3 * PAGE_SIZE as u64));
    let length = 3 * PAGE_SIZE - 100 + 50;
    let mr = pair.passive.pd.create_mr(false).expect("an MR");
    let flags = NDK_MR_FLAG_ALLOW_REMOTE_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_READ;
    mr.register(&chain, length, flags).succeed();

    let source = Buffer::full(&pair.active.pd, 8);
    let bytes = pattern(1, length);
    source.pages.write(0, &bytes);
    let base = chain.virtual_address();
    assert_eq!(base, index + 100);
    assert_eq!(pair.active.qp.write(1, &[source.sge(0, length)], base, mr.token(), 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    let (first, second) = (PAGE_SIZE - 100, 3 * PAGE_SIZE - 100);
    assert_eq!(one.read(100, PAGE_SIZE - 100), bytes[..first]);
    assert_eq!(two.read(0, 2 * PAGE_SIZE), bytes[first..second]);
    assert_eq!(three.read(0, 60), [&bytes[second..], &[0; 10]].concat(), "nothing is written past the end");

    // Across both borders, to a place across a border of its own.
    let (from, count) = (first - 10, 2 * PAGE_SIZE + 20);
    let sges = [source.sge(5 * PAGE_SIZE - 7, count)];
    assert_eq!(pair.active.qp.read(2, &sges, base + from as u64, mr.token(), 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(source.pages.read(5 * PAGE_SIZE - 7, count), bytes[from..from + count]);
    source.close();
    mr.deregister().succeed();
    mr.close_now();
    pair.close();
}

#[test]
fn register_refuses_what_is_not_contiguous_or_too_short_or_unknown() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mr = pd.create_mr(false).expect("an MR");
    let pages = Pages::new(3);
    let whole = pages.mdl(0, pages.size(), Buffer::INDEX);
    for length in [0, pages.size() + 1, usize::MAX] {
        assert_eq!(mr.register(&whole, length, 0).wait(), STATUS_INVALID_PARAMETER);
    }
    let hole = pages.mdl(0, PAGE_SIZE, Buffer::INDEX).chain(pages.mdl(2 * PAGE_SIZE, PAGE_SIZE, Buffer::INDEX));
    assert_eq!(mr.register(&hole, 2 * PAGE_SIZE, 0).wait(), STATUS_INVALID_PARAMETER);
    let inside = pages.mdl(0, 100, Buffer::INDEX).chain(pages.mdl(101, 100, Buffer::INDEX));
    assert_eq!(mr.register(&inside, 200, 0).wait(), STATUS_INVALID_PARAMETER);
    let empty = pages.mdl(0, 0, Buffer::INDEX);
    assert_eq!(mr.register(&empty, 1, 0).wait(), STATUS_INVALID_PARAMETER);
    for unknown in [0x10, 0x8000_0000] {
        assert_eq!(mr.register(&whole, PAGE_SIZE, unknown).wait(), STATUS_INVALID_PARAMETER);
    }
    // The part before the hole will do.
    mr.register(&hole, PAGE_SIZE, 0).succeed();
    mr.close_now();
    pd.close_now();
}

#[test]
fn register_without_memory_leaves_no_trace() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mr = pd.create_mr(false).expect("an MR");
    let pages = Pages::new(2);
    let mdl = pages.mdl(0, pages.size(), Buffer::INDEX);
    let fault = world.session.fail_mapping(1);
    assert_eq!(mr.register(&mdl, pages.size(), 0).wait(), STATUS_INSUFFICIENT_RESOURCES);
    assert!(fault.happened());
    drop(fault);
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let status = mr.register(&mdl, pages.size(), 0).wait();
        if !fault.happened() {
            assert_eq!(status, STATUS_SUCCESS);
            break;
        }
        assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES);
        assert_eq!(mr.token(), 0);
    }
    mr.deregister().succeed();
    mr.close_now();
    pd.close_now();
}

#[test]
fn a_region_is_registered_once_at_a_time() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let mr = pd.create_mr(false).expect("an MR");
    let pages = Pages::new(1);
    let mdl = pages.mdl(0, PAGE_SIZE, Buffer::INDEX);
    assert_eq!(mr.token(), 0, "no token before");
    assert_eq!(mr.deregister().wait(), STATUS_INVALID_DEVICE_REQUEST);
    mr.register(&mdl, PAGE_SIZE, 0).succeed();
    let token = mr.token();
    assert_eq!(mr.register(&mdl, PAGE_SIZE, 0).wait(), STATUS_INVALID_DEVICE_REQUEST);
    assert_eq!(mr.token(), token, "the refused registration changes nothing");
    mr.deregister().succeed();
    assert_eq!(mr.token(), 0);
    mr.register(&mdl, PAGE_SIZE, 0).succeed();
    assert_ne!(mr.token(), token, "a stale token does not reach the new registration");
    // A close ends a registration too.
    mr.close_now();
    pd.close_now();
}

#[test]
fn the_two_kinds_of_region_do_not_mix() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let (plain, fast) = (pd.create_mr(false).expect("an MR"), pd.create_mr(true).expect("an MR"));
    let pages = Pages::new(1);
    let mdl = pages.mdl(0, PAGE_SIZE, Buffer::INDEX);
    assert!(!fast.register(&mdl, PAGE_SIZE, 0).wait().is_success());
    assert!(!fast.deregister().wait().is_success());
    assert!(!plain.initialize_fast(1, true).wait().is_success());
    plain.close_now();
    fast.close_now();
    pd.close_now();
}

/// What the requester gets for a write and for a read, by the region's rights.
// Shows S501.
#[test]
fn remote_rights() {
    let writable = NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
    let readable = NDK_MR_FLAG_ALLOW_REMOTE_READ;
    for (flags, write, read) in [
        (NDK_MR_FLAG_ALLOW_LOCAL_READ, STATUS_ACCESS_VIOLATION, STATUS_ACCESS_VIOLATION),
        (NDK_MR_FLAG_ALLOW_LOCAL_WRITE, STATUS_ACCESS_VIOLATION, STATUS_ACCESS_VIOLATION),
        (NDK_MR_FLAG_RDMA_READ_SINK, STATUS_ACCESS_VIOLATION, STATUS_ACCESS_VIOLATION),
        (writable, STATUS_SUCCESS, STATUS_ACCESS_VIOLATION),
        (readable, STATUS_ACCESS_VIOLATION, STATUS_SUCCESS),
        (readable | NDK_MR_FLAG_ALLOW_LOCAL_WRITE, STATUS_ACCESS_VIOLATION, STATUS_SUCCESS),
        (readable | writable, STATUS_SUCCESS, STATUS_SUCCESS),
    ] {
        for (is_write, expected) in [(true, write), (false, read)] {
            let world = World::new();
            let pair = Pair::new(&world.adapter);
            let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::new(&pair.passive.pd, 1, flags));
            let (sges, address) = ([local.sge(0, 8)], remote.address(16));
            let posted = match is_write {
                true => pair.active.qp.write(1, &sges, address, remote.token, 0),
                false => pair.active.qp.read(1, &sges, address, remote.token, 0),
            };
            assert_eq!(posted, STATUS_SUCCESS);
            pair.active.expect(1, expected);
            if expected == STATUS_SUCCESS {
                assert_eq!(pair.active.disconnected.count(), 0);
            } else {
                pair.assert_aborted();
            }
            local.close();
            remote.close();
            pair.close();
        }
    }
}

/// A receive and a read place data: their SGEs need local write. Sends and writes take from any region.
// Shows S501.
#[test]
fn local_rights() {
    for (flags, places) in [
        (NDK_MR_FLAG_ALLOW_LOCAL_READ, false),
        (NDK_MR_FLAG_ALLOW_REMOTE_READ, false),
        (NDK_MR_FLAG_ALLOW_LOCAL_WRITE, true),
        (NDK_MR_FLAG_ALLOW_REMOTE_WRITE, true),
        (NDK_MR_FLAG_RDMA_READ_SINK, true),
    ] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let (local, remote) = (Buffer::new(&pair.active.pd, 1, flags), Buffer::full(&pair.passive.pd, 1));
        assert_eq!(pair.active.qp.write(1, &[local.sge(0, 8)], remote.base, remote.token, 0), STATUS_SUCCESS);
        pair.active.expect(1, STATUS_SUCCESS);
        assert_eq!(pair.passive.qp.receive(2, &[remote.sge(0, 8)]), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send(2, &[local.sge(0, 8)], 0), STATUS_SUCCESS);
        pair.active.expect(2, STATUS_SUCCESS);
        assert_eq!(pair.active.qp.read(3, &[local.sge(0, 8)], remote.base, remote.token, 0), STATUS_SUCCESS);
        pair.active.expect(3, if places { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION });
        local.close();
        remote.close();
        pair.close();

        let pair = Pair::new(&world.adapter);
        let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::new(&pair.passive.pd, 1, flags));
        assert_eq!(pair.passive.qp.receive(4, &[target.sge(0, 8)]), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send(4, &[source.sge(0, 8)], 0), STATUS_SUCCESS);
        pair.active.expect(4, if places { STATUS_SUCCESS } else { STATUS_DATA_ERROR });
        pair.passive.expect_receive(4, if places { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION });
        source.close();
        target.close();
        pair.close();
    }
}

/// One byte before, past and around the ends of a region; a length that wraps.
// Shows S501.
#[test]
fn ranges_are_checked() {
    let page = PAGE_SIZE as u64;
    let base = Buffer::INDEX;
    for (address, length, inside) in [
        (base, PAGE_SIZE, true),
        (base + page - 1, 1, true),
        (base + page, 1, false),
        (base + page - 1, 2, false),
        (base - 1, 1, false),
        (base - 1, 2, false),
        (base, PAGE_SIZE + 1, false),
        (u64::MAX, 2, false),
        (0, 1, false),
    ] {
        for is_write in [true, false] {
            let world = World::new();
            let pair = Pair::new(&world.adapter);
            let (local, remote) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 1));
            let sges = [local.sge(0, length)];
            let (posted, refused) = match is_write {
                true => (pair.active.qp.write(1, &sges, address, remote.token, 0), STATUS_ACCESS_VIOLATION),
                false => (pair.active.qp.read(1, &sges, address, remote.token, 0), STATUS_REMOTE_RESOURCES),
            };
            assert_eq!(posted, STATUS_SUCCESS);
            pair.active.expect(1, if inside { STATUS_SUCCESS } else { refused });
            local.close();
            remote.close();
            pair.close();
            // The local side of it.
            let pair = Pair::new(&world.adapter);
            let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 2));
            let sges = [sge(address, length, local.token)];
            let posted = match is_write {
                true => pair.active.qp.write(1, &sges, remote.base, remote.token, 0),
                false => pair.active.qp.read(1, &sges, remote.base, remote.token, 0),
            };
            assert_eq!(posted, STATUS_SUCCESS);
            pair.active.expect(1, if inside { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION });
            local.close();
            remote.close();
            pair.close();
        }
    }
}

/// A queue pair reaches the regions of its own domain only.
// Shows S501, T28.
#[test]
fn domains_are_kept_apart() {
    let world = World::new();
    for (local_is_foreign, is_write) in [(false, false), (false, true), (true, false), (true, true)] {
        let pair = Pair::new(&world.adapter);
        let stranger = world.adapter.create_pd().expect("a PD");
        let local = Buffer::full(if local_is_foreign { &stranger } else { &pair.active.pd }, 1);
        let remote = Buffer::full(if local_is_foreign { &pair.passive.pd } else { &stranger }, 1);
        let sges = [local.sge(0, 8)];
        let posted = match is_write {
            true => pair.active.qp.write(1, &sges, remote.base, remote.token, 0),
            false => pair.active.qp.read(1, &sges, remote.base, remote.token, 0),
        };
        assert_eq!(posted, STATUS_SUCCESS);
        pair.active.expect(1, STATUS_ACCESS_VIOLATION);
        local.close();
        remote.close();
        stranger.close_now();
        pair.close();
    }
}

// Shows S502.
#[test]
fn a_token_ends_with_its_registration() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let (base, token) = (remote.base, remote.token);
    remote.close();
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, 8)], base, token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_ACCESS_VIOLATION);
    local.close();
    pair.close();
}

/// The peer writes while the region is registered again at its address: the old token does not reach the new registration.
// Shows S502.
#[test]
fn an_old_token_does_not_reach_the_next_registration() {
    const WRITES: usize = 32;
    for seed in seeds(500) {
        let world = World::seeded(seed);
        let pair = Pair::new(&world.adapter);
        let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
        local.pages.write(0, &[0xFF; 64]);
        let next = Pages::new(1);
        let mdl = next.mdl(0, PAGE_SIZE, Buffer::INDEX);
        for context in 0..WRITES {
            let posted = pair.active.qp.write(context, &[local.sge(0, 64)], remote.base, remote.token, 0);
            assert_eq!(posted, STATUS_SUCCESS);
        }
        remote.mr.deregister().succeed();
        remote.mr.register(&mdl, PAGE_SIZE, NDK_MR_FLAG_ALLOW_REMOTE_WRITE).succeed();
        pair.active.initiator_cq.wait(WRITES);
        assert_eq!(next.read(0, 64), [0; 64], "seed {seed}: written by the token of the registration before");
        remote.close();
        local.close();
        pair.close();
    }
}

/// NDK_FN_DEREGISTER_MR: pending while an access is under way; the access completes.
// Shows S504.
#[test]
fn deregister_waits_for_the_access_under_way() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 2));
    let bytes = pattern(3, 2 * PAGE_SIZE);
    local.pages.write(0, &bytes);
    let gate = Gate::shut(&remote.pages, 1);
    let (from, base, token) = ((local.base, local.token), remote.base, remote.token);
    let sges = move || [sge(from.0, 2 * PAGE_SIZE, from.1)];
    let writer = thread::spawn(move || pair.active.qp.write(1, &sges(), base, token, 0));
    gate.reached();
    let deregister = remote.mr.deregister();
    assert!(deregister.pended() && !deregister.is_done());
    assert_eq!(remote.mr.token(), 0, "nobody else gets in");
    thread::yield_now();
    assert!(!deregister.is_done());
    gate.open();
    assert_eq!(writer.join().expect("the writer"), STATUS_SUCCESS);
    deregister.succeed();
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(remote.pages.read(0, 2 * PAGE_SIZE), bytes);
    remote.mr.close_now();
    local.close();
    pair.close();
}

/// The close waits too. The access is larger: the part that has not begun at the close is refused.
// Shows S504.
#[test]
fn close_waits_for_the_access_under_way() {
    const BYTES: usize = 512 * 1024;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let pages = BYTES / PAGE_SIZE;
    let (local, remote) = (Buffer::full(&pair.active.pd, pages), Buffer::full(&pair.passive.pd, pages));
    let gate = Gate::shut(&remote.pages, 0);
    let (from, base, token) = ((local.base, local.token), remote.base, remote.token);
    let sges = move || [sge(from.0, BYTES, from.1)];
    let writer = thread::spawn(move || pair.active.qp.write(1, &sges(), base, token, 0));
    gate.reached();
    let close = remote.mr.close();
    assert!(close.pended() && !close.is_done());
    gate.open();
    assert_eq!(writer.join().expect("the writer"), STATUS_SUCCESS);
    close.succeed();
    pair.active.expect(1, STATUS_ACCESS_VIOLATION);
    local.close();
    pair.close();
}
