//! A driver under Wine: loaded through the service control manager by one process, used by others, and gone at the end
//! with a report of what it left behind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use build::dist::TEST_DRIVER;
use build::{paths, wine};
use serde_json::Value;

use crate::prefix::{self, Computer};
use crate::report::StandInReport;
use crate::wine_sockets;

const LOAD_LIMIT: Duration = Duration::from_secs(180);
/// How long winedevice may take to end, and its modules to say what was left, after the driver's service has stopped.
const REPORT_LIMIT: Duration = Duration::from_secs(120);

/// A driver's pool.
#[derive(Clone, Copy)]
pub(crate) struct Pool {
    /// In use.
    pub(crate) bytes: u64,
    /// So far.
    pub(crate) allocations: u64,
}

/// A prefix with the loader running in it. Dropping it ends every process of the prefix.
pub(crate) struct Session {
    computer: Computer,
    prefix: PathBuf,
    namespace: Option<String>,
    loader: Child,
    answers: Receiver<String>,
}

impl Session {
    /// Starts the loader for the driver of the package, whose adapter will own these addresses.
    pub(crate) fn start(addresses: &[IpAddr]) -> Result<Self> {
        Self::start_driver(prefix::DRIVER, addresses)
    }

    /// Starts the loader for the driver of tests.
    pub(crate) fn start_test(addresses: &[IpAddr]) -> Result<Self> {
        Self::start_driver(TEST_DRIVER, addresses)
    }

    /// Starts the loader for the driver of the package, in a network namespace.
    pub(crate) fn start_in(namespace: &str, addresses: &[IpAddr]) -> Result<Self> {
        let addresses = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        let driver = format!(r"C:\softndk\{}", prefix::DRIVER);
        Self::begin(Computer::unused(), Some(namespace), &[&driver, &addresses])
    }

    /// Starts the loader for either driver.
    pub(crate) fn start_driver(driver: &str, addresses: &[IpAddr]) -> Result<Self> {
        let addresses = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        let session = Self::begin(Computer::unused(), None, &[&format!(r"C:\softndk\{driver}"), &addresses])?;
        if driver == TEST_DRIVER {
            session.place(&paths::dist().join("wine").join(TEST_DRIVER))?;
        }
        Ok(session)
    }

    /// Starts the loader for a driver that comes, or has come, by its INF.
    pub(crate) fn start_installed() -> Result<Self> {
        Self::begin(Computer::Installed, None, &[])
    }

    /// `namespace`: the network namespace of all that runs in the prefix, as the first process starts Wine's services. `None`: this one.
    fn begin(computer: Computer, namespace: Option<&str>, arguments: &[&str]) -> Result<Self> {
        let prefix = prefix::prepare(&computer)?;
        let log = File::create(computer.log_file())?;
        // The first process of a prefix starts the services, so what drivers print goes where its errors go.
        let mut loader = in_namespace(wine::wine(&prefix), namespace)
            .arg(r"C:\softndk\loader.exe")
            .args(arguments)
            .env("WINEDEBUG", "-all,+err,+debugstr")
            .current_dir(prefix::driver_folder(&prefix))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start wine64; run `cargo xtask setup`")?;
        let (sender, answers) = channel();
        let output = BufReader::new(loader.stdout.take().context("the loader has no output")?);
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut session = Self { computer, prefix, namespace: namespace.map(str::to_owned), loader, answers };
        // Wine's services inherit the output of the first process that runs. A program whose output is read to its end must
        // not be that process: it would seem never to end.
        session.answer_to("start")?;
        Ok(session)
    }

    /// Loads the driver.
    pub(crate) fn load(&mut self) -> Result<()> {
        let _ = fs::remove_file(self.report_file());
        let _ = fs::remove_file(self.events_file());
        self.order("load")
    }

