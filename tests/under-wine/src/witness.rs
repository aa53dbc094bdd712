//! `cargo xtask witness`: Microsoft's kernel consumer NDKPerf.sys, with its program NDKPerfCmd.exe, as they are, on softndk.sys under
//! Wine, between two prefixes: docs/interop.md says what it asks for.

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use build::command::{step, wait};
use build::imports::Provided;
use build::pe::Module;
use build::{dist, paths, wine};
use serde_json::Value;

use crate::ndkctl::shown;
use crate::report::StandInReport;
use crate::session::Session;

/// What this ends with where no folder is named.
const NO_FOLDER: u8 = 77;
const DRIVER: &str = "NDKPerf.sys";
const PROGRAM: &str = "NDKPerfCmd.exe";
/// The service that the program starts and stops.
const SERVICE: &str = "NDKPerf";
/// Of the stand-in for ndis: the adapter's interface.
const INTERFACE: &str = "77";
const PORT: u16 = 9000;
/// The tag of all pool that softndk.sys allocates (wdk-alloc), as the report has it.
const OUR_TAG: &str = "tag rust ";
/// How long a server waits for a client, and how long its rperf lasts.
const SECONDS: &str = "20";
const RPING: &str = "rping";
/// What may still be in the sockets of this system when the server ends rperf: the client's writes have ended when these have them.
const ON_ITS_WAY: u64 = 32 << 20;
/// For a run.
const LIMIT: Duration = Duration::from_secs(300);
/// For a server until it listens.
const SOON: Duration = Duration::from_secs(120);

/// Where the consumer is, and what to have it do.
#[derive(clap::Args)]
pub struct Wanted {
    /// The folder with NDKPerf.sys and NDKPerfCmd.exe
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The test; both if none is given
    #[arg(long = "test", value_name = "TEST", value_parser = [RPING, "rperf"])]
    tests: Vec<String>,
    /// How often each test is run in each role
    #[arg(long, default_value_t = 20)]
    runs: u32,
}

