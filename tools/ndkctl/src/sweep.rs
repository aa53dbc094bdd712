//! `ndkctl faults sweep`: runs a program once for each fault that it can meet, and tells what it did.

use std::{
    env,
    ffi::OsString,
    fmt,
    io::{BufRead as _, BufReader, Read},
    num::NonZeroU64,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use fault_rules::{ActionKind, Point};
use ndk_abi::status::NTSTATUS;
use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
    faults::Counted,
    objects::Objects,
};

/// The environment variable for the rules of a device without the driver.
const VARIABLE: &str = "SOFTND_FAULTS";
/// How the line begins that such a device writes to standard error when a rule fires.
const FIRED: &str = "SoftNDK: fault rule ";
/// How long objects of a program that has ended may stay.
const CLEANUP: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct Options {
    /// A run that takes longer is ended, and counts as hung.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub(crate) limit: NonZeroU64,
    /// The program and its arguments. Without faults it has to exit with 0.
    #[arg(last = true, required = true)]
    pub(crate) program: Vec<OsString>,
}

/// All runs.
#[derive(Debug, Serialize)]
pub(crate) struct Sweep {
    /// Some point was passed, and no run is bad.
    pub(crate) good: bool,
    /// Whose rules: those of the driver, or of the device in the program's process.
    device: &'static str,
    pub(crate) runs: Vec<Run>,
    /// Points that the program does not pass.
    pub(crate) not_passed: Vec<&'static str>,
}

/// A run in which the rule has fired.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) rule: String,
    pub(crate) ended: Ended,
    /// Objects that are left of the program; the driver's device only.
    pub(crate) left: u64,
    seconds: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "how", content = "code", rename_all = "snake_case")]
pub(crate) enum Ended {
    /// With 0, as if nothing had failed: it has mended that, or not noticed.
    Succeeded,
    /// With another status: it has told that something failed.
    Failed(i32),
    /// By an exception or a signal.
    Crashed(u32),
    /// It was ended after the limit.
    Hung,
}

/// Exceptions that end a process, which then exits with their numbers. A program that itself exits with one of them counts as crashed too.
const EXCEPTIONS: [NTSTATUS; 10] = [
    NTSTATUS::from_u32(0x8000_0003), // STATUS_BREAKPOINT
    NTSTATUS::from_u32(0xC000_0005), // STATUS_ACCESS_VIOLATION
    NTSTATUS::from_u32(0xC000_0008), // STATUS_INVALID_HANDLE
    NTSTATUS::from_u32(0xC000_001D), // STATUS_ILLEGAL_INSTRUCTION
    NTSTATUS::from_u32(0xC000_0094), // STATUS_INTEGER_DIVIDE_BY_ZERO
    NTSTATUS::from_u32(0xC000_00FD), // STATUS_STACK_OVERFLOW
    NTSTATUS::from_u32(0xC000_0374), // STATUS_HEAP_CORRUPTION
    NTSTATUS::from_u32(0xC000_0409), // STATUS_STACK_BUFFER_OVERRUN, of abort() too
    NTSTATUS::from_u32(0xC000_0420), // STATUS_ASSERTION_FAILURE
    NTSTATUS::from_u32(0xE06D_7363), // of C++
];

impl Ended {
    fn of(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Crashed(signal(status)), Self::of_code)
    }

    fn of_code(code: i32) -> Self {
        match EXCEPTIONS.into_iter().find(|exception| exception.0 == code) {
            _ if code == 0 => Self::Succeeded,
            Some(exception) => Self::Crashed(exception.to_u32()),
            None => Self::Failed(code),
        }
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> u32 {
    std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0).cast_unsigned()
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> u32 {
    0
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("exit 0"),
            Self::Failed(code) => write!(f, "exit {code}"),
            Self::Crashed(exception) if cfg!(windows) => {
                write!(f, "crashed: {}", NTSTATUS::from_u32(*exception))
            }
            Self::Crashed(signal) => write!(f, "crashed: signal {signal}"),
            Self::Hung => f.write_str("hung"),
        }
    }
}

