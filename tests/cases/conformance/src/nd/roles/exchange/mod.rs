//! Traffic of every kind over several connections, both ways at once, for a given time; each end compares all data that arrives.
//!
//! On each connection each end goes through rounds. In a round it writes to the peer's memory, through the window whose token it was
//! told last, and sends a message; the peer compares the memory and the message, invalidates the window, binds it again and answers
//! with the new token and data; this end compares the answer, reads what it wrote back and compares that. All receives of an end
//! are in one shared queue, which is filled again when its owner is notified that it runs low.

mod figures;
mod gone;
mod link;
mod traffic;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::role::Role;
use traffic::Traffic;

/// How often the loop looks at events that the completion queue does not report.
const LOOK: Duration = Duration::from_millis(20);

/// How long after the first failure the connection to a peer that has ended may still seem to be there.
const LOST: Duration = Duration::from_secs(2);

pub(super) fn mixed(role: &Role<'_>) -> anyhow::Result<()> {
    let mut traffic = Traffic::new(role)?;
    let started = Instant::now();
    let result = run(role, &mut traffic, started);
    let seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            role.note(traffic.figures.to_string(seconds));
            traffic.end(role).context("the end of the exchange")
        }
        // A peer that only fails keeps the connection of messages.
        Err(error) if role.control.is_lost_within(LOST) => {
            let moved = traffic.figures.to_string(seconds);
            Err(match gone::report(traffic, role, &moved) {
                Ok(report) => error.context(report),
                Err(other) => error.context(format!("{other:#}")),
            })
        }
        Err(error) => Err(error),
    }
}

/// The negative control: the serving end changes a byte after each write, and the end that reads it back must notice.
pub(super) fn noticed(role: &Role<'_>) -> anyhow::Result<()> {
    let mut traffic = Traffic::new(role)?;
    if role.connects() {
        let error = run(role, &mut traffic, Instant::now()).err();
        let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(error.contains("what was read back"), "a changed byte is not noticed: {error:?}");
        role.tell(&[])?;
    } else {
        traffic.spoil();
        // Its own rounds end when the other end stops answering.
        while role.control.words_within(Duration::ZERO)?.is_none() {
            traffic.start_rounds(true)?;
            traffic.take_completions()?;
            traffic.refill()?;
            traffic.wait(LOOK)?;
        }
    }
    role.meet()
}

fn run(role: &Role<'_>, traffic: &mut Traffic, started: Instant) -> anyhow::Result<()> {
    let (mut told, mut is_peer_done) = (false, false);
    let (mut next_look, mut told_seconds) = (started, 0);
    loop {
        let now = Instant::now();
        let is_time = now < started + role.duration;
        traffic.start_rounds(is_time)?;
        let is_idle = !traffic.take_completions()?;
        traffic.refill()?;
        if !is_time && !told && traffic.is_at_rest() {
            role.tell(&[])?;
            told = true;
        }
        if told && is_peer_done && traffic.is_at_rest() {
            return Ok(());
        }
        if now >= next_look {
            next_look = now + LOOK;
            // What it says after that is not for the loop.
            is_peer_done = is_peer_done || role.control.words_within(Duration::ZERO)?.is_some();
            let (all, done) = (role.duration.as_secs(), started.elapsed().as_secs());
            if done > told_seconds {
                told_seconds = done;
                (role.watch)(&format!("{} {done}/{all} s, {} requests", role.case, traffic.figures.requests()));
            }
            ensure!(!traffic.is_lost(), "a connection has ended");
            let limit = role.site.patience;
            ensure!(traffic.quiet_for(now) < limit, "nothing has completed for {limit:?}: {}", traffic.state());
        }
        if is_idle {
            traffic.wait(LOOK)?;
        }
    }
}
