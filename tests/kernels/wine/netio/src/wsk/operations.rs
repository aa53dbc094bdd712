//! What is under way on sockets. The thread of the socket's kind begins, ends and cancels what may wait (`port.rs`), or the call begins and
//! ends it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kernel::status;
use ndk_abi::{
    sockaddr::{SOCKADDR, SOCKADDR_INET},
    status::{
        NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_RESET, STATUS_INVALID_DEVICE_STATE,
        STATUS_REMOTE_DISCONNECT, STATUS_UNSUCCESSFUL,
    },
};

use super::{
    client,
    datagrams::{self, Events},
    linux::{self, File, Part},
    mdl, port,
    request::Request,
    sends,
    socket::{Job, Kind, Phase, Socket, State, make},
};
use crate::lock;

/// A request that may wait.
pub(super) struct Operation {
    request: Request,
    what: What,
}

// SAFETY: pointers of the client, valid until its request is completed.
unsafe impl Send for Operation {}

pub(super) enum What {
    Connect(SOCKADDR_INET),
    Accept(Accept),
    Send { parts: Vec<Part>, sent: usize, now: bool },
    Receive(Vec<Part>),
    SendMessages(Messages),
}

/// What WskSendMessages is to send.
pub(super) struct Messages {
    /// The messages that Linux has not taken.
    pub(super) messages: VecDeque<Vec<Part>>,
    /// Bytes of each datagram into which a message is divided.
    pub(super) size: Option<u32>,
    pub(super) sent: usize,
    pub(super) to: SOCKADDR_INET,
}

/// Where the client wants the addresses.
pub(super) struct Accept {
    pub(super) local: *mut SOCKADDR,
    pub(super) remote: *mut SOCKADDR,
}

/// What is under way on a socket; those of one kind one after the other.
#[derive(Default)]
pub(super) struct UnderWay {
    /// A connect, or accepts.
    starts: VecDeque<Operation>,
    sends: VecDeque<Operation>,
    receives: VecDeque<Operation>,
    /// Sends whose bytes Linux has taken, and which the peer counts as not having yet: the request, and its bytes.
    unacknowledged: VecDeque<(Request, usize)>,
    /// The end of sending that waits for the sends before.
    pub(super) finishing: Option<Request>,
}

impl UnderWay {
    /// Whether this has nothing to wait for.
    fn is_first(&self, what: &What) -> bool {
        match what {
            What::Connect(_) | What::Accept(_) => self.starts.is_empty(),
            What::Receive(_) => self.receives.is_empty(),
            What::SendMessages(_) => self.sends.is_empty(),
            What::Send { .. } => self.sends.is_empty() && self.unacknowledged.is_empty() && self.finishing.is_none(),
        }
    }

    fn push(&mut self, operation: Operation, round_trip: Duration) {
        match operation.what {
            What::Connect(_) | What::Accept(_) => self.starts.push_back(operation),
            What::Receive(_) => self.receives.push_back(operation),
            What::SendMessages(_) => self.sends.push_back(operation),
            What::Send { .. } => {
                self.sends.push_back(operation);
                if !round_trip.is_zero() {
                    sends::begun(self.sends.len() + self.unacknowledged.len());
                }
            }
        }
    }

    /// All of it, sends in the order in which they began.
    pub(super) fn take(&mut self) -> Vec<Request> {
        let Self { starts, sends, receives, unacknowledged, finishing } = std::mem::take(self);
        let sent = unacknowledged.into_iter().map(|(request, _)| request);
        let waiting = starts.into_iter().chain(sends).chain(receives).map(|operation| operation.request);
        sent.chain(waiting).chain(finishing).collect()
    }

    /// The operation with this number, if it is there.
    pub(super) fn take_one(&mut self, number: u64) -> Option<Request> {
        [&mut self.starts, &mut self.sends, &mut self.receives].into_iter().find_map(|operations| {
            let place = operations.iter().position(|operation| operation.request.number() == number)?;
            operations.remove(place).map(|operation| operation.request)
        })
    }
}

/// Ends a request that need not wait: within the call, or soon, by the thread on which the close of its socket comes behind it.
pub(super) fn finish(request: Request, status: i32, information: usize) -> i32 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        request.complete(status, information);
        return status;
    }
    port::post(request.kind, move || request.complete(status, information));
    status::PENDING
}

/// Has an operation begun, in the order of its kind. One in three, of datagrams two, is begun within the call, and may end in it, if nothing
/// comes before it.
pub(super) fn start(socket: Arc<Socket>, request: Request, what: What) -> i32 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let operation = Operation { request, what };
    let is_third = COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
    let within = is_third != matches!(operation.what, What::SendMessages(_));
    let mut state = lock(&socket.state);
    let first = state.jobs == 0 && state.under_way.is_first(&operation.what);
    if within && first && !state.closing && state.dead.is_none() && operation.request.allow_cancel() {
        let ended_one = match operation.what {
            What::Connect(_) | What::Accept(_) => start_ended,
            What::Send { .. } => send_ended,
            What::Receive(_) => receive_ended,
            What::SendMessages(_) => datagrams_ended,
        };
        let round_trip = state.round_trip;
        state.under_way.push(operation, round_trip);
        let ended = ended_one(&socket, &mut state);
        let is_dead = state.dead.is_some();
        drop(state);
        if is_dead {
            let socket = Arc::clone(&socket);
            port::post(socket.kind, move || proceed(&socket));
        }
        return ended.map_or(status::PENDING, |ended| ended.tell(&socket));
    }
    drop(state);
    let job = Job::begin(&socket);
    port::post(socket.kind, move || queue(&job.0, operation));
    status::PENDING
}

