//! TCP by the sockets of the host, Linux or Windows.
//!
//! * A request is tried on its caller's thread. What cannot be done at once waits for the reactor, one thread for all sockets, which
//!   does it when the host tells that the socket is ready, and ends it. While threads look for completions again and again, these do
//!   the reactor's work, on Linux: to wake a thread costs more than a message.
//! * Routines are called at `DISPATCH_LEVEL`. What they schedule runs when they have returned, on the same thread: from bytes that
//!   have come to a completion in a consumer's queue no other thread is waited for.
//! * Whatever closes is closed by the reactor, so that nothing that it does for a socket is under way then.
#![expect(unsafe_code, reason = "implements the unsafe trait Sockets: sockets and bytes come by pointer")]

mod endpoint;
mod error;
mod host;
mod incoming;
mod open;
mod outgoing;
mod reactor;
mod request;
mod turn;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use platform::{Completion, PASSIVE_LEVEL, SocketError, Sockets};

use crate::processor;
use endpoint::Endpoint;
use request::{Bytes, Ended, Request, Room};

/// TCP of the host.
#[derive(Debug)]
pub enum Tcp {}

/// The storage of a socket.
#[derive(Default)]
pub struct Socket(Option<Arc<Endpoint>>);

impl Socket {
    /// # Safety
    /// It is valid, and nobody changes it meanwhile.
    unsafe fn endpoint<'a>(socket: *const Self) -> Option<&'a Arc<Endpoint>> {
        // SAFETY: the caller's contract.
        unsafe { &*socket }.0.as_ref()
    }

    /// A new endpoint for the socket.
    ///
    /// # Safety
    /// It is valid, and nobody else uses it.
    unsafe fn begin(socket: *mut Self) -> Arc<Endpoint> {
        let endpoint = Arc::<Endpoint>::default();
        // SAFETY: the caller's contract.
        unsafe { &mut *socket }.0 = Some(endpoint.clone());
        endpoint
    }
}

// SAFETY: storage of requests is not touched at all, that of sockets within calls only, before anything ends; bytes until the `Request`
// ends that they are kept with, which ends once as it is used up.
unsafe impl Sockets for Tcp {
    type Socket = Socket;
    type Request = ();

    fn new_socket() -> Socket {
        Socket::default()
    }

    fn new_request() {}

    unsafe fn connect(socket: *mut Socket, _: *mut (), done: Completion, local: SocketAddr, remote: SocketAddr) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the first call for a socket is the only one.
        let endpoint = unsafe { Socket::begin(socket) };
        tell(endpoint.connect(request, local, remote).into_iter().flatten());
    }

    unsafe fn listen(socket: *mut Socket, _: *mut (), done: Completion, local: SocketAddr) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the first call for a socket is the only one.
        let endpoint = unsafe { Socket::begin(socket) };
        endpoint.listen(request, local).tell();
    }

    unsafe fn accept(listener: *mut Socket, socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the first call for a socket is the only one.
        let endpoint = unsafe { Socket::begin(socket) };
        // SAFETY: valid during the call, by contract; only its first and its last call change it.
        tell(match unsafe { Socket::endpoint(listener) } {
            Some(listener) => endpoint.accept(request, listener),
            None => Some(request.ends(Err(SocketError::Canceled))),
        });
    }

    unsafe fn addresses(socket: *const Socket) -> (SocketAddr, SocketAddr) {
        // SAFETY: valid during the call, by contract; only its first and its last call change it.
        let endpoint = unsafe { Socket::endpoint(socket) };
        let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        endpoint.and_then(|endpoint| endpoint.addresses()).unwrap_or((none, none))
    }

    unsafe fn send(socket: *mut Socket, _: *mut (), done: Completion, bytes: *const u8, length: usize) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: valid until the request ends, which they are kept with.
        let bytes = unsafe { Bytes::new(bytes, length) };
        // SAFETY: valid during the call, by contract; only its first and its last call change it.
        tell(
            match unsafe { Socket::endpoint(socket) } {
                Some(endpoint) => endpoint.send(request, bytes),
                None => request.ends(Err(SocketError::Canceled)).alone(),
            }
            .into_iter()
            .flatten(),
        );
    }

    unsafe fn receive(socket: *mut Socket, _: *mut (), done: Completion, bytes: *mut u8, length: usize) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: valid, and nobody else's, until the request ends, which they are kept with.
        let room = unsafe { Room::new(bytes, length) };
        // SAFETY: valid during the call, by contract; only its first and its last call change it.
        tell(match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => endpoint.receive(request, room),
            None => Some(request.ends(Err(SocketError::Canceled))),
        });
    }

    unsafe fn finish(socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: valid during the call, by contract; only its first and its last call change it.
        tell(Some(match unsafe { Socket::endpoint(socket) } {
            Some(endpoint) => endpoint.finish(request),
            None => request.ends(Err(SocketError::Canceled)),
        }));
    }

    unsafe fn close(socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: this call takes it.
        let request = unsafe { Request::new(done) };
        // SAFETY: the last call for a socket is the only one.
        match unsafe { &mut *socket }.0.take() {
            Some(endpoint) => reactor::close(endpoint, request),
            None => tell(Some(request.ends(Ok(0)))),
        }
    }

    fn poll_hint() {
        // Above it a lock may be held that a routine wants. On Windows a completion port counts who looks as one that works for it, and
        // lets no more of these go on than there are processors: the reactor's thread would wait for those that look, and they for it.
        if cfg!(unix) && processor::irql() == PASSIVE_LEVEL {
            reactor::poll_hint();
        }
    }

    fn must_watch() {
        reactor::must_watch();
    }
}

/// With nothing of the socket in use, which may be gone when a routine has been called.
fn tell(ended: impl IntoIterator<Item = Ended>) {
    ended.into_iter().for_each(Ended::tell);
}