    /// Loads the driver, whose adapter must not start; what its MiniportInitializeEx returns. Then it is unloaded.
    pub(crate) fn load_in_vain(&mut self) -> Result<(String, StandInReport)> {
        const RETURNED: &str = "MiniportInitializeEx returned ";
        let returned = |log: &[u8]| {
            let log = String::from_utf8_lossy(log);
            log.lines().filter_map(|line| Some(line.split_once(RETURNED)?.1.to_owned())).collect::<Vec<_>>()
        };
        let before = returned(&fs::read(self.computer.log_file())?).len();
        let _ = fs::remove_file(self.report_file());
        self.order("start")?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = returned(&fs::read(self.computer.log_file())?).get(before) {
                break status.clone();
            }
            ensure!(start.elapsed() < LOAD_LIMIT, "the adapter has not failed to start\n{}", self.log_tail());
            std::thread::sleep(Duration::from_millis(20));
        };
        Ok((status, self.unload()?))
    }

    /// Unloads the driver and returns what its stand-ins say was left.
    pub(crate) fn unload(&mut self) -> Result<StandInReport> {
        self.order("unload")?;
        self.report()
    }

    /// Installs the package in `C:\package`, by its INF.
    pub(crate) fn install(&mut self) -> Result<()> {
        self.order(r"install C:\package\softndk.inf")
    }

    /// Waits for the installed device to be started.
    pub(crate) fn wait_for_device(&mut self) -> Result<()> {
        let _ = fs::remove_file(self.report_file());
        self.order("wait")
    }

    /// A parameter of the adapter, once it starts.
    pub(crate) fn set_keyword(&mut self, keyword: &str, value: &str) -> Result<()> {
        self.order(&format!("set {keyword} {value}"))
    }

    /// Removes the installed device.
    pub(crate) fn remove(&mut self) -> Result<()> {
        self.order("remove")
    }

    /// Unloads its driver, and deletes service and file.
    pub(crate) fn delete_driver(&mut self) -> Result<()> {
        self.order("delete")
    }

    /// What the stand-ins say was left when the driver was unloaded.
    pub(crate) fn report(&self) -> Result<StandInReport> {
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(self.report_file()).unwrap_or_default();
            match StandInReport::parse(&text) {
                Ok(report) => return Ok(StandInReport { log: self.computer.log_file(), ..report }),
                Err(error) if start.elapsed() > REPORT_LIMIT => return Err(error).with_context(|| self.log_tail()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Tells a driver with planted faults to break a rule: `leak`, `irql` or `names`.
    pub(crate) fn plant(&mut self, fault: &str) -> Result<()> {
        self.order(&format!("plant {fault}"))
    }

    /// Turns RDMA on or off, and waits until NDIS has been told.
    pub(crate) fn set_rdma(&mut self, on: bool) -> Result<()> {
        self.order(if on { "enable" } else { "disable" })
    }

    /// The computer sleeps and wakes up: the adapter is halted and initialised again.
    pub(crate) fn sleep(&mut self) -> Result<()> {
        self.order("sleep")
    }

    /// The adapter is removed by surprise.
    pub(crate) fn remove_surprisingly(&mut self) -> Result<()> {
        self.order("surprise")
    }

    /// Has the protocol above the adapter keep the lists that are indicated, until the adapter is pausing.
    pub(crate) fn hold(&mut self) -> Result<()> {
        self.order("hold")
    }

    /// Pauses the adapter, of which the protocol has to have lists, and restarts it.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.order("pause")
    }

    /// The pool that the driver has, and what it has allocated so far.
    pub(crate) fn pool(&mut self) -> Result<Pool> {
        const SAID: &str = "softndk-standin: pool in use ";
        let said = |log: &str| {
            let of = |said: &str| {
                let (bytes, rest) = said.split_once(" bytes, ")?;
                let allocations = rest.split_once(' ')?.0.parse().ok()?;
                Some(Pool { bytes: bytes.parse().ok()?, allocations })
            };
            log.lines().filter_map(|line| of(line.split_once(SAID)?.1)).collect::<Vec<_>>()
        };
        let before = said(&self.log()?).len();
        self.order("pool")?;
        let start = Instant::now();
        loop {
            if let Some(pool) = said(&self.log()?).get(before) {
                return Ok(*pool);
            }
            ensure!(
                start.elapsed() < LOAD_LIMIT,
                "the stand-ins do not say how much pool is in use\n{}",
                self.log_tail()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The addresses that TCP/IP has on the adapter's interface from now on, to which the driver looks if it was given none.
    pub(crate) fn set_tcpip(&mut self, addresses: &[&str]) -> Result<()> {
        self.order(&format!("tcpip {}", addresses.join(",")))
    }

    /// A file in `C:\softndk`.
    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        prefix::driver_folder(&self.prefix).join(name)
    }

    /// Puts a file into `C:\softndk`.
    pub(crate) fn place(&self, file: &Path) -> Result<()> {
        prefix::place(file, &self.file(file.file_name().context("a file without a name")?))
    }

    /// Makes a service for another driver in `C:\softndk`, which will run beside the loaded one, as in one kernel.
    pub(crate) fn add_consumer(&mut self, service: &str, driver: &str) -> Result<()> {
        self.order(&format!(r"consumer {service} C:\softndk\{driver}"))
    }

    /// Has what drivers free keep its content, from the next load on.
    pub(crate) fn keep_freed(&mut self) -> Result<()> {
        self.order("keep freed")
    }

    /// Starts and stops such a service. An error: its DriverEntry has failed, or the service cannot be stopped.
    pub(crate) fn run_consumer(&mut self, service: &str) -> Result<()> {
        self.order(&format!("consume {service}"))
    }

    /// Has the driver asked to open a name below its device. An error: it has not refused.
    pub(crate) fn open_below(&mut self) -> Result<()> {
        self.order("below")
    }

    /// Whether there is a Winsock Kernel from now on.
    pub(crate) fn set_wsk(&mut self, on: bool) -> Result<()> {
        self.order(if on { "wsk on" } else { "wsk off" })
    }

    /// The level up to which the driver's events are kept from now on, 0 for none. Before the driver is loaded: from its start.
    pub(crate) fn trace(&mut self, level: u8) -> Result<()> {
        self.order(&format!("trace {level}"))
    }

    /// The events that were kept, of a driver that is unloaded, or until [`Session::trace`] was called last.
    pub(crate) fn events(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.events_file()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }

    /// Whether the adapter asks for CRCs, once it starts.
    pub(crate) fn set_crc(&mut self, on: bool) -> Result<()> {
        self.order(if on { "crc on" } else { "crc off" })
    }

    /// A Windows program in this prefix, with `C:\softndk` as its folder; a path of this system is understood too.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = in_namespace(wine::wine(&self.prefix), self.namespace.as_deref());
        let here = Path::new(program).canonicalize().ok().filter(|path| path.is_file());
        let folder = prefix::driver_folder(&self.prefix);
        match here {
            Some(path) => command.arg(path),
            None if folder.join(program).is_file() => command.arg(format!(r"C:\softndk\{program}")),
            None => command.arg(program),
        };
        command.current_dir(folder);
        command
    }

    /// What ends every process of the prefix, for who is not to have the session: one that waits for a process that hangs.
    pub(crate) fn end_of_programs(&self) -> impl FnOnce() + Send + use<> {
        let prefix = self.prefix.clone();
        move || end(&prefix)
    }

    /// Whether Wine keeps connections of a program that has ended open.
    pub(crate) fn keeps_connections(&self) -> Result<bool> {
        wine_sockets::stay_open(&self.prefix)
    }

    /// What drivers and stand-ins have printed since the session began.
    pub(crate) fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.computer.log_file())?).into_owned())
    }

    /// The end of what the driver and the stand-ins printed, for an error message.
    pub(crate) fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = fs::read(self.computer.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines = log.lines().collect::<Vec<_>>();
        let tail = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        format!("the last lines of {}:\n  {}\n", self.computer.log_file().display(), tail.join("\n  "))
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let input = self.loader.stdin.as_mut().context("the loader has no input")?;
        writeln!(input, "{order}").and_then(|()| input.flush()).with_context(|| self.log_tail())?;
        self.answer_to(order)
    }

    fn answer_to(&mut self, order: &str) -> Result<()> {
        match self.answers.recv_timeout(LOAD_LIMIT) {
            Ok(answer) if answer.trim() == "ok" => Ok(()),
            Ok(answer) => bail!("{order}: {answer}\n{}", self.log_tail()),
            Err(_) => bail!("the loader does not answer to {order}\n{}", self.log_tail()),
        }
    }

    fn events_file(&self) -> PathBuf {
        self.file("events.jsonl")
    }

    fn report_file(&self) -> PathBuf {
        self.file("standin-report.txt")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end(&self.prefix);
        let _ = self.loader.kill();
        let _ = self.loader.wait();
    }
}

/// `command`, in a network namespace if one is named.
fn in_namespace(command: Command, namespace: Option<&str>) -> Command {
    let Some(namespace) = namespace else { return command };
    let mut inside = Command::new("ip");
    inside.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    inside
}

fn end(prefix: &Path) {
    if let Err(error) = wine::end(prefix) {
        eprintln!("cannot end the Wine session: {error:#}");
    }
}

/// The host's unicast addresses, loopback only where there is nothing else, and `more`.
pub(crate) fn addresses(more: &[IpAddr]) -> Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs().context("cannot list the addresses of this host")?;
    let (loopback, mut addresses): (Vec<_>, Vec<_>) = interfaces
        .into_iter()
        .map(|interface| interface.ip())
        .filter(|address| !address.is_unspecified())
        .partition(IpAddr::is_loopback);
    addresses.extend(more);
    if addresses.is_empty() {
        addresses = loopback;
    }
    ensure!(!addresses.is_empty(), "this host has no address; name one with --address");
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}
