//! The tests of the built driver under Wine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use build::command::{step, wait};
use build::imports::Provided;
use build::pe::Module;
use build::{dist, paths, wine};
use checks::frames;
use checks::tally::Tally;
use checks::wdk::image;
use serde_json::Value;

use crate::computers::Count;
use crate::prefix::{self, Computer};
use crate::report::StandInReport;
use crate::session::{self, Session};
use crate::two_processes::{self, Harness};
use crate::{
    access, capture, consumer, events, faults, hosted, installed, kernel_perf, nd_cpp, ndkctl, perf, run, soak, tcpip,
    two_adapters, two_computers,
};

// What hangs is ended by them; nothing is judged by how long it takes on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);
const RUN_LIMIT: Duration = Duration::from_secs(600);
const FREE_LIMIT: Duration = Duration::from_secs(120);

/// The numbers of adapters.
pub(crate) const FIRST: &str = "1";
pub(crate) const SECOND: &str = "2";

/// Groups that are played side by side.
const SIDE_BY_SIDE: usize = 3;

/// Those that take longest come first, so that no thread is left alone with one at the end. Each session has a prefix of its own; addresses and
/// ports of this system are common to all, so what needs one port, as the SMB Direct consumer does, is in one group.
const GROUPS: [fn(bool, &mut Tally); 14] = [
    without_driver,
    two_computers,
    |_, tally| system(tally),
    |_, tally| front_end("nd2", tally),
    |_, tally| front_end("nd1", tally),
    |full, tally| two_processes::run(Count::One, seconds(full), tally),
    |_, tally| front_end("ioctl", tally),
    |_, tally| kernel(tally),
    |full, tally| soak::short(full, tally),
    |_, tally| rights(tally),
    |_, tally| installed::run(tally),
    |_, tally| test_driver(tally),
    |_, tally| programs(tally),
    |_, tally| two_adapters::run(tally),
];

/// How far a run is.
#[derive(Default)]
pub struct Progress {
    next: AtomicUsize,
    /// Shared by the threads that play groups.
    playing: RwLock<()>,
}

impl Progress {
    /// Plays groups until none is left, if others have begun: what they need is built then. `full`: as for [`run()`].
    pub fn help(&self, full: bool) -> Tally {
        if self.next.load(Ordering::Relaxed) == 0 { Tally::default() } else { self.play(full) }
    }

    fn play(&self, full: bool) -> Tally {
        let _playing = self.playing.read().unwrap_or_else(PoisonError::into_inner);
        let mut tally = Tally::default();
        while let Some(group) = GROUPS.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            group(full, &mut tally);
        }
        tally
    }
}

