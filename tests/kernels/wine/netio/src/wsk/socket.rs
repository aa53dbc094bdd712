//! Sockets.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use kernel::{object, status, violation};
use ndk_abi::{status::STATUS_CANCELLED, wsk::WSK_SOCKET};

use super::{
    client,
    datagrams::{self, Datagrams, Events},
    entries,
    linux::{self, File},
    operations::{self, UnderWay},
    port,
    request::Request,
};
use crate::lock;

const SOCKET_OBJECT: &str = "WSK socket";

/// What a socket is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Listener,
    Connection,
    Datagram,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Listener, Self::Connection, Self::Datagram];
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

/// A socket.
pub(super) struct Socket {
    /// The address of what the client has of it.
    name: usize,
    pub(super) kind: Kind,
    pub(super) family: u16,
    pub(super) client: usize,
    pub(super) file: File,
    pub(super) events: Events,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) under_way: UnderWay,
    /// After how long the peer has what is sent.
    pub(super) round_trip: Duration,
    /// The client has called WskDisconnect.
    pub(super) finished: bool,
    /// The peer is told of the end of what was sent.
    pub(super) shut_down: bool,
    pub(super) peer_finished: bool,
    /// The error by which the connection has ended. Linux tells of it once; all later requests end with it.
    pub(super) dead: Option<i32>,
    pub(super) no_delay: bool,
    pub(super) closing: bool,
    pub(super) datagrams: Datagrams,
    /// Calls of its functions that have not returned.
    pub(super) calls: u32,
    /// What threads have to do for it, or are doing.
    pub(super) jobs: u32,
}

/// The sockets, by their names.
static SOCKETS: Mutex<BTreeMap<usize, Arc<Socket>>> = Mutex::new(BTreeMap::new());

/// The addresses with a port of their choice to which clients have bound sockets, by the names of those. Linux would give one to several
/// sockets that do not listen, as it may give one again whose connections have not gone yet.
static BOUND: Mutex<BTreeMap<usize, SocketAddr>> = Mutex::new(BTreeMap::new());

impl Socket {
    /// Takes an address for it, until it is closed or cannot be bound. False: another one has it.
    pub(super) fn take_address(&self, address: SocketAddr) -> bool {
        let mut bound = lock(&BOUND);
        let free = bound.values().all(|taken| *taken != address);
        if free {
            bound.insert(self.name, address);
        }
        free
    }

    /// Has the thread of its kind go on with it, unless a close comes first.
    pub(super) fn proceed_soon(&self) {
        let name = self.name;
        port::post(self.kind, move || proceed(name));
    }

    /// Makes it a socket of a network namespace, before it is bound.
    pub(super) fn enter(&self, namespace: &str) -> Result<(), i32> {
        let (kind, family) = (self.kind, self.family);
        linux::enter(self.file, namespace, move || open(kind, family))?;
        port::watch(kind, self.file, self.name);
        Ok(())
    }

    /// Gives its address back.
    pub(super) fn give_address(&self) {
        lock(&BOUND).remove(&self.name);
    }
}

/// A socket that is not closed.
pub(super) fn find(socket: *mut WSK_SOCKET) -> Option<Arc<Socket>> {
    lock(&SOCKETS).get(&(socket as usize)).cloned()
}

/// A socket of the system's.
pub(super) fn open(kind: Kind, family: u16) -> Result<File, i32> {
    if kind == Kind::Datagram { linux::udp::socket(family) } else { linux::stream(family) }
}

/// Makes a socket of the system's one of WSK's.
pub(super) fn make(
    kind: Kind,
    family: u16,
    client: usize,
    file: File,
    phase: Phase,
    events: Events,
) -> *mut WSK_SOCKET {
    let state = State {
        phase,
        under_way: UnderWay::default(),
        round_trip: if phase == Phase::Connected { linux::round_trip(file) } else { Duration::ZERO },
        finished: false,
        shut_down: false,
        peer_finished: false,
        dead: None,
        no_delay: false,
        closing: false,
        datagrams: Datagrams::default(),
        calls: 0,
        jobs: 0,
    };
    // For ever: no later socket has its name, so that a use after the close is always noticed.
    let head = Box::leak(Box::new(WSK_SOCKET { Dispatch: entries::of(kind) }));
    let name = (&raw mut *head).expose_provenance();
    let socket = Arc::new(Socket { name, kind, family, client, file, events, state: Mutex::new(state) });
    lock(&SOCKETS).insert(name, socket);
    object(SOCKET_OBJECT, 1);
    port::watch(kind, file, name);
    head
}

/// A socket can go on, or could, and may be closed. By the thread of its kind, as what follows.
pub(super) fn proceed(name: usize) {
    let socket = lock(&SOCKETS).get(&name).cloned();
    if let Some(socket) = socket {
        operations::proceed(&socket);
    }
}

/// The client cancels a request: it ends soon, if it is found. By the thread of its kind, so that a close of the socket
/// comes before or behind all of it.
pub(super) fn cancel(number: u64) {
    let sockets: Vec<_> = lock(&SOCKETS).values().cloned().collect();
    let found = sockets.iter().find_map(|socket| lock(&socket.state).under_way.take_one(number));
    if let Some(request) = found {
        request.complete(STATUS_CANCELLED.0, 0);
    }
}

/// Closes a socket: first all else on it ends. By the thread of its kind, so that what was called before is known.
pub(super) fn close(socket: &Arc<Socket>, request: Request) {
    let mut state = lock(&socket.state);
    let under_way = state.under_way.take();
    let both_finished = state.shut_down && state.peer_finished;
    drop(state);
    for request in under_way {
        request.complete(STATUS_CANCELLED.0, 0);
    }
    datagrams::end(socket);
    linux::close(socket.file, socket.kind == Kind::Connection && !both_finished);
    socket.give_address();
    lock(&SOCKETS).remove(&socket.name);
    object(SOCKET_OBJECT, -1);
    let client = socket.client;
    request.complete(status::SUCCESS, 0);
    client::closed(client);
}

/// Notes that a function of a socket is being called.
pub(super) struct Call(Arc<Socket>);

impl Call {
    /// With the state locked in which the caller has seen that no close has begun: the close sees this call.
    pub(super) fn enter(socket: &Arc<Socket>, state: &mut State) -> Self {
        state.calls += 1;
        Self(Arc::clone(socket))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
    }
}

/// Work that a thread of `port.rs` has to do, or is doing, for a socket: a request that the client starts before it ends comes behind it.
pub(super) struct Job(pub(super) Arc<Socket>);

impl Job {
    pub(super) fn begin(socket: &Arc<Socket>) -> Self {
        lock(&socket.state).jobs += 1;
        Self(Arc::clone(socket))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        lock(&self.0.state).jobs -= 1;
    }
}

/// A function that this kind of socket does not have.
pub(super) fn not_of_kind(function: &str, socket: &Socket) {
    violation(&format!("{function}: the socket is a {:?}", socket.kind));
}

/// A rule of a socket's states that was broken.
pub(super) fn misuse(function: &str, socket: &Socket, phase: Phase) {
    violation(&format!("{function}: the {:?} is {phase:?}", socket.kind));
}
