//! NDK_QP: sends and receives, limits, order, flags, flush.

use std::thread;

use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_READ, NDK_OP_FLAG_SILENT_SUCCESS, NDK_SGE, NdkOperationTypeReceive,
        NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    status::{STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_ERROR, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, HeldProcessors, Options, Pair, QpSizes, Unconnected, World, pattern, sge};

pub(crate) const SILENT: u32 = NDK_OP_FLAG_SILENT_SUCCESS;

/// Sends `length` bytes and checks what arrives.
#[track_caller]
fn transfer(pair: &Pair, source: &Buffer, target: &Buffer, length: usize) {
    let bytes = pattern(length as u8, length);
    source.pages.write(0, &bytes);
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, target.pages.size())]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &[source.sge(0, length)], 0), STATUS_SUCCESS);
    let received = pair.passive.expect_receive(1, STATUS_SUCCESS);
    assert_eq!((received.Type, received.BytesTransferred as usize), (NdkOperationTypeReceive, length));
    assert_eq!(pair.active.expect(2, STATUS_SUCCESS).Type, NdkOperationTypeSend);
    assert_eq!(target.pages.read(0, length), bytes);
}

// Shows S202.
#[test]
fn sends_of_every_size() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let pages = 1026;
    let (source, target) = (Buffer::full(&pair.active.pd, pages), Buffer::full(&pair.passive.pd, pages));
    for length in [0, 1, 2, 7, 4095, 4096, 4097, 65_535, 65_536, 65_537, 262_144, 1 << 20, (1 << 20) + 1, 1026 * 4096] {
        transfer(&pair, &source, &target, length);
    }
    // And back.
    let back = pair.swapped();
    for length in [0, 1, 100_000] {
        transfer(&back, &target, &source, length);
    }
    source.close();
    target.close();
    pair.close();
}

/// Scattered on one side, gathered on the other, with entries that do not match, some of them empty.
// Shows S202.
#[test]
fn sends_of_many_sges() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 64), Buffer::full(&pair.passive.pd, 64));
    let bytes = pattern(1, 64 * PAGE_SIZE);
    source.pages.write(0, &bytes);
    let from = [(10, 1), (5000, 4096), (0, 0), (70_000, 66_000), (3, 1), (1, 3), (200_000, 12_345)];
    let total: usize = from.iter().map(|&(_, length)| length).sum();
    let lengths = [0, 1, 2, 3, 65_536, 5, 0, 100, 4096, 10_000, 7, 1, 1, 1, 0, total];
    let mut place = 0;
    let to = lengths.iter().map(|&length| {
        // A gap of one byte between any two.
        place += length + 1;
        (place - length - 1, length)
    });
    let to: Vec<(usize, usize)> = to.collect();
    let gather: Vec<NDK_SGE> = from.iter().map(|&(offset, length)| source.sge(offset, length)).collect();
    let scatter: Vec<NDK_SGE> = to.iter().map(|&(offset, length)| target.sge(offset, length)).collect();
    assert_eq!(scatter.len(), 16);
    assert_eq!(pair.passive.qp.receive(1, &scatter), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &gather, 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.expect_receive(1, STATUS_SUCCESS).BytesTransferred as usize, total);
    pair.active.expect(2, STATUS_SUCCESS);
    let sent: Vec<u8> = from.iter().flat_map(|&(offset, length)| bytes[offset..offset + length].to_vec()).collect();
    let mut received = Vec::new();
    for (offset, length) in to {
        let wanted = length.min(total - received.len());
        received.extend(target.pages.read(offset, wanted));
        assert_eq!(target.pages.read(offset + wanted, 1), [0], "the byte behind {offset}");
    }
    assert_eq!(received, sent);
    source.close();
    target.close();
    pair.close();
}

/// Completions arrive in the order of the posts, in both queues; so do the data.
// Shows S201.
#[test]
fn order_is_kept() {
    const MESSAGES: usize = 500;
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1024, ..Options::default() });
    let (source, target) = (Buffer::full(&pair.active.pd, 64), Buffer::full(&pair.passive.pd, 64));
    let sender = thread::spawn({
        let (base, token, qp) = (source.base, source.token, pair.active.qp);
        let pages = source.pages.clone();
        move || {
            for number in 0..MESSAGES {
                let slot = number % 64 * 8;
                pages.write(slot, &number.to_le_bytes());
                // The slot is free again long before, as the queue is as deep as there are slots.
                while qp.send(number, &[sge(base + slot as u64, 8, token)], 0) != STATUS_SUCCESS {
                    thread::yield_now();
                }
                pair.active.expect(number, STATUS_SUCCESS);
            }
        }
    });
    for number in 0..MESSAGES {
        let slot = number % 64 * 8;
        assert_eq!(pair.passive.qp.receive(number, &[target.sge(slot, 8)]), STATUS_SUCCESS);
        pair.passive.expect_receive(number, STATUS_SUCCESS);
        assert_eq!(target.pages.read(slot, 8), number.to_le_bytes());
    }
    sender.join().expect("the sender");
    source.close();
    target.close();
    pair.close();
}

/// Requests of different kinds on one queue are carried out one after the other.
// Shows S201.
#[test]
fn different_requests_keep_their_order() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 4), Buffer::full(&pair.passive.pd, 4));
    let qp = &pair.active.qp;
    for round in 0..30u8 {
        let text = [round; 8];
        local.pages.write(0, &text);
        assert_eq!(pair.passive.qp.receive(round.into(), &[]), STATUS_SUCCESS);
        // What is written is read back from there, then announced.
        assert_eq!(qp.write(1, &[local.sge(0, 8)], remote.address(100), remote.token, 0), STATUS_SUCCESS);
        assert_eq!(qp.read(2, &[local.sge(8, 8)], remote.address(100), remote.token, 0), STATUS_SUCCESS);
        assert_eq!(qp.write(3, &[local.sge(8, 8)], remote.address(200), remote.token, 0), STATUS_SUCCESS);
        assert_eq!(qp.send(4, &[], 0), STATUS_SUCCESS);
        pair.passive.expect_receive(round.into(), STATUS_SUCCESS);
        assert_eq!(remote.pages.read(200, 8), text);
        let order: Vec<_> = pair.active.initiator_cq.wait(4).iter().map(|r| r.RequestContext.addr()).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    }
    local.close();
    remote.close();
    pair.close();
}

