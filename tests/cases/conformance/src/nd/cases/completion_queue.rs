//! IND2CompletionQueue apart from Notify, and ND2_RESULT.

use std::{thread, time::Instant};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_PENDING, STATUS_SUCCESS},
};

use crate::{
    error::Error,
    nd::{
        client::{
            Mw, Qp, QpSize,
            both::{CompletionQueue as _, QueuePair as _},
        },
        pair::{BIND, End, INVALIDATE, Pair, READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
        run::Nd,
    },
    pair::refused,
};

// Shows C7, C8, R6.
pub(in crate::nd) fn affinity(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let (group, mask) = adapter.cq_on(16, 0, 1)?.affinity()?;
    ensure!((group, mask) == (0, 1), "asked for processor 0, group {group} and mask {mask:#x} were given");
    let cq = adapter.cq(16)?;
    let (group, mask) = cq.affinity()?;
    ensure!(group == 0 && mask != 0, "nothing was asked for; group {group}, mask {mask:#x}");
    is(cq.affinity_nowhere(true), STATUS_INVALID_PARAMETER, "no place for the group")?;
    is(cq.affinity_nowhere(false), STATUS_INVALID_PARAMETER, "no place for the mask")
}

/// Sends empty messages; all of them are completed at both ends, none is taken at `pair.b`.
fn fill(pair: &Pair, contexts: std::ops::Range<usize>) -> anyhow::Result<()> {
    for context in contexts {
        pair.b.qp.receive(context, &[])?;
        pair.a.qp.send(context, &[], 0)?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
    }
    Ok(())
}

// Shows C9, N37, R6.
pub(in crate::nd) fn resize(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::of(End::new(nd)?, End::with_cqs(nd, QpSize::default(), 32)?)?;
    let cq = &pair.b.receive_cq;
    let mut next = 0;
    for (depth, more) in [(64, 50), (50, 0), (512, 100), (150, 0)] {
        cq.resize(depth).with_context(|| format!("resizing to {depth} with {next} completions"))?;
        fill(&pair, next..next + more)?;
        next += more;
    }
    for context in 0..next {
        expect_received(pair.b.received()?, context, 0)?;
    }
    cq.resize(1)?;
    fill(&pair, 0..1)?;
    expect_received(pair.b.received()?, 0, 0)?;
    pair.quiet()
}

// Shows C10, C11, R6.
pub(in crate::nd) fn resize_refused(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let cq = &pair.b.receive_cq;
    let max = pair.b.adapter.info()?.MaxCompletionQueueDepth;
    refused(cq.resize(0), STATUS_INVALID_PARAMETER, "no entries")?;
    refused(cq.resize(max as usize + 1), STATUS_INVALID_PARAMETER, "more than the adapter's limit")?;
    fill(&pair, 0..10)?;
    refused(cq.resize(9), STATUS_BUFFER_OVERFLOW, "9 entries for 10 completions")?;
    fill(&pair, 10..30)?;
    for context in 0..30 {
        expect_received(pair.b.received()?, context, 0)?;
    }
    pair.quiet()
}

// Shows C13.
pub(in crate::nd) fn resize_in_traffic(nd: &Nd) -> anyhow::Result<()> {
    const BURST: usize = 16;
    let pair = Pair::new(nd)?;
    let mut next = 0;
    for round in 0..60 {
        for context in 0..BURST {
            pair.b.qp.receive(round * BURST + context, &[])?;
        }
        for context in 0..BURST {
            pair.a.qp.send(context, &[], 0)?;
            if context == round % BURST {
                pair.b.receive_cq.resize(32 + 37 * (round % 5))?;
                pair.a.initiator_cq.resize(32 + 31 * (round % 4))?;
            }
        }
        for context in 0..BURST {
            expect_received(pair.b.received()?, next, 0).with_context(|| format!("round {round}"))?;
            expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
            next += 1;
        }
    }
    pair.quiet()
}

/// Receives of a queue pair that was never connected can be flushed: as many completions as there are receives.
// Shows C14, C25, R6.
pub(in crate::nd) fn overrun(nd: &Nd) -> anyhow::Result<()> {
    const DEPTH: u32 = 4;
    let (adapter, address) = nd.adapter()?;
    let (small, other) = (adapter.cq(DEPTH)?, adapter.cq(64)?);
    let size = QpSize { receives: 1024, ..QpSize::default() };
    let qp = adapter.qp(&small, &other, size)?;
    let mut any = small.notify(ND_CQ_NOTIFY_ANY)?;
    let mut errors = small.notify(ND_CQ_NOTIFY_ERRORS)?;
    for context in 0..1024 {
        qp.receive(context, &[])?;
    }
    qp.flush()?;
    is(errors.status()?, STATUS_BUFFER_OVERFLOW, "ERRORS after an overrun")?;
    // It may have been ended by the first of the completions.
    let status = any.status()?;
    ensure!(status == STATUS_BUFFER_OVERFLOW || status == STATUS_SUCCESS, "ANY after an overrun: {status}");
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS] {
        let status = match small.notify(kind) {
            Ok(mut late) => late.status()?,
            Err(Error::Refused { status, .. }) => status,
            Err(error) => return Err(error.into()),
        };
        is(status, STATUS_BUFFER_OVERFLOW, "a later Notify")?;
    }
    while !small.poll(64)?.is_empty() {}
    // A ring takes requests until the driver has looked at one.
    let deadline = Instant::now() + nd.patience();
    while qp.receive(1, &[]).is_ok() {
        ensure!(Instant::now() < deadline, "the queue pair of a dead completion queue takes requests");
        thread::yield_now();
    }
    let connector = adapter.connector()?;
    connector.bind(address)?;
    let connect = connector.connect(&qp, address, Default::default(), &[]).and_then(|mut request| request.status());
    ensure!(connect.is_err() || connect != Ok(STATUS_SUCCESS), "the queue pair of a dead completion queue connects");
    Ok(())
}

