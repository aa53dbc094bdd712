//! Notification: what an arm is ended by. NDKPI "completion handling requirements", `nc-ndkpi-ndk_fn_arm_cq`,
//! IND2CompletionQueue::Notify.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{IOCTL_ND_CQ_NOTIFY, ND_CQ_NOTIFY, ND_IOCTL_VERSION},
    ndkpi::NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    status::{STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use crate::{
    bench::Bench,
    client::{Arm, Cq, Request},
    pair::{Pair, Site, refused},
};

/// Rounds of plain events: enough for a wrong notification to arrive.
const ROUNDS: usize = 20;

/// One send from `a` to `b`, finished on both sides, as far as the sender can tell; `b`'s completion is not polled.
fn event(pair: &Pair, flags: u32) -> anyhow::Result<()> {
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], flags)?;
    let sent = pair.a.initiated()?;
    ensure!(sent.Status == STATUS_SUCCESS, "the send: {}", sent.Status);
    Ok(())
}

/// A completion of `b` with an error, not polled.
fn failure(pair: &Pair) -> anyhow::Result<()> {
    pair.b.qp.receive(1, &[])?;
    pair.b.qp.flush()?;
    Ok(())
}

/// Arms `b`'s receive CQ; the request is in the driver when this returns.
fn arm(pair: &Pair, kind: Arm, pended_before: u32) -> anyhow::Result<Request> {
    let request = pair.b.site.receive_cq.notify(kind);
    pair.b.site.client.pended(pended_before + 1)?;
    Ok(request)
}

fn still_pending(request: &mut Request, what: &str) -> anyhow::Result<()> {
    ensure!(!request.is_over(), "{what} ended the request: {:?}", request.status());
    Ok(())
}

fn drain(cq: &Cq, expected: usize) -> anyhow::Result<()> {
    let found = cq.take(expected)?.len() + cq.poll(64)?.len();
    ensure!(found == expected, "{found} completions in the queue instead of {expected}");
    Ok(())
}

// Shows P15, S301.
pub(super) fn any(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    for _ in 0..ROUNDS {
        let mut request = arm(&pair, Arm::Any, 0)?;
        still_pending(&mut request, "nothing")?;
        event(&pair, 0)?;
        request.finish()?;
        drain(&pair.b.site.receive_cq, 1)?;
    }
    Ok(())
}