/// Has the end of sending begun, behind the sends that were started before it.
pub(super) fn start_finish(socket: Arc<Socket>, request: Request) -> i32 {
    let job = Job::begin(&socket);
    port::post(socket.kind, move || {
        let mut state = lock(&job.0.state);
        if state.closing {
            drop(state);
            return request.complete(STATUS_CANCELLED.0, 0);
        }
        state.under_way.finishing = Some(request);
        drop(state);
        proceed(&job.0);
    });
    status::PENDING
}

fn queue(socket: &Arc<Socket>, operation: Operation) {
    // Under the lock: a cancel from now on finds it.
    let mut state = lock(&socket.state);
    if !operation.request.allow_cancel() || state.closing {
        drop(state);
        return operation.request.complete(STATUS_CANCELLED.0, 0);
    }
    let round_trip = state.round_trip;
    state.under_way.push(operation, round_trip);
    drop(state);
    proceed(socket);
}

/// Goes on with what is under way, as far as the system lets it, and with datagrams that have come.
pub(super) fn proceed(socket: &Arc<Socket>) {
    go_on(socket);
    if socket.kind == Kind::Datagram {
        datagrams::indicate(socket);
    }
}

fn go_on(socket: &Arc<Socket>) {
    let _job = Job::begin(socket);
    loop {
        let mut state = lock(&socket.state);
        let ended = start_ended(socket, &mut state)
            .or_else(|| dead_ended(&mut state))
            .or_else(|| send_ended(socket, &mut state))
            .or_else(|| datagrams_ended(socket, &mut state))
            .or_else(|| finished(socket, &mut state))
            .or_else(|| receive_ended(socket, &mut state));
        drop(state);
        let Some(ended) = ended else { return };
        ended.tell(socket);
    }
}

/// What has ended.
enum Ended {
    /// A request: its status, and its bytes.
    Request(Request, i32, usize),
    Accept(Request, Accept, Result<File, i32>),
    /// A send, but that the peer has it only after so long.
    Sent(Duration),
}

impl Ended {
    /// Tells the client, with no lock held; what its request has ended with.
    fn tell(self, socket: &Arc<Socket>) -> i32 {
        match self {
            Self::Request(request, status, information) => {
                request.complete(status, information);
                status
            }
            Self::Accept(request, accept, accepted) => {
                let (status, accepted) = accepted_socket(socket, &accept, accepted);
                request.complete(status, accepted);
                status
            }
            // The peer has it later.
            Self::Sent(after) => {
                let socket = Arc::clone(socket);
                sends::after(after, move || acknowledged(&socket));
                status::PENDING
            }
        }
    }
}

fn start_ended(socket: &Socket, state: &mut State) -> Option<Ended> {
    match &state.under_way.starts.front()?.what {
        What::Connect(address) => {
            let connected = linux::connect(socket.file, *address).transpose()?;
            state.phase = if connected.is_ok() { Phase::Connected } else { Phase::Bound };
            state.round_trip = linux::round_trip(socket.file);
            let request = state.under_way.starts.pop_front()?.request;
            Some(Ended::Request(request, connected.err().unwrap_or(status::SUCCESS), 0))
        }
        _ => {
            let accepted = linux::accept(socket.file).transpose()?;
            let Operation { request, what: What::Accept(accept) } = state.under_way.starts.pop_front()? else {
                return None;
            };
            Some(Ended::Accept(request, accept, accepted))
        }
    }
}

/// The connection has ended by an error: so does all that is under way, the oldest send first.
fn dead_ended(state: &mut State) -> Option<Ended> {
    let status = state.dead?;
    let UnderWay { sends, receives, unacknowledged, finishing, .. } = &mut state.under_way;
    let sent = unacknowledged.pop_front().map(|(request, _)| request);
    let waiting = || sends.pop_front().or_else(|| receives.pop_front()).map(|operation| operation.request);
    let request = sent.or_else(waiting).or_else(|| finishing.take())?;
    Some(Ended::Request(request, status, 0))
}

fn send_ended(socket: &Socket, state: &mut State) -> Option<Ended> {
    let State { under_way, no_delay, round_trip, dead, .. } = state;
    let What::Send { parts, sent, now } = &mut under_way.sends.front_mut()?.what else { return None };
    let changes = std::mem::replace(no_delay, *now) != *now;
    let mut result = if changes { linux::no_delay(socket.file, *now) } else { Ok(()) };
    while result.is_ok() && !parts.is_empty() {
        // SAFETY: the client's bytes are valid until the request is completed.
        match unsafe { linux::send(socket.file, parts) }.transpose()? {
            Ok(bytes) => {
                *sent += bytes;
                mdl::advance(parts, bytes);
            }
            Err(status) => result = Err(status),
        }
    }
    let sent = *sent;
    let request = under_way.sends.pop_front()?.request;
    match result {
        Ok(()) if !round_trip.is_zero() => {
            under_way.unacknowledged.push_back((request, sent));
            Some(Ended::Sent(*round_trip))
        }
        Ok(()) => Some(Ended::Request(request, status::SUCCESS, sent)),
        Err(status) => {
            *dead = Some(status);
            Some(Ended::Request(request, status, 0))
        }
    }
}

