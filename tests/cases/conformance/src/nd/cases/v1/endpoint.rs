//! INDEndpoint: small data, batches, more reads than the limit, and posts of several threads.

use anyhow::{Context as _, anyhow, ensure};
use nd_com::v1::ND_SGE;
use ndk_abi::status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_SUCCESS};
use std::ptr;

use super::pair::{End, Pair};
use crate::{
    memory::Memory,
    nd::{
        client::{Shared, both::Connector as _, both::QueuePair as _, v1::EndpointSize},
        pair::{READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern},
};

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
    let (_mw, window) = pair.b.expose(&target)?;
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

/// More reads than may be under way at a time wait for their turn.
pub(in crate::nd) fn reads(nd: &Nd) -> anyhow::Result<()> {
    for limit in [1, 3] {
        let pair = Pair::sized(nd, EndpointSize { inbound_reads: limit, outbound_reads: limit, ..Default::default() })?;
        let (local, region) = (pair.a.buffer(65_536)?, pair.b.buffer(65_536)?);
        let (_mw, window) = pair.b.expose(&region)?;
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
