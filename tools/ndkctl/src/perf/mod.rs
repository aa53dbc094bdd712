//! `ndkctl perf`: what NDKPI costs a consumer in the kernel. The test consumer in the driver measures; this program asks it for turns.

mod ends;
mod report;
#[cfg(test)]
mod tests;

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use figures::{DEFAULT_SIZES, Samples, TURNS, progress, size};
use ndk_abi::softndk_ioctl::{SOFTNDK_DEVICE_PATHS, SOFTNDK_TEST_PERF_SIZE};

use crate::{
    LAST_ADAPTER,
    driver::{self, Driver},
    opened, print,
};
use ends::{Client, serve};
pub(crate) use report::Measurements;
use report::Row;

/// The port of the server.
const PORT: u16 = 7174;

/// What `perf` is told.
#[derive(Args)]
pub(crate) struct Options {
    /// An address of the adapter where `ndkctl perf --server` runs. Without an address both ends are on this machine. With --server: the address of
    /// this adapter to listen at, instead of the first.
    address: Option<IpAddr>,
    /// Be the other end, until interrupted.
    #[arg(long, conflicts_with_all = ["to", "sizes", "operation", "plot"])]
    server: bool,
    /// The adapter of this machine that is the other end, if it is not the same.
    #[arg(long, value_name = "N", conflicts_with = "address", value_parser = clap::value_parser!(u8).range(1..=LAST_ADAPTER))]
    to: Option<u8>,
    /// Bytes of the messages, as 64, 4KiB or 1MiB; up to 4MiB.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = message, default_value = DEFAULT_SIZES)]
    sizes: Vec<u32>,
    /// Only these of send, read and write.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    operation: Vec<Operation>,
    /// Draw the figures into this file too, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    Send,
    Read,
    Write,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Send, Self::Read, Self::Write];

    fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Bytes of a message.
fn message(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(size(text)?).ok().filter(|bytes| *bytes <= SOFTNDK_TEST_PERF_SIZE);
    bytes.ok_or_else(|| "at most 4MiB".to_owned())
}

/// Measures, or serves.
pub(crate) fn execute(options: &Options, path: &'static str, json: bool) -> anyhow::Result<ExitCode> {
    let here = opened(path)?;
    if options.server {
        let local = SocketAddr::new(options.address.map_or_else(|| first_address(&*here), Ok)?, PORT);
        println!("serving at {}, until interrupted", local.ip());
        serve(&*here, local, &AtomicBool::new(false))?;
        return Ok(ExitCode::SUCCESS);
    }
    let measurements = match options.address {
        Some(address) => measure(&*here, SocketAddr::new(address, PORT), options, &AtomicBool::new(false))?,
        None => {
            let path = options.to.map_or(path, |number| SOFTNDK_DEVICE_PATHS[usize::from(number) - 1]);
            measure_here(&*here, &*opened(path)?, options)?
        }
    };
    if let Some(file) = &options.plot {
        fs::write(file, measurements.svg()?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    print(&measurements, json)?;
    Ok(ExitCode::SUCCESS)
}

fn first_address(driver: &dyn Driver) -> anyhow::Result<IpAddr> {
    let addresses = driver::addresses(driver)?;
    let first = addresses.iter().find_map(|address| address.socket_addr());
    Ok(first.context("the adapter has no address")?.ip())
}

/// Measures with an end of this program.
pub(crate) fn measure_here(here: &dyn Driver, there: &dyn Driver, options: &Options) -> anyhow::Result<Measurements> {
    let server = SocketAddr::new(first_address(there)?, PORT);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = serve(there, server, &is_over);
            // The client need not wait for a server that has failed.
            is_over.store(true, Ordering::Release);
            served
        });
        let measured = measure(here, server, options, &is_over);
        is_over.store(true, Ordering::Release);
        // Why the server has failed tells more than that the client has found none.
        let moved = serving.join().map_err(|_| anyhow::anyhow!("the serving thread has panicked"))??;
        let mut measured = measured?;
        measured.moved_bytes += moved;
        Ok(measured)
    })
}

/// Measures with the server, unless there is none any more.
fn measure(
    here: &dyn Driver,
    server: SocketAddr,
    options: &Options,
    is_over: &AtomicBool,
) -> anyhow::Result<Measurements> {
    let operations = if options.operation.is_empty() { &Operation::ALL[..] } else { &options.operation };
    let mut client = Client::new(here, server, is_over)?;
    let progress = progress(options.sizes.len() * operations.len() * TURNS)?;
    let mut figures = Vec::new();
    for &operation in operations {
        for &bytes in &options.sizes {
            progress.set_message(format!("{} of {bytes} B", operation.name()));
            let mut samples = Samples::default();
            for _ in 0..TURNS {
                let latencies = client.latencies(operation, bytes)?;
                samples.add(latencies, client.stream(operation, bytes)?);
                progress.inc(1);
            }
            figures.push(Row::new(operation, bytes, ends::depth(bytes), samples));
        }
    }
    progress.finish_and_clear();
    Ok(Measurements {
        from: client.local().to_string(),
        to: server.ip().to_string(),
        moved_bytes: client.moved(),
        figures,
    })
}
