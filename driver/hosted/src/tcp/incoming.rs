//! The incoming direction of a socket: received bytes, or the connections of a listener.

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

    /// Tries the receive that waits.
    pub(super) fn receive(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        let Some(Wanted::Bytes(_, room)) = self.waiting.as_mut().filter(|_| self.ready) else { return None };
        let outcome = match room.receive(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                return None;
            }
            Err(error) => Err(error::of_any(&error)),
            // The host reports a reset once: if a send has returned it, a receive returns 0, and the socket has no
            // peer.
            Ok(0) if !endpoint.has_finished() && stream.peer_addr().is_err() => Err(SocketError::Reset),
            Ok(count) => {
                turn::moves(count);
                self.ended |= count == 0;
                // Fewer bytes than the room holds: the host has no more, and reports the socket ready when more arrive.
                // On Windows (mio) it does so only after a receive that returned WouldBlock.
                self.ready = self.closed || count == room.length() || cfg!(windows);
                Ok(count)
            }
        };
        self.end(outcome)
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
