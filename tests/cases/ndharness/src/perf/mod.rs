//! `ndharness perf`: what softnd.dll and the driver behind it cost.

mod between;
#[cfg(windows)]
mod measure;
mod plot;
mod report;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use conformance::nd::perf::Operation;
use figures::{DEFAULT_SIZES, size};
use report::Report;

use crate::{front_end::Path, target::Target};

/// What `perf` is told.
#[derive(Args)]
pub(crate) struct Options {
    /// Where `serve` is, to measure between this program and that one. Without an address: on this computer.
    #[arg(value_name = "[ADDRESS]:PORT")]
    peer: Option<Target>,
    /// With a peer, how this end's softnd.dll reaches the device; the other end's may do it otherwise.
    #[arg(long, value_enum, default_value_t = Path::Rings, requires = "peer")]
    path: Path,
    /// With a peer, the negative control: the data that is sent is not what is compared with.
    #[arg(long, hide = true, requires = "peer")]
    damage: bool,
    /// Bytes of the messages, as 64, 4KiB or 1MiB; up to what the adapter takes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, default_value = DEFAULT_SIZES)]
    sizes: Vec<usize>,
    /// Only these of send, read and write.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    operation: Vec<Operation>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Draw the figures into this file too, as SVG. Under Wine a path of Wine, or one relative to where you are.
    #[arg(long, value_name = "FILE", conflicts_with = "peer")]
    plot: Option<PathBuf>,
    /// Fail if the rings are slower than they are to be: 64 B writes, and 1 MiB writes.
    #[arg(long, conflicts_with = "peer")]
    check: bool,
}

/// Measures, and says what came of it.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let operations = if options.operation.is_empty() { &Operation::ALL[..] } else { &options.operation };
    if let Some(peer) = options.peer {
        let measurements = between(peer, options, operations)?;
        if options.json {
            println!("{}", serde_json::to_string_pretty(&measurements)?);
        } else {
            print!("{measurements}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::new(measure(&options.sizes, operations)?);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    if let Some(file) = &options.plot {
        std::fs::write(file, plot::svg(&report.measurements)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if options.check && !report.is_as_asked() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(windows)]
use {between::measure as between, measure::measure};

/// There is no softnd.dll here.
#[cfg(not(windows))]
fn measure(_: &[usize], _: &[Operation]) -> anyhow::Result<report::Measurements> {
    crate::front_end::FrontEnd::Nd2.transport().and_then(|_| anyhow::bail!("there is nothing to measure"))
}

/// Nor here.
#[cfg(not(windows))]
fn between(_: Target, _: &Options, _: &[Operation]) -> anyhow::Result<between::Measurements> {
    crate::front_end::FrontEnd::Nd2.transport().and_then(|_| anyhow::bail!("there is nothing to measure"))
}
