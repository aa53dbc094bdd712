//! Two processes that speak by softnd.dll, on one computer or two: `ndharness serve` and `ndharness connect`.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use build::command::{step, wait};
use checks::tally::Tally;
use serde_json::Value;

use crate::computers::{Computers, Count};
use crate::ping_and_perf;
use crate::places::Kill;
use crate::session::Session;
use crate::wine_tests::{both_are_idle_again, diagnostics_of_both};

/// For every case together: the harness gives up on a case long before.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// How often one is killed at most, for Wine to close its connections.
const KILLS: usize = 5;

/// The last lines of a program that are told if it hangs.
const LINES_TOLD: usize = 3;

/// What a program is, and what it said last.
pub(crate) struct Words {
    program: String,
    last: Mutex<VecDeque<String>>,
}

impl Words {
    fn note(&self, line: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LINES_TOLD {
            last.pop_front();
        }
        last.push_back(line.to_owned());
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "{}", self.program)?;
        if last.is_empty() {
            return write!(f, "\n  has said nothing");
        }
        last.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// A harness, or another program, whose output is read line by line.
pub(crate) struct Harness {
    child: Child,
    lines: Receiver<String>,
    words: Arc<Words>,
}

impl Harness {
    pub(crate) fn start(session: &Session, arguments: &[&str]) -> Result<Self> {
        Self::start_in(session, arguments, None)
    }

    /// The same with a variable of the environment.
    pub(crate) fn start_in(session: &Session, arguments: &[&str], variable: Option<(&str, &str)>) -> Result<Self> {
        let mut command = session.program(r"C:\softndk\ndharness.exe");
        command.envs(variable);
        Self::spawn(command, arguments)
    }

    /// The same for another program.
    pub(crate) fn spawn(mut command: Command, arguments: &[&str]) -> Result<Self> {
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("the harness has no output")?);
        let (sender, lines) = channel();
        let words = Arc::new(Words { program: arguments.join(" "), last: Mutex::default() });
        let noted = Arc::clone(&words);
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| {
                noted.note(&line);
                sender.send(line)
            })
        });
        Ok(Self { child, lines, words })
    }

    /// What it says, for whoever looks on.
    pub(crate) fn words(&self) -> Arc<Words> {
        Arc::clone(&self.words)
    }

    /// Reads on until a line says what is wanted.
    pub(crate) fn until<T>(&self, wanted: impl Fn(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(RUN_LIMIT.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    if let Some(found) = wanted(line.trim()) {
                        return Ok(found);
                    }
                }
                Err(error) => bail!("{error}: {}", self.words),
            }
        }
    }

    /// Waits for its end: the rest of its output.
    pub(crate) fn end(self) -> Result<(ExitStatus, String)> {
        self.end_within(RUN_LIMIT)
    }

    /// The same, with another limit.
    pub(crate) fn end_within(mut self, limit: Duration) -> Result<(ExitStatus, String)> {
        let status = wait(&mut self.child, limit).with_context(|| self.words.to_string())?;
        Ok((status, self.lines.iter().collect::<Vec<_>>().join("\n")))
    }

    /// Ends it as nothing else does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // It has ended, or something has failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the serving end; the address that it serves at.
pub(crate) fn serve(session: &Session, path: &str) -> Result<(Harness, String)> {
    serve_at(session, &["--path", path])
}

pub(crate) fn serve_at(session: &Session, arguments: &[&str]) -> Result<(Harness, String)> {
    let server = Harness::start(session, &[&["serve"], arguments].concat())?;
    let address = server.until(serving_at)?;
    Ok((server, address))
}

/// From "serving at 10.0.0.1:50000": the address.
pub(crate) fn serving_at(line: &str) -> Option<String> {
    line.strip_prefix("serving at ").map(str::to_owned)
}

/// Plays every case with two roles, then kills each end on each path, after so many seconds of traffic.
pub fn run(count: Count, seconds: u64, tally: &mut Tally) {
    let checks = count.checks();
    let played = step(checks.played, || roles(count, tally));
    tally.check(checks.played, played);
    let compared = step(checks.compared, || {
        let computers = Computers::load(count)?;
        ping_and_perf::run(&computers)?;
        computers.unload()
    });
    tally.check(checks.compared, compared);
    for &Kill { name, path, kills_server } in checks.kills {
        let told = step(name, || killed(count, path, kills_server, seconds));
        tally.check(name, told);
    }
}

/// Every case with two roles on each path, and with an end on each; each end of each case counts.
fn roles(count: Count, tally: &mut Tally) -> Result<()> {
    let computers = Computers::load(count)?;
    for (serving, connecting) in [("rings", "rings"), ("plain", "plain"), ("rings", "plain")] {
        let server = serve(computers.serving(), serving)?;
        let arguments = [&["--path", connecting], computers.way()].concat();
        println!("serve on {serving}, connect on {connecting}");
        play(server, computers.connecting(), &arguments, computers.environment(), tally)?;
        computers.are_idle_again()?;
    }
    computers.unload()
}

