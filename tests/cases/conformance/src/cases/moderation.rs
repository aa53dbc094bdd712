//! Interrupt moderation: which notifications are held back, and what ends it. `nc-ndkpi-ndk_fn_control_cq_interrupt_moderation`.
//! Nothing here depends on how fast a machine or its clock is: an interval is either over some time, or too long to be.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER_MIX, STATUS_SUCCESS},
};

use crate::{
    bench::Bench,
    client::{Arm, Cq, Request},
    pair::{Pair, Site, refused},
};

const UNLIMITED: u32 = u32::MAX;
/// More than an hour.
const LONG: u32 = u32::MAX - 1;
/// Longer than a tick of any clock.
const SHORT: u32 = 40_000;

/// A connection, and `b`'s receive CQ.
fn moderated<'a>(bench: &Bench<'a>, interval: u32, count: u32) -> anyhow::Result<(Pair, Cq)> {
    let pair = Pair::new(bench)?;
    let cq = pair.b.site.receive_cq.clone();
    cq.moderate(interval, count)?;
    Ok((pair, cq))
}

/// One send from `a` to `b`, finished on both sides, as far as the sender can tell; `b`'s completion is not polled.
fn event(pair: &Pair, flags: u32) -> anyhow::Result<()> {
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], flags)?;
    let sent = pair.a.initiated()?;
    ensure!(sent.Status == STATUS_SUCCESS, "the send: {}", sent.Status);
    Ok(())
}

/// Arms `b`'s receive CQ; the request is in the driver when this returns.
fn arm(pair: &Pair, kind: Arm) -> anyhow::Result<Request> {
    let request = pair.b.site.receive_cq.notify(kind);
    pair.b.site.client.pended(1)?;
    Ok(request)
}

fn still_pending(request: &mut Request, what: &str) -> anyhow::Result<()> {
    ensure!(!request.is_over(), "{what} ended the request: {:?}", request.status());
    Ok(())
}

pub(super) fn settings(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let cq = Cq::new(&site.adapter, 8)?;
    for (interval, count) in [(UNLIMITED, UNLIMITED), (UNLIMITED, 9)] {
        let what = format!("interval {interval}, count {count}");
        refused(cq.moderate(interval, count), STATUS_INVALID_PARAMETER_MIX, &what)?;
    }
    for (interval, count) in [(0, UNLIMITED), (UNLIMITED, 0), (UNLIMITED, 8), (1, UNLIMITED), (1, 9), (0, 0)] {
        cq.moderate(interval, count).with_context(|| format!("interval {interval}, count {count}"))?;
    }
    Ok(())
}

// Shows S308.
pub(super) fn by_count(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, cq) = moderated(bench, UNLIMITED, 4)?;
    for round in 0..5 {
        let mut request = arm(&pair, Arm::Any)?;
        for number in 1..4 {
            event(&pair, 0)?;
            still_pending(&mut request, &format!("round {round}, completion {number} of 4"))?;
        }
        event(&pair, 0)?;
        request.finish()?;
        ensure!(cq.poll(8)?.len() == 4, "not 4 completions in round {round}");
    }
    Ok(())
}

// Shows S308.
pub(super) fn by_interval(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, cq) = moderated(bench, SHORT, UNLIMITED)?;
    for _ in 0..3 {
        let request = arm(&pair, Arm::Any)?;
        event(&pair, 0)?;
        request.finish()?;
        ensure!(cq.poll(8)?.len() == 1, "not 1 completion");
    }
    Ok(())
}

pub(super) fn off(bench: &Bench<'_>) -> anyhow::Result<()> {
    for (interval, count) in [(0, 100), (LONG, 0), (LONG, 1)] {
        let (pair, _cq) = moderated(bench, interval, count)?;
        let request = arm(&pair, Arm::Any)?;
        event(&pair, 0)?;
        request.finish().with_context(|| format!("interval {interval}, count {count}"))?;
    }
    Ok(())
}

pub(super) fn changed(bench: &Bench<'_>) -> anyhow::Result<()> {
    for (interval, count) in [(0, 0), (LONG, 2), (SHORT, 100)] {
        let (pair, cq) = moderated(bench, LONG, 100)?;
        let mut request = arm(&pair, Arm::Any)?;
        event(&pair, 0)?;
        event(&pair, 0)?;
        still_pending(&mut request, "a completion")?;
        cq.moderate(interval, count)?;
        request.finish().with_context(|| format!("then interval {interval}, count {count}"))?;
    }
    Ok(())
}

pub(super) fn solicited(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, _cq) = moderated(bench, LONG, 3)?;
    let mut request = arm(&pair, Arm::Solicited)?;
    for _ in 0..5 {
        event(&pair, 0)?;
        still_pending(&mut request, "a send that does not solicit")?;
    }
    // All that wait count, once there is one that the arm is for.
    event(&pair, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
    request.finish()?;
    Ok(())
}

pub(super) fn failures(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, _cq) = moderated(bench, UNLIMITED, 30)?;
    let request = arm(&pair, Arm::Any)?;
    pair.b.qp.receive(1, &[])?;
    pair.b.qp.flush()?;
    request.finish()?;
    Ok(())
}

pub(super) fn full(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, cq) = moderated(bench, LONG, UNLIMITED)?;
    cq.resize(4)?;
    let mut request = arm(&pair, Arm::Any)?;
    for _ in 0..3 {
        event(&pair, 0)?;
        still_pending(&mut request, "a completion")?;
    }
    event(&pair, 0)?;
    request.finish()?;
    // The overrun is not held back either.
    let mut errors = arm(&pair, Arm::Errors)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    let status = errors.status()?;
    ensure!(status == STATUS_BUFFER_OVERFLOW, "the overrun: {status}");
    Ok(())
}

pub(super) fn freed(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (pair, cq) = moderated(bench, LONG, 100)?;
    let mut request = arm(&pair, Arm::Any)?;
    event(&pair, 0)?;
    still_pending(&mut request, "a completion")?;
    cq.cancel_io()?;
    let status = request.status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled with {status}");
    // Everything is freed with the hour not over; the run checks that nothing is left behind.
    Ok(())
}
