//! TCP by Winsock Kernel. IRQLs, statuses, and who keeps what for how long: the ddi pages of wsk.h.
//!
//! Each request has an IRP and an MDL within itself, so none fails for want of memory of this driver's. Nothing is asked of WSK but
//! by requests: no callbacks.
#![expect(unsafe_code, reason = "calls into netio.sys, with memory that is shared with it")]

pub(crate) mod client;
mod request;
mod start;
mod turn;

use core::{
    net::{Ipv4Addr, SocketAddr},
    ptr::null_mut,
};

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::SOCKADDR_INET,
    wsk::{PFN_WSK_SEND, WSK_FLAG_NODELAY},
};
use platform::{Completion, SocketError, Sockets};

use crate::irp::own::Completed;
use request::{Request, UnderWay, passed_on, sent};
use start::{Place, Socket, Step};

/// Winsock Kernel.
pub(crate) enum Wsk {}

// SAFETY: WSK keeps to that, by its documentation: it uses what belongs to a request until it completes the IRP, once. The start of a
// socket is a request of its own, which uses the socket. No page says what becomes of sends behind one that fails: see docs/decisions.md.
unsafe impl Sockets for Wsk {
    type Socket = Socket;
    type Request = Request;

    fn new_socket() -> Socket {
        Socket::new()
    }

    fn new_request() -> Request {
        Request::new()
    }

    unsafe fn connect(
        socket: *mut Socket,
        request: *mut Request,
        done: Completion,
        local: SocketAddr,
        remote: SocketAddr,
    ) {
        let addresses = [local, remote].map(SOCKADDR_INET::new);
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: by contract.
        unsafe { place.start(request, done, Step::MakeConnection, addresses, null_mut()) };
    }

    unsafe fn listen(socket: *mut Socket, request: *mut Request, done: Completion, local: SocketAddr) {
        let addresses = [SOCKADDR_INET::new(local), SOCKADDR_INET::ZERO];
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: by contract.
        unsafe { place.start(request, done, Step::MakeListener, addresses, null_mut()) };
    }

    unsafe fn accept(listener: *mut Socket, socket: *mut Socket, request: *mut Request, done: Completion) {
        // SAFETY: valid until the routine is called, by contract.
        let listener = unsafe { Place::new(listener) }.get().kernel();
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: by contract.
        unsafe { place.start(request, done, Step::Accept, [SOCKADDR_INET::ZERO; 2], listener) };
    }

    unsafe fn addresses(socket: *const Socket) -> (SocketAddr, SocketAddr) {
        // SAFETY: valid during this call, by contract.
        let place = unsafe { Place::new(socket.cast_mut()) };
        // SAFETY: it was connected, or listens, by contract.
        let [local, remote] = unsafe { place.get().addresses() }.map(|address| address.socket_addr());
        let local = local.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        // One that listens has no other.
        (local, remote.unwrap_or(local))
    }

    unsafe fn send(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *const u8, length: usize) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: it was connected, by contract.
        let send = unsafe { (*place.get().connection()).WskSend };
        // SAFETY: by contract.
        unsafe { transfer(place, request, done, (bytes, length), send, (WSK_FLAG_NODELAY, sent)) };
    }

    unsafe fn receive(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *mut u8, length: usize) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: it was connected, by contract.
        let receive = unsafe { (*place.get().connection()).WskReceive };
        // SAFETY: by contract.
        unsafe { transfer(place, request, done, (bytes, length), receive, (0, passed_on)) };
    }

    unsafe fn finish(socket: *mut Socket, request: *mut Request, done: Completion) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: under way from now on, by contract.
        let request = unsafe { UnderWay::new(request) };
        request.get().begin(done);
        // SAFETY: it was connected, by contract.
        let Some(disconnect) = (unsafe { (*place.get().connection()).WskDisconnect }) else {
            return request.end(Err(SocketError::Failed));
        };
        let kernel = place.get().kernel();
        // SAFETY: it was not under way before.
        let irp = unsafe { request.get().prepare(passed_on) };
        // SAFETY: connected, and not closed before this has returned, by contract.
        let _told_by_the_irp = unsafe { disconnect(kernel, null_mut(), 0, irp) };
    }

    unsafe fn close(socket: *mut Socket, request: *mut Request, done: Completion) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: by contract.
        unsafe { place.close(request, done) };
    }
}

/// Sends or receives, with these flags and this completion routine.
///
/// # Safety
/// As for [`Sockets::send`] and [`Sockets::receive`], whose function `call` is.
unsafe fn transfer(
    place: Place,
    request: *mut Request,
    done: Completion,
    (bytes, length): (*const u8, usize),
    call: Option<PFN_WSK_SEND>,
    (flags, routine): (u32, Completed),
) {
    // SAFETY: under way from now on, by contract.
    let request = unsafe { UnderWay::new(request) };
    request.get().begin(done);
    let Some(call) = call else { return request.end(Err(SocketError::Failed)) };
    let kernel = place.get().kernel();
    // SAFETY: by contract; the IRP is not given away yet.
    let mut buffer = unsafe { request.get().describe(bytes, length) };
    // SAFETY: it was not under way before.
    let irp = unsafe { request.get().prepare(routine) };
    // SAFETY: connected, and not closed before this has returned, by contract; WSK reads the WSK_BUF during the call.
    let _told_by_the_irp = unsafe { call(kernel, &raw mut buffer, flags, irp) };
}
