//! `ndkctl stats`.

use std::{
    fmt,
    io::{self, Write as _},
    num::NonZeroU64,
    thread,
    time::{Duration, Instant},
};

use ndk_abi::softndk_ioctl::SOFTNDK_COUNTER;
use serde::{Serialize, Serializer};

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

/// The counters, since the adapter was started, by name, in the driver's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Totals(Vec<(String, u64)>);

impl Serialize for Totals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, total)| (name, total)))
    }
}

/// Counts per second.
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
    /// Seconds since the first reading.
    seconds: f64,
    /// The totals at the end of the interval.
    #[serde(flatten)]
    totals: Totals,
    per_second: Rates,
}

impl Totals {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        let name = |counter: &SOFTNDK_COUNTER| {
            let name = counter.Name.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        Ok(Self(driver::counters(driver)?.iter().map(|counter| (name(counter), counter.Value)).collect()))
    }

    /// The total of a counter; 0 if the driver has no counter of that name, as it is of another version than this program.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(found, _)| found == name).map_or(0, |(_, total)| *total)
    }

    /// The rates since `before`. A total below the earlier total means that the adapter was restarted: then the whole total counts.
    pub(crate) fn rates(&self, before: &Self, elapsed: Duration) -> Rates {
        let per_second = |name| {
            let (now, before) = (self.get(name), before.get(name));
            now.checked_sub(before).unwrap_or(now) as f64 / elapsed.as_secs_f64()
        };
        Rates {
            out_octets: per_second("out_octets"),
            out_frames: per_second("out_frames"),
            in_octets: per_second("in_octets"),
            in_frames: per_second("in_frames"),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(["counter", "total"]);
        for (name, total) in &self.0 {
            columns.row([name.replace('_', " "), total.to_string()]);
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
        let [connects, accepts, failures] = ["connects", "accepts", "connect_failures"].map(|name| totals.get(name));
        let errors = totals.get("connection_errors") + totals.get("cq_errors");
        write!(f, "{connects:10}{accepts:9}{failures:8}{errors:8}{:7}", totals.get("active_connections"))
    }
}

/// Prints one interval after the other. Opens the device for each interval, so that a removed adapter is noticed.
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
            // The headings are repeated every 20 intervals.
            if nth.is_multiple_of(20) {
                writeln!(output, "{}", Interval::HEADINGS)?;
            }
            writeln!(output, "{interval}")?;
        }
        output.flush()?;
        (before, last) = (interval.totals, now);
    }
    Ok(())
}
