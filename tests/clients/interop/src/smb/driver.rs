//! The link of the test consumer in softndk.sys: `ndharness agent`, under Wine, passes the control requests on.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use conformance::{
    File, Transport,
    agent::{Agent, Other},
};
use ndk_abi::{
    describe::ZeroInit,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::*,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_CANCELLED, STATUS_IO_TIMEOUT, STATUS_PENDING, STATUS_SUCCESS},
};
use smb_direct::{Access, Done, Failure, Options, Step};
use zerocopy::{FromBytes, IntoBytes};

use super::device::{End, Message};
use crate::side::Playing;

/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(45);
/// The driver is asked so often for what has come.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes that one request carries to or from a place.
const PART: usize = 256 << 10;
/// Room for most messages, and for all.
const ROOMS: [usize; 2] = [16 << 10, 1 << 20];

/// The consumer in the driver.
pub(crate) struct Consumer(Other);

impl Consumer {
    /// Starts the agent, which ends when the consumer is gone: `program` is ndharness, and how it is started.
    pub(crate) fn start(program: &[String]) -> Result<(Self, Playing)> {
        let mut agent = Playing::start(program, &["agent".to_owned()])?;
        let address: SocketAddr = agent.until("serving at ")?.parse()?;
        // It wants a folder for memory of requests, of which these have none.
        let connected = Agent::connect(address, r"C:\".to_owned()).context("the agent")?;
        Ok((Self(Other::boot(Arc::new(connected))), agent))
    }

    /// A file, whose link is connected from an address.
    pub(super) fn connect(
        &self,
        (local, server): (IpAddr, SocketAddr),
        options: Options,
        wake: &Wake,
    ) -> Result<Link, Failure> {
        let (local, remote) = (SOCKADDR_INET::new((local, 0).into()), SOCKADDR_INET::new(server));
        let connect = SOFTNDK_TEST_LINK { Local: local, Remote: remote, ..make(SOFTNDK_TEST_LINK_CONNECT, options) };
        let link = self.open(wake)?;
        link.step(&connect, Step::Connect)?;
        Ok(link)
    }

    /// A file that listens.
    pub(super) fn listen(&self, local: SocketAddr, options: Options, wake: &Wake) -> Result<Link, Failure> {
        let listen = SOFTNDK_TEST_LINK { Local: SOCKADDR_INET::new(local), ..make(SOFTNDK_TEST_LINK_LISTEN, options) };
        let link = self.open(wake)?;
        link.step(&listen, Step::Prepare)?;
        Ok(link)
    }

    fn open(&self, wake: &Wake) -> Result<Link, Failure> {
        let file = self.0.open().map_err(|status| Failure { step: Step::Prepare, status })?;
        Ok(Link { file: file.into(), wake: wake.clone(), incoming: Mutex::default() })
    }
}

fn ask(operation: u32) -> SOFTNDK_TEST_LINK {
    SOFTNDK_TEST_LINK { Version: SOFTNDK_IOCTL_VERSION, Operation: operation, ..ZeroInit::ZERO }
}

fn make(operation: u32, Options { places, length, keepalive }: Options) -> SOFTNDK_TEST_LINK {
    SOFTNDK_TEST_LINK { Place: places, Length: length, Keepalive: keepalive, ..ask(operation) }
}

/// What wakes the thread that has a link.
#[derive(Clone, Default)]
pub(crate) struct Wake(Arc<(Mutex<Rung>, Condvar)>);

#[derive(Default)]
struct Rung {
    rung: bool,
    stopped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake {
    pub(super) fn ring(&self) {
        lock(&self.0.0).rung = true;
        self.0.1.notify_all();
    }

    pub(super) fn stop(&self) {
        lock(&self.0.0).stopped = true;
        self.ring();
    }

    /// Waits a moment; whether it has rung since the last time.
    fn pause(&self) -> Result<bool, Failure> {
        let (mut state, _) = self
            .0
            .1
            .wait_timeout_while(lock(&self.0.0), PAUSE, |state| !state.rung)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Err(Failure { step: Step::Stopped, status: STATUS_CANCELLED });
        }
        Ok(std::mem::take(&mut state.rung))
    }
}

/// A file with a link, or with a port and perhaps the link that came by it.
pub(super) struct Link {
    file: Arc<dyn File>,
    wake: Wake,
    incoming: Mutex<Incoming>,
}

/// What has come and is not taken yet.
#[derive(Default)]
struct Incoming {
    messages: VecDeque<Message>,
    done: VecDeque<Done>,
    keepalives: u64,
    transfer_size: u32,
}

impl Link {
    /// Accepts a client: the link is that of the same file.
    pub(super) fn accept(&self) -> Result<Self, Failure> {
        self.until_done(SOFTNDK_TEST_LINK_ACCEPT, Step::Connect)?;
        Ok(Self { file: self.file.clone(), wake: self.wake.clone(), incoming: Mutex::default() })
    }

