//! The incoming direction of a socket: received bytes, or the connections of a listener.

use std::{
    io::{self, ErrorKind, Read},
    net::SocketAddr,
    sync::Arc,
};

use mio::net::{TcpListener, TcpStream};
use platform::{SHARED, SocketError};

use super::{
    endpoint::Endpoint,
    error,
    request::{Ended, Outcome, Request, Room},
    shared_memory::{Receiver, Shared, Wants},
    turn,
};

/// The reads of 64 bells each, in one call of `hear`, after which the peer counts as one that floods this side.
const MOST_BELLS: u32 = 64;

/// The receive or accept that waits.
pub(super) enum Wanted {
    Bytes(Request, Room),
    Connection(Request, Arc<Endpoint>),
}

/// An accepted connection that its endpoint does not own yet.
pub(super) struct Accepted {
    pub(super) request: Request,
    pub(super) into: Arc<Endpoint>,
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
}

pub(super) struct Incoming {
    /// The host may have bytes or a connection.
    ready: bool,
    /// The host has received the peer's last byte, or the connection is dead. The host reports this only once.
    closed: bool,
    /// A receive has returned 0: the peer has finished.
    ended: bool,
    waiting: Option<Wanted>,
    path: Path,
    /// The bytes that were received by TCP, without bells.
    by_tcp: u64,
    /// The outgoing direction is to be told of a bell, of the end of TCP, or that `path` has changed.
    tells: bool,
}

/// How bytes come.
enum Path {
    Tcp,
    /// By TCP, unless the peer accepts the memory before its first byte.
    Offered(Arc<Shared>),
    /// By shared memory, after what the peer has sent by TCP before.
    Shared(SharedPath),
}

struct SharedPath {
    shared: Arc<Shared>,
    /// `None` while bytes are shown, or after the peer has written a position that cannot be.
    receiver: Option<Receiver>,
    /// The stream has all bytes that came by TCP.
    is_past_tcp: bool,
    /// The end of TCP, once it has come; `Failed`: of the memory.
    end: Option<Outcome>,
}

impl SharedPath {
    fn new(shared: Arc<Shared>) -> Self {
        let receiver = Receiver::new(shared.clone());
        let end = receiver.is_none().then_some(Err(SocketError::Failed));
        Self { receiver, shared, is_past_tcp: false, end }
    }
}

impl Default for Incoming {
    fn default() -> Self {
        Self { ready: true, closed: false, ended: false, waiting: None, path: Path::Tcp, by_tcp: 0, tells: false }
    }
}

