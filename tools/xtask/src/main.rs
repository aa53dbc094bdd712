//! `cargo xtask`: installs what the build needs, builds the driver on Linux, runs it under Wine, runs every test.

mod test;

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use build::{dist, inf, setup};
use checks::{bench, fuzz, mutants, picture, promises, tally, wdk};
use clap::{Parser, Subcommand};
use under_wine::computers::Count;
use under_wine::{access, cable, crowd, hosted, installed, interop, run, soak, two_computers, two_processes, witness};

#[derive(Parser)]
#[command(name = "cargo xtask", about)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the build and the tests need
    Setup,
    /// Build target/dist: softndk.sys, ndharness.exe, ndkctl.exe, the stand-ins, and libsoftndk_sim.so for consumers in C
    Build,
    /// Build, load the driver under Wine, run every case, write target/report/run.json
    Run,
    /// Run every test: the workspace, lints, the driver under Wine; the last line counts them
    Test {
        /// Ten times the random work, with new seeds
        #[arg(long)]
        full: bool,
    },
    /// Print each promise of the documents with the tests that show it
    Promises(promises::Wanted),
    /// Measure what the device costs, beside references, and count instructions; write target/report/bench.json
    Bench(bench::Wanted),
    /// Run any Windows program beside the loaded driver; its exit status is passed through
    Wine {
        /// An address the adapter owns besides the host's unicast addresses
        #[arg(long = "address", value_name = "IP")]
        addresses: Vec<IpAddr>,
        /// The program, by a path of Windows or of this system
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<String>,
    },
    /// Play the cases with two roles in two processes, `ndharness serve` and `ndharness connect`, then kill one of them in mid-traffic
    TwoProcesses {
        /// On two computers: two prefixes of Wine, each with its own driver, which speak by iWARP over TCP
        #[arg(long)]
        computers: bool,
        /// Without a driver: a device in each process, which speak by iWARP over TCP
        #[arg(long, conflicts_with = "computers")]
        hosted: bool,
        /// With a driver, but the process that connects has a device of its own
        #[arg(long, conflicts_with_all = ["computers", "hosted"])]
        mixed: bool,
        /// How long they exchange traffic before that
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
    /// Play every case of the control codes between two computers: two prefixes of Wine, each with its own driver
    TwoComputers,
    /// Say how long a good client waits for a listener of softndk.sys under Wine at most, among peers that reset, say nothing or say little
    Crowd(crowd::Wanted),
    /// Join a tunnel end of ours to VXLAN of Linux: ping and streams, between three computers in network namespaces; what is hostile, or goes and
    /// comes back; or soak it
    Cable(cable::Wanted),
    /// Run every case of softnd.dll where no driver is loaded
    Hosted,
    /// Try the device against Linux siw, in both roles; skipped where the peer cannot run
    Interop {
        /// Print JSON instead of the table
        #[arg(long)]
        json: bool,
        /// What the peer's script runs in its network namespace
        #[arg(long, hide = true)]
        inside: bool,
    },
    /// Throw random NDK calls, control requests and rings at the driver, on the simulated kernel
    Fuzz {
        /// The fuzz target, of tests/random/fuzz: ndk_calls, ioctls, rings, mpa, receive, vxlan or fault_rules; all if none is given
        target: Option<String>,
        /// Stop each target after this number of seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Random consumers on the simulated kernel and under Wine, which are killed, disabled and unloaded: what was lost, leaked and broken
    Soak(soak::Wanted),
    /// Change the driver's crates one place at a time, by cargo-mutants: a test has to notice. Hours
    Mutants(mutants::Wanted),
    /// Write docs/pieces.svg, which shows where each crate sits
    Picture,
    /// Check inf/softndk.inx
    LintInf,
    /// Try the control device under Wine as an ordinary user, with groups that may open it and without
    Access,
    /// Install the driver by its INF under Wine, restart, and remove it
    Install,
    /// Build the driver over the headers of a WDK, on Linux, and compare it and driver/ndk-abi with what they say
    Wdk(wdk::Wanted),
    /// Run Microsoft's kernel consumer NDKPerf on the driver, under Wine
    Witness(witness::Wanted),
    /// Load, run one case and unload so many times; print what was left behind
    Cycles {
        /// How many times
        count: u32,
    },
}

fn main() -> ExitCode {
    match perform(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<ExitCode> {
    if cfg!(windows) && !matches!(task, Task::Setup) {
        bail!("only `setup` is for Windows; there, `cargo make` builds the driver and `cargo test` runs the tests");
    }
    match task {
        Task::Setup => setup::setup()?,
        Task::Build => dist::build()?,
        Task::Run => run::run()?,
        Task::Test { full } => return test::test(full),
        Task::Promises(wanted) => promises::print(&wanted)?,
        Task::Bench(wanted) if wanted.cable => return cable::bench::bench(&wanted),
        Task::Bench(wanted) => bench::bench(&wanted)?,
        Task::Interop { inside: true, .. } => return interop::every_side(),
        Task::Interop { json, .. } => return interop::interop(json),
        Task::Wine { addresses, command } => {
            let (program, arguments) = command.split_first().context("no program named")?;
            return run::program(program, arguments, &addresses);
        }
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds)?,
        Task::TwoProcesses { computers, hosted, mixed, seconds } => {
            let count = match (computers, hosted, mixed) {
                (true, ..) => Count::Two,
                (_, true, _) => Count::Driverless,
                (.., true) => Count::Mixed,
                _ => Count::One,
            };
            dist::build()?;
            let mut tally = tally::Tally::default();
            two_processes::run(count, seconds, &mut tally);
            println!("{tally}");
            ensure!(tally.is_success(), "something failed");
        }
        Task::TwoComputers => {
            dist::build()?;
            let mut tally = tally::Tally::default();
            two_computers::run(&mut tally);
            println!("{tally}");
            ensure!(tally.is_success(), "something failed");
        }
        Task::Crowd(wanted) => crowd::crowd(&wanted)?,
        Task::Cable(wanted) => return cable::cable(&wanted),
        Task::Hosted => {
            dist::build()?;
            let mut tally = tally::Tally::default();
            hosted::run(true, &mut tally);
            println!("{tally}");
            ensure!(tally.is_success(), "something failed");
        }
        Task::Soak(wanted) => soak::soak(&wanted)?,
        Task::Mutants(wanted) => mutants::mutants(&wanted)?,
        Task::Picture => picture::write()?,
        Task::LintInf => inf::lint()?,
        Task::Wdk(wanted) => return wdk::wdk(&wanted),
        Task::Witness(wanted) => return witness::witness(&wanted),
        Task::Install => {
            dist::build()?;
            let mut tally = tally::Tally::default();
            installed::run(&mut tally);
            println!("{tally}");
            ensure!(tally.is_success(), "something failed");
        }
        Task::Access => {
            dist::build()?;
            dist::build_test_driver()?;
            let mut tally = tally::Tally::default();
            access::run(&mut tally);
            access::planted(&mut tally);
            println!("{tally}");
            ensure!(tally.is_success(), "something failed");
        }
        Task::Cycles { count } => run::cycles(count)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use build::paths;
    use clap::Parser;

    use super::Arguments;

    /// What a reader in trouble is told to type can be typed.
    #[test]
    fn the_commands_for_those_in_trouble_exist() {
        let document = fs::read_to_string(paths::root().join("docs/troubleshooting.md")).unwrap();
        let commands = document.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("cargo xtask "));
        let mut count = 0;
        for command in commands {
            let words = ["xtask"].into_iter().chain(command.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_ok(), "{command}");
            count += 1;
        }
        assert!(count > 3, "{count}");
        assert!(Arguments::try_parse_from(["xtask", "runx"]).is_err());
    }
}
