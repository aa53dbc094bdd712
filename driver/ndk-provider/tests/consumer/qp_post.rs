//! NDK_QP: what posting refuses, its flags, flush. `qp.rs` has the transfers.

use std::{hint::black_box, thread, time::Duration};

use ndk_abi::{
    index::NUMBERS,
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
        NDK_OP_FLAG_READ_FENCE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    },
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_DATA_OVERRUN,
        STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};
use soft_rdma::Flags;

use crate::kit::{Buffer, FastRegion, Gate, HeldProcessors, Options, Pair, QpSizes, Unconnected, World, complain, sge};
use crate::qp::SILENT;

/// The provider hands a consumer's flags to the device as they are.
#[test]
fn the_devices_flags_have_ndkpis_names_and_numbers() {
    assert!(!Flags::all().is_empty());
    for (name, flag) in Flags::all().iter_names() {
        let number = NUMBERS.iter().copied().flatten().find(|it| it.name.strip_prefix("NDK_OP_FLAG_") == Some(name));
        assert_eq!(number.map(|it| it.value), Some(flag.bits().into()), "{name}");
    }
}

/// Section 1.7b and user-mode ND: the inline statuses of limits; the queue pair stays usable after each.
// Shows S207.
#[test]
fn limits_are_refused_inline() {
    let world = World::new();
    let sizes = QpSizes { receives: 4, requests: 4, receive_sges: 2, request_sges: 3, inline: 16 };
    let pair = Pair::with(&world.adapter, Options { sizes, ..Options::default() });
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let qp = &pair.active.qp;
    let sges = |count: usize| vec![local.sge(0, 1); count];
    let (base, token) = (remote.base, remote.token);
    assert_eq!(qp.send(1, &sges(4), 0), STATUS_DATA_OVERRUN);
    assert_eq!(qp.read(1, &sges(4), base, token, 0), STATUS_DATA_OVERRUN);
    assert_eq!(qp.write(1, &sges(4), base, token, 0), STATUS_DATA_OVERRUN);
    assert_eq!(pair.passive.qp.receive(1, &[remote.sge(0, 1); 3]), STATUS_DATA_OVERRUN);

    let most = world.adapter.info().MaxTransferLength as usize;
    let long = [local.sge(0, most), local.sge(0, 1)];
    assert_eq!(qp.send(1, &long, 0), STATUS_BUFFER_OVERFLOW);
    assert_eq!(qp.read(1, &long, base, token, 0), STATUS_BUFFER_OVERFLOW);
    assert_eq!(qp.write(1, &long, base, token, 0), STATUS_BUFFER_OVERFLOW);
    assert_eq!(qp.receive(1, &long), STATUS_BUFFER_OVERFLOW);
    // Lengths whose sum does not fit into 32 bits.
    let wrapping = [local.sge(0, u32::MAX as usize), local.sge(0, 2)];
    assert_eq!(qp.send(1, &wrapping, 0), STATUS_BUFFER_OVERFLOW);
    assert_eq!(qp.receive(1, &wrapping), STATUS_BUFFER_OVERFLOW);

    let inline = NDK_OP_FLAG_INLINE;
    assert_eq!(qp.send(1, &[local.sge(0, 17)], inline), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.write(1, &[local.sge(0, 17)], base, token, inline), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.send(1, &wrapping, inline), STATUS_INVALID_PARAMETER_4);
    let strange = 0x1000_0000;
    assert_eq!(qp.send(1, &[], strange), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.read(1, &[], base, token, strange), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.read(1, &[], base, token, inline), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.write(1, &[], base, token, strange), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.write(1, &[], base, token, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT), STATUS_INVALID_PARAMETER_4);
    assert_eq!(qp.send(1, &[], NDK_OP_FLAG_ALLOW_LOCAL_WRITE), STATUS_INVALID_PARAMETER_4);
    // What is allowed together.
    let all = SILENT | NDK_OP_FLAG_READ_FENCE | NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE;
    assert_eq!(qp.read(1, &[], base, token, all), STATUS_SUCCESS);

    for context in 0..4 {
        assert_eq!(qp.send(context, &sges(3), 0), STATUS_SUCCESS);
        world.flush_dpcs();
    }
    assert_eq!(qp.send(4, &[], 0), STATUS_NO_MORE_ENTRIES);
    assert_eq!(qp.write(4, &[], base, token, 0), STATUS_NO_MORE_ENTRIES);
    (0..4).for_each(|context| {
        assert_eq!(pair.passive.qp.receive(context, &[remote.sge(0, 2), remote.sge(2, 2)]), STATUS_SUCCESS);
        pair.active.expect(context, STATUS_SUCCESS);
        pair.passive.expect_receive(context, STATUS_SUCCESS);
    });
    (0..4).for_each(|context| assert_eq!(qp.receive(context, &[]), STATUS_SUCCESS));
    assert_eq!(qp.receive(4, &[]), STATUS_NO_MORE_ENTRIES);
    assert_eq!(pair.active.disconnected.count(), 0);
    world.assert_empty(&pair.active.initiator_cq);
    local.close();
    remote.close();
    pair.close();
}