impl Run {
    /// Whether the program has done what no program should.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.ended, Ended::Crashed(_) | Ended::Hung) || self.left > 0
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(["rule", "ended", "left"]);
        for Run { rule, ended, left, .. } in &self.runs {
            columns.row([rule.clone(), ended.to_string(), left.to_string()]);
        }
        write!(f, "{columns}")?;
        if !self.not_passed.is_empty() {
            writeln!(f, "not passed: {}", self.not_passed.join(", "))?;
        }
        let count = |is: &dyn Fn(&Run) -> bool| self.runs.iter().filter(|run| is(run)).count();
        writeln!(
            f,
            "{} runs by {}: {} hung, {} crashed, {} left objects; {} ended with 0 all the same",
            self.runs.len(),
            self.device,
            count(&|run| run.ended == Ended::Hung),
            count(&|run| matches!(run.ended, Ended::Crashed(_))),
            count(&|run| run.left > 0),
            count(&|run| run.ended == Ended::Succeeded),
        )
    }
}

/// The faults of a point, as actions of rules: those after which a program has something to do.
fn actions(point: Point) -> impl Iterator<Item = String> {
    let statuses = point.statuses().iter().map(|(name, _)| format!("fail {name}"));
    let others = point.actions().iter().filter_map(|kind| match kind {
        ActionKind::Disconnect | ActionKind::Reset | ActionKind::Overrun => Some(kind.syntax().to_owned()),
        _ => None,
    });
    statuses.chain(others)
}

/// Opens the driver's device. It is not open while a program runs, which may count open files.
type Open<'a> = &'a dyn Fn() -> anyhow::Result<Box<dyn Driver>>;

/// Sweeps; `driver`: if it is there. Its rules are gone afterwards, also after an error.
pub(crate) fn sweep(driver: Option<Open<'_>>, options: &Options) -> anyhow::Result<Sweep> {
    let swept = run_all(driver, options);
    if let Some(open) = driver {
        driver::set_fault_rules(&*open()?, "")?;
    }
    swept
}

fn run_all(driver: Option<Open<'_>>, options: &Options) -> anyhow::Result<Sweep> {
    let device = if driver.is_some() { "rules of the driver" } else { "rules of the process's device" };
    let mut sweep = Sweep { good: false, device, runs: Vec::new(), not_passed: Vec::new() };
    let succeeds = |run: &Run| {
        anyhow::ensure!(
            run.ended == Ended::Succeeded && run.left == 0,
            "without a fault: {}, {} objects are left; a sweep needs a program that succeeds",
            run.ended,
            run.left
        );
        Ok(())
    };
    succeeds(&run(driver, options, "")?.1)?;
    for point in Point::ALL {
        for (nth, action) in actions(point).enumerate() {
            let rule = format!("on {} times 1 do {action}", point.name());
            let (fired, run) = run(driver, options, &rule).with_context(|| rule.clone())?;
            if fired {
                eprintln!("{rule}: {} after {:.1} s", run.ended, run.seconds);
                sweep.runs.push(run);
                continue;
            }
            succeeds(&run).with_context(|| format!("{rule} did not fire"))?;
            anyhow::ensure!(nth == 0, "{rule}: did not fire, as those before it at this point");
            sweep.not_passed.push(point.name());
            break;
        }
    }
    sweep.good = !sweep.runs.is_empty() && !sweep.runs.iter().any(Run::is_bad);
    Ok(sweep)
}

/// Runs the program with a rule. Whether the rule has fired, and what the program did.
fn run(driver: Option<Open<'_>>, options: &Options, rule: &str) -> anyhow::Result<(bool, Run)> {
    let before = match driver {
        Some(open) => {
            let driver = open()?;
            driver::set_fault_rules(&*driver, rule)?;
            Objects::read(&*driver)?.count()
        }
        None => 0,
    };
    let [program, arguments @ ..] = &*options.program else { anyhow::bail!("no program") };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match driver {
        Some(_) => command.env_remove(VARIABLE),
        None => command.env(VARIABLE, rule),
    };
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    // A child of the program may hold a pipe open, so lines are counted as they come, and no end is waited for.
    let (sender, lines) = mpsc::channel();
    tell(child.stdout.take().context("no standard output")?, None);
    tell(child.stderr.take().context("no standard error")?, Some(sender));
    let ended = wait(&mut child, Duration::from_secs(options.limit.get()))?;
    let seconds = begun.elapsed().as_secs_f64();
    let (fired, left) = match driver {
        Some(open) => {
            let driver = open()?;
            let fired = Counted::read(&*driver)?.rules.iter().any(|rule| rule.fired > 0);
            (fired, left(&*driver, before)?)
        }
        None => (lines.recv_timeout(Duration::from_millis(500)).is_ok(), 0),
    };
    Ok((fired, Run { rule: rule.to_owned(), ended, left, seconds }))
}

