//! Our client of SMB Direct, for a program that speaks SMB by TCP.

use std::{
    collections::HashMap,
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::TryRecvError,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use smb_direct::{Access, Done};

use super::{
    Carried, LENGTH, Mode, PLACES,
    device::{End, Message, On, Wake},
    failed, messages, options,
    packet::{self, Channel, Kind},
};
use crate::status::Named;

/// siw looks at no data of the first moments until more comes (docs/interop.md).
const AFTER_CONNECT: Duration = Duration::from_millis(50);
/// Shorter reads and writes are inline, as those of Linux.
const LEAST_BY_RDMA: u32 = 4096;

/// What a client may do wrong, in what it writes by RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A byte is changed.
    Byte,
    /// The token is another.
    Token,
}

/// A bridge from a port of TCP to a server of SMB Direct.
pub(crate) struct Client {
    pub(crate) local: IpAddr,
    pub(crate) server: SocketAddr,
    pub(crate) mode: Mode,
    pub(crate) on: On,
    /// What it does wrong.
    pub(crate) fault: Option<Fault>,
    /// Ask for a sign of life after so many seconds without one.
    pub(crate) keepalive: u16,
}

impl Client {
    /// Serves one program, which connects to the listener, until it disconnects. `patience`: it has to connect so soon.
    pub(crate) fn serve(&self, listener: &TcpListener, patience: Option<Duration>) -> Result<Carried> {
        let program = accept(listener, patience)?;
        program.set_nodelay(true)?;
        let (link, wake, rest) = self.on.connect((self.local, self.server), options(self.keepalive))?;
        thread::sleep(AFTER_CONNECT);
        let negotiated = link.negotiate().map_err(failed);
        let free = (0..PLACES).collect();
        let (flying, returning, carried) = (HashMap::new(), HashMap::new(), Carried::default());
        let mut bridge = Bridge { link, program, plan: self, waiting: None, free, flying, returning, carried };
        let run = negotiated.and_then(|()| bridge.run(&wake));
        let Bridge { link, program, mut carried, .. } = bridge;
        // Ends the thread that reads there, and the program's wait for an answer.
        let _gone_before = program.shutdown(Shutdown::Both);
        carried.keepalives = link.keepalives();
        let closed = link.close().map_err(failed);
        rest.close()?;
        run.and(closed)?;
        Ok(carried)
    }
}

/// The next connection.
fn accept(listener: &TcpListener, patience: Option<Duration>) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                ensure!(patience.is_none_or(|patience| start.elapsed() < patience), "no program connects");
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

struct Bridge<'a> {
    link: Box<dyn End>,
    program: TcpStream,
    plan: &'a Client,
    /// A request that waits for a place.
    waiting: Option<Vec<u8>>,
    free: Vec<u32>,
    /// Requests by RDMA that the server has, by their numbers.
    flying: HashMap<u64, Flight>,
    /// By their places, those that are answered, with memory that the server still has access to.
    returning: HashMap<u32, (Flight, Vec<u8>)>,
    carried: Carried,
}

struct Flight {
    place: u32,
    token: u32,
    /// Of a read, how many bytes it is about.
    read: Option<u32>,
}

impl Bridge<'_> {
    fn run(&mut self, wake: &Wake) -> Result<()> {
        let requests = messages(&self.program, wake)?;
        loop {
            while let Some(Message { bytes, invalidated }) = self.link.receive() {
                self.answered(bytes, invalidated)?;
            }
            while let Some(done) = self.link.done() {
                let Done::TakenBack(place) = done else { bail!("{done:?} of a client") };
                let (flight, response) = self.returning.remove(&place).context("memory that was not lent")?;
                self.finish(&flight, response)?;
            }
            loop {
                let request = match self.waiting.take() {
                    Some(request) => request,
                    None => match requests.try_recv() {
                        Ok(request) => match request? {
                            Some(request) => request,
                            None => return Ok(()),
                        },
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => return Ok(()),
                    },
                };
                self.waiting = self.pass_on(request)?;
                if self.waiting.is_some() {
                    break;
                }
            }
            self.link.wait().map_err(failed)?;
        }
    }

    /// Passes a request on to the server; gives it back if it has to wait.
    fn pass_on(&mut self, request: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let channel = match self.plan.mode {
            Mode::Inline => None,
            Mode::Rdma => Some(Channel::Rdma),
            Mode::Invalidate => Some(Channel::Invalidate),
        };
        let most = self.link.transfer_size().min(LENGTH);
        let by_rdma = |length| (LEAST_BY_RDMA..=most).contains(&length);
        match (packet::request(&request)?, channel) {
            (Kind::Read { length, rdma: None }, Some(channel)) if by_rdma(length) => {
                let Some(place) = self.free.pop() else { return Ok(Some(request)) };
                let (descriptor, token) = self.link.lend(place, length as usize, Access::Write).named("lending")?;
                self.fly(&request, Flight { place, token, read: Some(length) })?;
                self.send(&packet::read_by_rdma(&request, channel, &descriptor))?;
            }
            (Kind::Write { length, rdma: None }, Some(channel)) if by_rdma(length) => {
                let Some(place) = self.free.pop() else { return Ok(Some(request)) };
                let mut data = packet::written(&request)?.to_vec();
                if self.plan.fault == Some(Fault::Byte) {
                    data[length as usize / 2] ^= 1;
                }
                self.link.fill(place, &data).named("filling")?;
                let (mut descriptor, token) = self.link.lend(place, length as usize, Access::Read).named("lending")?;
                if self.plan.fault == Some(Fault::Token) {
                    descriptor[8] ^= 1;
                }
                self.fly(&request, Flight { place, token, read: None })?;
                self.carried.writes += 1;
                self.carried.written += u64::from(length);
                self.send(&packet::write_by_rdma(&request, channel, &descriptor)?)?;
            }
            _ => self.send(&request)?,
        }
        Ok(None)
    }

    fn fly(&mut self, request: &[u8], flight: Flight) -> Result<()> {
        let before = self.flying.insert(packet::message_id(request)?, flight);
        ensure!(before.is_none(), "two requests with one number");
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.carried.messages += 1;
        self.link.send(message, None).named("a message")
    }

    /// The server says something.
    fn answered(&mut self, response: Vec<u8>, invalidated: Option<u32>) -> Result<()> {
        let flight = packet::answers(&response)?.and_then(|request| self.flying.remove(&request));
        let Some(flight) = flight else {
            ensure!(invalidated.is_none(), "a token is invalidated by a message that is about none");
            return packet::send(&mut self.program, &response);
        };
        match invalidated {
            None => {
                self.link.take_back(flight.place).named("taking memory back")?;
                self.returning.insert(flight.place, (flight, response));
                Ok(())
            }
            Some(token) => {
                ensure!(token == flight.token, "the token of another request is invalidated");
                ensure!(self.plan.mode == Mode::Invalidate, "a token is invalidated, unasked");
                self.carried.invalidated += 1;
                self.finish(&flight, response)
            }
        }
    }

    /// The server has no access any more.
    fn finish(&mut self, flight: &Flight, mut response: Vec<u8>) -> Result<()> {
        if let Some(asked) = flight.read
            && let Some(length) = packet::bytes_by_rdma(&response)?
        {
            ensure!(length <= asked, "{length} bytes of {asked}");
            let mut data = vec![0; length as usize];
            self.link.copy(flight.place, &mut data).named("copying")?;
            self.carried.reads += 1;
            self.carried.read += u64::from(length);
            response = packet::response_inline(&response, &data);
        }
        self.free.push(flight.place);
        packet::send(&mut self.program, &response)
    }
}