// Shows S208.
#[test]
fn a_send_waits_for_its_receive() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    source.pages.write(0, b"early");
    assert_eq!(pair.active.qp.send(1, &[source.sge(0, 5)], 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &[], 0), STATUS_SUCCESS);
    world.assert_empty(&pair.active.initiator_cq);
    assert_eq!(pair.passive.qp.receive(3, &[target.sge(0, 5)]), STATUS_SUCCESS);
    pair.passive.expect_receive(3, STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(target.pages.read(0, 5), b"early");
    world.assert_empty(&pair.active.initiator_cq);
    assert_eq!(pair.passive.qp.receive(4, &[]), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    source.close();
    target.close();
    pair.close();
}

/// The receive completes BUFFER_OVERFLOW, the sender learns of it, the connection ends.
// Shows S209.
#[test]
fn a_receive_that_is_too_small() {
    let world = World::new();
    for (room, length) in [(0, 1), (99, 100), (100, 65_537)] {
        let pair = Pair::new(&world.adapter);
        let (source, target) = (Buffer::full(&pair.active.pd, 17), Buffer::full(&pair.passive.pd, 17));
        source.pages.write(0, &vec![1; length]);
        let held = HeldProcessors::new();
        assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, room)]), STATUS_SUCCESS);
        assert_eq!(pair.passive.qp.receive(2, &[target.sge(0, 17 * PAGE_SIZE)]), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send(3, &[source.sge(0, length)], 0), STATUS_SUCCESS);
        assert_eq!(pair.active.qp.send(4, &[source.sge(0, length)], SILENT), STATUS_SUCCESS);
        drop(held);
        pair.passive.expect_receive(1, STATUS_BUFFER_OVERFLOW);
        pair.passive.expect_receive(2, STATUS_CANCELLED);
        pair.active.expect(3, STATUS_DATA_ERROR);
        pair.active.expect(4, STATUS_CANCELLED);
        assert_eq!(target.pages.read(0, room), vec![0; room], "nothing is placed");
        pair.assert_aborted();
        source.close();
        target.close();
        pair.close();
    }
}

/// The first completion with an error ends the connection; everything after it is cancelled, in order.
#[test]
fn a_local_error_ends_the_connection() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let source = Buffer::new(&pair.active.pd, 1, NDK_MR_FLAG_ALLOW_LOCAL_READ);
    let held = HeldProcessors::new();
    (1..4).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(pair.active.qp.receive(9, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.write(2, &[sge(source.base, 8, source.token ^ 1)], 0, 0, SILENT), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(3, &[], SILENT), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(4, &[], 0), STATUS_SUCCESS);
    drop(held);
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(pair.active.expect(2, STATUS_ACCESS_VIOLATION).Type, NdkOperationTypeWrite);
    pair.active.expect(3, STATUS_CANCELLED);
    pair.active.expect(4, STATUS_CANCELLED);
    pair.active.expect_receive(9, STATUS_CANCELLED);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    pair.passive.expect_receive(2, STATUS_CANCELLED);
    pair.passive.expect_receive(3, STATUS_CANCELLED);
    pair.assert_aborted();
    for side in [&pair.active, &pair.passive] {
        assert_eq!(side.disconnected.calls()[0].value, 1, "aborted");
        assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
        side.expect_receive(1, STATUS_CANCELLED);
    }
    assert_eq!(world.provider.counters().ConnectionError, 1);
    source.close();
    pair.close();
}

/// Both queue pairs of a connection send at once.
#[test]
fn both_directions_at_once() {
    const MESSAGES: usize = 300;
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1024, ..Options::default() });
    let run = |pair: Pair| {
        thread::spawn(move || {
            for context in 0..MESSAGES {
                pair.message(context, context % 3 == 0);
                pair.passive.expect_receive(context, STATUS_SUCCESS);
            }
        })
    };
    let (one, two) = (run(pair), run(pair.swapped()));
    one.join().expect("one direction");
    two.join().expect("the other direction");
    pair.close();
}

/// A queue pair connected with itself's twin on one domain and one completion queue.
#[test]
fn one_queue_for_everything() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let cq = world.adapter.create_cq(64).expect("a CQ");
    let qp = |tag| pd.create_qp(&cq, &cq, tag, QpSizes::default()).expect("a QP");
    let side = |tag| Unconnected { pd, receive_cq: cq, initiator_cq: cq, qp: qp(tag) };
    let pair = Pair::of(&world.adapter, side(1), side(2), (1, 1));
    assert_eq!(pair.passive.qp.receive(3, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(4, &[], 0), STATUS_SUCCESS);
    let mut seen: Vec<_> = cq.wait(2).iter().map(|r| (r.QPContext.addr(), r.RequestContext.addr(), r.Status)).collect();
    seen.sort_unstable_by_key(|&(qp, ..)| qp);
    assert_eq!(seen, [(1, 4, STATUS_SUCCESS), (2, 3, STATUS_SUCCESS)]);
    pair.active.connector.close_now();
    pair.passive.connector.close_now();
    pair.active.qp.close_now();
    pair.passive.qp.close_now();
    pair.listener.close_now();
    cq.close_now();
    pd.close_now();
}
