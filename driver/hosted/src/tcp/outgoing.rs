//! The outgoing direction of a socket: the connect, then sends.

use std::{
    array,
    collections::VecDeque,
    io::{self, ErrorKind},
    sync::Arc,
};

use mio::net::TcpStream;
use platform::{SENDS, SocketError};

use super::{
    endpoint::Endpoint,
    error,
    request::{Bytes, Ended, Outcome, Request},
    shared_memory::{Sender, Shared, Wants},
    turn,
};

/// A connect or send that waits.
pub(super) enum Given {
    Connect(Request),
    Bytes(Request, Bytes),
}

/// The requests that one call may end.
pub(super) type AllEnded = [Option<Ended>; SENDS];

pub(super) struct Outgoing {
    /// The host may take bytes, or may have a result of the connect.
    ready: bool,
    /// The waiting requests, oldest first.
    waiting: VecDeque<Given>,
    /// A send has failed and its bytes are missing, so no later bytes may be sent.
    failed: Option<SocketError>,
    path: Path,
    /// The bytes that were sent by TCP, without bells.
    by_tcp: u64,
}

/// How bytes go.
enum Path {
    Tcp,
    /// By TCP, unless the peer has offered memory before the first byte.
    Accepted,
    /// By TCP until the peer accepts the memory.
    Offered(Arc<Shared>),
    /// `None` while room is shown, or after the peer has written a position that cannot be.
    Shared(Arc<Shared>, Option<Sender>),
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { ready: true, waiting: VecDeque::new(), failed: None, path: Path::Tcp, by_tcp: 0 }
    }
}

impl Outgoing {
    pub(super) fn wait_for(&mut self, given: Given) {
        self.waiting.push_back(given);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The host reports that the socket is ready.
    pub(super) fn becomes_ready(&mut self) {
        self.ready = true;
    }

    /// This side has accepted the connection.
    pub(super) fn is_accepted(&mut self) {
        self.path = Path::Accepted;
    }

    /// Tells the peer that no more bytes follow. Through memory, if the connection has it: TCP goes on with the bells.
    pub(super) fn finish(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> io::Result<()> {
        if let Path::Offered(shared) = &self.path
            && shared.refuse()
        {
            self.path = Path::Tcp;
        }
        self.accept_offer(endpoint);
        self.switch(stream);
        if let Path::Shared(shared, _) = &self.path {
            shared.finish();
            shared.wake(Wants::Data, stream);
            return Ok(());
        }
        endpoint.shut(stream)
    }

    /// Begins to show room in shared memory. [`Outgoing::end_fill`] ends it. `None`: bytes go by TCP, or the connection is dead.
    pub(super) fn begin_fill(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Sender> {
        self.accept_offer(endpoint);
        self.switch(stream);
        match &mut self.path {
            Path::Shared(_, sender) if self.failed.is_none() => sender.take(),
            _ => None,
        }
    }

    /// `None`: the peer has written a position that cannot be.
    pub(super) fn end_fill(&mut self, sender: Option<Sender>, stream: &TcpStream) {
        let Path::Shared(shared, own) = &mut self.path else { return };
        shared.wake(Wants::Data, stream);
        if sender.is_none() {
            self.failed = Some(SocketError::Reset);
        }
        *own = sender;
    }

    /// The incoming direction has read a bell or the end of the connection, or its path has changed.
    pub(super) fn is_told(&mut self, is_dead: bool, stream: &TcpStream, endpoint: &Endpoint) -> AllEnded {
        if is_dead && matches!(self.path, Path::Shared(..)) {
            self.failed.get_or_insert(SocketError::Reset);
        }
        self.ready = true;
        self.proceed(stream, endpoint)
    }

    /// Ends all waiting requests with `error`.
    pub(super) fn fail(&mut self, error: SocketError) -> AllEnded {
        array::from_fn(|_| self.end(Err(error)))
    }

    /// Tries the waiting requests, oldest first.
    pub(super) fn proceed(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> AllEnded {
        let ended = array::from_fn(|_| self.proceed_with_first(stream, endpoint));
        self.switch(stream);
        ended
    }

    fn proceed_with_first(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        if !self.ready {
            return None;
        }
        let outcome = match self.waiting.front_mut()? {
            Given::Connect(_) => self.connected(stream, endpoint).map(|outcome| outcome.map(|()| 0)),
            Given::Bytes(..) => match self.failed {
                Some(error) => Some(Err(error)),
                None => match self.send(stream, endpoint)? {
                    Ok(length) => {
                        turn::moves(length);
                        Some(Ok(length))
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                    Err(error) => Some(Err(*self.failed.insert(error::of_any(&error)))),
                },
            },
        };
        self.ready = outcome.is_some();
        self.end(outcome?)
    }

    fn connected(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Result<(), SocketError>> {
        let connected = endpoint.connected(stream)?;
        if connected.is_ok()
            && let Some(shared) = endpoint.offer()
        {
            self.path = Path::Offered(shared);
        }
        Some(connected)
    }

    fn share(&mut self, shared: Arc<Shared>, by_tcp: u64) {
        let sender = Sender::new(shared.clone(), by_tcp);
        if sender.is_none() {
            self.failed = Some(SocketError::Reset);
        }
        self.path = Path::Shared(shared, sender);
    }

    /// Before the first byte of an accepted connection.
    fn accept_offer(&mut self, endpoint: &Endpoint) {
        if matches!(self.path, Path::Accepted) {
            self.path = Path::Tcp;
            if let Some(shared) = endpoint.accept_offer() {
                self.share(shared, 0);
            }
        }
    }

    /// Goes over to the memory that this side has offered, if the peer has accepted it and no send waits.
    pub(super) fn switch(&mut self, stream: &TcpStream) {
        let Path::Offered(shared) = &self.path else { return };
        if shared.is_accepted() && self.waiting.is_empty() {
            let shared = shared.clone();
            self.share(shared.clone(), self.by_tcp);
            // What this side has read before.
            shared.wake(Wants::Room, stream);
        } else if shared.is_refused() {
            self.path = Path::Tcp;
        }
    }

    /// Sends the bytes of the first send, or looks whether shared memory has the room that it awaits.
    fn send(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<io::Result<usize>> {
        let Some(Given::Bytes(_, bytes)) = self.waiting.front_mut() else { return None };
        let length = bytes.length();
        if let Path::Shared(shared, sender) = &mut self.path {
            // What was written before this side went over to shared memory.
            let mut try_to = || match sender {
                _ if length == 0 => Some(shared.has_room()),
                Some(sender) => sender.send(bytes.rest()).map(|written| written.count == length),
                None => None,
            };
            let mut is_sent = try_to();
            if is_sent == Some(false) && !endpoint.is_looked_at() {
                shared.want(Wants::Room);
                is_sent = try_to();
            }
            shared.wake(Wants::Data, stream);
            return Some(match is_sent {
                Some(true) => Ok(length),
                Some(false) => {
                    shared.note_full();
                    Err(ErrorKind::WouldBlock.into())
                }
                None => Err(ErrorKind::ConnectionReset.into()),
            });
        }
        if matches!(self.path, Path::Accepted) {
            self.path = Path::Tcp;
        }
        Some(bytes.send(stream).map(|()| {
            self.by_tcp += length as u64;
            length
        }))
    }

    fn end(&mut self, outcome: Outcome) -> Option<Ended> {
        let (Given::Connect(request) | Given::Bytes(request, _)) = self.waiting.pop_front()?;
        Some(request.ends(outcome))
    }
}
