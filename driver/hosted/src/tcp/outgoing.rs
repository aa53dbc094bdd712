//! What goes out: the connect itself, then bytes.

use std::{array, collections::VecDeque, io::ErrorKind};

use mio::net::TcpStream;
use platform::{SENDS, SocketError};

use super::{
    endpoint::Endpoint,
    error,
    request::{Bytes, Ended, Outcome, Request},
    turn,
};

/// A request for what goes out.
pub(super) enum Given {
    Connect(Request),
    Bytes(Request, Bytes),
}

/// What may end at once.
pub(super) type AllEnded = [Option<Ended>; SENDS];

pub(super) struct Outgoing {
    /// Something may go.
    ready: bool,
    /// One after the other.
    waiting: VecDeque<Given>,
    /// Bytes are missing behind those that were sent: nothing may follow.
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

    /// The host says so.
    pub(super) fn becomes_ready(&mut self) {
        self.ready = true;
    }

    /// Ends all that waits.
    pub(super) fn fail(&mut self, error: SocketError) -> AllEnded {
        array::from_fn(|_| self.end(Err(error)))
    }

    /// Tries to get rid of what waits.
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
