//! IND2CompletionQueue apart from Notify, and ND2_RESULT.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use super::both::completion_queue::fill;
use crate::{
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
