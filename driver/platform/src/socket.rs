//! [`Sockets`]: the TCP that the device needs of a kernel. Shaped after Winsock Kernel: each request always completes
//! by a call of its routine, as an IRP does, maybe before the call that started the request has returned.
#![expect(unsafe_code, reason = "a trait over kernel objects that live at fixed addresses")]

use core::{ffi::c_void, net::SocketAddr};

/// The most bytes of one send or receive.
pub const LARGEST_TRANSFER: usize = 128 << 10;

/// The most sends that are under way on one socket. Several, as a kernel may complete a send only when the peer has its
/// bytes.
pub const SENDS: usize = 3;

/// The number of bytes with which a receive completes when the peer's next bytes are in shared memory, for
/// [`Sockets::read_shared`].
pub const SHARED: usize = usize::MAX;

/// What [`Sockets::write_shared`] has done.
#[derive(Clone, Copy, Debug)]
pub struct WrittenShared {
    /// The bytes that were written.
    pub count: usize,
    /// The room was small: more comes when the peer has read.
    pub is_full: bool,
}

/// Why a request on a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// The peer's address has no listener.
    Refused,
    /// This platform has no TCP, or cannot use it.
    NoNetwork,
    /// There is no route to the peer, or the local address does not exist.
    Unreachable,
    /// The local address is in use.
    AddressInUse,
    /// The peer has not answered in time.
    TimedOut,
    /// The peer, or the network, has ended the connection.
    Reset,
    /// The socket was closed, or the listener of its accept was closed.
    Canceled,
    /// There is no memory, or another error of this machine.
    Failed,
}

/// The completion routine of a request. The number is the bytes that a send or receive has moved.
pub type SocketRoutine = unsafe fn(context: *mut c_void, result: Result<usize, SocketError>);

/// The completion of a request. Its routine is called once, at IRQL <= DISPATCH, on any thread, maybe on the stack of
/// the call that started the request. The routine may neither wait nor make any call of [`Sockets`].
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    routine: SocketRoutine,
    context: *mut c_void,
}

// SAFETY: only the routine uses the context, and the code that made the `Completion` knows that its routine runs on any
// thread (its documentation).
unsafe impl Send for Completion {}
// SAFETY: as for Send.
unsafe impl Sync for Completion {}

impl Completion {
    /// A completion that calls `routine` with `context`.
    pub const fn new(routine: SocketRoutine, context: *mut c_void) -> Self {
        Self { routine, context }
    }

    /// Completes the request. IRQL <= DISPATCH, no spin lock held.
    ///
    /// # Safety
    /// Called once, by the implementation that took the request, as documented at the function that takes it. The
    /// request's storage, its bytes and, if no other request on the socket is under way, the socket's storage may be
    /// freed before this returns.
    pub unsafe fn complete(self, result: Result<usize, SocketError>) {
        // SAFETY: the pair belongs together; called once, by contract.
        unsafe { (self.routine)(self.context, result) };
    }
}

