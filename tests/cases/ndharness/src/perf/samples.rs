//! What the turns of a measurement give.

use std::time::Duration;

use conformance::nd::perf::Counted;
use indicatif::{ProgressBar, ProgressStyle};

use super::report::Latency;

/// Turns of each measurement, and how long each is in one of them.
pub(super) const TURNS: usize = 5;
pub(super) const TURN: Duration = Duration::from_millis(20);

/// A progress bar over so many turns; drawn on standard error, and only if that is a terminal.
pub(super) fn progress(turns: usize) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}, {eta} left: {msg}")?;
    let progress = ProgressBar::new(turns as u64).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(200));
    Ok(progress)
}

/// Latencies, and the rates of streams.
#[derive(Default)]
pub(super) struct Samples {
    latencies: Vec<Duration>,
    rates: Vec<f64>,
    operations: u64,
}

impl Samples {
    /// Adds those of a turn.
    pub(super) fn add(&mut self, latencies: Vec<Duration>, streamed: Counted) {
        self.latencies.extend(latencies);
        self.rates.push(streamed.rate());
        self.operations += streamed.operations;
    }

    /// How many operations the streams had.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// How many latencies there are.
    pub(super) fn latencies(&self) -> usize {
        self.latencies.len()
    }

    pub(super) fn latency(&mut self) -> Latency {
        Latency::of(&mut self.latencies)
    }

    /// Operations in a second: the median of the turns.
    pub(super) fn rate(&mut self) -> f64 {
        median(&mut self.rates)
    }
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
