//! Every case of the control codes between two computers: `ndharness run --beside` on one, `ndharness agent` on the other.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use build::command::{outcome, said, step};
use build::paths;
use checks::tally::Tally;
use serde_json::Value;

use crate::computers::{Computers, Count};
use crate::run;
use crate::session::Session;
use crate::two_processes::{Harness, serving_at};
use crate::wine_tests::{FIRST, SECOND, both_are_idle_again, diagnostics, diagnostics_of_both};

/// By which two computers on this system's loopback meet.
pub(crate) const LOOPBACK: &str = "127.0.0.1";
/// For what is over at once.
const SOON: Duration = Duration::from_secs(120);

/// Plays them, then has done what must not pass.
pub fn run(tally: &mut Tally) {
    let played =
        step("playing every case between two computers", || cases(Computers::load(Count::Two)?, LOOPBACK, tally));
    // Shows S812.
    tally.check("every case holds between two computers and leaves nothing behind", played);
    // Shows S812.
    tally.check("one device is not taken for two computers", one_device());
    let noticed = step("killing the agent of the other computer", killed);
    // Shows S812.
    tally.check("cases fail, and say why, when the agent of the other computer is killed", noticed);
}

/// The memory of the cases, which both computers see.
struct Buffers(PathBuf);

impl Buffers {
    fn new() -> Self {
        let buffers = Self(paths::root().join("target/wine/buffers"));
        buffers.delete();
        buffers
    }

    /// As programs under Wine have it.
    fn folder(&self) -> String {
        format!("Z:{}", self.0.display()).replace('/', r"\")
    }

    fn delete(&self) {
        // It is there if a run was broken off.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.delete();
    }
}

/// Starts it at a port of `address`, for the adapter with this number; where it serves.
fn agent(session: &Session, address: &str, adapter: &str) -> Result<(Harness, String)> {
    let agent = Harness::start(session, &["agent", "--at", &format!("{address}:0"), "--adapter", adapter])?;
    let serving = agent.until(serving_at)?;
    Ok((agent, serving))
}

/// Plays the cases between two computers. `address`: of the serving computer, for the agent.
pub(crate) fn cases(computers: Computers, address: &str, tally: &mut Tally) -> Result<()> {
    let (serving, connecting) = (computers.serving(), computers.connecting());
    play("between two computers", agent(serving, address, FIRST)?, connecting, &[], tally)?;
    computers.are_idle_again()?;
    computers.unload()
}

/// Plays the cases between the first two adapters of a computer. `address`: for the agent.
///
/// The stand-in for Winsock Kernel knows by the address to which a socket is bound on which computer of Linux it is: not by the unspecified one.
pub(crate) fn cases_of_adapters(session: &Session, address: &str, tally: &mut Tally) -> Result<()> {
    let idle = diagnostics_of_both(session)?;
    play(
        "between two adapters",
        agent(session, address, SECOND)?,
        session,
        &["--skip", "listener::any_address"],
        tally,
    )?;
    both_are_idle_again(session, &idle)
}

/// Plays the cases from the first adapter of `connecting` to an agent, which ends then.
fn play(
    between: &str,
    (agent, serving): (Harness, String),
    connecting: &Session,
    arguments: &[&str],
    tally: &mut Tally,
) -> Result<()> {
    let buffers = Buffers::new();
    let folder = buffers.folder();
    let run = ["run", "--front-end", "ioctl", "--beside", &serving, "--buffers", &folder, "--json"];
    let report = run::report_of(connecting, &[&run, arguments].concat(), run::CASE_LIMIT)?;
    let (passed, failed) = tally.cases(between, &report);
    println!("{between}: {passed} passed, {failed} failed, {} skipped", report["skipped"]);
    ensure!(passed > 0 && failed == 0, "{:#}", failures(&report));
    let (status, text) = agent.end()?;
    ensure!(status.success(), "the agent ended with {status}:\n{text}");
    ensure!(fs::read_dir(&buffers.0)?.next().is_none(), "there are buffers left in {}", buffers.0.display());
    Ok(())
}

/// The cases of a report that failed.
fn failures(report: &Value) -> Value {
    let cases = report["cases"].as_array().into_iter().flatten();
    cases.filter(|case| case["result"] == "failed").cloned().collect()
}

/// The agent is on the computer of the program that connects to it.
fn one_device() -> Result<()> {
    let computers = Computers::load(Count::Two)?;
    let (_agent, serving) = agent(computers.connecting(), LOOPBACK, FIRST)?;
    let buffers = Buffers::new();
    let mut program = computers.connecting().program("ndharness.exe");
    program.args(["run", "--front-end", "ioctl", "--beside", &serving, "--buffers", &buffers.folder()]);
    let ended = outcome(&mut program, SOON)?;
    let said = said(&ended);
    ensure!(ended.status.code() == Some(2) && said.contains("it is one device"), "{said}");
    Ok(())
}

/// The agent is killed while cases are played.
fn killed() -> Result<()> {
    let computers = Computers::load(Count::Two)?;
    let (mut agent, serving) = agent(computers.serving(), LOOPBACK, FIRST)?;
    let buffers = Buffers::new();
    let folder = buffers.folder();
    let arguments = ["run", "--front-end", "ioctl", "--beside", &serving, "--buffers", &folder, "--path", "plain"];
    let program = Harness::start(computers.connecting(), &[&arguments[..], &["--json"]].concat())?;
    let start = Instant::now();
    while diagnostics(computers.serving())?["qps"] == 0 {
        ensure!(start.elapsed() < SOON, "no case has a queue pair on the other computer");
    }
    agent.kill()?;
    let (status, report) = program.end()?;
    let report: Value = serde_json::from_str(&report).with_context(|| format!("{status}, and said: {report}"))?;
    let failures = failures(&report);
    if status.code() != Some(1) || !failures.to_string().contains("the other process is gone") {
        bail!("it ended with {status}: {failures:#}");
    }
    computers.are_idle_again()?;
    computers.unload()
}