// Shows P15, S304.
pub(super) fn solicited(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let mut request = arm(&pair, Arm::Solicited, 0)?;
    for _ in 0..ROUNDS {
        event(&pair, 0)?;
        still_pending(&mut request, "a send that does not solicit")?;
    }
    event(&pair, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
    request.finish()?;
    let found = pair.b.site.receive_cq.poll(64)?.len();
    ensure!(found == ROUNDS + 1, "{found} completions instead of {}", ROUNDS + 1);
    Ok(())
}

// Shows P15, S304.
pub(super) fn errors(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let mut request = arm(&pair, Arm::Errors, 0)?;
    for _ in 0..ROUNDS {
        event(&pair, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
        still_pending(&mut request, "a completion")?;
    }
    failure(&pair)?;
    still_pending(&mut request, "a completion with an error")?;
    drain(&pair.b.site.receive_cq, ROUNDS + 1)?;
    pair.b.site.receive_cq.cancel_io()?;
    let status = request.status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled with {status}");
    Ok(())
}

/// The merge table of the NDKPI page: (first, second) and whether a plain and whether a solicited completion ends them.
// Shows S305.
pub(super) fn merge(bench: &Bench<'_>) -> anyhow::Result<()> {
    use Arm::{Any, Errors, Solicited};
    let table = [
        (Any, Any, true, true),
        (Any, Errors, true, true),
        (Any, Solicited, true, true),
        (Errors, Any, true, true),
        (Errors, Errors, false, false),
        (Errors, Solicited, false, true),
        (Solicited, Any, true, true),
        (Solicited, Errors, false, true),
        (Solicited, Solicited, false, true),
    ];
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    for (first, second, by_plain, by_solicited) in table {
        for (flags, ends) in [(0, by_plain), (NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, by_solicited)] {
            let context = || format!("{first:?} then {second:?}, send with flags {flags:#x}");
            let mut requests = [arm(&pair, first, 0)?, arm(&pair, second, 1)?];
            event(&pair, flags)?;
            if ends {
                // An arm for ERRORS that was merged into a stronger one may wait on by itself: the queue of the IOCTL
                // protocol keeps requests for errors apart. The stronger one has to end.
                for (request, kind) in requests.iter_mut().zip([first, second]) {
                    if kind != Errors {
                        let status = request.status().with_context(context)?;
                        ensure!(status == STATUS_SUCCESS, "{}: {status}", context());
                    }
                }
            } else {
                for request in &mut requests {
                    still_pending(request, &context())?;
                }
            }
            drain(cq, 1).with_context(context)?;
            cq.cancel_io()?;
            for request in &mut requests {
                request.status().with_context(context)?;
            }
        }
    }
    Ok(())
}

// Shows P15.
pub(super) fn all_waiters(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let requests = (0..5).map(|before| arm(&pair, Arm::Any, before)).collect::<anyhow::Result<Vec<_>>>()?;
    event(&pair, 0)?;
    for (index, request) in requests.into_iter().enumerate() {
        request.finish().with_context(|| format!("request {index} of 5"))?;
    }
    drain(&pair.b.site.receive_cq, 1)
}

// Shows S302.
pub(super) fn race(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    for (kind, flags) in [
        (Arm::Any, 0),
        (Arm::Any, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT),
        (Arm::Solicited, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT),
    ] {
        for _ in 0..ROUNDS {
            ensure!(cq.poll(8)?.is_empty(), "the queue is not empty");
            event(&pair, flags)?;
            cq.notify(kind).finish().with_context(|| format!("{kind:?}, armed after the completion came"))?;
            drain(cq, 1)?;
        }
    }
    Ok(())
}

// Shows S303.
pub(super) fn drained(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    for _ in 0..ROUNDS {
        event(&pair, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
        drain(cq, 1)?;
        // NDKPI allows an arm to be satisfied by old entries that are still there, never by none at all.
        let mut request = arm(&pair, Arm::Any, 0)?;
        still_pending(&mut request, "a completion polled before")?;
        event(&pair, 0)?;
        request.finish()?;
        drain(cq, 1)?;
    }
    Ok(())
}

// Shows S304.
pub(super) fn failure_is_solicited(bench: &Bench<'_>) -> anyhow::Result<()> {
    for armed_first in [true, false] {
        let pair = Pair::new(bench)?;
        let cq = &pair.b.site.receive_cq;
        if armed_first {
            let request = arm(&pair, Arm::Solicited, 0)?;
            failure(&pair)?;
            request.finish().context("armed before the failure")?;
        } else {
            failure(&pair)?;
            cq.notify(Arm::Solicited).finish().context("armed after the failure")?;
        }
        let result = cq.take_one()?;
        ensure!(result.Status == STATUS_CANCELLED, "the flushed receive: {}", result.Status);
    }
    Ok(())
}

pub(super) fn cancelled(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let cq = Cq::new(&site.adapter, 8)?;
    let mut requests = Vec::new();
    for (before, kind) in [(0, Arm::Any), (1, Arm::Errors), (2, Arm::Solicited), (3, Arm::Any)] {
        requests.push(cq.notify(kind));
        site.client.pended(before + 1)?;
    }
    requests[0].cancel();
    let status = requests[0].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled by itself: {status}");
    site.client.pended(3)?;
    for request in &mut requests[1..] {
        still_pending(request, "the cancellation of another")?;
    }
    cq.cancel_io()?;
    for request in &mut requests[1..] {
        let status = request.status()?;
        ensure!(status == STATUS_CANCELLED, "cancelled with all: {status}");
    }
    let mut request = cq.notify(Arm::Any);
    site.client.pended(1)?;
    cq.free()?;
    let status = request.status().context("the queue was freed")?;
    ensure!(status == STATUS_CANCELLED, "cancelled by freeing: {status}");
    Ok(())
}

/// An arm cannot be taken back in NDKPI: a cancelled request's notification may arrive when no request waits for it.
pub(super) fn cancelled_then_event(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    for _ in 0..ROUNDS {
        ensure!(cq.poll(8)?.is_empty(), "the queue is not empty");
        let mut request = arm(&pair, Arm::Any, 0)?;
        request.cancel();
        request.status()?;
        event(&pair, 0)?;
        cq.notify(Arm::Any).finish().context("armed again after the completion came")?;
        drain(cq, 1)?;
    }
    Ok(())
}

pub(super) fn bad_type(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    for kind in [3, u32::MAX] {
        let request = ND_CQ_NOTIFY { Version: ND_IOCTL_VERSION, Type: kind, CqHandle: site.receive_cq.handle() };
        let result = site.client.call(IOCTL_ND_CQ_NOTIFY, &request);
        refused(result, STATUS_INVALID_PARAMETER, &format!("arm type {kind}"))?;
    }
    Ok(())
}
