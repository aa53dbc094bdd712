//! What comes in: bytes, or the connections of a listener.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
};

use mio::net::{TcpListener, TcpStream};
use platform::SocketError;

use super::{
    endpoint::Endpoint,
    error,
    request::{Ended, Outcome, Request, Room},
    turn,
};

/// A request for what comes in.
pub(super) enum Wanted {
    Bytes(Request, Room),
    Connection(Request, Arc<Endpoint>),
}

/// A connection for an endpoint, which has nothing of it yet.
pub(super) struct Accepted {
    pub(super) request: Request,
    pub(super) into: Arc<Endpoint>,
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
}

pub(super) struct Incoming {
    /// There may be something.
    ready: bool,
    /// Nothing more comes than what is there, or the connection is dead: the host tells that once only.
    closed: bool,
    /// The peer's end was received.
    ended: bool,
    waiting: Option<Wanted>,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { ready: true, closed: false, ended: false, waiting: None }
    }
}

impl Incoming {
    pub(super) fn wait_for(&mut self, wanted: Wanted) {
        self.waiting = Some(wanted);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The host says so.
    pub(super) fn becomes_ready(&mut self, closed: bool) {
        self.ready = true;
        self.closed |= closed;
    }

    /// The peer has finished, and that was told.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the request that waits.
    pub(super) fn cancel(&mut self) -> Option<Ended> {
        self.end(Err(SocketError::Canceled))
    }

    /// Ends the accept that waits, if it is the endpoint's.
    pub(super) fn cancel_for(&mut self, endpoint: &Arc<Endpoint>) -> Option<Ended> {
        let is_its = matches!(&self.waiting, Some(Wanted::Connection(_, into)) if Arc::ptr_eq(into, endpoint));
        if is_its { self.cancel() } else { None }
    }

    /// Tries to receive what a request waits for.
    pub(super) fn receive(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        let Some(Wanted::Bytes(_, room)) = self.waiting.as_mut().filter(|_| self.ready) else { return None };
        let outcome = match room.receive(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                return None;
            }
            Err(error) => Err(error::of_any(&error)),
            // A send may have been told of the reset before: then the host has forgotten it.
            Ok(0) if !endpoint.has_finished() && stream.peer_addr().is_err() => Err(SocketError::Reset),
            Ok(count) => {
                turn::moves(count);
                self.ended |= count == 0;
                // Less than there was room for: nothing is left, and the host tells of what comes after. On Windows it does not
                // until it was asked in vain (mio).
                self.ready = self.closed || count == room.length() || cfg!(windows);
                Ok(count)
            }
        };
        self.end(outcome)
    }

    /// Tries to accept the connection that a request waits for. The request is the caller's then; it may wait again.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Option<Result<Accepted, Ended>> {
        while self.ready && matches!(self.waiting, Some(Wanted::Connection(..))) {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let Some(Wanted::Connection(request, into)) = self.waiting.take() else { return None };
                    return Some(Ok(Accepted { request, into, stream, peer }));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.ready = false,
                // One that is gone: it is not in the host's queue any more.
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

/// Not of the listener: accept(2) of Linux passes on what has become of the connection. WSAECONNRESET is the same on Windows.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::PermissionDenied
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::TimedOut
    )
}
