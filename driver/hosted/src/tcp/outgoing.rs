//! The outgoing direction of a socket: the connect, then sends.

use std::{array, collections::VecDeque, io::ErrorKind};

use mio::net::TcpStream;
use platform::{SENDS, SocketError};

use super::{
    endpoint::Endpoint,
    error,
    request::{Bytes, Ended, Outcome, Request},
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
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { ready: true, waiting: VecDeque::new(), failed: None }
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

    /// Ends all waiting requests with `error`.
    pub(super) fn fail(&mut self, error: SocketError) -> AllEnded {
        array::from_fn(|_| self.end(Err(error)))
    }

    /// Tries the waiting requests, oldest first.
    pub(super) fn proceed(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> AllEnded {
        array::from_fn(|_| self.proceed_with_first(stream, endpoint))
    }

    fn proceed_with_first(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        if !self.ready {
            return None;
        }
        let outcome = match self.waiting.front_mut()? {
            Given::Connect(_) => endpoint.connected(stream).map(|outcome| outcome.map(|()| 0)),
            Given::Bytes(_, bytes) => match self.failed {
                Some(error) => Some(Err(error)),
                None => match bytes.send(stream) {
                    Ok(()) => {
                        turn::moves(bytes.length());
                        Some(Ok(bytes.length()))
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                    Err(error) => Some(Err(*self.failed.insert(error::of_any(&error)))),
                },
            },
        };
        self.ready = outcome.is_some();
        self.end(outcome?)
    }

    fn end(&mut self, outcome: Outcome) -> Option<Ended> {
        let (Given::Connect(request) | Given::Bytes(request, _)) = self.waiting.pop_front()?;
        Some(request.ends(outcome))
    }
}
