//! TCP, and UDP for the cable, by Winsock Kernel. The ddi pages of wsk.h have the IRQLs, the statuses and the lifetimes.
//!
//! Each request contains an IRP and an MDL, so no request fails because this driver has no memory. The driver calls WSK by requests
//! only; the one event callback that it enables is in `datagram`.
#![expect(unsafe_code, reason = "calls into netio.sys, with memory that is shared with it")]

pub(crate) mod client;
pub(crate) mod datagram;
pub(crate) mod request;
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

// SAFETY: by its documentation WSK uses the memory of a request until it completes the IRP, once. The start of a socket is one request,
// which uses the socket. No page says what happens to sends after a send that fails: see docs/decisions.md.
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
        // SAFETY: the socket was connected, or listens, by contract.
        let [local, remote] = unsafe { place.get().addresses() }.map(|address| address.socket_addr());
        let local = local.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        // A listener has no remote address.
        (local, remote.unwrap_or(local))
    }

    unsafe fn send(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *const u8, length: usize) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: the socket was connected, by contract.
        let send = unsafe { (*place.get().connection()).WskSend };
        // SAFETY: by contract.
        unsafe { transfer(place, request, done, (bytes, length), send, (WSK_FLAG_NODELAY, sent)) };
    }

    unsafe fn receive(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *mut u8, length: usize) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: the socket was connected, by contract.
        let receive = unsafe { (*place.get().connection()).WskReceive };
        // SAFETY: by contract.
        unsafe { transfer(place, request, done, (bytes, length), receive, (0, passed_on)) };
    }

    unsafe fn finish(socket: *mut Socket, request: *mut Request, done: Completion) {
        // SAFETY: valid until the routine is called, by contract.
        let place = unsafe { Place::new(socket) };
        // SAFETY: the request is under way from now on, by contract.
        let request = unsafe { UnderWay::new(request) };
        request.get().begin(done);
        // SAFETY: the socket was connected, by contract.
        let Some(disconnect) = (unsafe { (*place.get().connection()).WskDisconnect }) else {
            return request.end(Err(SocketError::Failed));
        };
        let kernel = place.get().kernel();
        // SAFETY: the request was not under way before.
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

/// Sends or receives, by `call`, with `flags` and the completion routine `routine`.
///
/// # Safety
/// As for [`Sockets::send`] and [`Sockets::receive`]; `call` is WSK's function for it.
unsafe fn transfer(
    place: Place,
    request: *mut Request,
    done: Completion,
    (bytes, length): (*const u8, usize),
    call: Option<PFN_WSK_SEND>,
    (flags, routine): (u32, Completed),
) {
    // SAFETY: the request is under way from now on, by contract.
    let request = unsafe { UnderWay::new(request) };
    request.get().begin(done);
    let Some(call) = call else { return request.end(Err(SocketError::Failed)) };
    let kernel = place.get().kernel();
    // SAFETY: by contract; WSK does not have the IRP yet.
    let mut buffer = unsafe { request.get().describe(bytes, length) };
    // SAFETY: the request was not under way before.
    let irp = unsafe { request.get().prepare(routine) };
    // SAFETY: connected, and not closed before this has returned, by contract; WSK reads the WSK_BUF during the call.
    let _told_by_the_irp = unsafe { call(kernel, &raw mut buffer, flags, irp) };
}