impl Incoming {
    pub(super) fn wait_for(&mut self, wanted: Wanted) {
        self.waiting = Some(wanted);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The host reports that the socket is ready.
    pub(super) fn becomes_ready(&mut self, closed: bool) {
        self.ready = true;
        self.closed |= closed;
    }

    /// Whether a receive has reported that the peer has finished.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Cancels the request that waits.
    pub(super) fn cancel(&mut self) -> Option<Ended> {
        self.end(Err(SocketError::Canceled))
    }

    /// Cancels the waiting accept if it is for `endpoint`.
    pub(super) fn cancel_for(&mut self, endpoint: &Arc<Endpoint>) -> Option<Ended> {
        let is_its = matches!(&self.waiting, Some(Wanted::Connection(_, into)) if Arc::ptr_eq(into, endpoint));
        if is_its { self.cancel() } else { None }
    }

    /// This side, which has connected, has offered memory.
    pub(super) fn offer(&mut self, shared: Arc<Shared>) {
        self.path = Path::Offered(shared);
    }

    /// This side has accepted the peer's memory.
    pub(super) fn share(&mut self, shared: Arc<Shared>) {
        self.path = Path::Shared(SharedPath::new(shared));
    }

    /// The memory through which bytes come.
    pub(super) fn shared(&self) -> Option<&Arc<Shared>> {
        if let Path::Shared(path) = &self.path { Some(&path.shared) } else { None }
    }

    /// Begins to show bytes in shared memory: up to the returned position. [`Incoming::end_show`] ends it.
    pub(super) fn begin_show(&mut self) -> Option<(Receiver, u64)> {
        let Path::Shared(path) = &mut self.path else { return None };
        if !path.is_past_tcp {
            return None;
        }
        let receiver = path.receiver.take()?;
        Some((receiver, path.shared.show()))
    }

    /// `None`: the peer has written a position that cannot be.
    pub(super) fn end_show(&mut self, receiver: Option<Receiver>) {
        let Path::Shared(path) = &mut self.path else { return };
        if receiver.is_none() {
            path.end = Some(Err(SocketError::Failed));
            self.tells = true;
        }
        path.receiver = receiver;
    }

    /// Tries the receive that waits.
    pub(super) fn receive(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        let Some(Wanted::Bytes(request, mut room)) = self.waiting.take_if(|wanted| matches!(wanted, Wanted::Bytes(..)))
        else {
            self.hear(stream, endpoint);
            return None;
        };
        let outcome = self.receive_into(&mut room, stream, endpoint);
        if let Some(outcome) = outcome {
            turn::moves(outcome.ok().filter(|&count| count != SHARED).unwrap_or(0));
            self.ended |= outcome == Ok(0);
            return Some(request.ends(outcome));
        }
        self.waiting = Some(Wanted::Bytes(request, room));
        None
    }

    fn receive_into(&mut self, room: &mut Room, stream: &TcpStream, endpoint: &Endpoint) -> Option<Outcome> {
        if let Path::Offered(shared) = &self.path {
            let shared = shared.clone();
            let mut end = None;
            if !shared.is_accepted() {
                let outcome = self.receive_by_tcp(room, stream, endpoint)?;
                self.tells = true;
                if shared.refuse() {
                    self.path = Path::Tcp;
                    return Some(outcome);
                }
                // The peer accepted before it sent these bytes: they are bells.
                self.by_tcp = 0;
                end = Some(outcome).filter(|outcome| !matches!(outcome, Ok(1..)));
            }
            self.tells = true;
            let mut path = SharedPath::new(shared);
            path.end = path.end.or(end);
            self.path = Path::Shared(path);
        }
        if self.shared().is_some_and(|shared| shared.by_tcp() != Some(self.by_tcp)) {
            let before = self.by_tcp;
            let outcome = self.receive_by_tcp(room, stream, endpoint);
            // Known as soon as there is a bell.
            let by_tcp = self.shared().and_then(|shared| shared.by_tcp());
            self.tells |= by_tcp.is_some();
            self.by_tcp = by_tcp.map_or(self.by_tcp, |by_tcp| self.by_tcp.min(by_tcp));
            match outcome {
                Some(Ok(1..)) if self.by_tcp > before => return Some(Ok((self.by_tcp - before) as usize)),
                _ if by_tcp != Some(self.by_tcp) => return outcome,
                Some(Ok(1..)) | None => {}
                Some(_) => self.note_end(outcome),
            }
        }
        if let Path::Shared(path) = &mut self.path {
            path.is_past_tcp = true;
            self.hear(stream, endpoint);
            self.await_bytes(endpoint)
        } else {
            self.receive_by_tcp(room, stream, endpoint)
        }
    }

    fn note_end(&mut self, outcome: Option<Outcome>) {
        if let Path::Shared(path) = &mut self.path {
            path.end = outcome;
        }
    }

    /// `None`: there is nothing, and the host will report the socket ready.
    fn receive_by_tcp(&mut self, room: &mut Room, stream: &TcpStream, endpoint: &Endpoint) -> Option<Outcome> {
        if !self.ready {
            return None;
        }
        let outcome = of_tcp(room.receive(stream), stream, endpoint);
        self.by_tcp += outcome.and_then(Result::ok).unwrap_or(0) as u64;
        // Fewer bytes than the room holds: the host has no more, and reports the socket ready when more arrive. On Windows (mio)
        // it does so only after a receive that returned WouldBlock.
        self.ready = match outcome {
            Some(Ok(count)) => self.closed || count == room.length() || cfg!(windows),
            Some(Err(_)) => true,
            None => false,
        };
        outcome
    }

    /// Takes the bells from TCP, and notes its end.
    fn hear(&mut self, mut stream: &TcpStream, endpoint: &Endpoint) {
        let Path::Shared(SharedPath { shared, end, .. }) = &mut self.path else { return };
        if !self.ready || end.is_some() || shared.by_tcp() != Some(self.by_tcp) {
            return;
        }
        self.tells = true;
        for _ in 0..MOST_BELLS {
            match of_tcp(stream.read(&mut [0; 64]), stream, endpoint) {
                Some(Ok(1..)) => {}
                Some(outcome) => {
                    *end = Some(outcome);
                    return;
                }
                None => {
                    self.ready = false;
                    return;
                }
            }
        }
        *end = Some(Err(SocketError::Failed));
    }

    /// Whether the outgoing direction is to be told of something, and whether the connection through memory is dead.
    pub(super) fn take_tells(&mut self) -> Option<bool> {
        let is_dead = matches!(&self.path, Path::Shared(SharedPath { end: Some(_), .. }));
        // Until that has gone over to the memory.
        let must_switch = self.shared().is_some_and(|shared| !shared.may_ring());
        (std::mem::take(&mut self.tells) || must_switch).then_some(is_dead)
    }

    /// Whether shared memory has bytes that were not shown, or the connection has ended. `None`: neither, and there will be a bell, or the reactor
    /// looks.
    fn await_bytes(&mut self, endpoint: &Endpoint) -> Option<Outcome> {
        // TCP was heard before: what the peer has written before its end is there then.
        let Path::Shared(SharedPath { shared, end, .. }) = &self.path else { return None };
        for asked in [false, true] {
            // Before the ring: what the peer has written before it finished is there then.
            let is_finished = shared.is_finished();
            let is_lost = match end {
                Some(Err(SocketError::Failed)) => return Some(Err(SocketError::Reset)),
                // The close of a peer that has finished may be a reset, too, if it has not heard all bells.
                Some(Err(_)) => !is_finished,
                Some(Ok(_)) | None => false,
            };
            if shared.has_bytes() && !is_lost {
                return Some(Ok(SHARED));
            }
            if is_finished {
                shared.show_finish();
                return Some(Ok(0));
            }
            if let Some(end) = *end {
                return Some(end.and(Err(SocketError::Reset)));
            }
            if asked || endpoint.is_looked_at() {
                return None;
            }
            shared.want(Wants::Data);
        }
        None
    }

    /// Tries the accept that waits. Returns its request to the caller, which may make the request wait again.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Option<Result<Accepted, Ended>> {
        while self.ready && matches!(self.waiting, Some(Wanted::Connection(..))) {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let Some(Wanted::Connection(request, into)) = self.waiting.take() else { return None };
                    return Some(Ok(Accepted { request, into, stream, peer }));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.ready = false,
                // The new connection is lost, and no longer in the host's queue.
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => return self.end(Err(error::of_any(&error))).map(Err),
            }
        }
        None
    }

    fn end(&mut self, outcome: Outcome) -> Option<Ended> {
        let (Wanted::Bytes(request, _) | Wanted::Connection(request, _)) = self.waiting.take()?;
        Some(request.ends(outcome))
    }
}

/// The outcome of a receive of the host's socket; `None`: it would block.
fn of_tcp(received: io::Result<usize>, stream: &TcpStream, endpoint: &Endpoint) -> Option<Outcome> {
    match received {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => Some(Err(error::of_any(&error))),
        // The host reports a reset once: if a send has returned it, a receive returns 0, and the socket has no peer.
        Ok(0) if !endpoint.is_shut() && stream.peer_addr().is_err() => Some(Err(SocketError::Reset)),
        Ok(count) => Some(Ok(count)),
    }
}

/// Whether an error of an accept concerns the new connection, not the listener: accept(2) of Linux returns the
/// connection's pending error. On Windows WSAECONNRESET is such an error, but WSAENETDOWN says that the network subsystem has failed.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::PermissionDenied
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::TimedOut
    ) || error.kind() == ErrorKind::NetworkDown && !cfg!(windows)
}
