//! `ndharness`: runs the conformance cases against a SoftNDK device.
//!
//! Two front ends carry the same cases: the simulated kernel in this very process, and `softndk.sys` through its control
//! device (on Windows, or under Wine). Each version of NetworkDirect, through `softnd.dll`, has cases of its own.

mod any_provider;
#[cfg(windows)]
mod client_server;
mod diagnostics;
#[cfg(windows)]
mod foreign;
mod front_end;
#[cfg(windows)]
mod ioctl;
#[cfg(windows)]
mod nd;
mod perf;
#[cfg(any(windows, test))]
mod ping;
mod provider;
#[cfg(windows)]
mod remote_agent;
#[cfg(windows)]
mod removed;
mod report;
mod returns;
#[cfg(windows)]
mod rping;
mod run;
mod soak;
mod stuck;
mod target;

#[cfg(windows)]
use std::net::{IpAddr, SocketAddr};
use std::{process::ExitCode, time::Duration};

#[cfg(windows)]
use anyhow::ensure;
use clap::{Args, Parser, Subcommand};
#[cfg(windows)]
use conformance::{Carrier, nd::Version};
use front_end::{FrontEnd, Path};
#[cfg(windows)]
use ndk_abi::softndk_ioctl::SOFTNDK_DEVICE_PATHS;
use run::Selection;

#[cfg(windows)]
const LAST_ADAPTER: i64 = SOFTNDK_DEVICE_PATHS.len() as i64;

