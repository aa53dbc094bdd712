//! Sockets.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use kernel::{Shared, object, status, violation};
use ndk_abi::wsk::WSK_SOCKET;
use windows_sys::Win32::Networking::WinSock::SOCKET;

use super::{
    client, entries,
    operations::{Operation, complete, give_up},
    port,
    request::Request,
    winsock,
};
use crate::lock;

pub(super) const STATUS_CANCELLED: i32 = 0xC000_0120_u32.cast_signed();
pub(super) const STATUS_DEVICE_NOT_READY: i32 = 0xC000_00A3_u32.cast_signed();
const SOCKET_OBJECT: &str = "WSK socket";

/// What a socket is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Listener,
    Connection,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Made,
    /// A listener listens.
    Bound,
    Connecting,
    Connected,
}

/// A socket. The client has the address of its head.
#[repr(C)]
pub(super) struct Socket {
    head: WSK_SOCKET,
    pub(super) kind: Kind,
    pub(super) family: u16,
    pub(super) client: usize,
    pub(super) winsock: SOCKET,
    /// Calls of its functions that have not returned.
    pub(super) calls: AtomicU32,
    pub(super) state: Mutex<State>,
}

// SAFETY: the head is constant; all else may go to any thread.
unsafe impl Send for Socket {}
// SAFETY: as above.
unsafe impl Sync for Socket {}

pub(super) struct State {
    pub(super) phase: Phase,
    /// Operations that Winsock has.
    pub(super) in_flight: Vec<(u64, Shared<Operation>)>,
    /// What waits for the one before, by kind.
    pub(super) sends: VecDeque<Box<Operation>>,
    pub(super) receives: VecDeque<Box<Operation>>,
    pub(super) sending: bool,
    /// After how long the peer has what is sent.
    pub(super) round_trip: Duration,
    /// What Winsock has taken, and the peer has not: the request, and how many bytes.
    pub(super) unacknowledged: VecDeque<(Request, usize)>,
    pub(super) receiving: bool,
    /// The end of sending that waits for the sends before.
    pub(super) finishing: Option<Request>,
    pub(super) finished: bool,
    pub(super) peer_finished: bool,
    pub(super) no_delay: bool,
    pub(super) closing: Option<Request>,
    /// The port's thread has come to it: what was called before is known.
    closes: bool,
}

/// The sockets, by the address that the client has.
static SOCKETS: Mutex<BTreeMap<usize, Arc<Socket>>> = Mutex::new(BTreeMap::new());

/// A socket that is not closed.
pub(super) fn find(socket: *mut WSK_SOCKET) -> Option<Arc<Socket>> {
    lock(&SOCKETS).get(&(socket as usize)).cloned()
}

/// Makes a socket of Winsock's one of WSK's.
pub(super) fn make(kind: Kind, family: u16, client: usize, winsock: SOCKET, phase: Phase) -> *mut WSK_SOCKET {
    port::watch(winsock);
    let state = State {
        phase,
        in_flight: Vec::new(),
        sends: VecDeque::new(),
        receives: VecDeque::new(),
        sending: false,
        round_trip: if phase == Phase::Connected { winsock::round_trip(winsock) } else { Duration::ZERO },
        unacknowledged: VecDeque::new(),
        receiving: false,
        finishing: None,
        finished: false,
        peer_finished: false,
        no_delay: false,
        closing: None,
        closes: false,
    };
    let head = WSK_SOCKET { Dispatch: entries::of(kind) };
    let calls = AtomicU32::new(0);
    let socket = Arc::new(Socket { head, kind, family, client, winsock, calls, state: Mutex::new(state) });
    let name = Arc::as_ptr(&socket) as usize;
    lock(&SOCKETS).insert(name, socket);
    object(SOCKET_OBJECT, 1);
    name as *mut WSK_SOCKET
}

/// The client cancels a request: it ends soon, if it is found. By the port's thread.
pub(super) fn cancel(number: u64) {
    let sockets: Vec<_> = lock(&SOCKETS).values().cloned().collect();
    for socket in sockets {
        let mut state = lock(&socket.state);
        if let Some((_, operation)) = state.in_flight.iter().find(|(other, _)| *other == number) {
            let operation = operation.get().cast();
            drop(state);
            return winsock::cancel(socket.winsock, operation);
        }
        let place = |waiting: &VecDeque<Box<Operation>>| {
            waiting.iter().position(|operation| operation.request.number() == number)
        };
        let waiting = if let Some(place) = place(&state.sends) {
            state.sends.remove(place)
        } else {
            place(&state.receives).and_then(|place| state.receives.remove(place))
        };
        drop(state);
        if let Some(operation) = waiting {
            return give_up(*operation, STATUS_CANCELLED);
        }
    }
}

/// Closes a socket, as `closing` wants: first all else on it ends. By the port's thread.
pub(super) fn close(socket: &Arc<Socket>) {
    let mut state = lock(&socket.state);
    state.closes = true;
    let waiting: Vec<_> =
        std::mem::take(&mut state.sends).into_iter().chain(std::mem::take(&mut state.receives)).collect();
    let unacknowledged = std::mem::take(&mut state.unacknowledged);
    let finishing = state.finishing.take();
    let any = !state.in_flight.is_empty();
    drop(state);
    for operation in waiting {
        give_up(*operation, STATUS_CANCELLED);
    }
    for request in unacknowledged.into_iter().map(|(request, _)| request).chain(finishing) {
        complete(request, STATUS_CANCELLED, 0);
    }
    if any {
        winsock::cancel(socket.winsock, std::ptr::null_mut());
    }
    close_if_idle(socket);
}

pub(super) fn close_if_idle(socket: &Arc<Socket>) {
    let mut state = lock(&socket.state);
    if !state.closes || !state.in_flight.is_empty() {
        return;
    }
    let Some(request) = state.closing.take() else { return };
    let both_finished = state.finished && state.peer_finished;
    drop(state);
    winsock::close(socket.winsock, socket.kind == Kind::Connection && !both_finished);
    lock(&SOCKETS).remove(&(Arc::as_ptr(socket) as usize));
    object(SOCKET_OBJECT, -1);
    let client = socket.client;
    complete(request, status::SUCCESS, 0);
    client::closed(client);
}

/// Notes that a function of a socket is being called.
pub(super) struct Call(Arc<Socket>);

impl Call {
    pub(super) fn enter(socket: &Arc<Socket>) -> Self {
        socket.calls.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(socket))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A rule of a socket's states that was broken.
pub(super) fn misuse(function: &str, socket: &Socket, phase: Phase) {
    violation(&format!("{function}: the {:?} is {phase:?}", socket.kind));
}