/// A datagram that Linux does not take leaves the socket as it was, and ends its list.
fn datagrams_ended(socket: &Socket, state: &mut State) -> Option<Ended> {
    let What::SendMessages(Messages { messages, size, sent, to }) = &mut state.under_way.sends.front_mut()?.what else {
        return None;
    };
    let mut result = Ok(());
    while let Some(parts) = messages.front_mut() {
        // SAFETY: the client's bytes are valid until the request is completed.
        match unsafe { linux::udp::send(socket.file, parts, *size, *to) }.transpose()? {
            Ok(bytes) => {
                *sent += bytes;
                mdl::advance(parts, bytes);
                if parts.is_empty() {
                    messages.pop_front();
                }
            }
            Err(status) => {
                result = Err(status);
                break;
            }
        }
    }
    let sent = *sent;
    let request = state.under_way.sends.pop_front()?.request;
    Some(match result {
        Ok(()) => Ended::Request(request, status::SUCCESS, sent),
        Err(status) => Ended::Request(request, status, 0),
    })
}

/// The end of sending, once all else is sent.
fn finished(socket: &Socket, state: &mut State) -> Option<Ended> {
    if !state.under_way.sends.is_empty() || !state.under_way.unacknowledged.is_empty() {
        return None;
    }
    let request = state.under_way.finishing.take()?;
    // Of a connection that was reset it says no more than that there is none.
    let finished = linux::finish(socket.file).map_err(|error| linux::error(socket.file).err().unwrap_or(error));
    state.shut_down = finished.is_ok();
    state.dead = finished.err();
    Some(Ended::Request(request, finished.err().unwrap_or(status::SUCCESS), 0))
}

fn receive_ended(socket: &Socket, state: &mut State) -> Option<Ended> {
    let What::Receive(parts) = &state.under_way.receives.front()?.what else { return None };
    // SAFETY: the client's bytes are valid until the request is completed.
    let received = unsafe { linux::receive(socket.file, parts) }.transpose()?;
    state.peer_finished |= received == Ok(0);
    state.dead = received.err();
    let request = state.under_way.receives.pop_front()?.request;
    Some(match received {
        Ok(bytes) => Ended::Request(request, status::SUCCESS, bytes),
        Err(status) => Ended::Request(request, status, 0),
    })
}

/// The peer has what was sent by the oldest send that waits for that, or the connection has ended. A close may have ended the send.
fn acknowledged(socket: &Arc<Socket>) {
    let _job = Job::begin(socket);
    let mut state = lock(&socket.state);
    if !state.under_way.unacknowledged.is_empty() && state.dead.is_none() {
        state.dead = linux::error(socket.file).err();
    }
    let oldest = if state.dead.is_none() { state.under_way.unacknowledged.pop_front() } else { None };
    drop(state);
    if let Some((request, sent)) = oldest {
        request.complete(status::SUCCESS, sent);
    }
    proceed(socket);
}

/// What an accept says of a connection that was reset before it: no page says what WSK does, so that a client has to live with anything.
fn gone() -> i32 {
    const STATUSES: [NTSTATUS; 6] = [
        STATUS_CONNECTION_RESET,
        STATUS_CONNECTION_ABORTED,
        STATUS_UNSUCCESSFUL,
        STATUS_INVALID_DEVICE_STATE,
        STATUS_CANCELLED,
        STATUS_REMOTE_DISCONNECT,
    ];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STATUSES[NEXT.fetch_add(1, Ordering::Relaxed) % STATUSES.len()].0
}

/// A connection has come for a listener, or none: what its accept ends with, and the socket.
fn accepted_socket(listener: &Socket, accept: &Accept, accepted: Result<File, i32>) -> (i32, usize) {
    let file = match accepted {
        Ok(file) => file,
        Err(status) => return (status, 0),
    };
    let addresses = linux::address(file, true).and_then(|local| Ok((local, linux::address(file, false)?)));
    let Ok((local, remote)) = addresses else {
        linux::close(file, true);
        return (gone(), 0);
    };
    let length = linux::address_length(listener.family).unwrap_or(0);
    for (place, address) in [(accept.local, local), (accept.remote, remote)] {
        if !place.is_null() {
            // SAFETY: the client's places, for an address of the listener's family.
            unsafe { place.cast::<u8>().copy_from((&raw const address).cast(), length) };
        }
    }
    client::gets_socket(listener.client);
    let socket = make(Kind::Connection, listener.family, listener.client, file, Phase::Connected, Events::NONE);
    (status::SUCCESS, socket as usize)
}
