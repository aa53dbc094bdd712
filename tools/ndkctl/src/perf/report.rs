//! What was measured, for people and for programs.

use std::fmt;

use figures::{BANDWIDTH, By, LATENCY, Latency, Line, Panel, RATE, Samples, bytes};
use serde::Serialize;

use super::Operation;

/// What a run measured.
#[derive(Serialize)]
pub(crate) struct Measurements {
    /// The addresses of the ends.
    pub(super) from: String,
    pub(super) to: String,
    /// By the ends on this machine: what the driver has to have counted.
    pub(crate) moved_bytes: u64,
    pub(super) figures: Vec<Row>,
}

/// An operation with messages of one size.
#[derive(Serialize)]
pub(super) struct Row {
    operation: &'static str,
    bytes: u32,
    latency_us: Latency,
    /// How many latencies that is of.
    samples: usize,
    /// Messages under way at once.
    depth: u32,
    /// Operations in a second.
    rate: f64,
    /// How many operations that is of.
    operations: u64,
}

impl Row {
    pub(super) fn new(operation: Operation, bytes: u32, depth: u32, mut samples: Samples) -> Self {
        Self {
            operation: operation.name(),
            bytes,
            latency_us: samples.latency(),
            samples: samples.latencies(),
            depth,
            rate: samples.rate(),
            operations: samples.operations(),
        }
    }

    /// Bytes in a second.
    fn bandwidth(&self) -> f64 {
        self.rate * f64::from(self.bytes)
    }
}

impl fmt::Display for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, figures, .. } = self;
        writeln!(f, "NDKPI, from {from} to {to}\n")?;
        writeln!(f, "                          latency, us              rate         bandwidth")?;
        writeln!(f, "operation     size        min   median      p99   depth         1/s     MiB/s")?;
        for row in figures {
            let Row { operation, bytes: size, latency_us: Latency { min, median, p99 }, depth, rate, .. } = row;
            let mebibytes = row.bandwidth() / f64::from(1 << 20);
            write!(f, "{operation:9} {:>8} {min:10.2}{median:9.2}{p99:9.2}", bytes(*size as usize))?;
            writeln!(f, "{depth:8}{rate:12.0}{mebibytes:10.1}")?;
        }
        Ok(())
    }
}

impl Measurements {
    /// The figures as a drawing.
    pub(super) fn svg(&self) -> anyhow::Result<String> {
        let panel = |title, value: fn(&Row) -> f64| {
            let line = |operation: &'static str| {
                let rows = self.figures.iter().filter(move |row| row.operation == operation);
                let points: Vec<_> = rows.map(|row| (f64::from(row.bytes), value(row))).collect();
                (!points.is_empty()).then(|| Line::new(operation, operation.to_owned(), points))
            };
            Panel {
                title,
                by: By::Bytes,
                lines: Operation::ALL.into_iter().filter_map(|operation| line(operation.name())).collect(),
            }
        };
        let panels = vec![
            panel(LATENCY, |row| row.latency_us.median),
            panel(RATE, |row| row.rate),
            panel(BANDWIDTH, |row| row.bandwidth() / 1e6),
        ];
        figures::svg(panels, figures::machine())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurements() -> Measurements {
        let latency_us = Latency { min: 1.5, median: 2.5, p99: 40.0 };
        let row =
            Row { operation: "write", bytes: 1 << 20, latency_us, samples: 7, depth: 16, rate: 1000.0, operations: 9 };
        Measurements { from: "10.0.0.1".to_owned(), to: "10.0.0.2".to_owned(), moved_bytes: 64, figures: vec![row] }
    }

    #[test]
    fn the_table_the_json_and_the_drawing_say_the_same() {
        let found = measurements();
        let table = found.to_string();
        assert!(table.starts_with("NDKPI, from 10.0.0.1 to 10.0.0.2\n"), "{table}");
        let row = "write        1 MiB       1.50     2.50    40.00      16        1000    1000.0\n";
        assert!(table.ends_with(row), "{table}");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["moved_bytes"], &json["figures"][0]["latency_us"]["p99"]), (&64.into(), &40.0.into()));
        let drawing = found.svg().unwrap();
        assert!(drawing.contains("\nwrite\n") && !drawing.contains("\nread\n"), "{drawing}");
    }
}