/// Drives the SoftNDK RDMA device by IOCTLs and checks what it does against the documentation.
///
/// Without a command: `run`, every case, on the simulated kernel.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 when every case passed, 1 when one failed, 2 when nothing could be run."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// List the cases and what each of them shows.
    List {
        #[command(flatten)]
        device: Device,
        /// Without those that count calls of the driver, of which there are more where others are at work.
        #[arg(long)]
        busy: bool,
    },
    /// Run cases and print a table of the results.
    ///
    /// With --provider, on a provider of NetworkDirect that may be anyone's; the report then also has its limits, every status seen, and how
    /// requests began. Send the report as a file: --json > report.json.
    Run(RunOptions),
    /// Print how many objects of each kind an adapter has, over all open files, and the memory that the driver has.
    Diagnostics {
        #[command(flatten)]
        device: Device,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
        /// Which adapter of the front end ioctl, as with ndkctl.
        #[cfg(windows)]
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=LAST_ADAPTER))]
        adapter: u8,
    },
    /// Measure latency, rate and bandwidth over softnd.dll, each beside a reference of the same run.
    ///
    /// Sends, reads and writes between two queue pairs of this program, on both paths of the DLL, in turns. Latency is half of a
    /// ping-pong, or from post to completion of a read; its reference is a word that one thread passes to another. The rate is that of one
    /// thread with up to 128 requests on their way; its reference is the plain path. Bandwidth is the rate in bytes; its reference is
    /// memcpy of the same bytes between the same places. The data of each size is checked once. Needs Windows or Wine.
    ///
    /// With the address of `ndharness serve` in another process or on another machine, between the two, on one path, beside plain TCP to the
    /// same place, by threads of the same two programs, in messages of the same sizes.
    Perf(perf::Options),
    /// Send messages to `serve` in another process or on another machine, which sends them back; compare the data, and say how long it took.
    ///
    /// Both ends look for messages by polling. What waits longer than 0.1 ms, as the server does between two messages that are not sent at
    /// once, sleeps until one comes; so with --interval 0 a round trip is shorter. Ctrl-C ends it early.
    #[cfg(windows)]
    Ping(ping::Options),
    /// Enter softnd.dll into the Winsock catalog, by which programs find NetworkDirect providers; or remove it.
    Provider {
        #[command(subcommand)]
        command: provider::Command,
    },
    /// Serve one session, for `connect`, `ping` or `perf` in another process; with --provider for `run --peer`.
    ///
    /// Says where it serves ("serving at ADDRESS:PORT") and what is being played, and prints both ends' verdicts.
    #[cfg(windows)]
    Serve {
        #[command(flatten)]
        options: client_server::Options,
        #[command(flatten)]
        provider: Option<any_provider::Which>,
        /// The address to serve at; the adapter's first one if none is given.
        #[arg(long)]
        address: Option<IpAddr>,
        /// The port; one that is free if none is given.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Exit when the input ends.
        #[arg(long)]
        until_input_ends: bool,
    },
    /// Refuse whoever connects, until it is ended: `softndk-bench crowd --at` counts how long that takes.
    ///
    /// Says where it serves ("serving at ADDRESS:PORT").
    #[cfg(windows)]
    Refuse {
        #[command(flatten)]
        options: client_server::Options,
        /// The address to serve at; the adapter's first one if none is given.
        #[arg(long)]
        address: Option<IpAddr>,
        /// The port; one that is free if none is given.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Send requests to the device of this computer for a program of another one, `run --beside`, until that has ended.
    ///
    /// For tests with two computers that are prefixes of Wine on one system. Says where it serves ("serving at ADDRESS:PORT"). A program that
    /// connects to it can send the device any request, with any file of the named folder as memory: let no stranger onto the system.
    #[cfg(windows)]
    Agent {
        /// The address, of this system, and the port; 0: one that is free.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
        at: SocketAddr,
        /// Which adapter of this computer, as with ndkctl.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=LAST_ADAPTER))]
        adapter: u8,
    },
    /// Play cases with two roles with `serve` in another process, and print both ends' verdicts.
    #[cfg(windows)]
    Connect {
        /// Where `serve` is. Without an address: on this computer.
        #[arg(value_name = "[ADDRESS]:PORT")]
        target: target::Target,
        /// Print JSON instead of the table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        options: client_server::Options,
        /// The server has a device of its own, on another computer or in its process: requests go by iWARP, where sends and writes are
        /// complete before the peer has seen them.
        #[arg(long)]
        wire: bool,
        /// How long the mixed traffic of `exchange` lasts.
        #[arg(long, default_value_t = 2)]
        seconds: u64,
    },
    /// Speak the protocol of rping (rdma-core) with one on another machine, over softnd.dll, in either role.
    #[cfg(windows)]
    Rping(rping::Rping),
    /// Have requests pending, print "ready", wait until RDMA is turned off, and print what programs are told then.
    ///
    /// For tests: fails if a method that documents ND_DEVICE_REMOVED returns something else.
    #[cfg(windows)]
    Removed {
        #[command(flatten)]
        device: Device,
        /// How softnd.dll reaches the driver.
        #[arg(long, value_enum, default_value_t = Path::Rings)]
        path: Path,
        /// Seconds to wait for that.
        #[arg(long, default_value_t = 60)]
        patience: u64,
    },
    /// Leave a connection, memory and a request behind, and fail unless the checks after each case find them; then exit.
    #[cfg(windows)]
    #[command(hide = true)]
    LeftBehind {
        /// How softnd.dll reaches the device.
        #[arg(long, value_enum, default_value_t = Path::Rings)]
        path: Path,
    },
    /// Send a request by an inherited handle, for the process that opened it, which looks at how it ends.
    #[cfg(windows)]
    #[command(hide = true)]
    ForeignRequest(foreign::Request),
    /// Connect, move data, resize, register, arm and end in any way, by chance, until it is time; fail if anything is lost, leaked or wrong.
    Soak(soak::Options),
    /// Connect queue pairs, keep traffic and pended requests going, print "ready", and wait to be killed.
    ///
    /// For tests of what the driver does when a process dies: everything it had open must be gone afterwards.
    Stuck {
        #[command(flatten)]
        device: Device,
        /// Give up and exit by itself after so many seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Exit when the input ends.
        #[arg(long)]
        until_input_ends: bool,
        /// How many connected queue pairs to keep busy.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
        pairs: u8,
    },
}

#[derive(Args)]
struct Device {
    /// Where the device is.
    #[arg(long, value_enum, default_value_t = FrontEnd::Sim)]
    front_end: FrontEnd,
}

#[derive(Args)]
struct RunOptions {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    device: Device,
    /// Only this path of requests and completions, instead of both.
    #[arg(long, value_enum)]
    path: Option<Path>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Seconds to wait for anything that should happen before the case fails.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    #[cfg(windows)]
    #[command(flatten)]
    remote_agent: Option<remote_agent::RemoteAgent>,
    #[cfg(windows)]
    #[command(flatten)]
    any_provider: Option<any_provider::Which>,
    #[cfg(windows)]
    #[command(flatten)]
    way: any_provider::Way,
}