    fn ask(
        &self,
        ask: &SOFTNDK_TEST_LINK,
        bytes: &[u8],
        room: usize,
    ) -> Result<(SOFTNDK_TEST_LINK_RESULT, Vec<u8>), NTSTATUS> {
        let input = [ask.as_bytes(), bytes].concat();
        let length = size_of::<SOFTNDK_TEST_LINK_RESULT>() + room;
        let completion = self.file.submit(IOCTL_SOFTNDK_TEST_LINK, &input, length).wait(PATIENCE);
        let completion = completion.ok_or(STATUS_IO_TIMEOUT)?;
        if completion.status != STATUS_SUCCESS {
            return Err(completion.status);
        }
        let (result, bytes) = SOFTNDK_TEST_LINK_RESULT::read_from_prefix(&completion.output).expect("a result");
        assert_eq!(result.Length as usize, bytes.len(), "the bytes of {ask:?}");
        Ok((result, bytes.to_vec()))
    }

    /// Asks for something of which a refusal fails that step.
    fn step(&self, ask: &SOFTNDK_TEST_LINK, step: Step) -> Result<SOFTNDK_TEST_LINK_RESULT, Failure> {
        let (result, _) = self.ask(ask, &[], 0).map_err(|status| Failure { step, status })?;
        if result.Status.is_success() { Ok(result) } else { Err(failure(&result)) }
    }

    fn until_done(&self, operation: u32, step: Step) -> Result<SOFTNDK_TEST_LINK_RESULT, Failure> {
        loop {
            let result = self.step(&ask(operation), step)?;
            if result.Status != STATUS_PENDING {
                return Ok(result);
            }
            self.wake.pause()?;
        }
    }

    fn next(&self) -> Result<(SOFTNDK_TEST_LINK_RESULT, Vec<u8>), NTSTATUS> {
        let [first, all] = ROOMS;
        match self.ask(&ask(SOFTNDK_TEST_LINK_NEXT), &[], first) {
            Err(STATUS_BUFFER_TOO_SMALL) => self.ask(&ask(SOFTNDK_TEST_LINK_NEXT), &[], all),
            answer => answer,
        }
    }
}

fn failure(result: &SOFTNDK_TEST_LINK_RESULT) -> Failure {
    Failure { step: Step::from_number(result.Step).expect("a step"), status: result.Status }
}

/// Of a place, with what it is about.
fn of_place(operation: u32, place: u32, length: usize, (address, token): (u64, u32)) -> SOFTNDK_TEST_LINK {
    let length = u32::try_from(length).expect("no longer than a place");
    SOFTNDK_TEST_LINK { Place: place, Length: length, Address: address, Token: token, ..ask(operation) }
}

impl End for Link {
    fn negotiate(&self) -> Result<(), Failure> {
        let negotiated = self.until_done(SOFTNDK_TEST_LINK_NEGOTIATE, Step::Negotiate)?;
        lock(&self.incoming).transfer_size = u32::try_from(negotiated.Value).unwrap_or(u32::MAX);
        Ok(())
    }

