//! The measurements.

use std::time::Duration;

use anyhow::Context as _;
use conformance::nd::perf::{Counted, Operation};
use figures::{Samples, TURN, TURNS, progress};

use super::{Figures, Measurements, Row};
use crate::{client_server, perf::Options, target::Target};

/// How long to wait for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures with the server at `peer`. A turn of each measurement comes before those that count.
pub(in crate::perf) fn measure(
    peer: Target,
    options: &Options,
    operations: &[Operation],
) -> anyhow::Result<Measurements> {
    let longest = options.sizes.iter().copied().max().context("no size is given")?;
    let here = client_server::Options::new(options.path, PATIENCE);
    let progress = progress(options.sizes.len() * operations.len() * (1 + TURNS))?;
    let (peer, figures) = here.measure(peer, longest, |link| {
        let tcp = link.tcp()?;
        let mut figures = Vec::new();
        for &operation in operations {
            for &size in &options.sizes {
                progress.set_message(format!("{operation} of {size} B"));
                link.check(operation, size, options.damage)?;
                let (mut rdma, mut plain) = (Samples::default(), Samples::default());
                for turn in 0..=TURNS {
                    let of_link = (link.latencies(operation, size, TURN)?, link.stream(operation, size, TURN)?);
                    let of_tcp = (tcp.latencies(operation, size, TURN)?, tcp.stream(operation, size, TURN)?);
                    if turn > 0 {
                        let took = |streamed: Counted| (streamed.operations, streamed.elapsed);
                        rdma.add(of_link.0, took(of_link.1));
                        plain.add(of_tcp.0, took(of_tcp.1));
                    }
                    progress.inc(1);
                }
                figures.push(Row::new(operation.name(), size, rdma.into(), plain.into()));
            }
        }
        Ok((link.peer()?, figures))
    })?;
    progress.finish_and_clear();
    Ok(Measurements { device: here.device_at_rest()?, peer: peer.to_string(), figures })
}

impl From<Samples> for Figures {
    fn from(mut samples: Samples) -> Self {
        Self {
            latency_us: samples.latency(),
            samples: samples.latencies(),
            rate: samples.rate(),
            operations: samples.operations(),
        }
    }
}
