//! `ndkctl`: shows the state of the loaded softndk.sys by requests that change nothing, prints the driver's ETW events, sets fault rules, and has
//! Windows turn RDMA on and off.

mod adapters;
mod cable;
mod capture;
mod columns;
mod connections;
mod doctor;
mod driver;
mod faults;
mod objects;
mod perf;
mod powershell;
mod stats;
mod status;
mod sweep;
mod switch;
#[cfg(windows)]
mod system;
#[cfg(test)]
mod tests;
mod trace;

use std::{num::NonZeroU64, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use driver::Driver;
use ndk_abi::softndk_ioctl::SOFTNDK_DEVICE_PATHS;
use serde::Serialize;

/// Shows the state of the SoftNDK driver.
///
/// All commands but `faults`, `capture`, `perf`, `enable` and `disable` only read: they work beside any program, also while requests of programs are stuck. SYSTEM,
/// administrators and the groups in the driver's parameter Groups may open the device. `trace` uses ETW, not the device.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 on success, 1 when `status` finds no driver, a rule of `faults assert` has not fired, \
                  `faults sweep` or `doctor` found something, `doctor` could not know something, or the program of \
                  `capture` has failed, 2 for any other error; errors have the name and number of the NTSTATUS."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// Print JSON: with --watch one object in a line for each interval, with `trace` for each event.
    #[arg(long, global = true)]
    json: bool,
    /// Which adapter, if there are several: 1 is \\.\SoftNdk, 2 is \\.\SoftNdk2. An adapter that starts gets the first number that is free.
    /// `adapters` and `trace` show all.
    #[arg(long, global = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=LAST_ADAPTER))]
    adapter: u8,
}

const LAST_ADAPTER: i64 = SOFTNDK_DEVICE_PATHS.len() as i64;

#[derive(Subcommand)]
enum Command {
    /// Whether the driver is there, its version, whether RDMA is on, and how many files, requests, objects and connections the adapter has, and
    /// how much memory the driver.
    Status,
    /// The number of objects of each kind, over all programs and kernel consumers, and the limit of each kind.
    Objects,
    /// Connections, connection attempts, listeners and shared endpoints, each with its owner: a process, or the kernel.
    Connections,
    /// The NDK counters: octets and frames, connects, accepts, failures and errors since the adapter was started.
    ///
    /// Octets count data without headers; frames count sends, reads and writes. Data from the adapter to itself counts once as out and once as in.
    Stats {
        /// Print rates and totals after each interval of SECONDS, until interrupted.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
        watch: Option<NonZeroU64>,
        /// Stop after COUNT intervals.
        #[arg(long, requires = "watch")]
        count: Option<u64>,
    },
    /// All adapters: the path of each one's device, its addresses, and its limits by their names in NDK_ADAPTER_INFO.
    Adapters,
    /// The cable, which joins the adapter to other machines: its link, its peers, the MAC addresses behind them, its frames, what was dropped and
    /// why, and the last error.
    ///
    /// Peers: the datagrams that Windows has sent to each, and all that came from each. The MAC addresses are the sources of the peers' frames in the
    /// last 300 s, with the seconds since. Frames in went to Windows, frames out to a peer or more. All counts are since the adapter was started.
    ///
    /// Dropped in: `stranger`, from an address that is no peer's; `not_vxlan`, without a VXLAN header; `other_vni`, of a network with another
    /// number, so that CableVni differs between the machines; `short` and `long`, no frame, or one above the MTU, so that *JumboPacket differs;
    /// `vlan_tag`; `invalid_source`, from a group or no address; `own_address`, from the adapter's own address; `no_list`, more at a time than
    /// Windows takes; `not_mapped`, without memory; `not_wanted`, of a kind that no protocol asks for; `paused`, while the adapter was paused.
    ///
    /// Dropped out: `vlan_tag`; `circular_route`, to a peer's IP address: a route leads the cable's own datagrams into the cable;
    /// `link_down`; `no_slot`, more at a time than the network takes; `not_mapped`, without memory; `not_sent`, which Windows refused to send.
    Cable,
    /// Fault rules, by which the adapter fails requests and breaks connections on purpose; without a command: the rules, what passed each, and how
    /// often each has fired.
    ///
    /// on POINT [where FILTER ...] [after N] [every N] [times N] [for TIME] [chance N/M [seed N]] do ACTION
    ///
    /// The first N passages of `after` pass; of the others the first and each Nth of `every` behind it fire, by a `chance` of N in M, N `times` at
    /// most, and until `for` TIME after the first firing. The first rule that fires counts; those behind it do not see the passage. TIME is 100us, 5ms, 2s.
    /// Example:
    ///
    /// ndkctl faults set "on write where port=445 role=passive bytes>=65536 after 3 times 1 do disconnect"
    ///
    /// Filters: port= and address= of either side, role=active or passive, process=, queue-pair= (its number in events), bytes=, bytes>=, bytes<=,
    /// operation= of a post: send, receive, read, write, fast-register, bind, invalidate.
    ///
    /// Actions: fail with a status that hardware has there; disconnect, as the peer's consumer does; reset; delay; stall, until the requests are
    /// flushed; send-timeout, in whole seconds: so long messages of the connection wait for a receive, as by the parameter SendTimeout; overrun of a
    /// completion queue; terminate, with a code of RFC 5040 section 4.8, as 0x0100; of a frame drop, duplicate, reorder behind the next one; corrupt,
    /// where a CRC or TCP finds it.
    ///
    /// Rules need the adapter's parameter FaultInjection, last until the adapter stops, and are for test machines.
    #[command(after_help = faults::points())]
    Faults {
        #[command(subcommand)]
        command: Option<faults::Command>,
    },
    /// Write what the adapter's connections carry to a pcapng file, which Wireshark reads, until interrupted.
    ///
    /// Connections within the adapter, which no network carries, are written as the TCP, MPA, DDP and RDMAP that a wire would carry. Fault rules that
    /// fire and requests that fail are comments on packets. For Wireshark to know RDMA on port 5445, its preference tcp.try_heuristic_first has to be
    /// on. Needs the adapter's parameter Capture, as the data of all consumers is in it.
    Capture(capture::Options),
    /// Measure NDKPI for a consumer in the kernel: latency, rate and bandwidth of sends, reads and writes.
    ///
    /// Both ends are on this machine, on one adapter or, with --to, on two; or the other one is `ndkctl perf --server` on another machine. A latency is
    /// half of a round trip, of a read all of it; rates are those of many messages under way at once. Each is measured in five turns of 20 ms. The
    /// figures are of the test consumer in the driver, which a package does not have: `cargo make test-consumer` builds a driver with it, for test
    /// machines.
    Perf(perf::Options),
    /// Have Windows turn RDMA on, by Enable-NetAdapterRdma, and wait until the driver reports RDMA on.
    Enable,
    /// Have Windows turn RDMA off, by Disable-NetAdapterRdma, and wait until the driver reports RDMA off. Programs and kernel consumers lose their
    /// objects and connections.
    Disable,
    /// Why is SMB not using RDMA? Each cause that is there: what, why, by which document, and the command that mends it.
    ///
    /// Looks at what PowerShell's cmdlets say of this machine, some of them only to an administrator, and at the driver, and changes nothing. What a
    /// query does not tell is `not known`, never right. With SERVER also which pairs of addresses Windows will use, in order, and why not the others.
    ///
    /// A recording (--save) has a file for each query: Windows' version; names, states, bindings and addresses of the network adapters; routes; the
    /// firewall's profiles, and its rules for TCP with names and ports; settings, interfaces and connections of SMB with the names of servers; the
    /// driver's devices and connections. It has no file names, users or passwords: look at it before you send it.
    ///
    /// Firewall rules are looked at without their remote addresses. Not yet run on Windows.
    Doctor(doctor::Arguments),
    /// The driver's ETW events as they come, until interrupted: of the adapter, connections, listeners and failures.
    ///
    /// For administrators and Performance Log Users. The driver may be started later. At the end the numbers of shown and of lost events are printed
    /// on standard error.
    Trace {
        /// The least severe level that is shown.
        #[arg(long, value_enum, default_value = "informational")]
        level: trace::Level,
        /// Stop after SECONDS seconds.
        #[arg(long)]
        seconds: Option<NonZeroU64>,
    },
}

