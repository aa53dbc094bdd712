//! Between this program and a server in another process or on another machine, in turns with plain TCP.

#[cfg(windows)]
mod run;

use std::fmt;

use figures::{Latency, bytes};
use serde::Serialize;

#[cfg(windows)]
pub(super) use run::measure;

/// What a run measured.
#[derive(Serialize)]
pub(super) struct Measurements {
    device: String,
    peer: String,
    figures: Vec<Row>,
}

/// An operation with messages of one size.
#[derive(Serialize)]
struct Row {
    operation: &'static str,
    bytes: usize,
    rdma: Figures,
    tcp: Figures,
    /// The median latency, in that of TCP.
    latency_of_tcp: f64,
    /// The rate, in that of TCP.
    rate_of_tcp: f64,
}

#[derive(Clone, Copy, Serialize)]
struct Figures {
    latency_us: Latency,
    /// How many latencies that is of.
    samples: usize,
    /// Operations in a second.
    rate: f64,
    /// How many operations that is of.
    operations: u64,
}

#[cfg(any(windows, test))]
impl Row {
    fn new(operation: &'static str, bytes: usize, rdma: Figures, tcp: Figures) -> Self {
        let latency_of_tcp = rdma.latency_us.median / tcp.latency_us.median;
        Self { operation, bytes, rdma, tcp, latency_of_tcp, rate_of_tcp: rdma.rate / tcp.rate }
    }
}

impl fmt::Display for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, peer, figures } = self;
        writeln!(f, "{device}; the peer is at {peer}, and plain TCP is to the same place\n")?;
        writeln!(f, "                          latency, us                       rate")?;
        writeln!(f, "operation     size        min   median      p99   of TCP         1/s      MiB/s   of TCP")?;
        for Row { operation, bytes: size, rdma, latency_of_tcp, rate_of_tcp, .. } in figures {
            let Figures { latency_us: Latency { min, median, p99 }, rate, .. } = rdma;
            let mebibytes = rate * *size as f64 / f64::from(1 << 20);
            write!(f, "{operation:9} {:>8} {min:10.1}{median:9.1}{p99:9.1}{latency_of_tcp:9.2}", bytes(*size))?;
            writeln!(f, "{rate:12.0}{mebibytes:11.1}{rate_of_tcp:9.2}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurements() -> Measurements {
        let figures = |median: f64, rate| Figures {
            latency_us: Latency { min: 1.5, median, p99: 40.0 },
            samples: 7,
            rate,
            operations: 9,
        };
        let row = Row::new("write", 1 << 20, figures(30.0, 500.0), figures(20.0, 1000.0));
        Measurements { device: "a device".to_owned(), peer: "10.0.0.2".to_owned(), figures: vec![row] }
    }

    #[test]
    fn the_table_has_every_figure_beside_its_reference() {
        let table = measurements().to_string();
        assert!(table.starts_with("a device; the peer is at 10.0.0.2, and"), "{table}");
        let row = "write        1 MiB        1.5     30.0     40.0     1.50         500      500.0     0.50\n";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn json_says_the_same() {
        let json = serde_json::to_value(measurements()).unwrap();
        let row = &json["figures"][0];
        assert_eq!((&row["rate_of_tcp"], &row["latency_of_tcp"]), (&0.5.into(), &1.5.into()));
        assert_eq!((&row["rdma"]["samples"], &row["tcp"]["operations"]), (&7.into(), &9.into()));
        assert_eq!(row["tcp"]["latency_us"]["median"], 20.0);
    }
}
