//! `ndkctl stats`.

use std::{
    fmt,
    io::{self, Write as _},
    num::NonZeroU64,
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

/// The counters, since the adapter was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) connects: u64,
    pub(crate) accepts: u64,
    pub(crate) connect_failures: u64,
    pub(crate) connection_errors: u64,
    /// A present number.
    pub(crate) active_connections: u64,
    pub(crate) cq_errors: u64,
    pub(crate) out_octets: u64,
    pub(crate) out_frames: u64,
    pub(crate) in_octets: u64,
    pub(crate) in_frames: u64,
}

/// What is counted in a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Rates {
    pub(crate) out_octets: f64,
    pub(crate) out_frames: f64,
    pub(crate) in_octets: f64,
    pub(crate) in_frames: f64,
}

/// An interval of `--watch`.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    /// Since the first reading.
    seconds: f64,
    /// At its end.
    #[serde(flatten)]
    totals: Totals,
    per_second: Rates,
}

impl Totals {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        let found = driver::statistics(driver)?;
        Ok(Self {
            connects: found.Connects,
            accepts: found.Accepts,
            connect_failures: found.ConnectFailures,
            connection_errors: found.ConnectionErrors,
            active_connections: found.ActiveConnections,
            cq_errors: found.CqErrors,
            out_octets: found.OutOctets,
            out_frames: found.OutFrames,
            in_octets: found.InOctets,
            in_frames: found.InFrames,
        })
    }

    /// What was counted since `before`; all of it, if the adapter was started anew meanwhile.
    pub(crate) fn rates(&self, before: &Self, elapsed: Duration) -> Rates {
        let per_second = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64 / elapsed.as_secs_f64();
        Rates {
            out_octets: per_second(self.out_octets, before.out_octets),
            out_frames: per_second(self.out_frames, before.out_frames),
            in_octets: per_second(self.in_octets, before.in_octets),
            in_frames: per_second(self.in_frames, before.in_frames),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(["", "octets", "frames"]);
        columns.row(["out".to_owned(), self.out_octets.to_string(), self.out_frames.to_string()]);
        columns.row(["in".to_owned(), self.in_octets.to_string(), self.in_frames.to_string()]);
        writeln!(f, "{columns}")?;
        let mut columns = Columns::new(["connections", "count"]);
        for (what, count) in [
            ("connected", self.connects),
            ("accepted", self.accepts),
            ("failed to connect", self.connect_failures),
            ("ended by an error", self.connection_errors),
            ("sides established now", self.active_connections),
            ("completion queues failed", self.cq_errors),
        ] {
            columns.row([what.to_owned(), count.to_string()]);
        }
        write!(f, "{columns}")
    }
}

impl Interval {
    const HEADINGS: &str =
        " seconds   out MiB/s  out frames/s    in MiB/s   in frames/s  connects  accepts  failed  errors  sides";
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, totals, per_second } = self;
        let mebibytes = |octets: f64| octets / f64::from(1 << 20);
        write!(f, "{seconds:8.1}{:12.1}{:14.0}", mebibytes(per_second.out_octets), per_second.out_frames)?;
        write!(f, "{:12.1}{:14.0}", mebibytes(per_second.in_octets), per_second.in_frames)?;
        let errors = totals.connection_errors + totals.cq_errors;
        write!(f, "{:10}{:9}{:8}", totals.connects, totals.accepts, totals.connect_failures)?;
        write!(f, "{errors:8}{:7}", totals.active_connections)
    }
}

/// Prints an interval after the other. The device is opened anew for each, so that an adapter that has gone is noticed.
pub(crate) fn watch(
    opened: impl Fn() -> anyhow::Result<Box<dyn Driver>>,
    seconds: NonZeroU64,
    count: Option<u64>,
    json: bool,
) -> anyhow::Result<()> {
    let read = || Ok::<_, anyhow::Error>((Totals::read(&*opened()?)?, Instant::now()));
    let (mut before, started) = read()?;
    let mut last = started;
    for nth in 0..count.unwrap_or(u64::MAX) {
        thread::sleep(Duration::from_secs(seconds.get()));
        let (totals, now) = read()?;
        let per_second = totals.rates(&before, now - last);
        let interval = Interval { seconds: (now - started).as_secs_f64(), totals, per_second };
        let mut output = io::stdout().lock();
        if json {
            writeln!(output, "{}", serde_json::to_string(&interval)?)?;
        } else {
            // Again once in a screen.
            if nth.is_multiple_of(20) {
                writeln!(output, "{}", Interval::HEADINGS)?;
            }
            writeln!(output, "{interval}")?;
        }
        output.flush()?;
        (before, last) = (totals, now);
    }
    Ok(())
}
