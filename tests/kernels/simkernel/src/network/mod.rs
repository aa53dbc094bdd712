//! A network within the process: TCP between sockets of the simulated kernel. A generator cuts the streams of bytes into segments,
//! chooses what happens next anywhere, and whether a request ends on its caller's stack or by a DPC. In a seeded session it replays.
//!
//! Each address is a machine's, but for those of multicast, which are unreachable.
#![expect(unsafe_code, reason = "implements the unsafe trait Sockets: requests live behind raw pointers")]

mod addresses;
mod delivery;
mod net;
mod socket;
mod steps;

use std::{
    cell::Cell,
    net::SocketAddr,
    ops::Range,
    ptr::NonNull,
    slice,
    sync::{Mutex, MutexGuard},
};

use platform::{Completion, DISPATCH_LEVEL, LARGEST_TRANSFER, SocketError, Sockets};

use crate::{
    fault,
    held::held_locks,
    irql, ledger, lock_table, pool,
    processors::Dpc,
    schedule::{self, Random},
    violation::Breach,
};
use net::Net;
use socket::Start;

static NET: Mutex<Option<Net>> = Mutex::new(None);

/// The id of a socket that was closed.
const CLOSED: u64 = u64::MAX;

/// The network of [`crate::SimKernel`].
#[derive(Debug)]
pub enum Network {}

/// The storage of a socket.
#[derive(Debug, Default)]
pub struct Socket {
    /// 0: there is none yet.
    id: Cell<u64>,
}

/// The storage of a request.
#[derive(Default)]
pub struct Request {
    under_way: Cell<bool>,
    done: Cell<Option<Completion>>,
    result: Cell<Option<Result<usize, SocketError>>>,
    /// Ends it.
    dpc: Dpc,
}

/// Where something is that stays there for as long as it is in use here.
struct At<T>(NonNull<T>);

impl<T> Clone for At<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for At<T> {}

impl<T> At<T> {
    fn addr(self) -> usize {
        self.0.addr().get()
    }

    /// Not to be used when it is not in use any more.
    fn get<'a>(self) -> &'a T {
        // SAFETY: valid as long as it is in use, by contract of `Sockets`; requests and sockets have no unshared parts.
        unsafe { self.0.as_ref() }
    }
}

impl At<u8> {
    /// `count` of the bytes of a request, from `start` on.
    fn read(self, start: usize, count: usize) -> Vec<u8> {
        // SAFETY: bytes of a request under way.
        let bytes = unsafe { self.0.add(start) };
        // SAFETY: initialised, and not written as long as the request is under way, by contract of `Sockets`.
        unsafe { slice::from_raw_parts(bytes.as_ptr(), count) }.to_vec()
    }

    /// Writes to the first bytes of a request.
    fn write(self, bytes: &[u8]) {
        // SAFETY: room of a request under way, which nobody else uses, by contract of `Sockets`.
        unsafe { self.0.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }
}

// SAFETY: it is used with NET locked.
unsafe impl<T> Send for At<T> {}

impl Request {
    fn begin(&self, at: At<Self>, done: Completion) {
        self.under_way.set(true);
        self.done.set(Some(done));
        self.dpc.initialize(delivery::deliver, at.0.as_ptr().cast());
    }
}

// SAFETY: the cells are touched with NET locked only.
unsafe impl Send for Socket {}
// SAFETY: as for Send.
unsafe impl Sync for Socket {}
// SAFETY: as for a socket; the DPC is one that may be sent.
unsafe impl Send for Request {}
// SAFETY: as for Send.
unsafe impl Sync for Request {}

fn lock() -> MutexGuard<'static, Option<Net>> {
    lock_table(&NET)
}

fn with<R>(change: impl FnOnce(&mut Net) -> R) -> R {
    change(lock().get_or_insert_with(|| Net::new(Random::new(0))))
}

/// What a call wants of the socket that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// That there is none.
    None,
    Connected,
    /// That there is one, or was to be.
    Any,
}

/// Begins a request: checks the rules, has `begin` note what is to be done, and ends what ends at once.
fn call(
    call: &'static str,
    socket: *mut Socket,
    request: *mut Request,
    done: Completion,
    needs: Needs,
    begin: impl FnOnce(&mut Net, u64, At<Request>) -> Result<(), Breach>,
) {
    irql::require(call, DISPATCH_LEVEL);
    if delivery::in_routine() {
        ledger::breach(Breach::SocketCallInRoutine { call });
    }
    if let Some(&lock) = held_locks().first() {
        ledger::breach(Breach::SocketCallUnderLock { call, lock });
    }
    let closes = needs == Needs::Any;
    let fails = !closes && fault::strikes(fault::Point::Request);
    // SAFETY: the caller's request is valid until its routine is called, so it is not null.
    let request = At(unsafe { NonNull::new_unchecked(request) });
    // SAFETY: and so is the socket.
    let socket = At(unsafe { NonNull::new_unchecked(socket) });
    let mut locked = lock();
    let net = locked.get_or_insert_with(|| Net::new(Random::new(0)));
    match prepare(net, call, socket, request, needs).and_then(|id| {
        let begun = begin(net, id, request);
        if begun.is_err() && needs == Needs::None {
            net.forget(id);
        }
        begun.map(|()| id)
    }) {
        Ok(id) => {
            request.get().begin(request, done);
            socket.get().id.set(id);
            let inline = net.enter(id, request, fails);
            let ended = net.take_ended();
            drop(locked);
            delivery::dispatch(ended, inline.then_some(request));
            delivery::wake();
            with(|net| net.leave(id, request.addr()));
        }
        Err(breach) => {
            drop(locked);
            ledger::breach(breach);
            // SAFETY: it was not begun, so nobody else calls it.
            unsafe { done.complete(Err(SocketError::Failed)) };
        }
    }
    schedule::occasion(call, request.addr());
}