/// Runs them all; `full` is more of what takes its time. Another thread may [`Progress::help`].
pub fn run(progress: &Progress, full: bool, tally: &mut Tally) {
    thread::scope(|scope| {
        for played in [(); SIDE_BY_SIDE].map(|()| scope.spawn(|| progress.play(full))) {
            tally.append(played.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let _alone = progress.playing.write().unwrap_or_else(PoisonError::into_inner);
    // Alone, as 64 busy processes leave others too little of the processors for the patience of their cases.
    let served = step("serving 64 processes at once", many_processes);
    // Shows S908.
    tally.check("the driver serves 64 processes at once", served);
}

/// The simulated kernel, and the built driver as a file.
fn kernel(tally: &mut Tally) {
    // Shows S1307.
    tally.check("a planted import that nobody provides is caught", planted_import());
    // Shows S1314.
    tally.check(
        "no function of softndk.sys takes more than a sixth of a stack of the kernel",
        frames::check("softndk.sys"),
    );
    // Shows S1314.
    tally.check("a planted function that takes more is caught", frames::planted());
    tally.check("a planted change of code or data is noticed between two builds", image::planted());
    let tested = step("testing the stand-ins", || stand_ins(tally));
    // Shows S970, S971, S1313.
    tally.check("the stand-ins' own test runs", tested);
    let opened = step("opening the adapter from another driver", consumer::opens);
    // Shows S960.
    tally.check("another driver opens the adapter by Winsock Kernel", opened);
    // Shows S960.
    tally.check("what another driver leaves behind is caught", consumer::planted());
}

/// Every case of a front end.
fn front_end(name: &str, tally: &mut Tally) {
    match run::cases(name) {
        Ok(outcome) => count_cases(name, &outcome, tally),
        Err(error) => tally.check(&format!("the cases of {name} run on softndk.sys under Wine"), Err(error)),
    }
}

/// Seconds of traffic before a process is killed.
fn seconds(full: bool) -> u64 {
    if full { 60 } else { 3 }
}

fn two_computers(full: bool, tally: &mut Tally) {
    two_processes::run(Count::Two, seconds(full), tally);
    two_computers::run(tally);
}

fn without_driver(full: bool, tally: &mut Tally) {
    hosted::run(full, tally);
    for count in [Count::Driverless, Count::Mixed] {
        two_processes::run(count, seconds(full), tally);
    }
}

/// Programs that use the driver, or look on.
fn programs(tally: &mut Tally) {
    // Shows N6, S1002.
    tally.check("a C++ program of NetworkDirect passes", step("running nd-cpp.exe", || nd_cpp::passes(RUN_LIMIT)));
    let result = step("measuring softnd.dll", perf::measures);
    // Shows S1007.
    tally.check("ndharness perf measures what it says", result);
    let agrees = step("looking on with ndkctl", ndkctl::agrees);
    // Shows S1501, S1506, S1507, S1746.
    tally.check("ndkctl shows what ndharness perf says it has moved", agrees);
    let told = step("tracing softndk.sys", events::are_told);
    // Shows S1505.
    tally.check("the events of softndk.sys are what was done to it", told);
    // Shows N20, T3.
    tally.check("a 32-bit program is refused", refuses_32bit());
}

/// What the driver's parameters allow.
fn rights(tally: &mut Tally) {
    access::run(tally);
    faults::run(tally);
    capture::run(tally);
}

/// The driver of tests.
fn test_driver(tally: &mut Tally) {
    let built = dist::build_test_driver();
    let is_built = built.is_ok();
    tally.check("the driver of tests builds", built);
    if !is_built {
        return;
    }
    let frames = frames::check("wine/softndk-test.sys");
    tally.check("no function of softndk-test.sys takes more than a sixth of a stack of the kernel", frames);
    match run::test_consumer_cases() {
        Ok(outcome) => count_cases("ioctl", &outcome, tally),
        Err(error) => tally.check("the cases of the test consumers run on softndk-test.sys", Err(error)),
    }
    let measured = step("measuring NDKPI with ndkctl", kernel_perf::measures);
    // Shows S1745.
    tally.check("ndkctl perf measures NDKPI in softndk-test.sys, and the adapters count the bytes", measured);
    let caught = planted_fault("leak", |report| report.pool_bytes > 0 && report.pool_allocations > 0);
    // Shows S1205.
    tally.check("a planted pool leak is caught", caught);
    let caught = planted_fault("irql", |report| report.irql_violations > 0);
    // Shows S1205.
    tally.check("a planted IRQL violation is caught", caught);
    access::planted(tally);
    soak::planted(tally);
    let gone = step("removing the adapter by surprise", removed_by_surprise);
    // Shows S1311, T47.
    tally.check("an adapter that is removed by surprise tells its programs, and leaves nothing", gone);
}

/// What the system does to the driver and its programs.
fn system(tally: &mut Tally) {
    let within = step("doing without Winsock Kernel", without_wsk);
    // Shows S1306.
    tally.check("without Winsock Kernel the driver loads, and connects within itself", within);
    tcpip::run(tally);
    let disabled = step("disabling RDMA in mid-traffic", disabled_in_traffic);
    // Shows S1303, S1304, T47.
    tally.check("what a process had is gone when RDMA has been disabled", disabled);
    let removed = step("turning RDMA off under programs of softnd.dll", removed_in_use);
    // Shows N19, T47.
    tally.check("programs are told ND_DEVICE_REMOVED when RDMA has been turned off", removed);
    let slept = step("letting the computer sleep", slept);
    // Shows S1312.
    tally.check("after a sleep of the computer the adapter serves again", slept);
    let killed = step("killing the harness in mid-traffic", killed_in_traffic);
    // Shows S907, T5.
    tally.check("the driver frees all that a killed process had", killed);
}

/// The stand-ins' own test, which loads its own driver: what must work works, what must be caught is caught. An error is
/// one that the test does not count.
fn stand_ins(tally: &mut Tally) -> Result<()> {
    let computer = Computer::unused();
    let prefix = prefix::prepare(&computer)?;
    let mut selftest = wine::wine(&prefix);
    selftest.args([r"C:\softndk\selftest.exe", r"C:\softndk\selftest.sys"]).stdout(Stdio::piped());
    let mut child = selftest.current_dir(prefix::driver_folder(&prefix)).spawn()?;
    let mut output = child.stdout.take().context("the test has no output")?;
    let reader = thread::spawn(move || std::io::read_to_string(&mut output));
    let status = wait(&mut child, RUN_LIMIT);
    // Also ends what may still hold the other end of the output.
    wine::end(&prefix)?;
    let text = reader.join().map_err(|_| anyhow::anyhow!("reading the test's output failed"))??;
    let (passed, failed) = text.lines().fold((0, 0), |(passed, failed), line| {
        (passed + u64::from(line.starts_with("ok ")), failed + u64::from(line.starts_with("FAIL ")))
    });
    tally.add(passed, failed);
    for problem in text.lines().filter_map(|line| line.strip_prefix("FAIL ")) {
        tally.name_failure("the stand-ins' own test", problem.trim());
    }
    let status = status?;
    if failed > 0 {
        println!("{text}");
    }
    ensure!(failed > 0 || status.success() && passed > 0, "it ended with {status}:\n{text}");
    Ok(())
}

/// Each case counts, and so does the driver's leaving nothing behind.
fn count_cases(front_end: &str, outcome: &Value, tally: &mut Tally) {
    match run::table(outcome) {
        Ok(table) => println!("{table}"),
        Err(error) => tally.check("the harness reports its cases", Err(error)),
    }
    tally.names.cases(front_end, outcome);
    tally.cases(front_end, outcome);
    let clean = outcome["left_behind"]["clean"] == true;
    let result = if clean { Ok(()) } else { Err(anyhow::anyhow!("{}", outcome["left_behind"])) };
    // Shows S970, S971, S1205, S1301, S1302, S1303, S1308, S1309, S1313.
    tally.check("the driver leaves nothing behind", result);
}

/// The check of imports, on the real driver with the name of one import changed in its bytes.
fn planted_import() -> Result<()> {
    let provided = Provided::read(&paths::dist().join("wine"), &wine::modules())?;
    let mut bytes = fs::read(paths::dist().join("softndk.sys"))?;
    let driver = Module::parse(bytes.clone())?;
    let name = driver.imports().get("ntoskrnl.exe").and_then(|names| names.first());
    let name = name.context("softndk.sys imports nothing from ntoskrnl.exe")?;
    let planted = "Q".repeat(name.len());
    // Imports are stored as a hint of two bytes, the name and a NUL.
    let sought = [name.as_bytes(), b"\0"].concat();
    let at = bytes.windows(sought.len()).position(|window| window == sought).context("the name is not in the file")?;
    bytes.get_mut(at..at + planted.len()).context("the name is cut off")?.copy_from_slice(planted.as_bytes());
    let problems = provided.problems_of_driver(&Module::parse(bytes)?)?;
    ensure!(problems.iter().any(|problem| problem.contains(&planted)), "not caught; found {problems:?}");
    Ok(())
}

/// A driver that breaks one rule; `caught` says whether the stand-ins' report has it.
fn planted_fault(fault: &str, caught: impl Fn(&StandInReport) -> bool) -> Result<()> {
    let mut session = Session::start_test(&session::addresses(&[])?)?;
    session.load()?;
    session.plant(fault)?;
    let report = session.unload()?;
    ensure!(caught(&report) && !report.is_clean(), "not caught: {report}");
    Ok(())
}

/// Winsock Kernel comes after the driver: until then there are connections of the adapter with itself, of listeners that have no TCP.
fn without_wsk() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.set_wsk(false)?;
    session.load()?;
    for comes in [false, true] {
        session.set_wsk(comes)?;
        let outcome =
            run::harness(&session, &["run", "connector", "listener", "--path", "plain", "--json"], run::CASE_LIMIT)?;
        ensure!(outcome["failed"] == 0 && outcome["passed"] != 0, "{}\n{}", outcome["cases"], session.log_tail());
    }
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// What the stand-ins take for a 32-bit program is served nothing, by itself or through softnd.dll. Any other is. Wine tells nobody how
/// an open ended (STATUS_NOT_SUPPORTED): the first request of the file finds that the driver does not have it.
fn refuses_32bit() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    for front_end in ["ioctl", "nd2"] {
        for (program, is_refused) in [("ndharness32.exe", true), ("ndharness.exe", false)] {
            let mut command = session.program(program);
            let output =
                command.args(["run", "--front-end", front_end, "--path", "plain", "adapter::addresses"]).output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            let served = output.status.success() && said.contains("1 passed");
            let refused = !output.status.success() && said.contains("STATUS_INVALID_HANDLE");
            ensure!(if is_refused { refused } else { served }, "{program}, {front_end}: {}\n{said}", output.status);
        }
    }
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// A process with connected queue pairs, traffic and pended requests dies; nothing of it stays in the driver, and the
/// driver goes on to serve the next one.
fn killed_in_traffic() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let idle = diagnostics(&session)?;
    let mut victim = busy_process(&session, &idle)?;
    victim.kill()?;
    victim.wait()?;

    // The death of the process reaches the driver by way of the server.
    is_idle_again(&session, &idle)?;
    serves_and_leaves_nothing(session, &["run", "--path", "plain", "--json"])
}

/// RDMA is disabled while a process has all that, and then lives on: it has lost it when the event returns, nobody gets anything
/// new, and when RDMA is enabled again the next process is served.
fn disabled_in_traffic() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let idle = diagnostics(&session)?;
    let mut process = busy_process(&session, &idle)?;
    session.set_rdma(false)?;
    let disabled = diagnostics(&session)?;
    for count in LOST {
        ensure!(disabled[count] == idle[count], "{count} survive, {disabled}\nalive before: {idle}");
    }
    let status = wait(&mut process, FREE_LIMIT).context("the process that lost all it had")?;
    ensure!(!status.success(), "the process did not notice");
    is_idle_again(&session, &idle)?;
    let outcome = run::harness(&session, &["run", "send", "--json"], run::CASE_LIMIT)?;
    ensure!(outcome["passed"] == 0 && outcome["failed"] != 0, "served while disabled: {}", outcome["cases"]);
    session.set_rdma(true)?;
    serves_and_leaves_nothing(session, &["run", "send", "--json"])
}

/// RDMA is turned off while a program of softnd.dll has requests pending: each method is told so that documents it.
fn removed_in_use() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let idle = diagnostics(&session)?;
    for (front_end, path) in [("nd2", "rings"), ("nd2", "plain"), ("nd1", "rings"), ("nd1", "plain")] {
        let process = Harness::start(&session, &["removed", "--front-end", front_end, "--path", path])?;
        process.until(|line| (line == "ready").then_some(()))?;
        session.set_rdma(false)?;
        let (status, told) = process.end()?;
        println!("{front_end} on {path}:\n{told}");
        ensure!(status.success(), "{front_end} on {path} ended with {status}:\n{told}");
        session.set_rdma(true)?;
        is_idle_again(&session, &idle)?;
    }
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// The adapter goes by surprise: a program of softnd.dll is told so by each method that documents it; a consumer in the kernel, the SMB
/// Direct one, is stopped, wherever it is; and the driver can be unloaded.
fn removed_by_surprise() -> Result<()> {
    for (front_end, path) in [("nd2", "rings"), ("nd1", "plain")] {
        let mut session = Session::start(&session::addresses(&[])?)?;
        session.load()?;
        let process = Harness::start(&session, &["removed", "--front-end", front_end, "--path", path])?;
        process.until(|line| (line == "ready").then_some(()))?;
        session.remove_surprisingly()?;
        let (status, told) = process.end()?;
        ensure!(status.success(), "{front_end} on {path} ended with {status}:\n{told}");
        let outcome = run::harness(&session, &["run", "send", "--path", "plain", "--json"], run::CASE_LIMIT)?;
        ensure!(outcome["passed"] == 0 && outcome["failed"] != 0, "served without an adapter: {}", outcome["cases"]);
        let report = session.unload()?;
        ensure!(report.is_clean(), "left behind: {report}");
    }
    let mut session = Session::start_test(&session::addresses(&[])?)?;
    session.load()?;
    let idle = diagnostics(&session)?;
    let mut command = session.program(r"C:\softndk\ndharness.exe");
    let mut process =
        command.args(["run", "--front-end", "ioctl", "smb_direct::transfer"]).stdout(Stdio::null()).spawn()?;
    let start = Instant::now();
    while diagnostics(&session)?["qps"] == idle["qps"] && process.try_wait()?.is_none() {
        ensure!(start.elapsed() < READY_LIMIT, "the consumer does not begin");
    }
    session.remove_surprisingly()?;
    wait(&mut process, FREE_LIMIT).context("the program that had the consumer run")?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// The adapter is halted, as one without power management is, and initialised again: programs lose what they had, and the next is served.
fn slept() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let process = Harness::start(&session, &["removed", "--front-end", "nd2", "--path", "rings"])?;
    process.until(|line| (line == "ready").then_some(()))?;
    session.sleep()?;
    let (status, told) = process.end()?;
    ensure!(status.success(), "ended with {status}:\n{told}");
    serves_and_leaves_nothing(session, &["run", "send", "--json"])
}

/// What a busy process has, and loses.
const LOST: [&str; 3] = ["qps", "pended_requests", "pinned_bytes"];

/// Starts a process that has connected queue pairs, traffic and pended requests.
fn busy_process(session: &Session, idle: &Value) -> Result<Child> {
    let (mut process, output) = start_stuck(session, &[])?;
    let line = output.recv_timeout(READY_LIMIT);
    let busy = diagnostics(session);
    if line.as_deref().map(str::trim) != Ok("ready") || busy.is_err() {
        process.kill()?;
        process.wait()?;
    }
    ensure!(line.as_deref().map(str::trim) == Ok("ready"), "the harness said {line:?}\n{}", session.log_tail());
    let busy = busy?;
    for count in ["files"].iter().chain(&LOST) {
        let alive = busy[count].as_u64() > idle[count].as_u64();
        ensure!(alive, "the harness has no {count}: {busy}");
    }
    Ok(process)
}

/// Starts a process that says "ready" when it has all that; gives what it says.
fn start_stuck(session: &Session, arguments: &[&str]) -> Result<(Child, Receiver<String>)> {
    let mut command = session.program(r"C:\softndk\ndharness.exe");
    command.args(["stuck", "--front-end", "ioctl"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn()?;
    let output = BufReader::new(process.stdout.take().context("the harness has no output")?);
    let (sender, lines) = channel();
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    Ok((process, lines))
}

/// So many processes have connected queue pairs, traffic and pended requests at once; then every other one is killed and the rest
/// end by themselves, having lost nothing.
fn many_processes() -> Result<()> {
    const PROCESSES: u64 = 64;
    /// Of them each has these.
    const QUEUE_PAIRS: u64 = 2;
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let idle = diagnostics(&session)?;
    let arguments = ["--pairs", "1", "--seconds", "600", "--until-input-ends"];
    let processes = (0..PROCESSES).map(|_| start_stuck(&session, &arguments)).collect::<Result<Vec<_>>>()?;
    for (number, (_, lines)) in processes.iter().enumerate() {
        let line = lines.recv_timeout(RUN_LIMIT);
        let is_ready = line.as_deref().map(str::trim) == Ok("ready");
        ensure!(is_ready, "process {number} said {line:?}\n{}", session.log_tail());
    }
    let busy = diagnostics(&session)?;
    let queue_pairs = busy["qps"].as_u64();
    ensure!(queue_pairs >= Some(PROCESSES * QUEUE_PAIRS), "{queue_pairs:?} queue pairs at once");
    for (number, (mut process, _)) in processes.into_iter().enumerate() {
        if number % 2 == 0 {
            process.kill()?;
            process.wait()?;
        } else {
            drop(process.stdin.take());
            let status = wait(&mut process, RUN_LIMIT).with_context(|| session.log_tail())?;
            ensure!(status.success(), "process {number} ended with {status}");
        }
    }
    is_idle_again(&session, &idle)?;
    serves_and_leaves_nothing(session, &["run", "send", "--json"])
}

/// Waits until no more is alive in the driver than before.
pub(crate) fn is_idle_again(session: &Session, idle: &Value) -> Result<()> {
    still_alive(session, idle)?.map_or(Ok(()), |left| Err(anyhow!(left)))
}

/// What stays alive, if that is so. An error: the driver cannot be asked.
pub(crate) fn still_alive(session: &Session, idle: &Value) -> Result<Option<String>> {
    still_alive_in(session, FIRST, idle)
}

/// Waits until no more is alive in the first two adapters than before.
pub(crate) fn both_are_idle_again(session: &Session, idle: &[Value; 2]) -> Result<()> {
    for (adapter, idle) in [FIRST, SECOND].into_iter().zip(idle) {
        still_alive_in(session, adapter, idle)?.map_or(Ok(()), |left| Err(anyhow!("adapter {adapter}: {left}")))?;
    }
    Ok(())
}

fn still_alive_in(session: &Session, adapter: &str, idle: &Value) -> Result<Option<String>> {
    let start = Instant::now();
    loop {
        let after = diagnostics_of(session, adapter).context("asking the driver what it has")?;
        if is_no_more(&after, idle) {
            return Ok(None);
        }
        if start.elapsed() > FREE_LIMIT {
            return Ok(Some(format!("still alive after the process: {after}\nalive before it: {idle}")));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Whether all is as before, but for fewer files: Wine closes one some time after its process has ended, and who asked before counted it.
fn is_no_more(after: &Value, before: &Value) -> bool {
    let (Some(after), Some(before)) = (after.as_object(), before.as_object()) else { return false };
    after.len() == before.len()
        && after.iter().all(|(name, after)| match (name.as_str(), after.as_u64()) {
            ("files", Some(files)) => before.get(name).and_then(Value::as_u64).is_some_and(|before| files <= before),
            _ => before.get(name) == Some(after),
        })
}

/// The cases that `run` names pass, and the driver is unloaded clean.
fn serves_and_leaves_nothing(mut session: Session, run: &[&str]) -> Result<()> {
    let outcome = run::harness(&session, run, run::CASE_LIMIT)?;
    ensure!(outcome["failed"] == 0 && outcome["passed"] != 0, "the next run failed: {}", outcome["cases"]);
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// What is alive in the driver, by kind: in its first adapter.
pub(crate) fn diagnostics(session: &Session) -> Result<Value> {
    diagnostics_of(session, FIRST)
}

/// What is alive in each of the first two adapters.
pub(crate) fn diagnostics_of_both(session: &Session) -> Result<[Value; 2]> {
    Ok([diagnostics_of(session, FIRST)?, diagnostics_of(session, SECOND)?])
}

pub(crate) fn diagnostics_of(session: &Session, adapter: &str) -> Result<Value> {
    run::harness(session, &["diagnostics", "--json", "--adapter", adapter], READY_LIMIT)
}

/// Tries again and again, for as long as a busy machine may take.
pub(crate) fn until(what: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match what() {
            Err(_) if start.elapsed() < FREE_LIMIT => thread::sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_no_more;

    #[test]
    fn what_stays_is_seen_and_what_goes_is_not() {
        let before = json!({ "files": 1, "qps": 0, "front_end": "Wine" });
        assert!(is_no_more(&before, &before));
        assert!(is_no_more(&json!({ "files": 0, "qps": 0, "front_end": "Wine" }), &before));
        for more in [
            json!({ "files": 2, "qps": 0, "front_end": "Wine" }),
            json!({ "files": 0, "qps": 1, "front_end": "Wine" }),
            json!({ "files": 1, "qps": 0, "front_end": "Wine", "mrs": 1 }),
            json!({ "files": 1, "qps": 0 }),
            json!({ "files": 1, "front_end": "Wine", "mrs": 0 }),
            json!({}),
        ] {
            assert!(!is_no_more(&more, &before), "{more}");
        }
    }
}
