//! The peer ends in the middle of the exchange: each request ends with a documented status.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use ndk_abi::status::{NTSTATUS, STATUS_SUCCESS};

use super::{
    super::{control::disconnected, role::Role},
    figures::StatusCounts,
    traffic::Traffic,
};
use crate::nd::{
    Version,
    cases::both::disconnect::told,
    client::{Completion, both::QueuePair as _},
    pair::{RECEIVE, SEND},
};

/// What is said of it, for an error; another error if something ended otherwise than documented.
pub(super) fn report(mut traffic: Traffic, role: &Role<'_>, moved: &str) -> anyhow::Result<String> {
    let mut counts = StatusCounts::default();
    let mut in_flight = |found: &Completion| counts.add(found.kind, found.status);
    traffic.failed.drain(..).for_each(|found| in_flight(&found));
    let mut notified = Vec::new();
    for link in &mut traffic.links {
        let lost = link.lost.take().context("a notification that was taken")?;
        notified.push(told(lost)?.to_string());
        // It is cancelled like those in flight.
        link.qp.send(SEND as usize, &[], 0).context("a send when the peer is gone")?;
        link.outstanding += 1;
        disconnected(&link.connector)?;
    }
    let deadline = Instant::now() + role.site.patience;
    let mut outstanding: usize = traffic.links.iter().map(|link| link.outstanding).sum();
    while outstanding > 0 {
        for found in traffic.poll()? {
            in_flight(&found);
            outstanding -= usize::from(found.kind != RECEIVE);
        }
        ensure!(Instant::now() < deadline, "{outstanding} requests never end");
        std::thread::yield_now();
    }
    for (kind, status) in counts.statuses() {
        ensure!(is_documented(kind, status), "a request of kind {kind} ended with {status}, which is not documented");
    }
    notified.dedup();
    let control = role.control.ends()?;
    Ok(format!(
        "the peer is gone after {moved}\n{} connections: NotifyDisconnect {}, Disconnect {STATUS_SUCCESS}\n\
         in flight, and a send then: {counts}\n{control}",
        traffic.links.len(),
        notified.join(" and "),
    ))
}

/// Whether the documentation of ND2_RESULT lists the status for this kind of request.
fn is_documented(kind: i32, status: NTSTATUS) -> bool {
    let name = usize::try_from(kind).ok().and_then(|kind| crate::nd::client::KINDS.get(kind));
    name.is_some_and(|name| Version::V2.documented().iter().any(|one| one.method == *name && one.value == status))
}
