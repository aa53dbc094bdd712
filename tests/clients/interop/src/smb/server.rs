//! Our server of SMB Direct, for a program that serves SMB by TCP.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc::TryRecvError,
};

use anyhow::{Context, Result, bail, ensure};
use ndk_abi::status::STATUS_CONNECTION_DISCONNECTED;
use smb_direct::Done;

use super::{
    Carried, LENGTH, PLACES,
    device::{End, Message, On, Port, Rest, Wake},
    failed, messages, options,
    packet::{self, Channel, Descriptor, Kind},
};
use crate::status::Named;

/// Requests by RDMA that may wait for a place: as many as a client has credits for.
const WAITING: usize = 512;

/// What a server does besides.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Change a byte of what clients read by RDMA.
    pub(crate) corrupt: bool,
    /// Ask for a sign of life after so many seconds without one.
    pub(crate) keepalive: u16,
}

/// A bridge from a port of SMB Direct to a server of TCP.
pub(crate) struct Server {
    port: Port,
    wake: Wake,
    rest: Rest,
    /// Where the other server is.
    program: SocketAddr,
    corrupt: bool,
}

impl Server {
    /// Listens.
    pub(crate) fn new(local: SocketAddr, program: SocketAddr, on: &On, plan: Plan) -> Result<Self> {
        let (port, wake, rest) = on.listen(local, options(plan.keepalive))?;
        Ok(Self { port, wake, rest, program, corrupt: plan.corrupt })
    }

    /// What ends it.
    pub(crate) fn wake(&self) -> Wake {
        self.wake.clone()
    }

    /// Serves one client, until it disconnects.
    pub(crate) fn serve(&self) -> Result<Carried> {
        let link = self.port.accept()?;
        let negotiated = link.negotiate().map_err(failed);
        let free = (0..PLACES).collect();
        let (reading, writing, flying) = (HashMap::new(), HashSet::new(), HashMap::new());
        let (waiting, carried, corrupt) = (VecDeque::new(), Carried::default(), self.corrupt);
        let program = TcpStream::connect(self.program).context("the other server does not answer")?;
        program.set_nodelay(true)?;
        let mut bridge = Bridge { link, program, corrupt, waiting, free, reading, writing, flying, carried };
        let run = negotiated.and_then(|()| bridge.run(&self.wake));
        let Bridge { link, program, mut carried, .. } = bridge;
        carried.keepalives = link.keepalives();
        // Ends the thread that reads there.
        let _gone_before = program.shutdown(Shutdown::Both);
        let closed = link.close().map_err(failed);
        run.and(closed)?;
        Ok(carried)
    }

    /// Ends; no client is served.
    pub(crate) fn close(self) -> Result<()> {
        let Self { port, rest, .. } = self;
        drop(port);
        rest.close()
    }
}

struct Bridge {
    link: Box<dyn End>,
    program: TcpStream,
    corrupt: bool,
    /// Requests by RDMA that wait for a place.
    waiting: VecDeque<Vec<u8>>,
    free: Vec<u32>,
    /// By their places, writes whose data is being read.
    reading: HashMap<u32, (Vec<u8>, Flight)>,
    /// Places that are being written to the client.
    writing: HashSet<u32>,
    /// Requests by RDMA that the other server has, by their numbers.
    flying: HashMap<u64, Flight>,
    carried: Carried,
}

#[derive(Clone, Copy)]
struct Flight {
    place: u32,
    channel: Channel,
    memory: Descriptor,
    is_read: bool,
    length: u32,
}

impl Flight {
    /// The token that its response invalidates.
    fn token(&self) -> Option<u32> {
        (self.channel == Channel::Invalidate).then_some(self.memory.token)
    }
}

