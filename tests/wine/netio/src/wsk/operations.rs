//! What is under way on sockets. What may wait is begun and ended by the port's thread alone.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kernel::{Shared, status};
use ndk_abi::{
    sockaddr::{SOCKADDR, SOCKADDR_INET},
    status::{
        NTSTATUS, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_RESET, STATUS_INVALID_DEVICE_STATE,
        STATUS_REMOTE_DISCONNECT, STATUS_UNSUCCESSFUL,
    },
};
use windows_sys::Win32::{
    Networking::WinSock::{SOCKET, WSABUF},
    System::IO::OVERLAPPED,
};

use super::{
    client, mdl, port,
    request::Request,
    sends,
    socket::{Kind, Phase, STATUS_CANCELLED, Socket, close_if_idle, make},
    winsock,
};
use crate::lock;

/// An overlapped operation.
#[repr(C)]
pub(super) struct Operation {
    overlapped: OVERLAPPED,
    socket: Arc<Socket>,
    pub(super) request: Request,
    what: What,
}

// SAFETY: pointers of the client, valid until its request is completed.
unsafe impl Send for Operation {}

pub(super) enum What {
    Connect(SOCKADDR_INET),
    Accept(Accept),
    Send { parts: Vec<WSABUF>, sent: usize, now: bool },
    Receive(Vec<WSABUF>),
}

pub(super) struct Accept {
    pub(super) local: *mut SOCKADDR,
    pub(super) remote: *mut SOCKADDR,
    /// The socket-to-be, and room for AcceptEx.
    pub(super) socket: SOCKET,
    pub(super) room: Box<[u8; 2 * winsock::ACCEPT_ADDRESS]>,
}

/// Completes requests, now at DISPATCH_LEVEL, now at PASSIVE_LEVEL. By the port's thread, with no lock held.
pub(super) fn complete(request: Request, status: i32, information: usize) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
        request.complete(status, information);
    } else {
        kernel::at_dispatch(|| request.complete(status, information));
    }
}

/// Ends a request that need not wait: within the call, or soon.
pub(super) fn finish(request: Request, status: i32, information: usize) -> i32 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        request.complete(status, information);
        return status;
    }
    port::post(move || complete(request, status, information));
    status::PENDING
}

/// Has an operation begun, in the order of its kind.
pub(super) fn start(socket: Arc<Socket>, request: Request, what: What) -> i32 {
    let operation = Box::new(Operation { overlapped: OVERLAPPED::default(), socket, request, what });
    port::post(move || queue(operation));
    status::PENDING
}

fn queue(operation: Box<Operation>) {
    let socket = Arc::clone(&operation.socket);
    if !operation.request.allow_cancel() {
        return give_up(*operation, STATUS_CANCELLED);
    }
    let mut state = lock(&socket.state);
    if state.closing.is_some() {
        drop(state);
        return give_up(*operation, STATUS_CANCELLED);
    }
    match operation.what {
        What::Send { .. } => {
            state.sends.push_back(operation);
            if !state.round_trip.is_zero() {
                sends::begun(state.sends.len() + usize::from(state.sending) + state.unacknowledged.len());
            }
        }
        What::Receive(_) => state.receives.push_back(operation),
        What::Connect(_) | What::Accept(_) => {
            drop(state);
            return begin(operation);
        }
    }
    drop(state);
    proceed(&socket);
}

/// Begins what is due of sends and receives, one of each at a time.
pub(super) fn proceed(socket: &Arc<Socket>) {
    loop {
        let mut state = lock(&socket.state);
        let next = if !state.sending && !state.sends.is_empty() {
            state.sending = true;
            state.sends.pop_front()
        } else if !state.receiving && !state.receives.is_empty() {
            state.receiving = true;
            state.receives.pop_front()
        } else {
            None
        };
        let idle = !state.sending && state.sends.is_empty() && state.unacknowledged.is_empty();
        let finishing = if idle { state.finishing.take() } else { None };
        drop(state);
        if let Some(request) = finishing {
            let status = winsock::finish(socket.winsock).err().unwrap_or(status::SUCCESS);
            complete(request, status, 0);
        }
        match next {
            Some(operation) => begin(operation),
            None => return,
        }
    }
}

/// Gives an operation to Winsock.
fn begin(operation: Box<Operation>) {
    let socket = Arc::clone(&operation.socket);
    let number = operation.request.number();
    let raw = Box::into_raw(operation);
    lock(&socket.state).in_flight.push((number, Shared(raw)));
    let overlapped = raw.cast::<OVERLAPPED>();
    // SAFETY: it lives until it has ended, which this thread learns after this.
    let what = unsafe { &mut (*raw).what };
    let begun = match what {
        What::Connect(address) => {
            let length = winsock::address_length(address.si_family()).unwrap_or(0);
            // SAFETY: as above.
            unsafe { winsock::connect(socket.winsock, (&raw const *address).cast(), length, overlapped) }
        }
        What::Accept(accept) => winsock::stream(socket.family).and_then(|accepted| {
            accept.socket = accepted;
            // SAFETY: as above.
            unsafe { winsock::accept(socket.winsock, accepted, accept.room.as_mut_ptr().cast(), overlapped) }
        }),
        What::Send { parts, now, .. } => {
            let undelayed = *now && !std::mem::replace(&mut lock(&socket.state).no_delay, true);
            let delay = if undelayed { winsock::no_delay(socket.winsock) } else { Ok(()) };
            // SAFETY: as above; the client's bytes are valid until the request is completed.
            delay.and_then(|()| unsafe { winsock::send(socket.winsock, parts, overlapped) })
        }
        // SAFETY: as above.
        What::Receive(parts) => unsafe { winsock::receive(socket.winsock, parts, overlapped) },
    };
    if let Err(status) = begun {
        // SAFETY: not begun, so Winsock does not have it.
        end(*unsafe { Box::from_raw(raw) }, status, 0);
    }
}

