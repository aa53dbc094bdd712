//! Shared receive queues. IND2SharedReceiveQueue, `nc-ndkpi-ndk_fn_modify_srq`.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{NdkOperationTypeReceive, NdkOperationTypeSend},
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER,
        STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
};

use crate::{
    bench::Bench,
    client::{Qp, QpSize, Srq},
    pair::{End, Pair, Site, ensure_length, ensure_same, expect, pattern, refused},
};

/// Two pairs whose `b` sides take receives from one SRQ.
struct Shared {
    first: Pair,
    second: Pair,
    srq: Srq,
}

impl Shared {
    fn new(bench: &Bench<'_>, depth: u32, threshold: u32) -> anyhow::Result<Self> {
        let site = Site::new(&bench.there())?;
        let srq = Srq::new(&site.pd, depth, 4, threshold)?;
        let end = || -> anyhow::Result<End> {
            let qp = Qp::with_srq(&site.pd, &site.receive_cq, &site.initiator_cq, &srq, QpSize::default())?;
            Ok(site.end_with(qp)?)
        };
        let first = Pair::connect(Site::new(bench)?.end()?, end()?)?;
        let second = Pair::connect(Site::new(bench)?.end()?, end()?)?;
        Ok(Self { first, second, srq })
    }

    /// Has one queued receive taken.
    fn take(&self) -> anyhow::Result<()> {
        self.first.a.qp.send(1, &[], 0)?;
        expect(&self.first.a.initiated()?, NdkOperationTypeSend, 1, STATUS_SUCCESS)?;
        let result = self.first.b.received()?;
        ensure!(result.Status == STATUS_SUCCESS, "the receive: {}", result.Status);
        Ok(())
    }

    fn post(&self, count: u64) -> anyhow::Result<()> {
        for context in 0..count {
            self.srq.receive(context, &[])?;
        }
        Ok(())
    }
}

// Shows S401.
pub(super) fn two_queue_pairs(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 16, 0)?;
    let target = shared.first.b.site.buffer(8 * 4096)?;
    for context in 0..8 {
        let at = context as usize * 4096;
        shared.srq.receive(context, &[target.sge(at..at + 100), target.sge(at + 100..at + 4096)])?;
    }
    for round in 0..8 {
        let pair = if round % 3 == 0 { &shared.second } else { &shared.first };
        let data = pattern(round, 90 + 20 * round as usize);
        pair.a.qp.send_inline(round, &data, 0)?;
        let result = pair.b.received()?;
        // The queue pairs take the receives of the queue in order.
        ensure_length(expect(&result, NdkOperationTypeReceive, round, STATUS_SUCCESS)?, data.len())?;
        ensure!(result.QpHandle == pair.b.qp.handle(), "round {round}: the completion names another queue pair");
        let at = round as usize * 4096;
        ensure_same(&target.memory().read(at..at + data.len()), &data).with_context(|| format!("round {round}"))?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, round, STATUS_SUCCESS)?;
    }
    shared.first.quiet()?;
    shared.second.quiet()
}

// Shows S402.
pub(super) fn holds_sends(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 16, 0)?;
    for pair in [&shared.first, &shared.second] {
        pair.a.qp.send(1, &[], 0)?;
        let early = pair.a.site.initiator_cq.poll(8)?.len();
        ensure!(early == 0, "a send completed with no receive posted");
    }
    shared.post(2)?;
    let mut served: Vec<_> = shared.first.b.site.receive_cq.take(2)?.iter().map(|result| result.QpHandle).collect();
    served.sort_unstable();
    let mut both = [shared.first.b.qp.handle(), shared.second.b.qp.handle()];
    both.sort_unstable();
    ensure!(served == both, "receives went to queue pairs {served:x?} instead of {both:x?}");
    for pair in [&shared.first, &shared.second] {
        expect(&pair.a.initiated()?, NdkOperationTypeSend, 1, STATUS_SUCCESS)?;
    }
    Ok(())
}