/// Runs both tests in both roles, and compares what they report with the statistics of the driver.
pub fn witness(wanted: &Wanted) -> Result<ExitCode> {
    let Some(folder) = &wanted.folder else {
        eprintln!(
            "nothing was run: name the folder with {DRIVER} and {PROGRAM}. Windows Server has them; an older version is in the history of \
             microsoft/Test-NetStack, in tools/NDK-Perf until commit ea19830, which removed it."
        );
        return Ok(ExitCode::from(NO_FOLDER));
    };
    dist::build()?;
    tell_what_is_missing(&folder.join(DRIVER))?;
    let folder = folder.canonicalize()?;
    let first = Host::load(2, &folder)?;
    let second = Host::load(3, &folder)?;
    let tests = if wanted.tests.is_empty() { vec![RPING.to_owned(), "rperf".to_owned()] } else { wanted.tests.clone() };
    let mut all_passed = true;
    for test in &tests {
        for (server, client, who) in [(&first, &second, "first"), (&second, &first, "second")] {
            let runs = step(&format!("{test}, the {who} computer serves"), || {
                Ok((0..wanted.runs).map(|_| play(server, client, &folder, test)).collect::<Vec<_>>())
            })?;
            for failure in runs.iter().filter_map(|run| run.as_ref().err()) {
                println!("{failure:#}");
            }
            let passed = runs.iter().filter(|run| run.is_ok()).count();
            let bytes = runs.iter().flatten().sum::<u64>();
            println!("{test}, the {who} computer serves: {passed} of {} passed, {bytes} bytes", wanted.runs);
            all_passed &= passed == runs.len();
        }
        keep_traces(&[&first, &second], test)?;
    }
    for host in [first, second] {
        all_passed &= host.unload()?;
    }
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says which imports Wine lacks. NDKPerf.sys imports two that its tests do not call.
fn tell_what_is_missing(driver: &Path) -> Result<()> {
    let provided = Provided::read(&paths::dist().join("wine"), &wine::modules())?;
    for problem in provided.problems_of_driver(&Module::read(driver)?)? {
        eprintln!("{DRIVER} may end when it calls {problem}");
    }
    Ok(())
}

/// The program, at work.
struct Program {
    child: Child,
    said: JoinHandle<io::Result<String>>,
}

impl Program {
    /// Waits for its end: what it has said, mostly on its error output.
    fn end(mut self) -> Result<(ExitStatus, String)> {
        let status = wait(&mut self.child, LIMIT)?;
        let said = self.said.join().map_err(|_| anyhow!("reading the program's output failed"))??;
        Ok((status, said))
    }
}

/// A computer with softndk.sys, where the program will find its service.
struct Host {
    session: Session,
    address: IpAddr,
}

impl Host {
    fn load(last: u8, folder: &Path) -> Result<Self> {
        let address = Ipv4Addr::new(127, 0, 0, last).into();
        let mut session = Session::start(&[address])?;
        session.place(&folder.join(DRIVER))?;
        session.add_consumer(SERVICE, DRIVER)?;
        session.set_keyword("TraceNdk", "1")?;
        // Its server of rperf reads memory that it has freed.
        session.keep_freed()?;
        session.load()?;
        Ok(Self { session, address })
    }

    /// Starts the program in a role.
    fn start(&self, folder: &Path, arguments: &[&str]) -> Result<Program> {
        let program = folder.join(PROGRAM);
        let program = program.to_str().context("a folder whose name is no text")?;
        let (mut reader, writer) = io::pipe()?;
        let mut command = self.session.program(program);
        let child = command.args(arguments).stdout(writer.try_clone()?).stderr(writer).spawn()?;
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            reader.read_to_end(&mut said).map(|_| String::from_utf8_lossy(&said).into_owned())
        });
        Ok(Program { child, said })
    }

    fn stats(&self) -> Result<Value> {
        shown(&self.session, &["stats"])
    }

    /// How often a server has said that it listens.
    fn servers(&self) -> Result<usize> {
        Ok(self.session.log()?.matches("Waiting for Client.").count())
    }

    /// Whether softndk.sys has left nothing behind and broken no rule. What the consumer leaves and breaks is only told.
    fn unload(mut self) -> Result<bool> {
        let report = self.session.unload()?;
        let own = breaches(&report);
        let pool = report.details.iter().filter(|line| line.trim_start().starts_with("tag "));
        let (ours, its) = pool.partition::<Vec<_>, _>(|line| line.trim_start().starts_with(OUR_TAG));
        println!(
            "{}: unloaded; {DRIVER} has broken {own} rules, and left pool of {} tags: {its:?}",
            self.address,
            its.len()
        );
        let is_clean = ours.is_empty() && report.objects == 0 && report.irql_violations == own;
        if !is_clean {
            println!("left behind: {report}");
        }
        Ok(is_clean)
    }
}

/// Violations whose place is in the consumer.
fn breaches(report: &StandInReport) -> u64 {
    let place = format!("{DRIVER}+");
    report.details.iter().filter(|line| line.starts_with("violation: ") && line.contains(&place)).count() as u64
}

/// One run of a test: the bytes that the client has sent, as its adapter has counted them, which the other one and the client confirm.
fn play(server: &Host, client: &Host, folder: &Path, test: &str) -> Result<u64> {
    let before = (server.stats()?, client.stats()?);
    let (servers, printed) = (server.servers()?, client.session.log()?.len());
    let address = format!("{}:{PORT}", server.address);
    let ends = ["-ServerAddr", &address, "-TestType", test];
    let serving = server.start(folder, &[&["-S", "-ServerIf", INTERFACE, "-W", SECONDS][..], &ends].concat())?;
    let start = Instant::now();
    while server.servers()? == servers {
        ensure!(start.elapsed() < SOON, "the server does not listen\n{}", server.session.log_tail());
        thread::sleep(Duration::from_millis(50));
    }
    let own = client.address.to_string();
    let mut arguments = [&["-C", "-ClientAddr", &own, "-ClientIf", INTERFACE][..], &ends].concat();
    if test == RPING {
        // rperf writes no file to print.
        arguments.push("-V");
    }
    let (status, said) = client.start(folder, &arguments)?.end()?;
    let (server_status, server_said) = serving.end()?;
    let good = |said: &str| said.contains("completes test") && !said.contains("failed") && !said.contains("Error");
    if !status.success() || !server_status.success() || !good(&said) || !good(&server_said) {
        bail!("the client ended with {status}:\n{said}\nthe server with {server_status}:\n{server_said}");
    }
    let asked = if test == RPING {
        transferred(&said)
    } else {
        written(client.session.log()?.get(printed..).unwrap_or_default())
    };
    let asked = asked.with_context(|| format!("what has the client sent?\n{said}"))?;
    let after = (server.stats()?, client.stats()?);
    let counted = |before: &Value, after: &Value, what: &str| {
        after[what].as_u64().zip(before[what].as_u64()).map(|(after, before)| after - before)
    };
    let sent = counted(&before.1, &after.1, "out_octets").context("nothing is counted")?;
    let received = counted(&before.0, &after.0, "in_octets").context("nothing is counted")?;
    let on_its_way = if test == RPING { 0 } else { ON_ITS_WAY };
    ensure!(
        asked.contains(&sent) && (sent.saturating_sub(on_its_way)..=sent).contains(&received),
        "{asked:?} bytes by the client, {sent} and {received} were counted"
    );
    let ends = (counted(&before.1, &after.1, "connects"), counted(&before.0, &after.0, "accepts"));
    ensure!(ends == (Some(1), Some(1)), "connects and accepts: {ends:?}");
    Ok(sent)
}

