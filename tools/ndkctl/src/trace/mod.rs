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

/// The most events that wait to be printed. While that many wait, further events stay in the session, which counts the events that it cannot hold.
const WAITING: usize = 1024;
/// Seconds from the epoch of FILETIME to the epoch of Unix.
const EPOCHS_APART: Duration = Duration::from_secs(11_644_473_600);

/// The least severe level to show. The numbers are ETW's.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Failures of the adapter, of connections, of completion queues and of requests.
    Error = 2,
    /// Failed listens and connects, and unknown addresses.
    Warning = 3,
    /// Starts and ends of the adapter, of listeners and of connections; connection requests and rejections; RDMA turned on or off; the last counters.
    Informational = 4,
    /// Each post, and each row of completions of one kind.
    Verbose = 5,
}

/// A message to the printing thread.
#[cfg_attr(not(windows), allow(dead_code, reason = "there are no events"))]
enum Said {
    /// An event of the driver.
    Event {
        /// The time of the event, a FILETIME.
        time: i64,
        event: Result<Event, Malformed>,
    },
    /// The session has to be stopped.
    Enough,
    /// The session has ended.
    Ended(anyhow::Result<()>),
}

/// The events and buffers that a session lost.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    events: u32,
    /// Lost buffers; `events` does not count the events in them.
    buffers: u32,
}

/// The counts of a trace.
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

/// A printed line.
#[derive(Debug, Serialize)]
struct Line {
    /// Seconds since the trace began.
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

/// The time since the Unix epoch.
fn since_epoch(filetime: i64) -> Duration {
    let ticks = filetime.unsigned_abs();
    Duration::new(ticks / 10_000_000, (ticks % 10_000_000) as u32 * 100).saturating_sub(EPOCHS_APART)
}

/// Prints events until the session has ended. Calls `stop` at the first [`Said::Enough`]. Times are counted from `start`.
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

/// Prints events until Ctrl+C, or until `limit` has passed.
pub(crate) fn trace(level: Level, limit: Option<Duration>, json: bool) -> anyhow::Result<()> {
    let (sender, said) = sync_channel(WAITING);
    // The send fails only at the end, when the receiver is gone.
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
