//! The end of connections. NDKPI "disconnect scheme", `nc-ndkpi-ndk_fn_disconnect`.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeBind,
        NdkOperationTypeFastRegister, NdkOperationTypeInvalidate, NdkOperationTypeRead, NdkOperationTypeReceive,
        NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ioctl::SOFTNDK_RESULT,
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
};

use crate::{
    Carrier,
    bench::Bench,
    client::{Cq, FastMr, Mw, QpSize},
    memory::PAGE_SIZE,
    pair::{End, Pair, exchange, expect, pattern},
};

// Shows P24, S709.
pub(super) fn graceful(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let client = &pair.b.site.client;
    exchange(&pair.a, &pair.b, &pattern(1, 3000))?;
    let told = pair.b.connector.notify_disconnect();
    client.pended(1)?;
    for context in 0..3 {
        pair.a.qp.receive(context, &[])?;
        pair.b.qp.receive(context, &[])?;
    }
    pair.a.connector.disconnect().finish().context("disconnecting")?;
    // "flushes the queue pair"
    for context in 0..3 {
        expect(&pair.a.received()?, NdkOperationTypeReceive, context, STATUS_CANCELLED).context("own receives")?;
    }
    told.finish().context("the peer's notification")?;
    // Existing programs wait for that before they disconnect themselves (ndspi.md section 5).
    for context in 0..3 {
        expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_CANCELLED).context("peer's receives")?;
    }
    pair.b.connector.disconnect().finish().context("the peer disconnects too")?;
    Ok(())
}

pub(super) fn queue_pair_freed(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    pair.b.qp.receive(1, &[])?;
    let told = pair.b.connector.notify_disconnect();
    pair.b.site.client.pended(1)?;
    pair.a.qp.free()?;
    told.finish().context("the peer's notification")?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_CANCELLED).context("the peer's receive")?;
    cancels_sends(&pair.b).context("the peer sends")
}

// Shows S710.
pub(super) fn both_at_once(bench: &Bench<'_>) -> anyhow::Result<()> {
    for _ in 0..20 {
        let pair = Pair::new(bench)?;
        let first = pair.a.connector.disconnect();
        let second = pair.b.connector.disconnect();
        first.finish().context("first")?;
        second.finish().context("second")?;
    }
    Ok(())
}

// Shows S921.
pub(super) fn posts_after(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let told = pair.b.connector.notify_disconnect();
    pair.b.site.client.pended(1)?;
    pair.a.connector.disconnect().finish()?;
    told.finish()?;
    for (side, end) in [("the side that disconnected", &pair.a), ("its peer", &pair.b)] {
        cancels_all(end).context(side)?;
    }
    pair.b.connector.disconnect().finish().context("the peer disconnects too")?;
    cancels_all(&pair.b).context("both have disconnected")?;
    [&pair.a, &pair.b].into_iter().try_for_each(End::quiet)
}

/// Posts more requests of each kind than the queues hold: each is taken, and cancelled in its turn.
fn cancels_all(end: &End) -> anyhow::Result<()> {
    let (mr, mw) = (end.site.buffer(64)?, Mw::new(&end.site.pd)?);
    let fast = FastMr::new(&end.site.pd, PAGE_SIZE)?;
    for round in 0..20 {
        end.qp.receive(round, &[]).context("a receive")?;
        expect(&end.received()?, NdkOperationTypeReceive, round, STATUS_CANCELLED)?;
        end.qp.send(1, &[mr.sge(0..64)], 0).context("a send")?;
        end.qp.send(2, &[], NDK_OP_FLAG_SILENT_SUCCESS).context("a silent send")?;
        end.qp.write(3, &[mr.sge(0..1)], mr.remote(0), 0).context("a write")?;
        end.qp.read(4, &[mr.sge(0..1)], mr.remote(0), 0).context("a read")?;
        let kinds = [NdkOperationTypeSend, NdkOperationTypeSend, NdkOperationTypeWrite, NdkOperationTypeRead];
        for (context, kind) in (1..).zip(kinds) {
            expect(&end.initiated()?, kind, context, STATUS_CANCELLED)?;
        }
        end.qp.bind(5, &mw, &mr, 0..8, NDK_OP_FLAG_ALLOW_REMOTE_READ).context("a bind")?;
        expect(&end.initiated()?, NdkOperationTypeBind, 5, STATUS_CANCELLED)?;
        end.qp.invalidate_window(6, &mw, 0).context("an invalidation")?;
        expect(&end.initiated()?, NdkOperationTypeInvalidate, 6, STATUS_CANCELLED)?;
        end.qp.fast_register(7, &fast, 0, PAGE_SIZE as u64, NDK_OP_FLAG_ALLOW_LOCAL_WRITE).context("a registration")?;
        expect(&end.initiated()?, NdkOperationTypeFastRegister, 7, STATUS_CANCELLED)?;
    }
    Ok(())
}

/// A send on a connection that has ended.
fn cancels_sends(end: &End) -> anyhow::Result<()> {
    end.qp.send(1, &[], 0)?;
    expect(&end.initiated()?, NdkOperationTypeSend, 1, STATUS_CANCELLED).map(drop)
}

