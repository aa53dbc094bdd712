//! Completion queues: sizes, resizing, overrun.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Instant,
};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{NdkOperationTypeReceive, NdkOperationTypeSend},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS},
};

use crate::{
    bench::Bench,
    client::{Arm, Cq, Path, Qp, QpSize},
    pair::{Pair, Site, expect, refused},
};

pub(super) fn depths(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let limit = site.adapter.info()?.MaxCompletionQueueDepth;
    for depth in [1, 2, limit] {
        Cq::new(&site.adapter, depth).with_context(|| format!("depth {depth}"))?;
    }
    for depth in [0, limit + 1, u32::MAX] {
        refused(Cq::new(&site.adapter, depth), STATUS_INVALID_PARAMETER, &format!("depth {depth}"))?;
    }
    Ok(())
}

/// `count` receives of `b` flushed into its receive CQ, with contexts from `first` on.
fn fill(pair: &Pair, first: u64, count: u64) -> anyhow::Result<()> {
    for context in first..first + count {
        receive_when_there_is_room(pair, context)?;
        pair.a.qp.send(context, &[], 0)?;
        pair.a.initiated()?;
    }
    Ok(())
}

/// By rings there is room for another receive when the completion of one is in its ring, which may be after the sender's is in
/// another.
fn receive_when_there_is_room(pair: &Pair, context: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + pair.b.site.client.patience();
    loop {
        match pair.b.qp.receive(context, &[]) {
            Err(error) if error.status() == Some(STATUS_NO_MORE_ENTRIES) && Instant::now() < deadline => {
                thread::yield_now();
            }
            result => return Ok(result?),
        }
    }
}

fn check_contexts(pair: &Pair, first: u64, count: u64) -> anyhow::Result<()> {
    let results = pair.b.site.receive_cq.take(count as usize)?;
    for (result, context) in results.iter().zip(first..) {
        expect(result, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
    }
    let more = pair.b.site.receive_cq.poll(8)?.len();
    ensure!(more == 0, "{more} completions too many");
    Ok(())
}

// Shows P14, S215.
pub(super) fn resize_refuses(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    let limit = pair.b.site.adapter.info()?.MaxCompletionQueueDepth;
    fill(&pair, 0, 10)?;
    // A resize below the content: IND2CompletionQueue::Resize.
    for depth in [1, 9] {
        refused(cq.resize(depth), STATUS_BUFFER_OVERFLOW, &format!("{depth} entries for 10 completions"))?;
    }
    for depth in [0, limit + 1, u32::MAX] {
        refused(cq.resize(depth), STATUS_INVALID_PARAMETER, &format!("{depth} entries"))?;
    }
    // It still has its 64 entries.
    fill(&pair, 10, 54)?;
    check_contexts(&pair, 0, 64)
}

// Shows P14.
pub(super) fn resize_keeps(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    let mut first = 0;
    // Leave the ring at various positions before each resize.
    for (filled, depth) in [(10, 10), (7, 200), (3, 3), (2, 2), (1, 65536), (17, 64)] {
        fill(&pair, first, filled)?;
        cq.resize(depth).with_context(|| format!("{depth} entries for {filled} completions"))?;
        check_contexts(&pair, first, filled)?;
        first += filled;
        cq.resize(64)?;
    }
    Ok(())
}

pub(super) fn resize_in_traffic(bench: &Bench<'_>) -> anyhow::Result<()> {
    const MESSAGES: u64 = 400;
    let pair = Pair::new(bench)?;
    let cq = pair.b.site.receive_cq.clone();
    let done = AtomicBool::new(false);
    let resizes = AtomicU32::new(0);
    thread::scope(|scope| {
        let resizer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for depth in [64, 1000, 40, 300] {
                    cq.resize(depth)?;
                    resizes.fetch_add(1, Ordering::Relaxed);
                }
            }
            anyhow::Ok(())
        });
        let traffic = || {
            let mut next = 0;
            // The first resize may take longer than all messages. One that fails ends its thread.
            while next < MESSAGES || resizes.load(Ordering::Relaxed) == 0 && !resizer.is_finished() {
                // Bursts of at most 32: the queue holds 40 at least.
                for context in next..next + 20 {
                    pair.b.qp.receive(context, &[])?;
                    pair.a.qp.send(context, &[], 0)?;
                }
                for context in next..next + 20 {
                    expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
                    expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
                }
                next += 20;
            }
            anyhow::Ok(())
        };
        let result = traffic();
        done.store(true, Ordering::Relaxed);
        resizer.join().map_err(|_| anyhow::anyhow!("the resizing thread panicked"))?.context("resizing")?;
        result
    })?;
    ensure!(resizes.into_inner() > 0, "no resize happened during the traffic");
    let more = cq.poll(8)?.len();
    ensure!(more == 0, "{more} completions too many");
    Ok(())
}

// Shows P15, S216.
pub(super) fn overrun(bench: &Bench<'_>) -> anyhow::Result<()> {
    let a = Site::new(bench)?.end()?;
    let site = Site::new(&bench.there())?;
    let small = Cq::new(&site.adapter, 2)?;
    let qp = Qp::new(&site.pd, &small, &site.initiator_cq, QpSize::default())?;
    let pair = Pair::connect(a, site.end_with(qp)?)?;
    let mut request = small.notify(Arm::Errors);
    site.client.pended(1)?;
    let too_many = match bench.path() {
        Path::Plain => 3,
        // The ring, and behind it the queue.
        Path::Rings => 5,
    };
    for context in 0..too_many {
        pair.b.qp.receive(context, &[])?;
    }
    for context in 0..too_many {
        // The connection ends with the overrun, maybe before the last of them is posted.
        if pair.a.qp.send(context, &[], 0).is_err() {
            break;
        }
    }
    let status = request.status().context("the overrun")?;
    ensure!(status == STATUS_BUFFER_OVERFLOW, "the ERRORS request ended with {status}");
    // A dead queue reports its death at each arm (IND2CompletionQueue::Notify).
    let mut request = small.notify(Arm::Any);
    let status = request.status().context("arming the dead queue")?;
    ensure!(status == STATUS_BUFFER_OVERFLOW, "arming the dead queue: {status}");
    Ok(())
}

pub(super) fn two_queues(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let shared = Cq::new(&site.adapter, 64)?;
    let end = || -> anyhow::Result<_> { Ok(site.end_with(Qp::new(&site.pd, &shared, &shared, QpSize::default())?)?) };
    // Both ends in one file, on one CQ.
    let pair = Pair::connect(end()?, end()?)?;
    pair.a.qp.receive(1, &[])?;
    pair.b.qp.receive(2, &[])?;
    pair.a.qp.send(3, &[], 0)?;
    pair.b.qp.send(4, &[], 0)?;
    let (a, b) = (pair.a.qp.handle(), pair.b.qp.handle());
    let mut found: Vec<_> =
        shared.take(4)?.iter().map(|result| (result.RequestContext, result.QpHandle, result.Type)).collect();
    found.sort_unstable();
    let receive = NdkOperationTypeReceive.0.cast_unsigned();
    let send = NdkOperationTypeSend.0.cast_unsigned();
    let expected = [(1, a, receive), (2, b, receive), (3, a, send), (4, b, send)];
    ensure!(found == expected, "completions (context, QP, type) {found:x?} instead of {expected:x?}");
    Ok(())
}