/// Every case with two roles from the first adapter of a computer to its second, which has this address.
pub(crate) fn roles_of_adapters(session: &Session, address: &str, path: &str, tally: &mut Tally) -> Result<()> {
    let idle = diagnostics_of_both(session)?;
    let server = serve_at(session, &["--path", path, "--address", address])?;
    play(server, session, &["--path", path, "--wire"], None, tally)?;
    both_are_idle_again(session, &idle)
}

/// Plays cases with two roles, those that `arguments` name or all, with a server, which ends then.
pub(crate) fn play(
    (server, address): (Harness, String),
    connecting: &Session,
    arguments: &[&str],
    variable: Option<(&str, &str)>,
    tally: &mut Tally,
) -> Result<()> {
    let client = Harness::start_in(connecting, &[&["connect", &address, "--json"], arguments].concat(), variable)?;
    let (status, report) = client.end()?;
    let report: Value = serde_json::from_str(&report).with_context(|| format!("{status}, and said: {report}"))?;
    let (status, text) = server.end()?;
    let (passed, failed) = tally.cases(&format!("connect {}", arguments.join(" ")), &report);
    println!("connect {}: {passed} passed, {failed} failed", arguments.join(" "));
    ensure!(passed > 0 && failed == 0 && status.success(), "{report:#}\nthe server ended with {status}:\n{text}");
    Ok(())
}

/// See [`killed_once`]; again where Wine has kept a connection of the killed one open, of which nobody can tell the other.
fn killed(count: Count, path: &str, kill_server: bool, seconds: u64) -> Result<()> {
    for _ in 0..KILLS {
        if killed_once(count, path, kill_server, seconds)? {
            return Ok(());
        }
        println!("Wine's server keeps a connection of the killed process open; the step is repeated");
    }
    bail!("Wine's server has kept a connection of the killed process open {KILLS} times")
}

/// Both exchange traffic for so many seconds, then one is killed: the other is told so by the documented statuses, and no driver
/// has anything left of either. False: Wine keeps a connection of the killed one open (see there).
fn killed_once(count: Count, path: &str, kill_server: bool, seconds: u64) -> Result<bool> {
    let computers = Computers::load(count)?;
    let (server, address) = serve(computers.serving(), path)?;
    // Longer than it will live.
    let forever = (seconds + RUN_LIMIT.as_secs()).to_string();
    let arguments = ["connect", &address, "exchange", "--path", path, "--seconds", &forever];
    let client =
        Harness::start_in(computers.connecting(), &[&arguments, computers.way()].concat(), computers.environment())?;
    let requests = server.until(|line| so_many_requests(line, seconds))?;
    ensure!(requests > 0, "nothing was exchanged");
    let (mut victim, survivor) = if kill_server { (server, client) } else { (client, server) };
    victim.kill()?;
    // Drivers, which are not killed, have their programs' connections themselves.
    if count == Count::Driverless && computers.serving().keeps_connections()? {
        return Ok(false);
    }
    let (status, text) = survivor.end()?;
    ensure!(status.code() == Some(1), "the other process ended with {status}:\n{text}");
    is_told(&text)?;
    let told = text.lines().skip_while(|line| !line.contains("the peer is gone")).take(4);
    println!("{}", told.map(str::trim).collect::<Vec<_>>().join("\n"));
    computers.are_idle_again()?;
    computers.unload()?;
    Ok(true)
}

/// What the survivor of an exchange has to say.
pub(crate) fn is_told(text: &str) -> Result<()> {
    for said in [
        "the peer is gone after ",
        "4 connections: NotifyDisconnect STATUS_",
        "Disconnect STATUS_SUCCESS",
        "in flight, and a send then: ",
        "16 receives STATUS_CANCELLED",
    ] {
        ensure!(text.contains(said), "the other process does not say {said:?}:\n{text}");
    }
    Ok(())
}

/// From "exchange::mixed 12/60 s, 3456 requests": how many, once there were so many seconds.
pub(crate) fn so_many_requests(line: &str, seconds: u64) -> Option<u64> {
    let (time, requests) = line.strip_prefix("exchange::mixed ")?.split_once(" s, ")?;
    let done: u64 = time.split_once('/')?.0.parse().ok()?;
    let requests = requests.strip_suffix(" requests")?.parse().ok()?;
    (done >= seconds).then_some(requests)
}

/// The connections that a line of the serving end says it has had.
pub(crate) fn connections(line: &str) -> Option<u64> {
    let (_, connections) = line.strip_prefix("lives::")?.split_once(" s, ")?;
    connections.strip_suffix(" connections")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{connections, so_many_requests};

    #[test]
    fn progress_is_read() {
        assert_eq!(so_many_requests("exchange::mixed 3/60 s, 123 requests", 3), Some(123));
        assert_eq!(so_many_requests("exchange::mixed 2/60 s, 123 requests", 3), None);
        assert_eq!(so_many_requests("exchange::mixed", 0), None);
        assert_eq!(so_many_requests("messages::sizes", 0), None);
        assert_eq!(connections("lives::version1 3/60 s, 45 connections"), Some(45));
        assert_eq!(connections("lives::version1"), None);
        assert_eq!(connections("exchange::mixed 3/60 s, 123 requests"), None);
    }
}