#[test]
fn initiator_requests_need_a_connection() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    assert_eq!(side.qp.send(1, &[], 0), STATUS_CONNECTION_INVALID);
    assert_eq!(side.qp.read(1, &[], 0, 0, 0), STATUS_CONNECTION_INVALID);
    assert_eq!(side.qp.write(1, &[], 0, 0, 0), STATUS_CONNECTION_INVALID);
    // Receives do not.
    assert_eq!(side.qp.receive(2, &[]), STATUS_SUCCESS);
    world.assert_empty(&side.initiator_cq);
    world.assert_empty(&side.receive_cq);
    side.close();
}

/// A visible completion implies that earlier silent requests have finished.
// Shows S210.
#[test]
fn silent_success() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    for round in 0..20u8 {
        local.pages.write(0, &[round; 10]);
        for index in 0..10 {
            let (from, to) = ([local.sge(index, 1)], remote.address(index));
            assert_eq!(pair.active.qp.write(1, &from, to, remote.token, SILENT), STATUS_SUCCESS);
        }
        assert_eq!(pair.active.qp.write(2, &[], 0, 0, 0), STATUS_SUCCESS);
        pair.active.expect(2, STATUS_SUCCESS);
        assert_eq!(remote.pages.read(0, 10), [round; 10]);
    }
    world.assert_empty(&pair.active.initiator_cq);
    local.close();
    remote.close();
    pair.close();
}

/// The list of SGEs is only used during the call; with the inline flag, so is the memory.
// Shows S110, S212.
#[test]
fn lists_and_inline_data_are_copied() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    source.pages.write(0, b"right");
    source.pages.write(100, b"wrong");
    let mut inline = *b"inline";
    let address = inline.as_mut_ptr().expose_provenance() as u64;
    let held = HeldProcessors::new();
    let mut list = [target.sge(0, 5)];
    assert_eq!(pair.passive.qp.receive(1, &list), STATUS_SUCCESS);
    list[0] = target.sge(100, 5);
    black_box(&list);
    assert_eq!(pair.passive.qp.receive(2, &[target.sge(200, 6)]), STATUS_SUCCESS);
    let mut list = [source.sge(0, 5)];
    assert_eq!(pair.active.qp.send(3, &list, 0), STATUS_SUCCESS);
    list[0] = source.sge(100, 5);
    black_box(&list);
    // An entry of no bytes names no memory.
    let mut list = [sge(0, 0, 0), sge(address, 6, 0)];
    assert_eq!(pair.active.qp.send(4, &list, NDK_OP_FLAG_INLINE), STATUS_SUCCESS);
    list = [source.sge(100, 5); 2];
    black_box(&list);
    inline.fill(b'!');
    let mut token = 77u64.to_le_bytes();
    let list = [sge(token.as_mut_ptr().expose_provenance() as u64, 8, 0)];
    let written = pair.active.qp.write(5, &list, target.address(300), target.token, NDK_OP_FLAG_INLINE);
    assert_eq!(written, STATUS_SUCCESS);
    token.fill(0);
    drop(held);
    (3..6).for_each(|context| {
        pair.active.expect(context, STATUS_SUCCESS);
    });
    assert_eq!(target.pages.read(0, 5), b"right");
    assert_eq!(target.pages.read(200, 6), b"inline");
    assert_eq!(target.pages.read(300, 8), 77u64.to_le_bytes());
    assert_eq!((inline, token), (*b"!!!!!!", [0; 8]));
    source.close();
    target.close();
    pair.close();
}

