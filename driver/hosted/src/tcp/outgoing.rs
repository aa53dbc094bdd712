//! What goes out: the connect itself, then bytes.

use std::io::ErrorKind;

use mio::net::TcpStream;
use platform::SocketError;

use super::{
    endpoint::Endpoint,
    error,
    request::{Bytes, Ended, Outcome, Request},
};

/// A request for what goes out.
pub(super) enum Given {
    Connect(Request),
    Bytes(Request, Bytes),
}

pub(super) struct Outgoing {
    /// Something may go.
    ready: bool,
    waiting: Option<Given>,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { ready: true, waiting: None }
    }
}

impl Outgoing {
    pub(super) fn wait_for(&mut self, given: Given) {
        self.waiting = Some(given);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The host says so.
    pub(super) fn becomes_ready(&mut self) {
        self.ready = true;
    }

    /// Ends the request that waits.
    pub(super) fn fail(&mut self, error: SocketError) -> Option<Ended> {
        self.end(Err(error))
    }

    /// Tries to get rid of what waits.
    pub(super) fn proceed(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Option<Ended> {
        if !self.ready {
            return None;
        }
        let outcome = match self.waiting.as_mut()? {
            Given::Connect(_) => endpoint.connected(stream).map(|outcome| outcome.map(|()| 0)),
            Given::Bytes(_, bytes) => match bytes.send(stream) {
                Ok(()) => Some(Ok(bytes.length())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(error) => Some(Err(error::of_any(&error))),
            },
        };
        self.ready = outcome.is_some();
        self.end(outcome?)
    }

    fn end(&mut self, outcome: Outcome) -> Option<Ended> {
        let (Given::Connect(request) | Given::Bytes(request, _)) = self.waiting.take()?;
        Some(request.ends(outcome))
    }
}
