//! INDEndpoint: sends, receives, reads and writes that succeed.

use anyhow::{Context as _, anyhow, ensure};
use nd_com::v1::ND_SGE;
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_READ_FENCE, ND_OP_FLAG_SILENT_SUCCESS},
    status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_SUCCESS},
};
use std::ptr;

use super::pair::{BOTH, End, Pair};
use crate::{
    memory::Memory,
    nd::{
        client::{
            Shared,
            both::Connector as _,
            both::QueuePair as _,
            v1::{EndpointSize, Mr},
        },
        pair::{READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern},
};

pub(in crate::nd) fn send(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let (source, target) = (from.buffer(MAX)?, to.buffer(MAX + 64)?);
        for length in [0, 1, 255, 256, 257, 4095, 4096, 65_537, MAX] {
            let data = pattern(length as u64, length);
            source.memory().write(0, &data);
            target.memory().write(length, &[0xa5; 64]);
            to.qp.receive(1, &[target.sge(0..length + 64)])?;
            from.qp.send(2, &[source.sge(0..length)], 0)?;
            expect_received(to.received()?, 1, length)?;
            expect(from.initiated()?, SEND, 2, STATUS_SUCCESS)?;
            ensure_same(&target.memory().read(0..length), &data)?;
            ensure!(target.memory().read(length..length + 64) == [0xa5; 64], "bytes behind the data were written");
        }
    }
    pair.quiet()
}

pub(in crate::nd) fn entries(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (source, target) = (pair.a.buffer(16384)?, pair.b.buffer(16384)?);
    // Two of each: every entry has a handle of its own.
    let (source_2, target_2) = (pair.a.buffer(16384)?, pair.b.buffer(16384)?);
    let data = pattern(3, 10_000);
    for source in [&source, &source_2] {
        source.memory().write(0, &data);
    }
    let cut = |lengths: &[usize], memories: [&Mr; 2]| -> Vec<ND_SGE> {
        let (mut at, mut turn) = (0, memories.iter().cycle());
        let mut part = |length: usize| turn.next().map(|mr| (mr.sge(at..at + length), at += length).0);
        lengths.iter().filter_map(|length| part(*length)).collect()
    };
    for (sent, received) in [
        (&[10_000][..], &[1, 4096, 4095, 1808][..]),
        (&[1, 4096, 4095, 1808], &[10_000]),
        (&[3, 0, 9997], &[4999, 5001]),
    ] {
        let targets = [&target, &target_2];
        for target in targets {
            target.memory().write(0, &[0; 10_000]);
        }
        pair.b.qp.receive(1, &cut(received, targets))?;
        pair.a.qp.send(2, &cut(sent, [&source, &source_2]), 0)?;
        expect_received(pair.b.received()?, 1, 10_000)?;
        expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        let mut at = 0;
        for (number, length) in received.iter().enumerate() {
            ensure_same(&targets[number % 2].memory().read(at..at + length), &data[at..at + length])?;
            at += length;
        }
    }
    pair.quiet()
}

/// Memory that is not registered, to send from.
fn unregistered(memory: &Memory, length: usize) -> ND_SGE {
    let address = ptr::without_provenance_mut(memory.address(0) as usize);
    ND_SGE { pAddr: address, Length: length, hMr: ptr::null_mut() }
}