impl Default for RunOptions {
    fn default() -> Self {
        let device = Device { front_end: FrontEnd::Sim };
        Self {
            selection: Selection::default(),
            device,
            path: None,
            json: false,
            patience: 10,
            #[cfg(windows)]
            remote_agent: None,
            #[cfg(windows)]
            any_provider: None,
            #[cfg(windows)]
            way: any_provider::Way::default(),
        }
    }
}

/// The path of an adapter's device.
#[cfg(windows)]
fn path_of(adapter: u8) -> &'static str {
    SOFTNDK_DEVICE_PATHS[usize::from(adapter) - 1]
}

fn main() -> ExitCode {
    execute().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn execute() -> anyhow::Result<ExitCode> {
    match CommandLine::parse().command.unwrap_or_else(|| Command::Run(RunOptions::default())) {
        Command::List { device, busy } => report::list(device.front_end, busy),
        Command::Run(options) => {
            let patience = Duration::from_secs(options.patience);
            #[cfg(windows)]
            if let Some(remote) = &options.remote_agent {
                ensure!(
                    options.device.front_end == FrontEnd::Ioctl,
                    "only the cases of ioctl can be run beside an agent"
                );
                return remote_agent::run(remote, options.path, &options.selection, patience)?.print(options.json);
            }
            #[cfg(windows)]
            if let Some(which) = &options.any_provider {
                ensure!(options.path.is_none(), "--path is softnd.dll's, not any provider's");
                let front_end = options.device.front_end;
                return any_provider::run(which, &options.way, front_end, &options.selection, patience)?
                    .print(options.json);
            }
            let report = match options.device.front_end {
                FrontEnd::Sim | FrontEnd::Ioctl => {
                    run::run(options.device.front_end, options.path, &options.selection, patience)?
                }
                #[cfg(windows)]
                FrontEnd::Nd1 => nd::run(Version::V1, options.path, &options.selection, patience)?,
                #[cfg(windows)]
                FrontEnd::Nd2 => nd::run(Version::V2, options.path, &options.selection, patience)?,
                #[cfg(not(windows))]
                FrontEnd::Nd1 | FrontEnd::Nd2 => {
                    return options.device.front_end.transport().map(|_| ExitCode::SUCCESS);
                }
            };
            return report.print(options.json);
        }
        #[cfg(windows)]
        Command::Serve { options, provider, address, port, until_input_ends } => {
            if until_input_ends {
                client_server::exit_with_input();
            }
            let served = match provider {
                Some(provider) => any_provider::serve(&provider, address, port, options.patience()),
                None => client_server::serve(&options, address, port),
            };
            return served?.print(false);
        }
        #[cfg(windows)]
        Command::Refuse { options, address, port } => match client_server::refuse(&options, address, port)? {},
        #[cfg(windows)]
        Command::Agent { at, adapter } => remote_agent::listen(at, path_of(adapter))?,
        #[cfg(windows)]
        Command::Connect { target, json, selection, options, wire, seconds } => {
            let carrier = if wire { Carrier::Wire } else { Carrier::Device };
            return client_server::connect(&options, target, &selection, carrier, seconds)?.print(json);
        }
        #[cfg(windows)]
        Command::Diagnostics { device: Device { front_end: FrontEnd::Ioctl }, json, adapter } => {
            diagnostics::print(&ioctl::Device::at(path_of(adapter)), json)?;
        }
        Command::Diagnostics { device, json, .. } => diagnostics::print(&*device.front_end.transport()?, json)?,
        Command::Perf(options) => return perf::run(&options),
        #[cfg(windows)]
        Command::Ping(options) => return ping::run(&options),
        Command::Provider { command } => provider::run(command)?,
        #[cfg(windows)]
        Command::Rping(options) => rping::run(&options)?,
        #[cfg(windows)]
        Command::Removed { device, path, patience } => {
            removed::run(device.front_end, path, Duration::from_secs(patience))?;
        }
        #[cfg(windows)]
        Command::LeftBehind { path } => {
            let library = nd::library()?;
            println!("{}", conformance::nd::left_behind(&library, path.name(), nd::device(&library)?)?);
        }
        Command::Soak(options) => return soak::run(&options),
        Command::Stuck { device, seconds, until_input_ends, pairs } => {
            let until = stuck::Until { duration: Duration::from_secs(seconds), input_ends: until_input_ends };
            stuck::run(&*device.front_end.transport()?, &until, pairs)?;
        }
        #[cfg(windows)]
        Command::ForeignRequest(request) => foreign::send(&request)?,
    }
    Ok(ExitCode::SUCCESS)
}