/// The id of the socket, if all is as it should be for this call.
fn prepare(
    net: &mut Net,
    call: &'static str,
    socket: At<Socket>,
    request: At<Request>,
    needs: Needs,
) -> Result<u64, Breach> {
    if request.get().under_way.get() {
        return Err(Breach::RequestUnderWay(request.addr()));
    }
    let id = socket.get().id.get();
    match needs {
        Needs::None if id == 0 => Ok(net.add(socket)),
        Needs::Connected if net.is_connected(id) => Ok(id),
        Needs::Any if net.is_there(id) => Ok(id),
        _ => Err(Breach::SocketState { call }),
    }
}

/// Bytes have to be of the driver's memory, and not too many.
fn check_bytes(bytes: *const u8, length: usize) {
    let last = bytes.addr().saturating_add(length.saturating_sub(1));
    let place = |address| pool::place(address).map(|place| place.allocation);
    if length == 0 || length > LARGEST_TRANSFER || place(bytes.addr()).is_none() || place(bytes.addr()) != place(last) {
        ledger::breach(Breach::BadTransfer { address: bytes.addr(), length });
    }
}

fn at(bytes: *mut u8) -> At<u8> {
    // SAFETY: the caller's bytes are valid, so the pointer is not null.
    At(unsafe { NonNull::new_unchecked(bytes) })
}

// SAFETY: storage and bytes are touched with NET locked, while requests are under way; `delivery` calls each routine once.
unsafe impl Sockets for Network {
    type Socket = Socket;
    type Request = Request;

    fn new_socket() -> Socket {
        Socket::default()
    }

    fn new_request() -> Request {
        Request::default()
    }

    unsafe fn connect(
        socket: *mut Socket,
        request: *mut Request,
        done: Completion,
        local: SocketAddr,
        remote: SocketAddr,
    ) {
        call("connecting", socket, request, done, Needs::None, |net, id, request| {
            net.start(id, request, Start::Connect { local, remote });
            Ok(())
        });
    }

    unsafe fn listen(socket: *mut Socket, request: *mut Request, done: Completion, local: SocketAddr) {
        call("listening", socket, request, done, Needs::None, |net, id, request| {
            net.start(id, request, Start::Listen { local });
            Ok(())
        });
    }

    unsafe fn accept(listener: *mut Socket, socket: *mut Socket, request: *mut Request, done: Completion) {
        let mut from = None;
        call("accepting", socket, request, done, Needs::None, |net, id, request| {
            // SAFETY: the caller's listener is valid until the routine is called.
            let listener = unsafe { &*listener }.id.get();
            net.accept(id, listener, request)?;
            from = Some(listener);
            Ok(())
        });
        if let Some(listener) = from {
            with(|net| net.leave(listener, request.addr()));
        }
    }

    unsafe fn addresses(socket: *const Socket) -> (SocketAddr, SocketAddr) {
        // SAFETY: the caller's socket is valid.
        let socket = unsafe { &*socket };
        let addresses = with(|net| net.addresses(socket.id.get()));
        addresses.unwrap_or_else(|| {
            ledger::breach(Breach::SocketState { call: "asking for addresses" });
            (addresses::NONE, addresses::NONE)
        })
    }

    unsafe fn send(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *const u8, length: usize) {
        check_bytes(bytes, length);
        call("sending", socket, request, done, Needs::Connected, |net, id, request| {
            net.send(id, request, at(bytes.cast_mut()), length)
        });
    }

    unsafe fn receive(socket: *mut Socket, request: *mut Request, done: Completion, bytes: *mut u8, length: usize) {
        check_bytes(bytes, length);
        call("receiving", socket, request, done, Needs::Connected, |net, id, request| {
            net.receive(id, request, at(bytes), length)
        });
    }

    unsafe fn finish(socket: *mut Socket, request: *mut Request, done: Completion) {
        call("finishing", socket, request, done, Needs::Connected, Net::finish);
    }

    unsafe fn close(socket: *mut Socket, request: *mut Request, done: Completion) {
        call("closing", socket, request, done, Needs::Any, Net::close);
    }
}

/// Memory is about to go: what is wrong with that.
pub(crate) fn freed(range: &Range<usize>) -> Vec<Breach> {
    lock().as_mut().map_or_else(Vec::new, |net| net.freed(range))
}

/// Sockets that are there, or were to be, and are not closed.
pub(crate) fn count() -> usize {
    lock().as_ref().map_or(0, Net::count)
}

/// Each connection is reset, sooner or later.
pub(crate) fn break_connections() {
    with(Net::break_connections);
    delivery::wake();
}

/// The socket of each listener is dead, as if TCP had gone and come again.
pub(crate) fn break_listeners(say: SocketError) {
    with(|net| net.break_listeners(say));
    delivery::wake();
}

/// There is no TCP from now on, or there is.
pub(crate) fn set_absent(absent: bool) {
    with(|net| net.absent = absent);
}

/// Nothing arrives anywhere any more, or again.
pub(crate) fn hold(held: bool) {
    with(|net| net.hold(held));
    delivery::wake();
}

pub(crate) fn hold_listeners(held: bool) {
    with(|net| net.hold_listeners(held));
}

/// So many bytes at most are between a sender and a receiver that does not take them.
pub(crate) fn limit_in_flight(bytes: usize) {
    with(|net| net.limit(bytes));
}

/// Sends under way on the socket that has most of them.
pub(crate) fn sends_under_way() -> usize {
    with(|net| net.sockets().map(|sock| sock.sending.len()).max().unwrap_or(0))
}

/// A new session begins.
pub(crate) fn reset(seed: u64) {
    *lock() = Some(Net::new(Random::new(seed)));
}
