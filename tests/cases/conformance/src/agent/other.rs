//! The way to a device of another process.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    ops::RangeInclusive,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};

use super::frames::{Answer, Ask, Line};
use crate::{Completion, File, Pending, Transport, memory::shared, transport::PORTS_OF_WINDOWS};

/// How long the other process may take for an answer: longer than it waits for its device.
const LIMIT: Duration = Duration::from_secs(50);

/// A process that has a device: what it is asked is asked here.
pub struct Agent {
    address: SocketAddr,
    /// Sockets without a request under way.
    idle: Mutex<Vec<Line>>,
    /// The agent's process ends when this socket closes.
    _life: Line,
    /// Why nothing more is asked.
    gone: OnceLock<String>,
}

impl Agent {
    /// The one that [serves](super::serve) there. It finds the buffers of this process at `path`: [`shared::share`].
    ///
    /// # Errors
    /// It does not serve, or does not find them.
    pub fn connect(address: SocketAddr, path: String) -> io::Result<Self> {
        let mut life = Line::new(TcpStream::connect(address)?)?;
        life.limit(LIMIT)?;
        life.say(&Ask::Join(path))?;
        life.hear::<Answer>()?;
        Ok(Self { address, idle: Mutex::default(), _life: life, gone: OnceLock::new() })
    }

    /// Whether the agent has stopped answering.
    pub fn is_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Asks, and waits for `limit` + [`LIMIT`] at most. None: the process has ended.
    fn ask(&self, ask: &Ask, limit: Duration) -> Option<Answer> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = || -> io::Result<Answer> {
            let line = idle().pop();
            let mut line = line.map_or_else(|| Line::new(TcpStream::connect(self.address)?), Ok)?;
            line.limit(LIMIT + limit)?;
            line.say(ask)?;
            let answer = line.hear()?;
            idle().push(line);
            Ok(answer)
        };
        if self.is_gone() {
            return None;
        }
        let gone = |error| self.gone.get_or_init(|| format!("the other process is gone: {error}"));
        heard().map_err(gone).ok()
    }
}

/// A device of another process.
pub struct Other {
    agent: Arc<Agent>,
    front_end: String,
    ports: RangeInclusive<u16>,
}

impl Other {
    /// Has it anew: what was open of it is closed.
    #[must_use]
    pub fn boot(agent: Arc<Agent>) -> Self {
        let (front_end, ports) = match agent.ask(&Ask::Boot, Duration::ZERO) {
            Some(Answer::Booted(front_end, ports)) => (front_end, ports),
            _ => (String::new(), PORTS_OF_WINDOWS),
        };
        Self { agent, front_end, ports }
    }
}

impl Transport for Other {
    fn front_end(&self) -> String {
        format!("{}, of another process", self.front_end)
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        self.ports.clone()
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        match self.agent.ask(&Ask::Open, Duration::ZERO) {
            Some(Answer::Opened(Ok((number, handle)))) => {
                Ok(Box::new(OtherFile { agent: self.agent.clone(), number, handle }))
            }
            Some(Answer::Opened(Err(status))) => Err(NTSTATUS(status)),
            _ => Err(STATUS_DEVICE_REMOVED),
        }
    }

    fn close(self: Box<Self>) -> Vec<String> {
        match self.agent.ask(&Ask::Close, Duration::ZERO) {
            Some(Answer::Closed(complaints)) => complaints,
            _ => self.agent.gone.get().into_iter().cloned().collect(),
        }
    }
}

struct OtherFile {
    agent: Arc<Agent>,
    number: u64,
    handle: Option<u64>,
}

impl File for OtherFile {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let (file, input, buffers) = (self.number, input.to_owned(), shared::buffers());
        let answer = self.agent.ask(&Ask::Submit { file, code, input, output_length, buffers }, Duration::ZERO);
        let (number, completion, pended) = match answer {
            Some(Answer::Submitted { request: Ok(number), pended }) => (number, None, pended),
            Some(Answer::Submitted { request: Err(ended), pended }) => (0, Some(ended.into()), pended),
            _ => (0, Some(removed()), false),
        };
        Box::new(OtherRequest { agent: self.agent.clone(), number, completion, pended })
    }

    fn handle(&self) -> Option<u64> {
        self.handle
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        match self.agent.ask(&Ask::Stranger { file: self.number, code, input: input.to_owned() }, Duration::ZERO) {
            Some(Answer::Stranger(status)) => status.map(NTSTATUS),
            _ => Err("the other process is gone".to_owned()),
        }
    }
}

impl Drop for OtherFile {
    fn drop(&mut self) {
        self.agent.ask(&Ask::CloseFile(self.number), Duration::ZERO);
    }
}

/// Unless it is over, the other process has it by its number.
struct OtherRequest {
    agent: Arc<Agent>,
    number: u64,
    completion: Option<Completion>,
    pended: bool,
}

/// The completion of a request after the agent's process has ended.
fn removed() -> Completion {
    Completion { status: STATUS_DEVICE_REMOVED, information: 0, output: Vec::new() }
}

impl Pending for OtherRequest {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.completion.is_none() {
            self.completion = match self.agent.ask(&Ask::Wait(self.number, timeout), timeout) {
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
            self.agent.ask(&Ask::Cancel(self.number), Duration::ZERO);
        }
    }
}

impl Drop for OtherRequest {
    fn drop(&mut self) {
        if self.completion.is_none() {
            self.agent.ask(&Ask::Forget(self.number), Duration::ZERO);
        }
    }
}
