//! [`Tcp`]: [`Sockets`] over the sockets of the host, Linux or Windows. `endpoint.rs` is one socket, `reactor.rs`
//! serves all.
//!
//! * The calling thread tries each request at once. A request that has to wait is completed by the reactor, one thread
//!   for all sockets, when the host reports that the socket is ready. On Linux, while threads poll for completions in a
//!   loop, they do the reactor's work themselves: to wake the reactor's thread costs more than to transfer a message.
//!   On Windows too, a thread that often waits by [`serve_until`] does.
//! * Routines are called at `DISPATCH_LEVEL`. DPCs that a routine queues run on the same thread when the routine has
//!   returned: from received bytes to the completion in a CQ no thread waits for another.
//! * Only the reactor closes sockets, so no socket is closed while the reactor works on it.
#![expect(unsafe_code, reason = "implements the unsafe trait Sockets: sockets and bytes come by pointer")]

mod endpoint;
mod error;
mod host;
mod incoming;
mod open;
mod outgoing;
mod reactor;
mod request;
mod shared_memory;
mod turn;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use platform::{Completion, PASSIVE_LEVEL, SocketError, Sockets, WrittenShared};

use crate::processor;
use endpoint::Endpoint;
use request::{Bytes, Ended, Request, Room};
pub use shared_memory::share_memory;

/// TCP of the host.
#[derive(Debug)]
pub enum Tcp {}

/// The storage of a socket.
#[derive(Default)]
pub struct Socket(Option<Arc<Endpoint>>);

impl Socket {
    /// # Safety
    /// `socket` is valid, and no other code changes it during the call.
    unsafe fn endpoint<'a>(socket: *const Self) -> Option<&'a Arc<Endpoint>> {
        // SAFETY: the caller's contract.
        unsafe { &*socket }.0.as_ref()
    }

    /// Stores a new endpoint in the socket.
    ///
    /// # Safety
    /// `socket` is valid, and no other code uses it.
    unsafe fn begin(socket: *mut Self) -> Arc<Endpoint> {
        let endpoint = Arc::<Endpoint>::default();
        // SAFETY: the caller's contract.
        unsafe { &mut *socket }.0 = Some(endpoint.clone());
        endpoint
    }
}

// SAFETY: storage of requests is not used; storage of sockets is used within calls only, before any request ends; bytes
// are used until the `Request` that owns them ends, once, as `Request::ends` consumes it.
unsafe impl Sockets for Tcp {
    type Socket = Socket;
    type Request = ();

    const SHARES_MEMORY: bool = true;

    fn new_socket() -> Socket {
        Socket::default()
    }

    fn new_request() {}

    unsafe fn connect(socket: *mut Socket, _: *mut (), done: Completion, local: SocketAddr, remote: SocketAddr) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: no other call uses the socket while it is started.
        let endpoint = unsafe { Socket::begin(socket) };
        complete_all(endpoint.connect(request, local, remote).into_iter().flatten());
    }

    unsafe fn listen(socket: *mut Socket, _: *mut (), done: Completion, local: SocketAddr) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: no other call uses the socket while it is started.
        let endpoint = unsafe { Socket::begin(socket) };
        endpoint.listen(request, local).complete();
    }

    unsafe fn accept(listener: *mut Socket, socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: no other call uses the socket while it is started.
        let endpoint = unsafe { Socket::begin(socket) };
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        complete_all(match unsafe { Socket::endpoint(listener) } {
            Some(listener) => endpoint.accept(request, listener),
            None => Some(request.ends(Err(SocketError::Canceled))),
        });
    }

    unsafe fn addresses(socket: *const Socket) -> (SocketAddr, SocketAddr) {
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        let endpoint = unsafe { Socket::endpoint(socket) };
        let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        endpoint.and_then(|endpoint| endpoint.addresses()).unwrap_or((none, none))
    }

    unsafe fn read_shared<F: FnOnce(&[u8]) -> usize>(socket: *const Socket, take: F) -> Result<bool, F> {
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => endpoint.read_shared(take),
            None => Err(take),
        }
    }

    unsafe fn write_shared<F: FnOnce(&mut [u8]) -> usize>(socket: *const Socket, fill: F) -> Result<WrittenShared, F> {
        // SAFETY: as in `read_shared`.
        match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => endpoint.write_shared(fill),
            None => Err(fill),
        }
    }

    unsafe fn send(socket: *mut Socket, _: *mut (), done: Completion, bytes: *const u8, length: usize) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the bytes are valid until `request` ends, which owns them.
        let bytes = unsafe { Bytes::new(bytes, length) };
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        complete_all(
            match unsafe { Socket::endpoint(socket) } {
                Some(endpoint) => endpoint.send(request, bytes),
                None => request.ends(Err(SocketError::Canceled)).alone(),
            }
            .into_iter()
            .flatten(),
        );
    }

    unsafe fn receive(socket: *mut Socket, _: *mut (), done: Completion, bytes: *mut u8, length: usize) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the bytes are valid, and no other code uses them, until `request` ends, which owns them.
        let room = unsafe { Room::new(bytes, length) };
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => complete_all(endpoint.receive(request, room)),
            None => complete_all(Some(request.ends(Err(SocketError::Canceled)))),
        }
    }

    unsafe fn finish(socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the socket is valid during the call, by contract; only its start and its close change it.
        complete_all(Some(match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => endpoint.finish(request),
            None => request.ends(Err(SocketError::Canceled)),
        }));
    }

    unsafe fn close(socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: `done` is this request's, and only the new `Request` calls it.
        let request = unsafe { Request::new(done) };
        // SAFETY: no other call uses the socket while it is closed.
        match unsafe { &mut *socket }.0.take() {
            Some(endpoint) => reactor::close(endpoint, request),
            None => complete_all(Some(request.ends(Ok(0)))),
        }
    }

    fn poll_hint() {
        // Above PASSIVE_LEVEL the caller may hold a lock that a routine takes. On Windows a completion port counts a
        // polling thread as a worker, and lets at most one worker for each processor run: the reactor's thread and the
        // polling threads would wait for each other.
        if cfg!(unix) && processor::irql() == PASSIVE_LEVEL {
            reactor::poll_hint();
        }
    }

    fn must_watch() {
        reactor::must_watch();
    }
}

/// Serves the sockets until `is_over`, so that what the thread waits for needs no other thread, and returns true. A routine
/// makes that so, or another thread, which then calls [`wake_leader`] with the same `key`, not 0. Or calls `sleep` once,
/// which waits in another way: if there are no connections, this thread waits rarely or is not at PASSIVE_LEVEL, or
/// another one waits too. The caller holds no lock that a routine takes.
pub fn serve_until(key: usize, is_over: impl Fn() -> bool, sleep: impl FnOnce()) -> bool {
    if processor::irql() == PASSIVE_LEVEL {
        return reactor::serve_until(key, is_over, sleep);
    }
    sleep();
    false
}

/// Has the thread in [`serve_until`] with this `key` look whether its wait is over.
pub fn wake_leader(key: usize) {
    reactor::wake_leader(key);
}

/// Calls the routines of requests. The caller no longer uses the socket, whose storage may be freed within a routine.
fn complete_all(ended: impl IntoIterator<Item = Ended>) {
    ended.into_iter().for_each(Ended::complete);
}