/// Passes on what a program says to standard error, and a note for each line that tells of a rule.
fn tell(said: impl Read + Send + 'static, fired: Option<mpsc::Sender<()>>) {
    thread::spawn(move || {
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            eprintln!("{line}");
            if let Some(fired) = fired.as_ref().filter(|_| line.contains(FIRED)) {
                // Nobody waits for it any more.
                let _unheard = fired.send(());
            }
        }
    });
}

/// Waits for the end of a program, which is ended after `limit`.
fn wait(child: &mut Child, limit: Duration) -> anyhow::Result<Ended> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::of(status));
        }
        thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    Ok(Ended::Hung)
}

/// Objects beyond those that were there `before`, when no more go.
fn left(driver: &dyn Driver, before: u64) -> anyhow::Result<u64> {
    let begun = Instant::now();
    loop {
        let left = Objects::read(driver)?.count().saturating_sub(before);
        if left == 0 || begun.elapsed() > CLEANUP {
            return Ok(left);
        }
        thread::sleep(LOOK);
    }
}

/// Whether the program would take the device of its process: there is no driver, or SOFTND_MODE says so.
pub(crate) fn is_hosted() -> bool {
    env::var_os("SOFTND_MODE").is_some_and(|mode| mode == "hosted")
}

#[cfg(all(test, unix))]
mod unit_tests {
    use std::sync::{Arc, Mutex};

    use ndk_abi::{
        describe::ZeroInit as _,
        softndk_ioctl::{
            IOCTL_SOFTNDK_DIAGNOSTICS, IOCTL_SOFTNDK_FAULT_RULES, IOCTL_SOFTNDK_SET_FAULT_RULES, SOFTNDK_ADAPTER,
            SOFTNDK_DIAGNOSTICS, SOFTNDK_FAULT_RULE, SOFTNDK_LIST, SOFTNDK_LIST_END,
        },
    };
    use zerocopy::IntoBytes as _;

    use super::*;

    /// A program for the shell, which is told its rule by the environment as softnd.dll is.
    fn shell(script: &str) -> Options {
        let program = ["sh", "-c", script].map(OsString::from).into();
        Options { limit: NonZeroU64::new(2).unwrap(), program }
    }