// Shows C5, C28, R1, R3, R6.
pub(in crate::nd) fn results(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (source, target) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    for (context, length) in [(0, 17), (usize::MAX, 0), (7, 4096)] {
        pair.b.qp.receive(context, &[target.sge(0..4096)])?;
        pair.a.qp.send(!context, &[source.sge(0..length)], 0)?;
        expect_received(pair.b.received()?, context, length)?;
        expect(pair.a.initiated()?, SEND, !context, STATUS_SUCCESS)?;
    }
    ensure!(pair.b.receive_cq.poll(0)?.is_empty(), "results, although none were asked for");
    fill(&pair, 0..5)?;
    ensure!(pair.b.receive_cq.poll(0)?.is_empty(), "results, although none were asked for");
    let mut found = Vec::new();
    for asked in [2, 2, 2, 2] {
        found.push(pair.b.receive_cq.poll(asked)?.len());
    }
    ensure!(found == [2, 2, 1, 0], "five completions came as {found:?}, two at a time");
    Ok(())
}

// Shows R4, R5.
pub(in crate::nd) fn kinds(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let window = Mw::new(&pair.b.adapter)?;
    let remote = pair.b.qp.bind(1, &region, &window, 0, 4096, ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE)?;
    expect(pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    pair.a.qp.write(2, &[local.sge(0..64)], remote, 0)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_SUCCESS)?;
    pair.a.qp.read(3, &[local.sge(0..64)], remote, 0)?;
    expect(pair.a.initiated()?, READ, 3, STATUS_SUCCESS)?;
    pair.b.qp.invalidate(4, &window, 0)?;
    expect(pair.b.initiated()?, INVALIDATE, 4, STATUS_SUCCESS)?;
    pair.b.qp.receive(5, &[])?;
    pair.a.qp.send(6, &[], 0)?;
    expect(pair.b.received()?, RECEIVE, 5, STATUS_SUCCESS)?;
    expect(pair.a.initiated()?, SEND, 6, STATUS_SUCCESS)?;
    pair.quiet()
}

// Shows C29, C30.
pub(in crate::nd) fn order(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(65536)?, pair.b.buffer(65536)?);
    for context in 0..10 {
        pair.b.qp.receive(context, &[])?;
    }
    // Long and short ones alternate: those that are done sooner have to wait.
    for context in 0..30 {
        match context % 3 {
            0 => pair.a.qp.read(context, &[local.sge(0..65536)], region.remote(0), 0)?,
            1 => pair.a.qp.send(context, &[], 0)?,
            _ => pair.a.qp.write(context, &[local.sge(0..1)], region.remote(0), 0)?,
        }
    }
    for context in 0..30 {
        let kind = [READ, SEND, WRITE][context % 3];
        expect(pair.a.initiated()?, kind, context, STATUS_SUCCESS)?;
    }
    for context in 0..10 {
        expect_received(pair.b.received()?, context, 0)?;
    }
    pair.quiet()
}

