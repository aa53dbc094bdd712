//! `ndkctl trace`.

#[cfg_attr(not(windows), path = "no_session.rs")]
mod session;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{self, Write},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use clap::ValueEnum;
use events::{Event, Malformed};
use serde::Serialize;

/// So many events may wait to be printed. While there are as many, further ones wait in the session, which counts those it cannot hold.
const WAITING: usize = 1024;
/// Seconds from the epoch of FILETIME to that of Unix.
const EPOCHS_APART: Duration = Duration::from_secs(11_644_473_600);

/// What is to be seen. The numbers are those of ETW.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// What breaks.
    Error = 2,
    /// What does not come about.
    Warning = 3,
    /// What comes and goes.
    Informational = 4,
    /// Each post and each row of completions.
    Verbose = 5,
}

/// What is to be printed, or why there is no more.
#[cfg_attr(not(windows), allow(dead_code, reason = "there are no events"))]
enum Said {
    /// The driver has told this.
    Event {
        /// When: a FILETIME.
        time: i64,
        event: Result<Event, Malformed>,
    },
    /// The session shall end.
    Enough,
    /// It has ended.
    Ended(anyhow::Result<()>),
}

/// What a session has not recorded or not handed over.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    events: u32,
    /// Of events that nobody has counted.
    buffers: u32,
}

/// How a trace went.
#[derive(Debug)]
struct Summary {
    shown: u64,
    lost: Lost,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shown, lost: Lost { events, buffers } } = self;
        write!(f, "{shown} events shown, {events} lost")?;
        if *buffers > 0 { write!(f, ", and {buffers} buffers of events") } else { Ok(()) }
    }
}

/// A line.
#[derive(Debug, Serialize)]
struct Line {
    /// Since the trace began.
    seconds: f64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    Event(Event),
    Unreadable { unreadable: String },
}

impl Line {
    fn new(time: Duration, event: Result<Event, Malformed>) -> Self {
        let what = match event {
            Ok(event) => What::Event(event),
            Err(why) => What::Unreadable { unreadable: why.to_string() },
        };
        Self { seconds: time.as_secs_f64(), what }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12.6}  ", self.seconds)?;
        match &self.what {
            What::Event(event) => write!(f, "{event}"),
            What::Unreadable { unreadable } => write!(f, "an event that cannot be read: {unreadable}"),
        }
    }
}

/// The time since the epoch of Unix.
fn since_epoch(filetime: i64) -> Duration {
    let ticks = filetime.unsigned_abs();
    Duration::new(ticks / 10_000_000, (ticks % 10_000_000) as u32 * 100).saturating_sub(EPOCHS_APART)
}

/// Prints events until the session has ended, which `stop` is called for, once, when it is enough. Times are counted from `start`.
fn show(
    said: Receiver<Said>,
    start: Duration,
    json: bool,
    output: &mut impl Write,
    stop: &mut dyn FnMut() -> anyhow::Result<Lost>,
) -> anyhow::Result<Summary> {
    let (mut shown, mut lost) = (0, None);
    for said in said {
        match said {
            Said::Event { time, event } => {
                let line = Line::new(since_epoch(time).saturating_sub(start), event);
                if json {
                    writeln!(output, "{}", serde_json::to_string(&line)?)?;
                } else {
                    writeln!(output, "{line}")?;
                }
                shown += 1;
            }
            Said::Enough if lost.is_none() => lost = Some(stop()?),
            Said::Enough => {}
            Said::Ended(how) => {
                how?;
                break;
            }
        }
    }
    let lost = lost.context("another program has ended the session, perhaps another `ndkctl trace`")?;
    Ok(Summary { shown, lost })
}

/// Prints events until it is interrupted, or the time is over.
pub(crate) fn trace(level: Level, limit: Option<Duration>, json: bool) -> anyhow::Result<()> {
    let (sender, said) = sync_channel(WAITING);
    // The receiver has gone only when all is over.
    let interrupt = sender.clone();
    ctrlc::set_handler(move || interrupt.send(Said::Enough).unwrap_or_default())?;
    if let Some(limit) = limit {
        let over = sender.clone();
        thread::spawn(move || {
            thread::sleep(limit);
            over.send(Said::Enough).unwrap_or_default();
        });
    }
    let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let summary = session::run(level as u8, &sender, |stop| show(said, start, json, &mut io::stdout(), stop))?;
    eprintln!("{summary}");
    Ok(())
}