/// The bytes of a client of rping, by the answers that it says it has got. It does not wait for the last one.
fn transferred(said: &str) -> Option<RangeInclusive<u64>> {
    const WORDS: &str = " bytes of data successfully transferred";
    let messages = said.lines().filter_map(|line| line.trim().strip_suffix(WORDS)?.parse::<u64>().ok());
    let messages = messages.collect::<Vec<_>>();
    let sum = messages.iter().sum::<u64>();
    messages.last().map(|last| sum..=sum + last)
}

/// The bytes that a client of rperf has written, by its calls: the server ends the test, and with it the write that is under way.
fn written(log: &str) -> Option<RangeInclusive<u64>> {
    let writes = log.lines().filter_map(|line| {
        let (count, size) = line.split_once("ndk: ")?.1.split_once(" times: NdkWrite of ")?;
        Some((count.parse::<u64>().ok()?, size.split_once(' ')?.0.parse::<u64>().ok()?))
    });
    let writes = writes.collect::<Vec<_>>();
    let sum = writes.iter().map(|(count, size)| count * size).sum::<u64>();
    let last = writes.iter().map(|(_, size)| *size).max()?;
    Some(sum - last..=sum)
}

/// Writes what was called of NDKPI so far into target/witness.
fn keep_traces(hosts: &[&Host], test: &str) -> Result<()> {
    const MARK: &str = "ndk: ";
    let folder = paths::root().join("target/witness");
    fs::create_dir_all(&folder)?;
    for host in hosts {
        let log = host.session.log()?;
        let calls = log.lines().filter_map(|line| Some(line.split_once(MARK)?.1)).collect::<Vec<_>>().join("\n");
        fs::write(folder.join(format!("{test}-{}.txt", host.address)), calls + "\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_has_sent_is_read_from_its_words_or_its_calls() {
        let line = "65536 bytes of data successfully transferred\r\n";
        let said = format!("\n{line}\n{line}\nNDKPerf Client completes");
        assert_eq!(transferred(&said), Some(131_072..=196_608));
        assert_eq!(transferred("NDKPerf Client completes test (rping) on interface 77."), None);
        let log = "1: ndk: NdkWrite of 8 bytes, flags 0x0, at IRQL 0\n1: ndk: 3 times: NdkWrite of 8 bytes, flags 0x0, at IRQL 0\n\
                   1: ndk: 2 times: NdkWrite of 100 bytes, flags 0x0, at IRQL 2\n";
        assert_eq!(written(log), Some(124..=224));
        assert_eq!(written("ndk: 2 times: NdkSend of 8 bytes, flags 0x0"), None);
    }

    #[test]
    fn only_what_the_consumer_breaks_is_its_own() {
        let details = [
            "violation: pool allocated with tag Oper freed with tag Work (IRQL 2, NDKPerf.sys+0x801a)",
            "violation: a rule (IRQL 2, softndk.sys+0x1)",
            "  NDK adapter opening 1",
        ];
        let report = StandInReport { details: details.map(str::to_owned).to_vec(), ..StandInReport::default() };
        assert_eq!(breaches(&report), 1);
    }
}