/// Two connected queue pairs, all of whose completions of one side go to one queue.
// Shows C2, N44, N45, R2.
pub(in crate::nd) fn shared(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let one = b.adapter.cq(64)?;
    let mut pairs = Vec::new();
    for number in 1..=2 {
        let size = QpSize { context: 0x100 * number, ..QpSize::default() };
        let near = a.beside(&a.receive_cq, &a.initiator_cq, size)?;
        pairs.push(Pair::of(near, b.beside(&one, &one, size)?)?);
    }
    for (number, pair) in (1..).zip(&pairs) {
        let (near, far) = (&pair.a.qp, &pair.b.qp);
        far.receive(number, &[])?;
        near.receive(0x10 + number, &[])?;
        near.send(0x20 + number, &[], 0)?;
        far.send(0x30 + number, &[], 0)?;
        let mut found = [one.take_one()?, one.take_one()?];
        found.sort_by_key(|result| result.kind);
        for (result, kind, context) in [(found[0], RECEIVE, number), (found[1], SEND, 0x30 + number)] {
            expect(result, kind, context, STATUS_SUCCESS)?;
            ensure!(result.qp_context == 0x100 * number, "the queue pair's context is {:#x}", result.qp_context);
        }
        expect_received(a.received()?, 0x10 + number, 0)?;
        expect(a.initiated()?, SEND, 0x20 + number, STATUS_SUCCESS)?;
    }
    ensure!(one.poll(8)?.is_empty(), "completions too many");
    Ok(())
}

// Shows C3.
pub(in crate::nd) fn apart(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mut receives = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    let mut initiators = pair.b.initiator_cq.notify(ND_CQ_NOTIFY_ANY)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    is(receives.status()?, STATUS_SUCCESS, "the queue for receives")?;
    ensure!(!initiators.is_over(), "a receive ended a Notify of the queue for initiators");
    is(initiators.result_now(), STATUS_PENDING, "the queue for initiators")?;
    expect_received(pair.b.received()?, 1, 0)?;
    pair.a.qp.receive(3, &[])?;
    pair.b.qp.send(4, &[], 0)?;
    is(initiators.status()?, STATUS_SUCCESS, "the queue for initiators")?;
    expect(pair.b.initiated()?, SEND, 4, STATUS_SUCCESS)?;
    expect_received(pair.a.received()?, 3, 0)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    pair.quiet()
}

/// A cancelled receive has the context of its request, too.
// Shows N45.
pub(in crate::nd) fn cancelled_results(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    end.qp.receive(0x77, &[])?;
    end.qp.flush()?;
    let result = expect(end.received()?, RECEIVE, 0x77, STATUS_CANCELLED)?;
    ensure!(result.qp_context == QpSize::default().context, "the queue pair's context is {:#x}", result.qp_context);
    end.quiet()
}

/// Completions of a queue pair that is released before anybody takes them (docs/decisions.md).
// Shows N51.
pub(in crate::nd) fn released_queue_pair(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let cq = adapter.cq(64)?;
    let cancel_one = |qp: &Qp, context| -> anyhow::Result<()> {
        let mut notified = cq.notify(ND_CQ_NOTIFY_ANY)?;
        qp.receive(context, &[])?;
        qp.flush()?;
        is(notified.status()?, STATUS_SUCCESS, "Notify")
    };
    let lasting = adapter.qp(&cq, &cq, QpSize { context: 0x10, ..QpSize::default() })?;
    for context in 0x100..0x120 {
        let qp = adapter.qp(&cq, &cq, QpSize { context, ..QpSize::default() })?;
        cancel_one(&qp, 1)?;
        drop(qp);
        let found = cq.poll(8)?;
        ensure!(found.is_empty(), "{found:?} of a queue pair that was released");
        cancel_one(&lasting, 2)?;
        let found = expect(cq.take_one()?, RECEIVE, 2, STATUS_CANCELLED)?;
        ensure!(found.qp_context == 0x10, "{found:?} is of the queue pair with context 0x10");
    }
    Ok(())
}
