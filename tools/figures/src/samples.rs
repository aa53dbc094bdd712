//! What the turns of a measurement give.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Turns of each measurement.
pub const TURNS: usize = 5;
/// How long a measurement is in one of them.
pub const TURN: Duration = Duration::from_millis(20);

/// A progress bar for the turns of a measurement, drawn on standard error if that is a terminal.
pub fn progress(turns: usize) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}, {eta} left: {msg}")?;
    let progress = ProgressBar::new(turns as u64).with_style(style);
    progress.enable_steady_tick(Duration::from_millis(200));
    Ok(progress)
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// Half are not longer.
    pub median: f64,
    /// 99 of 100 are not longer.
    pub p99: f64,
}

impl Latency {
    /// Of some; sorts them. All are 0 if there are none.
    pub fn of(samples: &mut [Duration]) -> Self {
        samples.sort_unstable();
        let at = |share: f64| {
            let last = samples.len().saturating_sub(1);
            let nth = samples.get((last as f64 * share) as usize).copied();
            nth.unwrap_or_default().as_secs_f64() * 1e6
        };
        Self { min: at(0.0), median: at(0.5), p99: at(0.99) }
    }
}

/// Latencies, and the rates of streams.
#[derive(Default)]
pub struct Samples {
    latencies: Vec<Duration>,
    rates: Vec<f64>,
    operations: u64,
}

impl Samples {
    /// Adds those of a turn: latencies, and a stream's operations with the time that they took together.
    pub fn add(&mut self, latencies: Vec<Duration>, (operations, elapsed): (u64, Duration)) {
        self.latencies.extend(latencies);
        self.rates.push(operations as f64 / elapsed.as_secs_f64());
        self.operations += operations;
    }

    /// How many operations the streams had.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// How many latencies there are.
    #[must_use]
    pub fn latencies(&self) -> usize {
        self.latencies.len()
    }

    /// Figures of the latencies.
    pub fn latency(&mut self) -> Latency {
        Latency::of(&mut self.latencies)
    }

    /// Operations in a second: the median of the turns.
    pub fn rate(&mut self) -> f64 {
        median(&mut self.rates)
    }
}

/// The one in the middle; sorts them. 0 if there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_of_the_sorted_samples() {
        let mut samples: Vec<_> = (1..=200).rev().map(Duration::from_micros).collect();
        let Latency { min, median, p99 } = Latency::of(&mut samples);
        assert_eq!([min, median, p99].map(f64::round), [1.0, 100.0, 198.0]);
        assert_eq!(Latency::of(&mut []).p99.to_bits(), 0);
    }
}
