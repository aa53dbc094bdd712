//! The way to a device of another process, which this one starts.

use std::{
    io,
    net::IpAddr,
    ops::RangeInclusive,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use conformance::{Completion, File, Pending, Transport, local::Kernel as _, memory::shared};
use hosted::Hosted;
use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};

use crate::{
    frames::{Answer, Ask, Line},
    served::BUFFERS,
};

/// How long the other process may take for an answer: longer than it waits for its device.
const LIMIT: Duration = Duration::from_secs(50);

/// A process that has a device.
pub(crate) struct Process {
    child: Mutex<Child>,
    name: SocketAddr,
    /// Sockets that nobody waits on.
    idle: Mutex<Vec<Line>>,
    /// As long as this is open, it goes on.
    _life: UnixStream,
    /// Why nothing more is asked.
    gone: OnceLock<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts this program once more, to have a device and nothing else: the test of that name serves it.
    pub(crate) fn start(test: &str) -> io::Result<Self> {
        static PATH: LazyLock<io::Result<String>> = LazyLock::new(shared::share);
        let path = PATH.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let name = SocketAddr::from_abstract_name(format!("softndk-{:x}", fastrand::u64(..)))?;
        let listener = UnixListener::bind_addr(&name)?;
        let child = Command::new("/proc/self/exe")
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(BUFFERS, path)
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null())
            .spawn()?;
        let life = UnixStream::connect_addr(&name)?;
        Ok(Self { child: Mutex::new(child), name, idle: Mutex::default(), _life: life, gone: OnceLock::new() })
    }

    pub(crate) fn id(&self) -> u32 {
        lock(&self.child).id()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Ends it, unless it is gone already: how it has ended.
    pub(crate) fn end(&self) -> String {
        let mut child = lock(&self.child);
        let _unless_it_is_gone = child.kill();
        child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// The answer, which is waited for as long as the question itself says, and `LIMIT`. None: the process is gone.
    fn ask(&self, ask: &Ask, limit: Duration) -> Option<Answer> {
        let heard = || -> io::Result<Answer> {
            let idle = lock(&self.idle).pop();
            let mut line = idle.map_or_else(|| UnixStream::connect_addr(&self.name).map(Line::new), Ok)?;
            line.limit(LIMIT + limit)?;
            line.say(ask)?;
            let answer = line.hear()?;
            lock(&self.idle).push(line);
            Ok(answer)
        };
        if self.gone.get().is_some() {
            return None;
        }
        let gone = |error| self.gone.get_or_init(|| format!("the other process is gone, {}: {error}", self.end()));
        heard().map_err(gone).ok()
    }
}

/// A device of another process.
pub(crate) struct Other(Arc<Process>);

impl Other {
    pub(crate) fn boot(process: Arc<Process>, addresses: Vec<IpAddr>) -> Self {
        process.ask(&Ask::Boot(addresses), Duration::ZERO);
        Self(process)
    }
}

impl Transport for Other {
    fn front_end(&self) -> String {
        "hosted platform, in another process".to_owned()
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        Hosted::ephemeral_ports()
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        match self.0.ask(&Ask::Open, Duration::ZERO) {
            Some(Answer::Opened(Ok((number, handle)))) => {
                Ok(Box::new(OtherFile { process: self.0.clone(), number, handle }))
            }
            Some(Answer::Opened(Err(status))) => Err(NTSTATUS(status)),
            _ => Err(STATUS_DEVICE_REMOVED),
        }
    }

    fn close(self: Box<Self>) -> Vec<String> {
        match self.0.ask(&Ask::Close, Duration::ZERO) {
            Some(Answer::Closed(complaints)) => complaints,
            _ => self.0.gone.get().into_iter().cloned().collect(),
        }
    }
}

struct OtherFile {
    process: Arc<Process>,
    number: u64,
    handle: Option<u64>,
}

impl File for OtherFile {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let (file, input, buffers) = (self.number, input.to_owned(), shared::buffers());
        let answer = self.process.ask(&Ask::Submit { file, code, input, output_length, buffers }, Duration::ZERO);
        let (number, completion, pended) = match answer {
            Some(Answer::Submitted { request: Ok(number), pended }) => (number, None, pended),
            Some(Answer::Submitted { request: Err(ended), pended }) => (0, Some(ended.into()), pended),
            _ => (0, Some(removed()), false),
        };
        Box::new(OtherRequest { process: self.process.clone(), number, completion, pended })
    }

    fn handle(&self) -> Option<u64> {
        self.handle
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        match self.process.ask(&Ask::Stranger { file: self.number, code, input: input.to_owned() }, Duration::ZERO) {
            Some(Answer::Stranger(status)) => status.map(NTSTATUS),
            _ => Err("the other process is gone".to_owned()),
        }
    }
}

impl Drop for OtherFile {
    fn drop(&mut self) {
        self.process.ask(&Ask::CloseFile(self.number), Duration::ZERO);
    }
}

/// Unless it is over, the other process has it by its number.
struct OtherRequest {
    process: Arc<Process>,
    number: u64,
    completion: Option<Completion>,
    pended: bool,
}

/// What is left of a request when its process is gone.
fn removed() -> Completion {
    Completion { status: STATUS_DEVICE_REMOVED, information: 0, output: Vec::new() }
}

impl Pending for OtherRequest {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.completion.is_none() {
            self.completion = match self.process.ask(&Ask::Wait(self.number, timeout), timeout) {
                Some(Answer::Waited(ended)) => ended.map(Into::into),
                _ => Some(removed()),
            };
        }
        self.completion.clone()
    }

    fn pended(&self) -> bool {
        self.pended
    }

    fn cancel(&self) {
        if self.completion.is_none() {
            self.process.ask(&Ask::Cancel(self.number), Duration::ZERO);
        }
    }
}

impl Drop for OtherRequest {
    fn drop(&mut self) {
        if self.completion.is_none() {
            self.process.ask(&Ask::Forget(self.number), Duration::ZERO);
        }
    }
}
