//! NdkRead and NdkWrite.

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_READ_FENCE, NDK_SGE, NdkOperationTypeRead, NdkOperationTypeWrite},
    status::{STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, Gate, Options, Pair, Unconnected, World, loopback, pattern};

/// Around a page, a small send (2 KiB), and a step of the engine (256 KiB).
const SIZES: [usize; 12] = [0, 1, 8, 2048, 2049, 4095, 4096, 262_143, 262_144, 262_145, 1 << 20, (1 << 20) + 4096];

// Shows S202.
#[test]
fn writes_of_every_size() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 260), Buffer::full(&pair.passive.pd, 260));
    for (round, length) in SIZES.into_iter().enumerate() {
        let bytes = pattern(round as u8, length);
        local.pages.write(3, &bytes);
        let sges = [local.sge(3, length)];
        assert_eq!(pair.active.qp.write(1, &sges, remote.address(5), remote.token, 0), STATUS_SUCCESS);
        assert_eq!(pair.active.expect(1, STATUS_SUCCESS).Type, NdkOperationTypeWrite);
        assert_eq!(remote.pages.read(5, length), bytes);
    }
    assert_eq!(remote.pages.read(0, 5), [0; 5]);
    local.close();
    remote.close();
    pair.close();
}

// Shows S202.
#[test]
fn reads_of_every_size() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 260), Buffer::full(&pair.passive.pd, 260));
    for (round, length) in SIZES.into_iter().enumerate() {
        let bytes = pattern(round as u8, length);
        remote.pages.write(3, &bytes);
        let sges = [local.sge(5, length)];
        assert_eq!(pair.active.qp.read(1, &sges, remote.address(3), remote.token, 0), STATUS_SUCCESS);
        assert_eq!(pair.active.expect(1, STATUS_SUCCESS).Type, NdkOperationTypeRead);
        assert_eq!(local.pages.read(5, length), bytes);
    }
    assert_eq!(local.pages.read(0, 5), [0; 5]);
    local.close();
    remote.close();
    pair.close();
}

/// Neither the peer's consumer nor its queues notice.
#[test]
fn the_peer_notices_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    assert_eq!(pair.passive.qp.receive(9, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, 8)], remote.base, remote.token, 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.read(2, &[local.sge(0, 8)], remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    world.assert_empty(&pair.passive.receive_cq);
    world.assert_empty(&pair.passive.initiator_cq);
    local.close();
    remote.close();
    pair.close();
}

#[test]
fn many_sges() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 64), Buffer::full(&pair.passive.pd, 64));
    let lengths = [1, 0, 65_537, 3, 4096, 0, 100, 7, 1, 1, 1, 1, 1, 20_000, 0, 2];
    let total: usize = lengths.iter().sum();
    let mut place = 0;
    let places: Vec<(usize, usize)> = lengths
        .iter()
        .map(|&length| {
            place += length + 3;
            (place - length, length)
        })
        .collect();
    let sges: Vec<NDK_SGE> = places.iter().map(|&(offset, length)| local.sge(offset, length)).collect();
    let bytes = pattern(3, total);
    remote.pages.write(11, &bytes);
    assert_eq!(pair.active.qp.read(1, &sges, remote.address(11), remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    let read: Vec<u8> = places.iter().flat_map(|&(offset, length)| local.pages.read(offset, length)).collect();
    assert_eq!(read, bytes);
    assert!(places.iter().all(|&(offset, length)| local.pages.read(offset + length, 3) == [0; 3]));
    let back = remote.address(130_000);
    assert_eq!(pair.active.qp.write(2, &sges, back, remote.token, NDK_OP_FLAG_READ_FENCE), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(remote.pages.read(130_000, total), bytes);
    local.close();
    remote.close();
    pair.close();
}

/// A range that is too short fails before its first byte.
// Shows S202.
#[test]
fn nothing_is_moved_when_the_range_is_too_short() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 40), Buffer::full(&pair.passive.pd, 32));
    local.pages.write(0, &pattern(1, 40 * PAGE_SIZE));
    let sges = [local.sge(0, 32 * PAGE_SIZE + 1)];
    assert_eq!(pair.active.qp.write(1, &sges, remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_ACCESS_VIOLATION);
    assert_eq!(remote.pages.read(0, 32 * PAGE_SIZE), vec![0; 32 * PAGE_SIZE]);
    local.close();
    remote.close();
    pair.close();
}