/// NDKPI Deferred Processing Scheme: what was deferred starts with the end of its chain or with an inline failure.
// Shows S211.
#[test]
fn deferred_requests_start_with_the_chain_or_a_failure() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let qp = &pair.active.qp;
    assert_eq!(qp.write(1, &[], 0, 0, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
    assert_eq!(qp.write(2, &[], 0, 0, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
    assert_eq!(qp.write(3, &[], 0, 0, 0), STATUS_SUCCESS);
    let order: Vec<_> = pair.active.initiator_cq.wait(3).iter().map(|r| r.RequestContext.addr()).collect();
    assert_eq!(order, [1, 2, 3]);
    for failure in [NDK_OP_FLAG_DEFER | 0x1000_0000, 0x1000_0000] {
        assert_eq!(qp.write(4, &[], 0, 0, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
        assert_eq!(qp.write(5, &[], 0, 0, failure), STATUS_INVALID_PARAMETER_4);
        pair.active.expect(4, STATUS_SUCCESS);
    }
    // A flush is no doorbell: it cancels.
    assert_eq!(qp.write(6, &[], 0, 0, NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
    qp.flush();
    pair.active.expect(6, STATUS_CANCELLED);
    pair.close();
}

/// NDK_FN_FLUSH: all pending requests of both queues complete CANCELLED; the connection lives if nothing was half done.
// Shows S205, S214.
#[test]
fn flush_cancels_both_queues() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = &pair.active;
    (1..4).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
    (1..4).for_each(|context| assert_eq!(side.qp.send(context, &[], SILENT), STATUS_SUCCESS));
    world.flush_dpcs();
    side.qp.flush();
    (1..4).for_each(|context| {
        side.expect_receive(context, STATUS_CANCELLED);
        side.expect(context, STATUS_CANCELLED);
    });
    // The flush has removed the waiting sends for the peer too; new sends work, both ways.
    assert_eq!(pair.passive.qp.receive(5, &[]), STATUS_SUCCESS);
    world.assert_empty(&pair.passive.receive_cq);
    assert_eq!(side.qp.send(6, &[], 0), STATUS_SUCCESS);
    side.expect(6, STATUS_SUCCESS);
    pair.passive.expect_receive(5, STATUS_SUCCESS);
    pair.swapped().message(7, false);
    side.expect_receive(7, STATUS_SUCCESS);
    assert_eq!(side.disconnected.count(), 0);
    pair.close();
}

// Shows S214.
#[test]
fn flush_of_an_unconnected_queue_pair_gives_the_receives_back() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    side.qp.flush();
    (0..64).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
    side.qp.flush();
    (0..64).for_each(|context| {
        let result = side.receive_cq.wait_one();
        assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_CANCELLED, context));
    });
    // The queue is empty and usable.
    (0..64).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
    side.close();
}

/// A send that is half done cannot be taken back: a flush on either side ends the connection.
// Shows S214.
#[test]
fn flush_in_the_middle_of_a_send_ends_the_connection() {
    const BYTES: usize = 1024 * 1024;
    for flush_the_sender in [true, false] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let pages = BYTES / PAGE_SIZE;
        let (source, target) = (Buffer::full(&pair.active.pd, pages), Buffer::full(&pair.passive.pd, pages));
        assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, BYTES)]), STATUS_SUCCESS);
        let gate = Gate::shut(&target.pages, pages / 2);
        assert_eq!(pair.active.qp.send(2, &[source.sge(0, BYTES)], 0), STATUS_SUCCESS);
        gate.reached();
        // The access is under way, so neither request may complete yet.
        if flush_the_sender {
            pair.active.qp.flush()
        } else {
            pair.passive.qp.flush()
        }
        assert!(pair.active.initiator_cq.poll(1).is_empty());
        assert!(pair.passive.receive_cq.poll(1).is_empty());
        gate.open();
        pair.active.expect(2, STATUS_CANCELLED);
        pair.passive.expect_receive(1, STATUS_CANCELLED);
        pair.assert_aborted();
        source.close();
        target.close();
        pair.close();
    }
}