/// An operation has ended, as the port says.
///
/// # Safety
/// `overlapped` is that of an operation of `begin`, once.
pub(super) unsafe fn ended(overlapped: *mut OVERLAPPED, bytes: usize) {
    // SAFETY: the first field of an operation that `begin` gave away.
    let operation = unsafe { Box::from_raw(overlapped.cast::<Operation>()) };
    let status = operation.overlapped.Internal as i32;
    end(*operation, status, bytes);
}

fn end(mut operation: Operation, status: i32, bytes: usize) {
    let socket = Arc::clone(&operation.socket);
    let number = operation.request.number();
    let mut state = lock(&socket.state);
    state.in_flight.retain(|(other, _)| *other != number);
    let closing = state.closing.is_some();
    match &mut operation.what {
        What::Connect(_) => {
            let result = if status == status::SUCCESS { winsock::connected(socket.winsock) } else { Err(status) };
            state.phase = if result.is_ok() { Phase::Connected } else { Phase::Bound };
            state.round_trip = winsock::round_trip(socket.winsock);
            drop(state);
            complete(operation.request, result.err().unwrap_or(status::SUCCESS), 0);
        }
        What::Accept(_) => {
            drop(state);
            accepted(&socket, operation, if closing { STATUS_CANCELLED } else { status });
        }
        What::Send { parts, sent, .. } => {
            *sent += bytes;
            let sent = *sent;
            mdl::advance(parts, bytes);
            let more = status == status::SUCCESS && !parts.is_empty();
            if more && !closing {
                drop(state);
                return begin(Box::new(Operation { overlapped: OVERLAPPED::default(), ..operation }));
            }
            state.sending = false;
            let status = if more { STATUS_CANCELLED } else { status };
            if status == status::SUCCESS && !closing && !state.round_trip.is_zero() {
                state.unacknowledged.push_back((operation.request, sent));
                let (round_trip, socket) = (state.round_trip, Arc::clone(&socket));
                drop(state);
                sends::after(round_trip, move || acknowledged(&socket));
            } else {
                drop(state);
                complete(operation.request, status, if status == status::SUCCESS { sent } else { 0 });
            }
        }
        What::Receive(_) => {
            state.receiving = false;
            state.peer_finished |= status == status::SUCCESS && bytes == 0;
            drop(state);
            complete(operation.request, status, bytes);
        }
    }
    proceed(&socket);
    close_if_idle(&socket);
}

/// The peer has what was sent by the oldest send that waits for that. A close may have ended it.
fn acknowledged(socket: &Arc<Socket>) {
    let oldest = lock(&socket.state).unacknowledged.pop_front();
    if let Some((request, sent)) = oldest {
        complete(request, status::SUCCESS, sent);
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
        NTSTATUS(STATUS_CANCELLED),
        STATUS_REMOTE_DISCONNECT,
    ];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STATUSES[NEXT.fetch_add(1, Ordering::Relaxed) % STATUSES.len()].0
}

/// A connection has come for a listener, or none.
fn accepted(listener: &Arc<Socket>, operation: Operation, status: i32) {
    let Operation { request, what: What::Accept(accept), .. } = operation else { return };
    let give_up = |status| {
        if accept.socket != 0 {
            winsock::close(accept.socket, true);
        }
        status
    };
    let result = if status == status::SUCCESS { Ok(()) } else { Err(status) };
    let addresses = result
        .and_then(|()| winsock::accepted(listener.winsock, accept.socket))
        .and_then(|()| Ok((winsock::address(accept.socket, true)?, winsock::address(accept.socket, false)?)))
        .map_err(|status| if result.is_ok() { gone() } else { status });
    let (local, remote) = match addresses {
        Ok(addresses) => addresses,
        Err(status) => return complete(request, give_up(status), 0),
    };
    let length = winsock::address_length(listener.family).unwrap_or(0) as usize;
    for (place, address) in [(accept.local, local), (accept.remote, remote)] {
        if !place.is_null() {
            // SAFETY: the client's places, for an address of the listener's family.
            unsafe { place.cast::<u8>().copy_from((&raw const address).cast(), length) };
        }
    }
    client::accepted(listener.client);
    let socket = make(Kind::Connection, listener.family, listener.client, accept.socket, Phase::Connected);
    complete(request, status::SUCCESS, socket as usize);
}

/// Ends an operation that Winsock does not have.
pub(super) fn give_up(operation: Operation, status: i32) {
    complete(operation.request, status, 0);
}