/// Effective read limits: 0 means no reads that way; one is enough for any number in a row.
// Shows S509.
#[test]
fn read_limits() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { limits: (0, 0), ..Options::default() });
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let read = || pair.active.qp.read(1, &[local.sge(0, 8)], remote.base, remote.token, 0);
    assert_eq!(read(), STATUS_INVALID_DEVICE_REQUEST);
    assert_eq!(pair.active.qp.write(2, &[local.sge(0, 8)], remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    local.close();
    remote.close();
    pair.close();
    let pair = Pair::with(&world.adapter, Options { limits: (1, 1), ..Options::default() });
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    for context in 0..40 {
        let posted = pair.active.qp.read(context, &[local.sge(0, 8)], remote.base, remote.token, 0);
        assert_eq!(posted, STATUS_SUCCESS);
    }
    (0..40).for_each(|context| {
        pair.active.expect(context, STATUS_SUCCESS);
    });
    local.close();
    remote.close();
    pair.close();
}

/// The limit of the other side counts too: reads by the active side need its outbound and the peer's inbound limit.
#[test]
fn read_limits_of_one_direction() {
    let world = World::new();
    for (ours, theirs, active, passive) in [
        ((0, 8), (8, 0), true, false),
        ((8, 0), (0, 8), false, true),
        ((8, 8), (0, 8), false, true),
        ((8, 8), (8, 0), true, false),
        ((u32::MAX, u32::MAX), (u32::MAX, u32::MAX), true, true),
    ] {
        let one = Unconnected::new(&world.adapter, Pair::ACTIVE, Options::default());
        let two = Unconnected::new(&world.adapter, Pair::PASSIVE, Options::default());
        let (local, remote) = (Buffer::full(&one.pd, 1), Buffer::full(&two.pd, 1));
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        let connector = world.adapter.create_connector().expect("a connector");
        let address = listener.local_address().expect("an address");
        let connect = connector.connect(&one.qp, loopback(0), address, ours, &[]);
        let event = listener.take();
        let accept = event.accept(&two.qp, theirs, &[], None);
        connect.succeed();
        connector.complete(None).succeed();
        accept.succeed();
        for (side, may_read, to, from) in [(&one, active, &local, &remote), (&two, passive, &remote, &local)] {
            let posted = side.qp.read(1, &[to.sge(0, 8)], from.base, from.token, 0);
            if may_read {
                assert_eq!(posted, STATUS_SUCCESS);
                assert_eq!(side.initiator_cq.wait_one().Status, STATUS_SUCCESS);
            } else {
                assert_eq!(posted, STATUS_INVALID_DEVICE_REQUEST);
                world.assert_empty(&side.initiator_cq);
            }
        }
        connector.close_now();
        event.close_now();
        listener.close_now();
        local.close();
        remote.close();
        one.close();
        two.close();
    }
}

/// Reads of one queue pair run one after the other, so that no limit but 0 is ever exceeded: a read does not touch its data
/// while the one before is under way.
// Shows S509.
#[test]
fn one_read_at_a_time() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { limits: (1, 1), ..Options::default() });
    let (local, remote) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 2));
    remote.pages.write(PAGE_SIZE, b"second");
    let gate = Gate::shut(&remote.pages, 0);
    let read = |context, offset| {
        pair.active.qp.read(context, &[local.sge(offset, 6)], remote.address(offset), remote.token, 0)
    };
    assert_eq!(read(1, 0), STATUS_SUCCESS);
    assert_eq!(read(2, PAGE_SIZE), STATUS_SUCCESS);
    gate.reached();
    for _ in 0..1000 {
        assert_eq!(local.pages.read(PAGE_SIZE, 6), [0; 6]);
        assert!(pair.active.initiator_cq.poll(1).is_empty());
        std::thread::yield_now();
    }
    gate.open();
    pair.active.expect(1, STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(local.pages.read(PAGE_SIZE, 6), b"second");
    local.close();
    remote.close();
    pair.close();
}

/// Source and target overlap, within one step of the engine: the copy is a move.
#[test]
fn overlapping_memory() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    // One piece of memory, registered in both domains.
    let local = Buffer::full(&pair.active.pd, 2);
    let mdl = local.pages.mdl(0, 2 * PAGE_SIZE, Buffer::INDEX);
    let remote = pair.passive.pd.create_mr(false).expect("an MR");
    remote.register(&mdl, 2 * PAGE_SIZE, ndk_abi::ndkpi::NDK_MR_FLAG_ALLOW_REMOTE_WRITE).succeed();
    for (from, to) in [(0, 100), (100, 0), (7, 7)] {
        let bytes = pattern(from as u8, 5000);
        local.pages.write(from, &bytes);
        let target = mdl.virtual_address() + to as u64;
        assert_eq!(pair.active.qp.write(1, &[local.sge(from, 5000)], target, remote.token(), 0), STATUS_SUCCESS);
        pair.active.expect(1, STATUS_SUCCESS);
        assert_eq!(local.pages.read(to, 5000), bytes);
    }
    remote.close_now();
    local.close();
    pair.close();
}

/// NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED: a thread that sees the last byte of a write sees all of it.
// Shows S204.
#[test]
fn the_last_byte_is_placed_last() {
    const BYTES: usize = 60_000;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 16), Buffer::full(&pair.passive.pd, 16));
    for round in 1..=100u8 {
        local.pages.write(0, &vec![round; BYTES]);
        let sges = [local.sge(0, BYTES)];
        assert_eq!(pair.active.qp.write(1, &sges, remote.base, remote.token, 0), STATUS_SUCCESS);
        let last = remote.pages.byte(BYTES - 1);
        let deadline = std::time::Instant::now() + crate::kit::LIMIT;
        while last.load(std::sync::atomic::Ordering::Acquire) != round {
            assert!(std::time::Instant::now() < deadline);
            std::hint::spin_loop();
        }
        assert!(remote.pages.read(0, BYTES).iter().all(|&byte| byte == round));
        pair.active.expect(1, STATUS_SUCCESS);
    }
    local.close();
    remote.close();
    pair.close();
}