/// The TCP of a kernel.
///
/// The caller starts a socket by one of `connect`, `listen` and `accept`, sends and receives, and always calls `close`,
/// even after a failed start, which may have opened a socket. On one socket a receive, a close, and either [`SENDS`]
/// sends or one other request may be under way at a time. Different threads may make these calls, but a send is called
/// only after the calls of the sends before it have returned. Data is sent at once (TCP_NODELAY).
///
/// # Safety
/// The implementer uses the storage of a request, and its bytes, only until it calls the request's routine, which it
/// does once. It uses the storage of a socket only during calls and while a request on the socket is under way. A
/// socket whose storage is freed without `close` stays open: a leak, which does not break memory safety.
pub unsafe trait Sockets: Send + Sync + 'static {
    /// Storage of a socket.
    type Socket: Send + Sync;

    /// Storage of a request under way (an IRP).
    type Request: Send + Sync;

    /// Storage that has no socket yet.
    fn new_socket() -> Self::Socket;

    /// Storage of a request that is not under way.
    fn new_request() -> Self::Request;

    /// Connects from `local`, whose port may be 0 and whose address may be unspecified. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for all functions with a request: the request is not under way; the request and the socket stay valid, at
    /// their addresses, until the routine is called; no spin lock is held. The storage has no socket yet.
    unsafe fn connect(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        local: SocketAddr,
        remote: SocketAddr,
    );

    /// Listens; for port 0 the kernel picks one. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`].
    unsafe fn listen(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion, local: SocketAddr);

    /// Accepts the next connection of `listener` into `socket`; the request is under way on both. Errors:
    /// [`SocketError::Failed`], [`SocketError::NoNetwork`] if the listener is dead, and any other error if the
    /// connection was lost before it was accepted. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`]; `listener` listens, stays valid too, and has no other accept under way.
    unsafe fn accept(
        listener: *mut Self::Socket,
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
    );

    /// The local address and the peer's address; for a listening socket the local address twice. IRQL: any; spin locks
    /// may be held.
    ///
    /// # Safety
    /// The socket was connected, or listens, and `close` has not been called.
    unsafe fn addresses(socket: *const Self::Socket) -> (SocketAddr, SocketAddr);

    /// Whether two ends on one machine may exchange bytes through memory that both share, without a call of a kernel.
    const SHARES_MEMORY: bool = false;

    /// Shows the peer's next bytes in shared memory to `take`, which returns how many of them are not to be shown again; returns
    /// whether there were more bytes than that, if all that were shown were used. Returns `take` if there are none, or
    /// bytes come by `receive`, as before the connection had such memory. The peer may change what is shown: it may do
    /// so with all memory of this process, as both are one user's. IRQL <= DISPATCH; `take` is called with no lock held.
    ///
    /// # Safety
    /// The socket was connected, `close` is not called before this returns, and no other thread makes this call.
    unsafe fn read_shared<F: FnOnce(&[u8]) -> usize>(_socket: *const Self::Socket, take: F) -> Result<bool, F> {
        Err(take)
    }

    /// Shows room in shared memory to `fill`, which writes bytes and returns their number; they are sent. Returns `fill` if
    /// bytes go by `send`. IRQL <= DISPATCH; `fill` is called with no lock held.
    ///
    /// # Safety
    /// As for [`Sockets::read_shared`]; no send with bytes is under way, and `finish` was not called.
    unsafe fn write_shared<F: FnOnce(&mut [u8]) -> usize>(
        _socket: *const Self::Socket,
        fill: F,
    ) -> Result<WrittenShared, F> {
        Err(fill)
    }

    /// Sends all of the bytes, behind the bytes of earlier sends. The send completes when the kernel no longer needs
    /// the bytes, maybe before an earlier send does. After a send that fails, no bytes of later sends are sent. IRQL <=
    /// DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but the socket was connected, and `finish` was not called. No bytes: the send completes
    /// when shared memory has room. Bytes, [`LARGEST_TRANSFER`] at most, lie in memory from [`crate::Platform::allocate`] and are not written until the send
    /// completes.
    unsafe fn send(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        bytes: *const u8,
        length: usize,
    );

    /// Receives at least 1 byte; 0 bytes: the peer sends no more; [`SHARED`]: the peer's shared memory has bytes that were not
    /// shown. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::send`], but no other code uses the bytes until the receive completes; they are initialised.
    unsafe fn receive(
        socket: *mut Self::Socket,
        request: *mut Self::Request,
        done: Completion,
        bytes: *mut u8,
        length: usize,
    );

    /// Ends the sending side: the peer learns that no more bytes follow. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but the socket was connected, and `finish` was not called.
    unsafe fn finish(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion);

    /// Closes the socket: by a reset, unless both sides have finished. All other requests on the socket, including its
    /// start and the accept of a listener, complete before the close does, most with [`SocketError::Canceled`]. Does
    /// not fail. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// As for [`Sockets::connect`], but one of `connect`, `listen` and `accept` was called before. All calls for this
    /// socket have returned, and no other follows.
    unsafe fn close(socket: *mut Self::Socket, request: *mut Self::Request, done: Completion);

    /// Called when a consumer polls an empty completion queue, before the poll reads the queue again. A platform whose
    /// sockets need a thread may use this thread. IRQL <= DISPATCH; at PASSIVE_LEVEL the caller holds no lock that a
    /// routine may take.
    #[inline]
    fn poll_hint() {}

    /// Called when a consumer arms a completion queue. The consumer may now wait for the notification instead of
    /// polling, so the platform must serve the sockets without it. IRQL <= DISPATCH; spin locks may be
    /// held.
    #[inline]
    fn must_watch() {}
}

/// The sockets of a platform without a network.
#[derive(Debug)]
pub enum NoSockets {}

// SAFETY: each request completes at once; no storage is touched.
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