/// A small send is placed in one piece: a flush of the receiver comes before it or, as here, after it.
// Shows S214.
#[test]
fn flush_of_the_receiver_in_the_middle_of_a_small_send() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 2));
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(PAGE_SIZE - 8, 16)]), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.receive(2, &[]), STATUS_SUCCESS);
    let gate = Gate::shut(&target.pages, 1);
    assert_eq!(pair.active.qp.send(3, &[source.sge(0, 16)], 0), STATUS_SUCCESS);
    gate.reached();
    pair.passive.qp.flush();
    assert!(pair.passive.receive_cq.poll(1).is_empty());
    gate.open();
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    pair.passive.expect_receive(2, STATUS_CANCELLED);
    pair.active.expect(3, STATUS_SUCCESS);
    // The connection lives.
    pair.message(4, false);
    pair.passive.expect_receive(4, STATUS_SUCCESS);
    [source, target].into_iter().for_each(Buffer::close);
    pair.close();
}

/// A message begins while a flush of its receiver is under way, in the close callback of a region that a flushed request held. The flush cancels the
/// receive that the message fills, which ends the connection.
// Shows S214.
#[test]
fn a_message_that_begins_inside_of_a_flush() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 2));
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    // Two entries: two steps of the engine.
    let entries = |base, token| [sge(base, PAGE_SIZE, token), sge(base + PAGE_SIZE as u64, PAGE_SIZE, token)];
    assert_eq!(pair.passive.qp.receive(1, &entries(target.base, target.token)), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.receive(2, &[]), STATUS_SUCCESS);
    // It waits, as the active side has no receive.
    assert_eq!(pair.passive.qp.send(3, &[], 0), STATUS_SUCCESS);
    assert_eq!(region.post(&pair.passive, 4, 0), STATUS_SUCCESS);
    world.flush_dpcs();
    let close = region.mr.close();
    let sender = pair.active.qp;
    let (base, token) = (source.base, source.token);
    // The callback is kept, the gate is not.
    let mut gate = Some(Gate::shut(&target.pages, 0));
    close.completion.on_call(move |_| {
        let gate = gate.take().expect("one call");
        if sender.send(5, &entries(base, token), 0) != STATUS_SUCCESS {
            complain("the post was refused".to_owned());
        }
        gate.reached();
        gate.open();
    });
    pair.passive.qp.flush();
    close.succeed();
    (1..3).for_each(|context| {
        pair.passive.expect_receive(context, STATUS_CANCELLED);
    });
    pair.assert_aborted();
    [source, target].into_iter().for_each(Buffer::close);
    pair.close();
}

