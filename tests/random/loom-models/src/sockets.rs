//! Sockets of models: one connects at once, receives one byte, sends, and is closed. Each of these ends on a thread of its own.
#![expect(unsafe_code, reason = "implements the unsafe trait Sockets: requests live behind raw pointers")]

use std::{
    cell::{Cell, RefCell},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    slice,
};

use loom::sync::atomic::{AtomicBool, Ordering};
use platform::{Completion, SocketError, Sockets};

use crate::kernel::start;

/// The network of models.
#[derive(Debug)]
pub enum Network {}

/// The storage of a socket.
#[derive(Debug, Default)]
pub struct Socket {
    /// The receive that was started last.
    receive: RefCell<Option<Rc<Pending>>>,
    closed: Cell<bool>,
    /// The peer has finished.
    silent: Cell<bool>,
    /// The call of one send at a time.
    sends: crate::Cell,
}

/// The port of a peer that sends nothing: threads are few.
pub const SILENT: u16 = 2;

thread_local! {
    static SENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What was sent since this was asked, in the order of the calls.
#[must_use]
pub fn take_sent() -> Vec<u8> {
    SENT.take()
}

/// A receive.
#[derive(Debug)]
struct Pending {
    under_way: AtomicBool,
    done: Completion,
}

impl Pending {
    /// Ends it, unless it has ended.
    fn end(&self, result: Result<usize, SocketError>) {
        if self.under_way.swap(false, Ordering::AcqRel) {
            end(self.done, result);
        }
    }
}

// SAFETY: loom runs one thread at a time; the cells are not borrowed over an operation of loom's.
unsafe impl Send for Socket {}
// SAFETY: as for Send.
unsafe impl Sync for Socket {}

/// Ends a request.
fn end(done: Completion, result: Result<usize, SocketError>) {
    // SAFETY: each completion is taken once, by who ends it.
    unsafe { done.complete(result) };
}

// SAFETY: bytes are not touched; each completion is called once.
unsafe impl Sockets for Network {
    type Socket = Socket;
    type Request = ();

    fn new_socket() -> Socket {
        Socket::default()
    }

    fn new_request() {}

    unsafe fn connect(socket: *mut Socket, _: *mut (), done: Completion, _local: SocketAddr, remote: SocketAddr) {
        // SAFETY: valid, by contract.
        unsafe { &*socket }.silent.set(remote.port() == SILENT);
        end(done, Ok(0));
    }

    unsafe fn listen(_: *mut Socket, _: *mut (), done: Completion, _local: SocketAddr) {
        end(done, Err(SocketError::NoNetwork));
    }

    unsafe fn accept(_: *mut Socket, _: *mut Socket, _: *mut (), done: Completion) {
        end(done, Err(SocketError::NoNetwork));
    }

    unsafe fn addresses(_: *const Socket) -> (SocketAddr, SocketAddr) {
        let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        (none, none)
    }

    unsafe fn send(socket: *mut Socket, _: *mut (), done: Completion, bytes: *const u8, length: usize) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*socket };
        assert!(!fields.closed.get(), "a send on a closed socket");
        fields.sends.add_one();
        // SAFETY: valid, by contract.
        let bytes = unsafe { slice::from_raw_parts(bytes, length) };
        SENT.with_borrow_mut(|sent| sent.extend_from_slice(bytes));
        start(move || end(done, Ok(length)));
    }

    unsafe fn receive(socket: *mut Socket, _: *mut (), done: Completion, _bytes: *mut u8, _length: usize) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*socket };
        assert!(!fields.closed.get(), "a receive on a closed socket");
        if fields.silent.get() {
            return end(done, Ok(0));
        }
        let pending = Rc::new(Pending { under_way: AtomicBool::new(true), done });
        let before = fields.receive.replace(Some(pending.clone()));
        if before.is_none() {
            start(move || pending.end(Ok(1)));
        }
    }

    unsafe fn finish(_: *mut Socket, _: *mut (), done: Completion) {
        end(done, Ok(0));
    }

    unsafe fn close(socket: *mut Socket, _: *mut (), done: Completion) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*socket };
        assert!(!fields.closed.replace(true), "closed twice");
        let Some(receive) = fields.receive.take() else { return end(done, Ok(0)) };
        start(move || {
            // If it is ended elsewhere, this goes on while its routine runs.
            receive.end(Err(SocketError::Canceled));
            end(done, Ok(0));
        });
    }
}