    // Shows S1709.
    #[test]
    fn a_sweep_finds_what_hangs_crashes_and_goes_on() {
        let script = "
            test -n \"$SOFTND_FAULTS\" || exit 0
            case \"$SOFTND_FAULTS\" in *' listen '*|*' bind '*) exit 0;; esac
            echo 'SoftNDK: fault rule 1 has failed a request' >&2
            case \"$SOFTND_FAULTS\" in
                *' send '*IO_TIMEOUT) sleep 60;;
                *' read '*reset) kill -SEGV $$;;
                *' accept '*ABORTED) exit 0;;
            esac
            exit 3";
        let found = sweep(None, &shell(script)).unwrap();
        let ended = |rule: &str| found.runs.iter().find(|run| run.rule == rule).map(|run| run.ended);
        assert_eq!(found.not_passed, ["listen", "bind"]);
        assert_eq!(ended("on send times 1 do fail STATUS_IO_TIMEOUT"), Some(Ended::Hung));
        assert_eq!(ended("on send times 1 do fail STATUS_DATA_ERROR"), Some(Ended::Failed(3)));
        assert_eq!(ended("on read times 1 do reset"), Some(Ended::Crashed(11)));
        assert_eq!(ended("on accept times 1 do fail STATUS_CONNECTION_ABORTED"), Some(Ended::Succeeded));
        let text = found.to_string();
        let summary =
            "30 runs by rules of the process's device: 1 hung, 1 crashed, 0 left objects; 1 ended with 0 all the same";
        assert!(text.contains(summary), "{text}");
        let json = serde_json::to_value(&found).unwrap();
        let hung = json["runs"].as_array().unwrap().iter().filter(|run| run["ended"]["how"] == "hung").count();
        assert_eq!((hung, &json["good"]), (1, &false.into()), "{json}");
    }

    /// A driver whose rules for listens fire. When it is asked for its objects after the first of these runs, a queue pair is left.
    #[derive(Clone, Default)]
    struct Leaky {
        rule: Arc<Mutex<String>>,
        asked: Arc<Mutex<u32>>,
    }

    impl Driver for Leaky {
        fn ask(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
            let mut answer = |bytes: &[u8]| {
                output[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            };
            match code {
                IOCTL_SOFTNDK_SET_FAULT_RULES => {
                    *self.rule.lock().unwrap() = String::from_utf8_lossy(&input[8..]).into_owned();
                    Ok(0)
                }
                IOCTL_SOFTNDK_FAULT_RULES => {
                    let fired = u64::from(self.rule.lock().unwrap().starts_with("on listen"));
                    let rule = SOFTNDK_FAULT_RULE { Passed: fired, Fired: fired, ..SOFTNDK_FAULT_RULE::ZERO };
                    let size = size_of::<SOFTNDK_FAULT_RULE>() as u32;
                    let list = SOFTNDK_LIST { Version: 1, EntrySize: size, Count: 1, Next: SOFTNDK_LIST_END };
                    answer(&[list.as_bytes(), rule.as_bytes()].concat())
                }
                IOCTL_SOFTNDK_DIAGNOSTICS => {
                    let mut asked = self.asked.lock().unwrap();
                    *asked += 1;
                    answer(SOFTNDK_DIAGNOSTICS { Qps: u32::from(*asked > 3), ..SOFTNDK_DIAGNOSTICS::ZERO }.as_bytes())
                }
                _ => answer(SOFTNDK_ADAPTER::ZERO.as_bytes()),
            }
        }
    }

    // Shows S1709.
    #[test]
    fn a_sweep_finds_what_is_left_in_the_driver() {
        let driver = Leaky::default();
        let found = sweep(Some(&|| Ok(Box::new(driver.clone()))), &shell("exit 0")).unwrap();
        let left: Vec<_> = found.runs.iter().map(|run| (run.left, run.ended)).collect();
        assert_eq!(left, [(1, Ended::Succeeded), (0, Ended::Succeeded)]);
        assert_eq!(found.not_passed.len(), 10);
        assert!(!found.good && found.runs[0].is_bad() && !found.runs[1].is_bad());
    }

    // Shows S1709.
    #[test]
    fn an_exception_is_a_crash_and_another_ntstatus_is_not() {
        let of = |code: u32| Ended::of_code(code.cast_signed());
        assert_eq!((of(0), of(1)), (Ended::Succeeded, Ended::Failed(1)));
        for exception in [0xC000_0005, 0x8000_0003, 0xC000_0409] {
            assert_eq!(of(exception), Ended::Crashed(exception));
        }
        // STATUS_IO_TIMEOUT, with which a program may tell that a request failed.
        assert_eq!(of(0xC000_00B5), Ended::Failed(0xC000_00B5_u32.cast_signed()));
    }

    // Shows S1709.
    #[test]
    fn a_sweep_needs_a_program_that_succeeds() {
        let failed = sweep(None, &shell("exit 4")).unwrap_err().to_string();
        assert!(failed.contains("without a fault: exit 4"), "{failed}");
        let idle = sweep(None, &shell("exit 0")).unwrap();
        let swept = Point::ALL.into_iter().filter(|point| actions(*point).next().is_some()).count();
        assert!(!idle.good && idle.not_passed.len() == swept, "nothing was tried");
        let absent = Options { program: vec!["no-such-program".into()], ..shell("") };
        assert!(format!("{:#}", sweep(None, &absent).unwrap_err()).contains("cannot start no-such-program"));
    }
}