    fn wait(&self) -> Result<(), Failure> {
        loop {
            let step = Step::Transport;
            let (result, bytes) = self.next().map_err(|status| Failure { step, status })?;
            let mut incoming = lock(&self.incoming);
            incoming.keepalives += result.Value;
            match result.Kind {
                SOFTNDK_TEST_LINK_MESSAGE => {
                    let invalidated = (result.Place == 1).then_some(result.Token);
                    incoming.messages.push_back(Message { bytes, invalidated });
                }
                SOFTNDK_TEST_LINK_TAKEN_BACK => incoming.done.push_back(Done::TakenBack(result.Place)),
                SOFTNDK_TEST_LINK_HAS_READ => incoming.done.push_back(Done::Read(result.Place)),
                SOFTNDK_TEST_LINK_HAS_WRITTEN => incoming.done.push_back(Done::Written(result.Place)),
                _ if !result.Status.is_success() => return Err(failure(&result)),
                _ => {
                    drop(incoming);
                    if !self.wake.pause()? {
                        continue;
                    }
                }
            }
            return Ok(());
        }
    }

    fn receive(&self) -> Option<Message> {
        lock(&self.incoming).messages.pop_front()
    }

    fn done(&self) -> Option<Done> {
        lock(&self.incoming).done.pop_front()
    }

    fn send(&self, message: &[u8], invalidate: Option<u32>) -> Result<(), NTSTATUS> {
        let (access, token) = (invalidate.is_some().into(), invalidate.unwrap_or(0));
        let send = SOFTNDK_TEST_LINK { Access: access, Token: token, ..ask(SOFTNDK_TEST_LINK_SEND) };
        self.ask(&send, message, 0).map(drop)
    }

    fn transfer_size(&self) -> u32 {
        lock(&self.incoming).transfer_size
    }

    fn keepalives(&self) -> u64 {
        std::mem::take(&mut lock(&self.incoming).keepalives)
    }

    fn lend(&mut self, place: u32, length: usize, access: Access) -> Result<([u8; 16], u32), NTSTATUS> {
        let access = match access {
            Access::Read => 1,
            Access::Write => 2,
        };
        let lend = SOFTNDK_TEST_LINK { Access: access, ..of_place(SOFTNDK_TEST_LINK_LEND, place, length, (0, 0)) };
        let (result, descriptor) = self.ask(&lend, &[], 16)?;
        Ok((descriptor.try_into().expect("a descriptor"), result.Token))
    }

    fn take_back(&self, place: u32) -> Result<(), NTSTATUS> {
        self.ask(&of_place(SOFTNDK_TEST_LINK_TAKE_BACK, place, 0, (0, 0)), &[], 0).map(drop)
    }

    fn read(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS> {
        self.ask(&of_place(SOFTNDK_TEST_LINK_READ, place, length as usize, memory), &[], 0).map(drop)
    }

    fn write(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS> {
        self.ask(&of_place(SOFTNDK_TEST_LINK_WRITE, place, length as usize, memory), &[], 0).map(drop)
    }

    fn fill(&self, place: u32, bytes: &[u8]) -> Result<(), NTSTATUS> {
        for (number, part) in bytes.chunks(PART).enumerate() {
            let at = (number * PART) as u64;
            self.ask(&of_place(SOFTNDK_TEST_LINK_FILL, place, 0, (at, 0)), part, 0)?;
        }
        Ok(())
    }

    fn copy(&self, place: u32, bytes: &mut [u8]) -> Result<(), NTSTATUS> {
        for (number, part) in bytes.chunks_mut(PART).enumerate() {
            let at = (number * PART) as u64;
            let (_, copied) =
                self.ask(&of_place(SOFTNDK_TEST_LINK_COPY, place, part.len(), (at, 0)), &[], part.len())?;
            part.copy_from_slice(&copied);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.step(&ask(SOFTNDK_TEST_LINK_CLOSE), Step::Disconnect).map(drop)
    }
}
