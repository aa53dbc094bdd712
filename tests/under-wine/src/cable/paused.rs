//! An adapter that is paused, halted or removed while frames come, and while the protocol above it has lists that it has received.

use anyhow::Result;
use build::command::step;
use checks::tally::Tally;

use super::stream::Stream;
use super::{Computer, LINUX, OURS, is_clean, until_reached};
use crate::session::Session;

/// Pauses, one after the other.
const PAUSES: usize = 5;

/// The adapter goes on.
pub(super) fn run(session: &mut Session, tally: &mut Tally) {
    let paused = step("pausing an adapter in mid stream", || pauses(session, &LINUX));
    tally.check("a stream goes on when the adapter was paused with received frames out", paused);
    let slept = step("putting the computer to sleep in mid stream", || sleeps(session, &LINUX));
    tally.check("a stream goes on when the adapter was halted with received frames out, and is back", slept);
}

/// The protocol has nearly all lists that the driver has, and gives them back when the adapter is pausing. `from`: another computer.
pub(super) fn pauses(session: &mut Session, from: &Computer) -> Result<()> {
    let stream = Stream::start(from, &OURS)?;
    for _ in 0..PAUSES {
        session.hold()?;
        stream.flows()?;
        session.pause()?;
        stream.flows()?;
    }
    stream.end()
}

pub(super) fn sleeps(session: &mut Session, from: &Computer) -> Result<()> {
    let stream = Stream::start(from, &OURS)?;
    session.hold()?;
    stream.flows()?;
    session.sleep()?;
    until_reached(from, &OURS.address())?;
    stream.flows()?;
    stream.end()
}

/// The driver is loaded again, and goes for good.
pub(super) fn unload_in_traffic(session: &mut Session, tally: &mut Tally) {
    for (is_surprise, what) in [(false, "unload"), (true, "surprise removal")] {
        let done = step(&format!("{what} in mid stream"), || goes(session, is_surprise));
        tally.check(&format!("{what} with received frames out leaves nothing and breaks no rule"), done);
    }
}

/// Loads the driver, which goes in mid stream.
pub(super) fn goes(session: &mut Session, is_surprise: bool) -> Result<()> {
    session.load()?;
    until_reached(&LINUX, &OURS.address())?;
    let stream = Stream::start(&LINUX, &OURS)?;
    session.hold()?;
    stream.flows()?;
    if is_surprise {
        session.remove_surprisingly()?;
    }
    is_clean(&session.unload()?)
}
