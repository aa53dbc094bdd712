//! `ndkctl`: shows what the loaded softndk.sys has and does, by requests that change nothing, and what it tells ETW; has Windows turn its
//! RDMA on and off.

mod adapters;
mod columns;
mod connections;
mod driver;
mod objects;
mod stats;
mod status;
mod switch;
#[cfg(windows)]
mod system;
#[cfg(test)]
mod tests;
mod trace;

use std::{num::NonZeroU64, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use driver::Driver;
use serde::Serialize;

/// Shows what the SoftNDK driver has and does.
///
/// All but `enable` and `disable` read only: they work beside any program, and while requests of others are stuck. SYSTEM and
/// administrators may open the device, and the groups that its parameter Groups names. `trace` asks ETW, not the device.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 on success, 1 when `status` finds no driver, 2 for any other error; errors have the name and number of \
                  the NTSTATUS."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// Print JSON; with --watch one object in a line for each interval, with `trace` for each event.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Whether the driver is there, its version, whether RDMA is on, and how much it has of everything.
    Status,
    /// How many objects of each kind live, over all programs and consumers in the kernel, and how many there may be.
    Objects,
    /// Connections, and attempts at them, listeners and shared endpoints, each with the process that has it.
    Connections,
    /// The NDK counters: octets and frames, connects, accepts, failures and errors since the adapter was started.
    ///
    /// Octets are those of data, without headers; frames are the sends, reads and writes they are of. What goes from the adapter to itself
    /// counts once as out and once as in.
    Stats {
        /// Print what is counted in each interval of so many seconds, until interrupted.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
        watch: Option<NonZeroU64>,
        /// Stop after so many intervals.
        #[arg(long, requires = "watch")]
        count: Option<u64>,
    },
    /// The adapter: its addresses and its limits, those of NDK_ADAPTER_INFO.
    Adapters,
    /// Have Windows turn RDMA on, by Enable-NetAdapterRdma, and wait until the driver says so.
    Enable,
    /// Have Windows turn RDMA off, by Disable-NetAdapterRdma, and wait until the driver says so. Programs and consumers in the kernel lose
    /// what they have.
    Disable,
    /// What the driver tells ETW, as it comes, until interrupted: the adapter, connections, listeners, failures.
    ///
    /// For administrators and Performance Log Users. The driver may be started later. How many events were shown, and how many
    /// lost, is said on standard error at the end.
    Trace {
        /// The least that is shown, with all that is worse.
        #[arg(long, value_enum, default_value = "informational")]
        level: trace::Level,
        /// Stop after so many seconds.
        #[arg(long)]
        seconds: Option<NonZeroU64>,
    },
}

fn main() -> ExitCode {
    let CommandLine { command, json } = CommandLine::parse();
    execute(&command, json).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn execute(command: &Command, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        Command::Status => {
            let found = status::Status::read(open())?;
            print(&found, json)?;
            return Ok(if found.is_there() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Objects => print(&objects::Objects::read(&*opened()?)?, json)?,
        Command::Connections => print(&connections::Endpoints::read(&*opened()?)?, json)?,
        Command::Stats { watch: None, .. } => print(&stats::Totals::read(&*opened()?)?, json)?,
        Command::Stats { watch: Some(seconds), count } => stats::watch(opened, *seconds, *count, json)?,
        Command::Adapters => print(&adapters::Adapters::read(&*opened()?)?, json)?,
        Command::Enable => print(&switch::switch_here(true)?, json)?,
        Command::Disable => print(&switch::switch_here(false)?, json)?,
        Command::Trace { level, seconds } => {
            trace::trace(*level, seconds.map(|seconds| Duration::from_secs(seconds.get())), json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(found: &(impl Serialize + std::fmt::Display), json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(found)?);
    } else {
        print!("{found}");
    }
    Ok(())
}

/// Opens the device.
#[cfg(windows)]
fn open() -> Result<Box<dyn Driver>, ndk_abi::status::NTSTATUS> {
    Ok(Box::new(nd_device::SynchronousFile::open()?))
}

/// There is none on this system.
#[cfg(not(windows))]
fn open() -> Result<Box<dyn Driver>, ndk_abi::status::NTSTATUS> {
    Err(ndk_abi::status::STATUS_NO_SUCH_DEVICE)
}

/// The open device, or an error that says what to do.
fn opened() -> anyhow::Result<Box<dyn Driver>> {
    open().map_err(|status| anyhow::anyhow!("{}", driver::why_not(status)))
}
