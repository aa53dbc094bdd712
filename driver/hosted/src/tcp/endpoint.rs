//! [`Endpoint`]: a socket of the host, and the requests that wait for it.
//!
//! A socket has two directions, `incoming.rs` and `outgoing.rs`, each with a lock. That lock is held for each try with
//! the host's socket, and for each change of its readiness and of its waiting requests. So when the host reports a
//! socket ready, the reactor either finds the waiting request, or the next request finds the socket ready.
//!
//! No function here calls a routine. Functions return the requests that have ended ([`Ended`]), after they have
//! released their locks.

use std::{
    io,
    net::{Shutdown, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use mio::{
    Interest, Registry, Token,
    event::Source as _,
    net::{TcpListener, TcpStream},
};
use platform::{SocketError, WrittenShared};

use super::{
    error,
    incoming::{Accepted, Incoming, Wanted},
    open,
    outgoing::{AllEnded, Given, Outgoing},
    reactor,
    request::{Bytes, Ended, Request, Room},
    shared_memory::{self, Shared, Wants},
    turn,
};

/// A connection, a listener, or a socket that is to become one of them.
#[derive(Default)]
pub(super) struct Endpoint {
    /// The reactor's number for the socket.
    token: OnceLock<Token>,
    /// The local address and the peer's.
    addresses: OnceLock<(SocketAddr, SocketAddr)>,
    /// The listener that an accept was called for.
    listener: OnceLock<Weak<Self>>,
    finished: AtomicBool,
    /// The finish went by TCP.
    is_shut: AtomicBool,
    /// The reactor looks at the rings of this connection whenever it serves sockets, so that the peer need not ring.
    looked_at: AtomicBool,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
    /// Dropped last: once the socket is closed, the host may give its addresses to another connection, whose offer has the same name.
    source: OnceLock<Source>,
}

/// A socket of the host.
pub(super) enum Source {
    Stream(TcpStream),
    /// `None`: the listener was closed.
    Listener(Mutex<Option<TcpListener>>),
}

/// The readiness of a socket that the host reports.
#[derive(Clone, Copy)]
pub(super) struct Readiness {
    pub(super) incoming: bool,
    pub(super) outgoing: bool,
    /// The peer sends no more bytes, or the connection is dead.
    pub(super) closed: bool,
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a connection whose peer has written an impossible position: the reactors of both processes get the end of TCP.
fn break_off(stream: &TcpStream) {
    // An error: it has ended.
    let _ended = stream.shutdown(Shutdown::Both);
}

impl Endpoint {
    pub(super) fn token(&self) -> Option<Token> {
        self.token.get().copied()
    }

    /// The local address and the peer's; `None` before the socket is connected or listens.
    pub(super) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.addresses.get().copied()
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self.source.get(), Some(Source::Stream(_)))
    }

    /// Ends the sending side of TCP.
    pub(super) fn shut(&self, stream: &TcpStream) -> io::Result<()> {
        // Before the peer can answer.
        self.is_shut.store(true, Ordering::Relaxed);
        let outcome = stream.shutdown(Shutdown::Write);
        self.is_shut.store(outcome.is_ok(), Ordering::Relaxed);
        outcome
    }

    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    pub(super) fn has_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    pub(super) fn is_looked_at(&self) -> bool {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// From now on the reactor looks at the rings. `None`: there are none, or it does already.
    pub(super) fn begin_looks(&self) -> Option<Arc<Shared>> {
        let shared = lock(&self.incoming).shared().cloned()?;
        (!self.looked_at.swap(true, Ordering::Relaxed)).then_some(shared)
    }

    /// The reactor looks for the last time, before it sleeps: from now on the peer rings.
    pub(super) fn end_looks(&self) -> impl Iterator<Item = Ended> + use<> {
        // A request that waits has seen this, or is seen by this look: both hold the lock of the direction.
        self.looked_at.store(false, Ordering::Relaxed);
        self.look()
    }

    /// Tries what waits for the rings.
    pub(super) fn look(&self) -> impl Iterator<Item = Ended> + use<> {
        lock(&self.outgoing).becomes_ready();
        let gone = self.proceed_outgoing();
        self.proceed_incoming().chain(gone.into_iter().flatten())
    }

    /// Offers shared memory to the peer to which this socket has just connected. Called with `outgoing` locked.
    pub(super) fn offer(&self) -> Option<Arc<Shared>> {
        let (local, remote) = self.addresses()?;
        let shared = shared_memory::offer(local, remote)?;
        lock(&self.incoming).offer(shared.clone());
        Some(shared)
    }

    /// Accepts what the peer has offered. Called with `outgoing` locked.
    pub(super) fn accept_offer(&self) -> Option<Arc<Shared>> {
        let (local, remote) = self.addresses()?;
        // Locked before the peer sees the acceptance: what it then sends by TCP are bells.
        let mut incoming = lock(&self.incoming);
        let shared = shared_memory::accept(local, remote)?;
        incoming.share(shared.clone());
        Some(shared)
    }

    /// Registers the socket for the host's events. The caller holds the lock of the reactor's table of sockets, so the
    /// reactor does not serve the socket before this returns.
    pub(super) fn register(&self, mut source: Source, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut source {
            Source::Stream(stream) => stream.register(registry, token, Interest::READABLE | Interest::WRITABLE)?,
            Source::Listener(listener) => {
                if let Some(listener) = listener.get_mut().unwrap_or_else(PoisonError::into_inner) {
                    listener.register(registry, token, Interest::READABLE)?;
                }
            }
        }
        let _first = (self.token.set(token), self.source.set(source));
        Ok(())
    }

    pub(super) fn connect(self: &Arc<Self>, request: Request, local: SocketAddr, remote: SocketAddr) -> AllEnded {
        let stream = match open::connect(local, remote) {
            Ok(stream) => stream,
            Err(error) => return request.ends(Err(error)).alone(),
        };
        lock(&self.outgoing).wait_for(Given::Connect(request));
        if let Err(error) = reactor::add(self, Source::Stream(stream)) {
            return lock(&self.outgoing).fail(error::of_any(&error));
        }
        // A connect within the machine may be complete already.
        self.proceed_outgoing()
    }

    /// The result of a connect; `None` while it is under way.
    pub(super) fn connected(&self, stream: &TcpStream) -> Option<Result<(), SocketError>> {
        let failure = match stream.take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(error),
        };
        if let Some(error) = failure {
            return Some(Err(error::of_connect(&error)));
        }
        // The host may report a socket ready before it is connected. The socket then has no peer address yet.
        let remote = stream.peer_addr().ok()?;
        let connected = stream.local_addr().map_err(|error| error::of_any(&error)).and_then(|local| {
            // TCP can connect a port to itself if there is no listener.
            if local == remote { Err(SocketError::Refused) } else { Ok((local, remote)) }
        });
        Some(connected.map(|addresses| {
            let _first = self.addresses.set(addresses);
        }))
    }

    pub(super) fn listen(self: &Arc<Self>, request: Request, local: SocketAddr) -> Ended {
        let listen = || {
            let listener = open::listen(local)?;
            let own = listener.local_addr().map_err(|error| error::of_any(&error))?;
            let _first = self.addresses.set((own, own));
            reactor::add(self, Source::Listener(Mutex::new(Some(listener)))).map_err(|error| error::of_any(&error))
        };
        request.ends(listen().map(|()| 0))
    }

    /// Accepts the next connection of a listener.
    pub(super) fn accept(self: &Arc<Self>, request: Request, listener: &Arc<Self>) -> Option<Ended> {
        let _first = self.listener.set(Arc::downgrade(listener));
        // Not the caller's reference, whose storage may be freed once the request has ended: the reactor's table keeps
        // the listener until its close.
        let listener: &Self = listener;
        let mut incoming = lock(&listener.incoming);
        incoming.wait_for(Wanted::Connection(request, self.clone()));
        match listener.source.get()? {
            Source::Listener(hosts) => listener.accept_next(hosts, incoming),
            Source::Stream(_) => None,
        }
    }

    /// Completes the waiting accept if the host has a connection. `accept` passes the lock that it holds since its
    /// request began to wait, so that its call serves no later accept, whose socket the reactor may be closing. The
    /// reactor takes the lock for its own calls, during which it closes no socket.
    fn accept_next<'a>(
        &'a self,
        listener: &Mutex<Option<TcpListener>>,
        mut incoming: MutexGuard<'a, Incoming>,
    ) -> Option<Ended> {
        loop {
            let accepted = incoming.accept(lock(listener).as_ref()?)?;
            let Accepted { request, into, stream, peer } = match accepted {
                Ok(accepted) => accepted,
                Err(ended) => return Some(ended),
            };
            // `adopt` takes the lock of the reactor's table.
            drop(incoming);
            match into.adopt(stream, peer) {
                // The connection is lost already: wait for the next one.
                Err(SocketError::Reset) => {
                    incoming = lock(&self.incoming);
                    incoming.wait_for(Wanted::Connection(request, into));
                }
                outcome => return Some(request.ends(outcome.map(|()| 0))),
            }
        }
    }

    /// Makes this endpoint the accepted connection.
    fn adopt(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Result<(), SocketError> {
        let prepare = || {
            let own = stream.local_addr()?;
            open::set_options(&stream, own, peer)?;
            reactor::add(self, Source::Stream(stream))?;
            let _first = self.addresses.set((own, peer));
            lock(&self.outgoing).is_accepted();
            Ok(())
        };
        prepare().map_err(|error: io::Error| error::of_any(&error))
    }

    pub(super) fn send(&self, request: Request, bytes: Bytes) -> AllEnded {
        let Some(Source::Stream(stream)) = self.source.get() else {
            return request.ends(Err(SocketError::Reset)).alone();
        };
        let mut outgoing = lock(&self.outgoing);
        outgoing.wait_for(Given::Bytes(request, bytes));
        if outgoing.is_ready() && turn::is_over(self.token()) {
            AllEnded::default()
        } else {
            outgoing.proceed(stream, self)
        }
    }

    /// As [`platform::Sockets::write_shared`].
    pub(super) fn write_shared<F: FnOnce(&mut [u8]) -> usize>(&self, fill: F) -> Result<WrittenShared, F> {
        let Some(Source::Stream(stream)) = self.source.get() else { return Err(fill) };
        let Some(mut sender) = lock(&self.outgoing).begin_fill(stream, self) else { return Err(fill) };
        let written = sender.fill(fill);
        lock(&self.outgoing).end_fill(written.map(|_| sender), stream);
        if written.is_none() {
            break_off(stream);
        }
        // The send that then waits for room fails.
        Ok(written.unwrap_or(WrittenShared { count: 0, is_full: true }))
    }

    /// As [`platform::Sockets::read_shared`].
    pub(super) fn read_shared<F: FnOnce(&[u8]) -> usize>(&self, take: F) -> Result<bool, F> {
        let Some(Source::Stream(stream)) = self.source.get() else { return Err(take) };
        let Some((mut receiver, sent)) = lock(&self.incoming).begin_show() else { return Err(take) };
        let taken = receiver.take(sent, take);
        let mut incoming = lock(&self.incoming);
        incoming.end_show(taken.map(|_| receiver));
        if let Some(shared) = incoming.shared() {
            shared.wake(Wants::Room, stream);
        }
        if taken.is_none() {
            break_off(stream);
        }
        Ok(taken.unwrap_or(false))
    }

    pub(super) fn receive(&self, request: Request, room: Room) -> impl Iterator<Item = Ended> + use<> {
        let (mut came, mut gone) = (None, AllEnded::default());
        if let Some(Source::Stream(stream)) = self.source.get() {
            let mut incoming = lock(&self.incoming);
            incoming.wait_for(Wanted::Bytes(request, room));
            if !incoming.is_ready() || !turn::is_over(self.token()) {
                (came, gone) = self.receive_next(stream, incoming);
            }
        } else {
            came = Some(request.ends(Err(SocketError::Reset)));
        }
        came.into_iter().chain(gone.into_iter().flatten())
    }

    /// Tries the waiting receive, and what waits in the other direction for what this has heard.
    fn receive_next(&self, stream: &TcpStream, mut incoming: MutexGuard<'_, Incoming>) -> (Option<Ended>, AllEnded) {
        let came = incoming.receive(stream, self);
        let tells = incoming.take_tells();
        drop(incoming);
        let gone = tells.map(|is_dead| lock(&self.outgoing).is_told(is_dead, stream, self));
        (came, gone.unwrap_or_default())
    }

    /// Tries the waiting receive or accept.
    fn proceed_incoming(&self) -> impl Iterator<Item = Ended> + use<> {
        let (came, gone) = match self.source.get() {
            Some(Source::Stream(stream)) => self.receive_next(stream, lock(&self.incoming)),
            Some(Source::Listener(listener)) => (self.accept_next(listener, lock(&self.incoming)), AllEnded::default()),
            None => (None, AllEnded::default()),
        };
        came.into_iter().chain(gone.into_iter().flatten())
    }

    /// Tries the waiting connect and sends.
    fn proceed_outgoing(&self) -> AllEnded {
        match self.source.get() {
            Some(Source::Stream(stream)) => lock(&self.outgoing).proceed(stream, self),
            Some(Source::Listener(_)) | None => AllEnded::default(),
        }
    }

    /// Ends the sending side.
    pub(super) fn finish(&self, request: Request) -> Ended {
        let outcome = match self.source.get() {
            Some(Source::Stream(stream)) => lock(&self.outgoing).finish(stream, self),
            _ => Err(io::ErrorKind::NotConnected.into()),
        };
        if outcome.is_ok() {
            self.finished.store(true, Ordering::Relaxed);
        }
        request.ends(outcome.map(|()| 0).map_err(|error| error::of_any(&error)))
    }

    /// Serves the socket after an event of the host, or in its next turn. Called with the reactor's `service` locked.
    pub(super) fn serve(&self, readiness: Readiness) -> impl Iterator<Item = Ended> + use<> {
        let (mut came, mut gone) = (None, AllEnded::default());
        if readiness.incoming {
            lock(&self.incoming).becomes_ready(readiness.closed);
            came = Some(self.proceed_incoming());
        }
        if readiness.outgoing {
            lock(&self.outgoing).becomes_ready();
            gone = self.proceed_outgoing();
        }
        came.into_iter().flatten().chain(gone.into_iter().flatten())
    }

    /// Closes the host's listening socket at once, as the reactor may close the endpoint only later.
    pub(super) fn stop_listening(&self) {
        if let Some(Source::Listener(listener)) = self.source.get() {
            drop(lock(listener).take());
        }
    }

    /// Cancels all waiting requests; the host's socket closes with the last reference. No call is under way, and none
    /// follows. Called with the reactor's `service` locked, so no other thread works on the socket.
    pub(super) fn close(self: &Arc<Self>) -> impl Iterator<Item = Ended> + use<> {
        if self.has_finished()
            && lock(&self.incoming).has_ended()
            && let Some(Source::Stream(stream)) = self.source.get()
        {
            open::close_gracefully(stream);
        }
        let listener = self.listener.get().and_then(Weak::upgrade);
        let accept = listener.and_then(|listener| lock(&listener.incoming).cancel_for(self));
        let incoming = lock(&self.incoming).cancel();
        let outgoing = lock(&self.outgoing).fail(SocketError::Canceled);
        accept.into_iter().chain(incoming).chain(outgoing.into_iter().flatten())
    }
}