/// Checks that `contexts` complete on `cq`, each once, and returns how many of them with success.
fn all_once(cq: &Cq, contexts: &[u64]) -> anyhow::Result<usize> {
    let mut seen: BTreeMap<u64, SOFTNDK_RESULT> = BTreeMap::new();
    for result in cq.take(contexts.len())? {
        ensure!(
            [STATUS_SUCCESS, STATUS_CANCELLED].contains(&result.Status),
            "context {:#x} completed with {}",
            result.RequestContext,
            result.Status
        );
        let context = result.RequestContext;
        ensure!(seen.insert(context, result).is_none(), "context {context:#x} completed twice");
    }
    ensure!(seen.keys().eq(contexts.iter()), "completed {:?} instead of {contexts:?}", seen.keys());
    let more = cq.poll(8)?.len();
    ensure!(more == 0, "{more} completions too many");
    Ok(seen.values().filter(|result| result.Status == STATUS_SUCCESS).count())
}

// Shows S205, S812 (processes).
pub(super) fn in_mid_traffic(bench: &Bench<'_>) -> anyhow::Result<()> {
    for round in 0..10 {
        let pair = Pair::sized(bench, QpSize { receives: 64, initiators: 64, ..QpSize::default() })?;
        let (source, target) = (pair.a.site.buffer(1 << 20)?, pair.b.site.buffer(1 << 20)?);
        let mut initiated = Vec::new();
        let mut received = Vec::new();
        for context in 0..10 {
            pair.b.qp.receive(context, &[target.sge(0..65_536)])?;
            received.push(context);
        }
        // More sends than receives, and long writes between them.
        for context in 0..15_u64 {
            pair.a.qp.write(2 * context, &[source.sge(0..1 << 19)], target.remote(0), 0)?;
            pair.a.qp.send(2 * context + 1, &[source.sge(0..60_000)], 0)?;
            initiated.extend([2 * context, 2 * context + 1]);
        }
        let told = if round % 2 == 0 { &pair.b } else { &pair.a };
        let acting = if round % 2 == 0 { &pair.a } else { &pair.b };
        let told_request = told.connector.notify_disconnect();
        told.site.client.pended(1)?;
        acting.connector.disconnect().finish().with_context(|| format!("round {round}"))?;
        told_request.finish().with_context(|| format!("round {round}: the peer's notification"))?;
        told.qp.flush()?;
        let sent = all_once(&pair.a.site.initiator_cq, &initiated).with_context(|| format!("round {round}"))?;
        let taken = all_once(&pair.b.site.receive_cq, &received).with_context(|| format!("round {round}"))?;
        // 10 receives: at most 10 sends and the 11 writes up to the first send that has to wait. Over the wire it does so there.
        let most = if pair.a.site.carrier == Carrier::Device { 21 } else { 30 };
        ensure!(taken <= 10 && sent <= most, "round {round}: {sent} requests succeeded with {taken} receives");
    }
    Ok(())
}

pub(super) fn free_without(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let told = pair.b.connector.notify_disconnect();
    pair.b.site.client.pended(1)?;
    pair.a.qp.receive(1, &[])?;
    pair.a.connector.free().context("freeing the connector")?;
    told.finish().context("the peer's notification")?;
    expect(&pair.a.received()?, NdkOperationTypeReceive, 1, STATUS_CANCELLED)?;
    pair.a.qp.free().context("freeing the queue pair")?;
    cancels_sends(&pair.b).context("the peer sends")
}

pub(super) fn file_closed(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let target = pair.b.site.buffer(1 << 20)?;
    let source = pair.a.site.buffer(1 << 20)?;
    let Pair { a, b, .. } = &pair;
    let told = a.connector.notify_disconnect();
    a.site.client.pended(1)?;
    for context in 0..8 {
        b.qp.receive(context, &[target.sge(0..4096)])?;
    }
    for context in 0..16 {
        a.qp.write(2 * context, &[source.sge(0..1 << 20)], target.remote(0), 0)?;
        a.qp.send(2 * context + 1, &[source.sge(0..4096)], 0)?;
    }
    // As if the process of b had died: nothing is freed by itself.
    b.site.client.abandon();
    let Pair { a, b, listener } = pair;
    drop((target, listener, b));
    told.finish().context("the notification")?;
    a.qp.flush()?;
    for context in 0..32 {
        let kind = if context % 2 == 0 { NdkOperationTypeWrite } else { NdkOperationTypeSend };
        let result = a.initiated().with_context(|| format!("request {context}"))?;
        expect(&result, kind, context, result.Status)?;
    }
    Ok(())
}

pub(super) fn notify_cancelled(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let client = &pair.b.site.client;
    let mut requests = [pair.b.connector.notify_disconnect(), pair.b.connector.notify_disconnect()];
    client.pended(2)?;
    requests[0].cancel();
    let status = requests[0].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled by itself: {status}");
    ensure!(!requests[1].is_over(), "the other request ended too");
    pair.b.connector.cancel_io()?;
    let status = requests[1].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled with all: {status}");
    // The connection is as it was; a disconnect before the next request is not forgotten.
    exchange(&pair.a, &pair.b, b"alive")?;
    pair.a.connector.disconnect().finish()?;
    pair.b.connector.notify_disconnect().finish().context("asked for after the peer had disconnected")?;
    Ok(())
}