fn main() -> ExitCode {
    let CommandLine { command, json, adapter } = CommandLine::parse();
    execute(&command, json, SOFTNDK_DEVICE_PATHS[usize::from(adapter) - 1]).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn execute(command: &Command, json: bool, path: &'static str) -> anyhow::Result<ExitCode> {
    match command {
        Command::Status => {
            let found = status::Status::read(path, open(path))?;
            print(&found, json)?;
            return Ok(if found.is_there() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Objects => print(&objects::Objects::read(&*opened(path)?)?, json)?,
        Command::Connections => print(&connections::Endpoints::read(&*opened(path)?)?, json)?,
        Command::Stats { watch: None, .. } => print(&stats::Totals::read(&*opened(path)?)?, json)?,
        Command::Stats { watch: Some(seconds), count } => stats::watch(|| opened(path), *seconds, *count, json)?,
        Command::Adapters => print(&adapters::Adapters::read(open)?, json)?,
        Command::Cable => print(&cable::Found::read(&*opened(path)?)?, json)?,
        Command::Faults { command } => return faults::execute(command.as_ref(), path, json),
        Command::Capture(options) => {
            let captured = capture::capture_here(&*opened(path)?, options)?;
            if options.is_to_standard_output() {
                eprint!("{captured}");
            } else {
                print(&captured, json)?;
            }
            if captured.has_failed() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Doctor(arguments) => return doctor::execute(arguments, json),
        Command::Perf(options) => return perf::execute(options, path, json),
        Command::Enable => print(&switch::switch_here(path, true)?, json)?,
        Command::Disable => print(&switch::switch_here(path, false)?, json)?,
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

/// Opens an adapter's device.
#[cfg(windows)]
fn open(path: &str) -> Result<Box<dyn Driver>, ndk_abi::status::NTSTATUS> {
    Ok(Box::new(nd_device::SynchronousFile::open(path)?))
}

/// There is no device on this system.
#[cfg(not(windows))]
fn open(_path: &str) -> Result<Box<dyn Driver>, ndk_abi::status::NTSTATUS> {
    Err(ndk_abi::status::STATUS_NO_SUCH_DEVICE)
}

/// The open device, or an error that says what to do.
fn opened(path: &str) -> anyhow::Result<Box<dyn Driver>> {
    open(path).map_err(|status| anyhow::anyhow!("{}", driver::why_not(path, status)))
}