impl Bridge {
    fn run(&mut self, wake: &Wake) -> Result<()> {
        let responses = messages(&self.program, wake)?;
        loop {
            while let Some(Message { bytes, invalidated }) = self.link.receive() {
                ensure!(invalidated.is_none(), "a client invalidates a token");
                self.carried.messages += 1;
                self.asked(bytes)?;
            }
            while let Some(done) = self.link.done() {
                self.done(done)?;
            }
            loop {
                match responses.try_recv() {
                    Ok(response) => match response? {
                        Some(response) => self.answered(&response)?,
                        None => bail!("the other server has gone"),
                    },
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => bail!("the other server has gone"),
                }
            }
            while !self.free.is_empty()
                && let Some(request) = self.waiting.pop_front()
            {
                self.asked(request)?;
            }
            match self.link.wait() {
                Ok(()) => {}
                // That is how it ends.
                Err(failure) if failure.status == STATUS_CONNECTION_DISCONNECTED => return Ok(()),
                Err(failure) => return Err(failed(failure)),
            }
        }
    }

    /// The client asks for something.
    fn asked(&mut self, request: Vec<u8>) -> Result<()> {
        let (length, rdma, is_read) = match packet::request(&request)? {
            Kind::Read { length, rdma } => (length, rdma, true),
            Kind::Write { length, rdma } => (length, rdma, false),
            Kind::Other => (0, None, false),
        };
        let Some((channel, memory)) = rdma else { return packet::send(&mut self.program, &request) };
        let most = memory.length.min(LENGTH);
        ensure!((1..=most).contains(&length), "{length} bytes by RDMA of {most}");
        let Some(place) = self.free.pop() else {
            ensure!(self.waiting.len() < WAITING, "{WAITING} requests by RDMA wait");
            self.waiting.push_back(request);
            return Ok(());
        };
        let flight = Flight { place, channel, memory, is_read, length };
        if is_read {
            let request = packet::read_inline(&request);
            return self.fly(&request, flight);
        }
        self.link.read(place, length, (memory.address, memory.token)).named("NdkRead")?;
        self.reading.insert(place, (request, flight));
        Ok(())
    }

    fn fly(&mut self, request: &[u8], flight: Flight) -> Result<()> {
        let before = self.flying.insert(packet::message_id(request)?, flight);
        ensure!(before.is_none(), "two requests with one number");
        packet::send(&mut self.program, request)
    }

    fn done(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Read(place) => {
                let (request, flight) = self.reading.remove(&place).context("a read that nobody wanted")?;
                let mut data = vec![0; flight.length as usize];
                self.link.copy(place, &mut data).named("copying")?;
                self.carried.writes += 1;
                self.carried.written += u64::from(flight.length);
                self.fly(&packet::write_inline(&request, &data), flight)
            }
            Done::Written(place) => {
                ensure!(self.writing.remove(&place), "a write that nobody wanted");
                self.free.push(place);
                Ok(())
            }
            Done::TakenBack(_) => bail!("{done:?} of a server"),
        }
    }

    /// The other server says something.
    fn answered(&mut self, response: &[u8]) -> Result<()> {
        let flight = packet::answers(response)?.and_then(|request| self.flying.remove(&request));
        let Some(flight) = flight else { return self.link.send(response, None).named("a message") };
        self.carried.invalidated += u64::from(flight.token().is_some());
        if flight.is_read
            && let Some(data) = packet::read_data(response)?
        {
            let length = u32::try_from(data.len())?;
            ensure!(length <= flight.length, "{length} bytes of {}", flight.length);
            let mut data = data.to_vec();
            if self.corrupt {
                data[length as usize / 2] ^= 1;
            }
            self.link.fill(flight.place, &data).named("filling")?;
            let (address, token) = (flight.memory.address, flight.memory.token);
            self.link.write(flight.place, length, (address, token)).named("NdkWrite")?;
            self.writing.insert(flight.place);
            self.carried.reads += 1;
            self.carried.read += u64::from(length);
            let response = packet::response_by_rdma(response, data.len());
            return self.link.send(&response, flight.token()).named("a message");
        }
        self.free.push(flight.place);
        self.link.send(response, flight.token()).named("a message")
    }
}