/// A send without a receive is checked for what it will read: not for entries of no bytes, and inline data is there already.
#[test]
fn a_send_that_waits_needs_no_memory_that_it_does_not_read() {
    let world = World::new();
    let sizes = QpSizes { requests: 1, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { sizes, ..Options::default() });
    let (earlier, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let kept = Buffer::full(&pair.active.pd, 1);
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 8)]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(1, &[earlier.sge(0, 4), earlier.sge(4, 4)], 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    earlier.close();
    let bytes = [7; 8];
    let inline = sge(bytes.as_ptr().expose_provenance() as u64, bytes.len(), 0);
    let nothing = sge(0, 0, 0);
    // In the place of the request that read the region that is gone.
    for (list, flags) in [([inline, nothing], NDK_OP_FLAG_INLINE), ([nothing, kept.sge(0, 8)], 0)] {
        assert_eq!(pair.active.qp.send(2, &list, flags), STATUS_SUCCESS);
        world.assert_empty(&pair.active.initiator_cq);
        assert_eq!(pair.passive.qp.receive(3, &[target.sge(0, 8)]), STATUS_SUCCESS);
        pair.active.expect(2, STATUS_SUCCESS);
        pair.passive.expect_receive(3, STATUS_SUCCESS);
    }
    [kept, target].into_iter().for_each(Buffer::close);
    pair.close();
}

/// A flush in the middle of a read or a write, in which the peer has no request, ends the connection too.
#[test]
fn flush_in_the_middle_of_an_access_ends_the_connection() {
    const BYTES: usize = 1024 * 1024;
    for is_read in [true, false] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let pages = BYTES / PAGE_SIZE;
        let (local, remote) = (Buffer::full(&pair.active.pd, pages), Buffer::full(&pair.passive.pd, pages));
        let (qp, sges) = (&pair.active.qp, [local.sge(0, BYTES)]);
        let gate = Gate::shut(if is_read { &local.pages } else { &remote.pages }, pages / 2);
        let posted = match is_read {
            true => qp.read(1, &sges, remote.base, remote.token, 0),
            false => qp.write(1, &sges, remote.base, remote.token, 0),
        };
        assert_eq!(posted, STATUS_SUCCESS);
        gate.reached();
        qp.flush();
        assert!(pair.active.initiator_cq.poll(1).is_empty());
        gate.open();
        pair.active.expect(1, STATUS_CANCELLED);
        pair.assert_aborted();
        local.close();
        remote.close();
        pair.close();
    }
}

/// What is posted while a flush is under way, here by the close callback of a region that a flushed request held, is not
/// flushed, and starts.
#[test]
fn a_post_inside_of_a_flush_is_carried_out() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, true);
    let qp = pair.active.qp;
    assert_eq!(qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(region.post(&pair.active, 2, 0), STATUS_SUCCESS);
    assert_eq!(qp.send(3, &[], 0), STATUS_SUCCESS);
    world.flush_dpcs();
    let close = region.mr.close();
    close.completion.on_call(move |_| {
        if qp.write(4, &[], 0, 0, 0) != STATUS_SUCCESS {
            complain("the post was refused".to_owned());
        }
        // The engine looks, and finds the flush.
        thread::sleep(Duration::from_millis(20));
    });
    qp.flush();
    (1..4).for_each(|context| {
        pair.active.expect(context, STATUS_CANCELLED);
    });
    pair.active.expect(4, STATUS_SUCCESS);
    close.succeed();
    pair.close();
}

/// A close starts the flush it needs: the receives of a queue pair that was never connected complete cancelled.
#[test]
fn close_of_an_unconnected_queue_pair_gives_the_receives_back() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    (0..3).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
    side.qp.close_now();
    let seen: Vec<_> = side.receive_cq.poll(8).iter().map(|r| (r.RequestContext.addr(), r.Status)).collect();
    assert_eq!(seen, [(0, STATUS_CANCELLED), (1, STATUS_CANCELLED), (2, STATUS_CANCELLED)]);
    side.receive_cq.close_now();
    side.initiator_cq.close_now();
    side.pd.close_now();
}