/// docs/decisions.md: sends and writes whose data the DLL passes inline by itself.
// Shows V17, V20.
pub(in crate::nd) fn small(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let granted = pair.a.qp.inline;
    ensure!(granted >= 256, "256 bytes inline were asked for, {granted} granted");
    let (memory, target) = (Memory::new(4096), pair.b.buffer(4096)?);
    for length in [0, 1, granted] {
        memory.write(0, &pattern(length as u64, length));
        pair.a.qp.send(1, &[unregistered(&memory, length)], 0)?;
        // It was taken by the call.
        memory.write(0, &vec![0xa5; length]);
        pair.b.qp.receive(2, &[target.sge(0..4096)])?;
        expect_received(pair.b.received()?, 2, length)?;
        expect(pair.a.initiated()?, SEND, 1, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(0..length), &pattern(length as u64, length))?;
    }
    let (_mw, window) = pair.b.window(&target, BOTH)?;
    memory.write(0, &pattern(9, 100));
    pair.a.qp.write(3, &[unregistered(&memory, 100)], window, 50, 0)?;
    expect(pair.a.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
    ensure_same(&target.memory().read(50..150), &pattern(9, 100))?;
    pair.quiet()?;
    // One byte more is not.
    pair.b.qp.receive(4, &[target.sge(0..4096)])?;
    pair.a.qp.send(5, &[unregistered(&memory, granted + 1)], 0)?;
    expect(pair.a.initiated()?, SEND, 5, STATUS_ACCESS_VIOLATION)?;
    // Nothing inline, where nothing was asked for: memory must be registered.
    let pair = Pair::sized(nd, EndpointSize { inline: 0, ..EndpointSize::default() })?;
    if pair.a.qp.inline == 0 {
        // Whether or not the peer has a receive.
        pair.a.qp.send(2, &[unregistered(&memory, 1)], 0)?;
        expect(pair.a.initiated()?, SEND, 2, STATUS_ACCESS_VIOLATION)?;
    }
    Ok(())
}

// Shows V18.
pub(in crate::nd) fn batch(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (from, to) = (&pair.a.qp, &pair.b.qp);
    for round in 0..20 {
        to.start_batch();
        for context in 0..8 {
            to.receive(8 * round + context, &[])?;
        }
        to.submit_batch();
        from.start_batch();
        for context in 0..8 {
            from.send(8 * round + context, &[], 0)?;
        }
        from.submit_batch();
        for context in 0..8 {
            expect_received(pair.b.received()?, 8 * round + context, 0).with_context(|| format!("round {round}"))?;
            expect(pair.a.initiated()?, SEND, 8 * round + context, STATUS_SUCCESS)?;
        }
    }
    // Nothing in it, one in another, an end without a beginning, a flush in the middle of one, and one that is never ended.
    from.start_batch();
    from.submit_batch();
    from.submit_batch();
    from.start_batch();
    from.start_batch();
    to.receive(1, &[])?;
    from.send(2, &[], 0)?;
    from.submit_batch();
    from.submit_batch();
    expect_received(pair.b.received()?, 1, 0)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    to.start_batch();
    to.receive(3, &[])?;
    to.flush()?;
    expect(pair.b.received()?, RECEIVE, 3, STATUS_CANCELLED)?;
    // What a batch holds back when the connection ends is cancelled with the rest.
    from.start_batch();
    for context in 0..4 {
        from.send(context, &[], 0)?;
    }
    pair.a.connector.disconnect()?.finish()?;
    for context in 0..4 {
        expect(pair.a.initiated()?, SEND, context, STATUS_CANCELLED)?;
    }
    from.submit_batch();
    pair.quiet()?;
    let pair = Pair::new(nd)?;
    pair.a.qp.start_batch();
    for context in 0..4 {
        pair.a.qp.send(context, &[], 0)?;
    }
    let mut told = pair.a.connector.notify_disconnect()?;
    pair.b.connector.disconnect()?.finish()?;
    told.status()?;
    pair.a.qp.submit_batch();
    pair.a.qp.flush()?;
    for context in 0..4 {
        expect(pair.a.initiated()?, SEND, context, STATUS_CANCELLED)?;
    }
    // One that is never ended.
    let pair = Pair::new(nd)?;
    pair.a.qp.start_batch();
    Ok(pair.a.qp.send(1, &[], 0)?)
}

pub(in crate::nd) fn silent(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    for round in 0..20 {
        for context in 0..8 {
            pair.b.qp.receive(context, &[])?;
            let flags = if context == 7 { 0 } else { ND_OP_FLAG_SILENT_SUCCESS };
            pair.a.qp.send(context, &[], flags)?;
        }
        for context in 0..8 {
            expect_received(pair.b.received()?, context, 0).with_context(|| format!("round {round}"))?;
        }
        expect(pair.a.initiated()?, SEND, 7, STATUS_SUCCESS)?;
    }
    pair.quiet()?;
    // What fails is not silent.
    pair.a.qp.send(1, &[], ND_OP_FLAG_SILENT_SUCCESS)?;
    pair.a.qp.flush()?;
    expect(pair.a.initiated()?, SEND, 1, STATUS_CANCELLED).map(drop)
}

pub(in crate::nd) fn rdma(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let (local, region) = (from.buffer(MAX)?, to.buffer(MAX + 4096)?);
        let (_mw, window) = to.window(&region, BOTH)?;
        for length in [0, 1, 257, 4097, MAX] {
            let data = pattern(length as u64 + 1, length);
            local.memory().write(0, &data);
            from.qp.write(1, &[local.sge(0..length)], window, 33, 0)?;
            expect(from.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
            ensure_same(&region.memory().read(33..33 + length), &data)?;
            let data = pattern(length as u64 + 2, length);
            region.memory().write(77, &data);
            from.qp.read(2, &[local.sge(0..length)], window, 77, 0)?;
            expect(from.initiated()?, READ, 2, STATUS_SUCCESS)?;
            ensure_same(&local.memory().read(0..length), &data)?;
        }
        from.qp.write(3, &[], window, 0, 0)?;
        expect(from.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
        from.qp.read(4, &[], window, 0, 0)?;
        expect(from.initiated()?, READ, 4, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

/// A write behind a fenced read must not be seen by the read, and takes what the read brought.
pub(in crate::nd) fn fence(nd: &Nd) -> anyhow::Result<()> {
    const LENGTH: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(LENGTH)?, pair.b.buffer(2 * LENGTH)?);
    let (_mw, window) = pair.b.window(&region, BOTH)?;
    let data = pattern(5, LENGTH);
    region.memory().write(0, &data);
    pair.a.qp.read(1, &[local.sge(0..LENGTH)], window, 0, 0)?;
    pair.a.qp.write(2, &[local.sge(0..LENGTH)], window, LENGTH as u64, ND_OP_FLAG_READ_FENCE)?;
    expect(pair.a.initiated()?, READ, 1, STATUS_SUCCESS)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_SUCCESS)?;
    ensure_same(&region.memory().read(LENGTH..2 * LENGTH), &data)
}

/// More reads than may be under way at a time wait for their turn.
pub(in crate::nd) fn reads(nd: &Nd) -> anyhow::Result<()> {
    for limit in [1, 3] {
        let pair = Pair::sized(nd, EndpointSize { inbound_reads: limit, outbound_reads: limit, ..Default::default() })?;
        let (local, region) = (pair.a.buffer(65_536)?, pair.b.buffer(65_536)?);
        let (_mw, window) = pair.b.window(&region, BOTH)?;
        region.memory().write(0, &pattern(1, 65_536));
        for number in 0..32 {
            let part = 2048 * number..2048 * (number + 1);
            pair.a.qp.read(number, &[local.sge(part.clone())], window, part.start as u64, 0)?;
        }
        for number in 0..32 {
            expect(pair.a.initiated()?, READ, number, STATUS_SUCCESS)?;
        }
        ensure_same(&local.memory().read(0..65_536), &pattern(1, 65_536))?;
    }
    Ok(())
}

/// Posts of four threads, to both queues of one endpoint, in batches and alone: all of them complete, once.
pub(in crate::nd) fn threads(nd: &Nd) -> anyhow::Result<()> {
    const EACH: usize = 100;
    let size = EndpointSize { inbound: 512, outbound: 512, ..EndpointSize::default() };
    let pair = Pair::of(End::with_cqs(nd, size, 1024)?, End::with_cqs(nd, size, 1024)?)?;
    let (from, to) = (Shared::new(pair.a.qp.clone()), Shared::new(pair.b.qp.clone()));
    let post = |number: usize| -> anyhow::Result<()> {
        for context in number * EACH..(number + 1) * EACH {
            to.get().receive(context, &[])?;
            let in_batch = (context + number).is_multiple_of(7);
            if in_batch {
                from.get().start_batch();
            }
            from.get().send(context, &[], 0)?;
            if in_batch {
                from.get().submit_batch();
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let posters: Vec<_> = (0..4).map(|number| scope.spawn(move || post(number))).collect();
        posters.into_iter().try_for_each(|poster| poster.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    for (kind, end) in [(SEND, &pair.a), (RECEIVE, &pair.b)] {
        let mut found = vec![false; 4 * EACH];
        for _ in 0..4 * EACH {
            let completion = if kind == SEND { end.initiated()? } else { end.received()? };
            expect(completion, kind, completion.context, STATUS_SUCCESS)?;
            ensure!(!std::mem::replace(&mut found[completion.context], true), "one completed twice");
        }
    }
    pair.quiet()
}
