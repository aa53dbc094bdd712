//! A socket, and what is on its way to it.

use std::{collections::VecDeque, net::SocketAddr};

use super::{At, Request, Socket, addresses::NONE};

/// What makes a socket.
#[derive(Clone, Copy)]
pub(super) enum Start {
    Connect { local: SocketAddr, remote: SocketAddr },
    Listen { local: SocketAddr },
    Accept { listener: u64 },
}

/// Bytes of a request.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) request: At<Request>,
    pub(super) bytes: At<u8>,
    pub(super) length: usize,
    /// So many of those to be sent are on their way.
    pub(super) taken: usize,
}

pub(super) struct Sock {
    /// None: nobody has accepted it yet.
    pub(super) storage: Option<At<Socket>>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// It has its local address for itself.
    pub(super) bound: bool,
    pub(super) connected: bool,
    pub(super) listens: bool,
    /// The socket of the other end; it may be gone.
    pub(super) peer: u64,

    pub(super) starting: Option<(At<Request>, Start)>,
    /// In the order of their bytes.
    pub(super) sending: VecDeque<Transfer>,
    /// The send whose call has not returned.
    pub(super) send_called: Option<usize>,
    /// A send has failed: so do all after it.
    pub(super) send_failed: bool,
    pub(super) receiving: Option<Transfer>,
    pub(super) finishing: Option<At<Request>>,
    pub(super) closing: Option<At<Request>>,
    /// It is being closed, and listens still.
    pub(super) stopping: bool,
    /// Requests whose routines were not entered, but for the closing one.
    pub(super) requests: usize,
    /// Calls that have not returned.
    pub(super) calls: usize,

    /// It sends no more.
    pub(super) finished: bool,
    /// The connection was reset.
    pub(super) dead: bool,
    /// What is on its way here, and what comes behind it.
    pub(super) arriving: VecDeque<u8>,
    pub(super) end_arriving: bool,
    pub(super) reset_arriving: bool,
    /// What is here, and whether there is no more.
    pub(super) arrived: VecDeque<u8>,
    pub(super) end_arrived: bool,

    /// Of a listener: connections that nobody has accepted, and who accepts the next.
    pub(super) backlog: VecDeque<u64>,
    pub(super) accepting: Option<u64>,
}

impl Sock {
    pub(super) fn new(storage: Option<At<Socket>>) -> Self {
        Self {
            storage,
            local: NONE,
            remote: NONE,
            bound: false,
            connected: false,
            listens: false,
            peer: 0,
            starting: None,
            sending: VecDeque::new(),
            send_called: None,
            send_failed: false,
            receiving: None,
            finishing: None,
            closing: None,
            stopping: false,
            requests: 0,
            calls: 0,
            finished: false,
            dead: false,
            arriving: VecDeque::new(),
            end_arriving: false,
            reset_arriving: false,
            arrived: VecDeque::new(),
            end_arrived: false,
            backlog: VecDeque::new(),
            accepting: None,
        }
    }

    /// Takes its requests off, but for the closing one.
    pub(super) fn take_requests(&mut self) -> impl Iterator<Item = At<Request>> {
        let starting = self.starting.take().map(|(request, _)| request);
        let sending = std::mem::take(&mut self.sending).into_iter().map(|transfer| transfer.request);
        let receiving = self.receiving.take().map(|transfer| transfer.request);
        sending.chain([starting, receiving, self.finishing.take()].into_iter().flatten())
    }

    /// Bytes that are on their way, or here.
    pub(super) fn in_flight(&self) -> usize {
        self.arriving.len() + self.arrived.len()
    }
}
