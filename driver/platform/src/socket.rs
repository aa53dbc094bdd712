//! What the device needs of a kernel's TCP, as one trait: sockets whose requests end by a call. Shaped after Winsock Kernel, where each
//! request is an IRP that is always completed, maybe before the call that took it has returned.
#![expect(unsafe_code, reason = "a trait over kernel objects that live at fixed addresses")]

use core::{ffi::c_void, net::SocketAddr};

/// Bytes that one send or receive moves at most.
pub const LARGEST_TRANSFER: usize = 128 << 10;

/// Sends that are under way on a socket at a time, at most: a kernel may end one only when the peer has its bytes.
pub const SENDS: usize = 3;

/// Why a request on a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// Nobody listens there.
    Refused,
    /// This platform has no TCP, or cannot use it.
    NoNetwork,
    /// No way there, or no such own address.
    Unreachable,
    /// The own address is taken.
    AddressInUse,
    /// No answer.
    TimedOut,
    /// The peer, or the network, has ended the connection.
    Reset,
    /// The socket, or the listener whose connection it was to get, was closed meanwhile.
    Canceled,
    /// No memory, or something else of this machine.
    Failed,
}

/// The routine of a request. The number is of bytes, for requests that move some.
pub type SocketRoutine = unsafe fn(context: *mut c_void, result: Result<usize, SocketError>);

/// What a request ends with: its routine is called once, at IRQL <= DISPATCH, on any thread, maybe before the call that started the
/// request has returned, and on its stack. The routine may neither wait nor make any call of [`Sockets`].
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    routine: SocketRoutine,
    context: *mut c_void,
}

// SAFETY: the context is for the routine, which whoever makes a `Completion` expects to run on any thread.
unsafe impl Send for Completion {}
// SAFETY: as for Send.
unsafe impl Sync for Completion {}

impl Completion {
    /// A call of `routine`.
    pub const fn new(routine: SocketRoutine, context: *mut c_void) -> Self {
        Self { routine, context }
    }

    /// Ends the request. IRQL <= DISPATCH, no spin lock held.
    ///
    /// # Safety
    /// Once, by who took it, as documented at the request. The request's storage, its bytes and, if no other request on it is under
    /// way, the socket's storage may be gone before this returns.
    pub unsafe fn complete(self, result: Result<usize, SocketError>) {
        // SAFETY: the pair belongs together; called once, by contract.
        unsafe { (self.routine)(self.context, result) };
    }
}

/// TCP of a kernel.
///
/// A socket's life is one of `connect`, `listen` and `accept`, then what is sent and received, then `close`: always, whatever the first
/// one came to, as it may have left something to close. On one socket a receive, a close, and either [`SENDS`] sends or one of the
/// others may be under way at a time, and their calls may be made by several threads: that of a send when those of the sends before
/// have returned. Nothing is held back to be sent with what follows (TCP_NODELAY).
///
/// # Safety
/// The implementer touches the storage of a request, and bytes, only until the request's routine is called, and calls that once. It
/// touches the storage of a socket only within calls and while a request on it is under way. Sockets that are freed without
/// having been closed stay open: a leak, nothing else.
pub unsafe trait Sockets: Send + Sync + 'static {
    /// Storage of a socket.
    type Socket: Send + Sync;

    /// Storage of a request under way (an IRP).
    type Request: Send + Sync;

    /// No socket yet.
    fn new_socket() -> Self::Socket;

    /// Not under way.
    fn new_request() -> Self::Request;

    /// Connects from `local`, whose port may be 0, and whose address may be unspecified. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for all that take a request: it is not under way; it and the socket stay valid, and in their places, until its routine is
    /// called; no spin lock is held. There was no socket before.
    unsafe fn connect(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        local: SocketAddr,
        remote: SocketAddr,
    );

    /// Has the socket listen; port 0 picks one. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`].
    unsafe fn listen(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion, local: SocketAddr);

    /// Takes the next connection of `listener` into `socket`: a request on both of them. Errors: [`SocketError::Failed`],
    /// [`SocketError::NoNetwork`] if `listener` is dead, and any other if the connection has gone meanwhile. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`]; `listener` listens, stays valid too, and has no other accept under way.
    unsafe fn accept(
        listener: *mut Self::Socket,
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
    );

    /// The own address, and the peer's; of one that listens twice the own. IRQL: any; spin locks may be held.
    ///
    /// # Safety
    /// The socket was connected, or listens, and `close` has not been called.
    unsafe fn addresses(socket: *const Self::Socket) -> (SocketAddr, SocketAddr);

    /// Sends all of the bytes, after those of the sends that were called before: ends when the kernel needs them no more, maybe before
    /// one of these. If it fails, nothing of what was given after it is sent. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but the socket was connected, and has not finished. The 1 to [`LARGEST_TRANSFER`] bytes lie in
    /// memory from [`crate::Platform::allocate`] and are not written meanwhile.
    unsafe fn send(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        bytes: *const u8,
        length: usize,
    );

    /// Receives some bytes, at least 1; 0: the peer sends no more. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::send`], but nobody else uses the bytes meanwhile; they are initialised.
    unsafe fn receive(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        bytes: *mut u8,
        length: usize,
    );

    /// Tells the peer that there are no more bytes. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but the socket was connected, and has not finished.
    unsafe fn finish(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion);

    /// Closes the socket, by a reset unless both sides have finished. All other requests on it end before this does, most by
    /// [`SocketError::Canceled`]: one that was to make it a socket, too, and accepts of a listener. Does not fail. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but one of `connect`, `listen` and `accept` was called before. All calls for this socket have
    /// returned, and no other is made any more.
    unsafe fn close(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion);

    /// Called when a consumer has polled an empty queue, and will poll again: a platform whose sockets need a thread may serve them on this
    /// one. IRQL <= DISPATCH; at PASSIVE_LEVEL the caller holds no lock that a routine may want.
    #[inline]
    fn poll_hint() {}

    /// Called when a consumer arms its queue: from now on it relies on a notification, so the platform must watch the sockets itself.
    /// IRQL <= DISPATCH; spin locks may be held.
    #[inline]
    fn must_watch() {}
}

/// For platforms without a network.
#[derive(Debug)]
pub enum NoSockets {}

// SAFETY: each request ends at once; nothing is touched.
unsafe impl Sockets for NoSockets {
    type Socket = ();
    type Request = ();

    fn new_socket() {}

    fn new_request() {}

    unsafe fn connect(_: *mut (), _: *mut (), done: Completion, _local: SocketAddr, _remote: SocketAddr) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn listen(_: *mut (), _: *mut (), done: Completion, _local: SocketAddr) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn accept(_: *mut (), _: *mut (), _: *mut (), done: Completion) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn addresses(_: *const ()) -> (SocketAddr, SocketAddr) {
        let none = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
        (none, none)
    }

    unsafe fn send(_: *mut (), _: *mut (), done: Completion, _bytes: *const u8, _length: usize) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn receive(_: *mut (), _: *mut (), done: Completion, _bytes: *mut u8, _length: usize) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn finish(_: *mut (), _: *mut (), done: Completion) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Err(SocketError::NoNetwork)) };
    }

    unsafe fn close(_: *mut (), _: *mut (), done: Completion) {
        // SAFETY: the only call for this request.
        unsafe { done.complete(Ok(0)) };
    }
}
