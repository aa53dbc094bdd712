//! What was measured, for people and for programs.

use std::fmt;

use figures::{Latency, bytes};
use serde::Serialize;

/// What 64 B writes over rings have to be, in those of the plain path, and 1 MiB writes, in those of memcpy.
const ASKED: [Asked; 2] = [
    Asked { operation: "write", bytes: 64, reference: "the plain path", least: 50.0, ratio: Row::of_plain },
    Asked { operation: "write", bytes: 1 << 20, reference: "memcpy", least: 0.5, ratio: Row::of_memcpy },
];

/// What a run measured.
#[derive(Serialize)]
pub(super) struct Measurements {
    pub(super) device: String,
    /// Half of a round trip of a word of memory between two threads.
    pub(super) hand_over_us: f64,
    /// By all operations, those that nothing is measured of too: what the driver has to have counted.
    pub(super) moved_bytes: u64,
    pub(super) figures: Vec<Row>,
}

/// What there is to say of it.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) measurements: Measurements,
    /// Those that were measured of what is asked for.
    ratios: Vec<Ratio>,
}

/// An operation with messages of one size.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) operation: &'static str,
    pub(super) bytes: usize,
    /// Copies of as many bytes in a second.
    pub(super) memcpy_rate: f64,
    pub(super) rings: Figures,
    pub(super) plain: Figures,
}

/// What one path of the DLL gives.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Figures {
    pub(super) latency_us: Latency,
    /// Operations in a second.
    pub(super) rate: f64,
    /// Calls into the driver for one of these.
    pub(super) calls: f64,
}

struct Asked {
    operation: &'static str,
    bytes: usize,
    reference: &'static str,
    least: f64,
    ratio: fn(&Row) -> f64,
}

#[derive(Serialize)]
struct Ratio {
    operation: &'static str,
    bytes: usize,
    reference: &'static str,
    ratio: f64,
    asked: f64,
}

impl Row {
    fn of_plain(&self) -> f64 {
        self.rings.rate / self.plain.rate
    }

    fn of_memcpy(&self) -> f64 {
        self.rings.rate / self.memcpy_rate
    }

    /// Bytes in a second of so many messages in one.
    pub(super) fn bandwidth(&self, rate: f64) -> f64 {
        rate * self.bytes as f64
    }
}

impl Report {
    pub(super) fn new(measurements: Measurements) -> Self {
        let ratios = ASKED.iter().filter_map(|asked| {
            let Asked { operation, bytes, reference, least, ratio } = *asked;
            let row = measurements.figures.iter().find(|row| (row.operation, row.bytes) == (operation, bytes))?;
            Some(Ratio { operation, bytes, reference, ratio: ratio(row), asked: least })
        });
        Self { ratios: ratios.collect(), measurements }
    }

    /// Whether all that is asked for was measured, and is so.
    pub(super) fn is_as_asked(&self) -> bool {
        self.ratios.len() == ASKED.len() && self.ratios.iter().all(|ratio| ratio.ratio >= ratio.asked)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurements { device, hand_over_us, figures, .. } = &self.measurements;
        writeln!(f, "{device}; a word between two threads: {hand_over_us:.2} us\n")?;
        writeln!(f, "                             latency, us                  rate                   bandwidth")?;
        writeln!(
            f,
            "operation     size  path        min   median      p99         1/s  of plain    calls     MiB/s  of memcpy"
        )?;
        for row in figures {
            for (path, figures) in [("rings", &row.rings), ("plain", &row.plain)] {
                let Figures { latency_us: Latency { min, median, p99 }, rate, calls } = figures;
                let mebibytes = row.bandwidth(*rate) / f64::from(1 << 20);
                let (of_memcpy, of_plain) = (rate / row.memcpy_rate, rate / row.plain.rate);
                write!(f, "{:9} {:>8}  {path}{min:10.2}{median:9.2}{p99:9.2}", row.operation, bytes(row.bytes))?;
                writeln!(f, "{rate:12.0}{of_plain:10.1}{calls:9.3}{mebibytes:10.1}{of_memcpy:11.4}")?;
            }
        }
        writeln!(f)?;
        for Ratio { operation, bytes: size, reference, ratio, asked } in &self.ratios {
            let met = if ratio >= asked { "met" } else { "not met" };
            writeln!(
                f,
                "{} {operation}: {ratio:.2} times the rate of {reference}, {asked} asked for: {met}",
                bytes(*size)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Figures of 64 B and 1 MiB writes, where rings are so many times as fast as the plain path, and 0.6 times as memcpy.
    pub(in crate::perf) fn report(times: f64) -> Report {
        let figures = |bytes: usize| {
            let latency_us = Latency { min: 1.5, median: 2.5, p99: 40.0 };
            let plain = Figures { latency_us, rate: 1e4, calls: 1.25 };
            let rings = Figures { rate: times * plain.rate, calls: 0.0, ..plain };
            Row { operation: "write", bytes, memcpy_rate: rings.rate / 0.6, rings, plain }
        };
        let figures = vec![figures(64), figures(1 << 20)];
        Report::new(Measurements { device: "a device".to_owned(), hand_over_us: 0.25, moved_bytes: 64, figures })
    }

    #[test]
    fn the_table_has_every_figure_beside_its_reference() {
        let table = report(80.0).to_string();
        assert!(table.starts_with("a device; a word between two threads: 0.25 us\n"), "{table}");
        let rings = "write         64 B  rings      1.50     2.50    40.00      800000      80.0    0.000      48.8     0.6000\n";
        assert!(table.contains(rings), "{table}");
        let plain = "write        1 MiB  plain      1.50     2.50    40.00       10000       1.0    1.250   10000.0     0.0075\n";
        assert!(table.contains(plain), "{table}");
        assert!(table.contains("64 B write: 80.00 times the rate of the plain path, 50 asked for: met\n"), "{table}");
        assert!(table.ends_with("1 MiB write: 0.60 times the rate of memcpy, 0.5 asked for: met\n"), "{table}");
    }

    #[test]
    fn what_is_too_slow_or_was_not_measured_is_not_as_asked() {
        assert!(report(50.0).is_as_asked());
        assert!(!report(49.0).is_as_asked());
        assert!(report(49.0).to_string().contains("50 asked for: not met\n"));
        let mut part = report(50.0).measurements;
        part.figures.pop();
        assert!(!Report::new(part).is_as_asked());
    }

    #[test]
    fn json_says_the_same() {
        let json = serde_json::to_value(report(80.0)).unwrap();
        assert_eq!(json["device"], "a device");
        assert_eq!(json["figures"][1]["bytes"], 1 << 20);
        assert_eq!(json["figures"][0]["rings"]["latency_us"]["p99"], 40.0);
        assert_eq!(json["ratios"][0]["ratio"], 80.0);
        assert_eq!(json["ratios"][1]["asked"], 0.5);
    }
}