// Shows P19, S403.
pub(super) fn threshold(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 16, 4)?;
    let client = &shared.first.b.site.client;
    for round in 0..3 {
        shared.post(if round == 0 { 6 } else { 3 })?;
        let mut requests = [shared.srq.notify(), shared.srq.notify()];
        client.pended(2).with_context(|| format!("round {round}: 6 receives, threshold 4"))?;
        for left in [5, 4] {
            shared.take()?;
            for request in &mut requests {
                ensure!(!request.is_over(), "round {round}: notified with {left} receives, threshold 4");
            }
        }
        shared.take()?;
        for request in requests {
            request.finish().with_context(|| format!("round {round}: 3 receives, threshold 4"))?;
        }
    }
    Ok(())
}

// Shows P19, S403.
pub(super) fn below_already(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 16, 2)?;
    let client = &shared.first.b.site.client;
    shared.post(4)?;
    let request = shared.srq.notify();
    client.pended(1)?;
    // The request waits for less than 2; the new threshold is above the 4 that are queued.
    shared.srq.modify(0, 5)?;
    request.finish().context("after the threshold was raised above the content")?;
    shared.srq.notify().finish().context("asked for when the content is below the threshold")?;
    Ok(())
}

// Shows P18, S405.
pub(super) fn modify(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 4, 0)?;
    let limit = shared.first.b.site.adapter.info()?.MaxSharedReceiveQueueDepth;
    shared.post(4)?;
    shared.srq.modify(8, 0).context("8 entries")?;
    shared.post(4).context("filling 8 entries")?;
    refused(shared.srq.modify(7, 0), STATUS_BUFFER_OVERFLOW, "7 entries for 8 receives")?;
    refused(shared.srq.modify(limit + 1, 0), STATUS_INVALID_PARAMETER, "more than the limit")?;
    refused(shared.srq.receive(9, &[]), STATUS_NO_MORE_ENTRIES, "a ninth receive")?;
    for _ in 0..8 {
        shared.take()?;
    }
    shared.srq.modify(2, 0).context("2 entries")?;
    shared.post(2)?;
    refused(shared.srq.receive(3, &[]), STATUS_NO_MORE_ENTRIES, "a third receive")?;
    shared.take()?;
    shared.take()
}

pub(super) fn full(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 4, 0)?;
    let mr = shared.first.b.site.buffer(4096)?;
    refused(shared.srq.receive(1, &[mr.sge(0..1); 5]), STATUS_DATA_OVERRUN, "5 entries of 4")?;
    shared.post(4)?;
    refused(shared.srq.receive(5, &[]), STATUS_NO_MORE_ENTRIES, "a fifth receive")?;
    shared.take()?;
    shared.post(1)?;
    for _ in 0..4 {
        shared.take()?;
    }
    Ok(())
}

pub(super) fn cancelled(bench: &Bench<'_>) -> anyhow::Result<()> {
    let shared = Shared::new(bench, 8, 2)?;
    let client = &shared.first.b.site.client;
    shared.post(4)?;
    let mut requests = [shared.srq.notify(), shared.srq.notify()];
    client.pended(2)?;
    requests[0].cancel();
    let status = requests[0].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled by itself: {status}");
    ensure!(!requests[1].is_over(), "the cancellation of another request ended it");
    shared.srq.cancel_io()?;
    let status = requests[1].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled with all: {status}");
    // A cancelled request loses no later notification.
    for _ in 0..3 {
        shared.take()?;
    }
    shared.srq.notify().finish().context("below the threshold since before the request")?;
    Ok(())
}

pub(super) fn sizes(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let info = site.adapter.info()?;
    let (depth, sges) = (info.MaxSharedReceiveQueueDepth, info.MaxReceiveSge);
    Srq::new(&site.pd, depth, sges, 0).context("every limit at once")?;
    for (depth, sges) in [(0, 1), (depth + 1, 1), (u32::MAX, 1), (1, sges + 1), (1, u32::MAX)] {
        refused(Srq::new(&site.pd, depth, sges, 0), STATUS_INVALID_PARAMETER, &format!("{depth} x {sges} entries"))?;
    }
    Ok(())
}
