//! Sockets of models: one connects at once, receives one byte, and is closed. Each of these ends on a thread of its own.
#![expect(unsafe_code, reason = "implements the unsafe trait Sockets: requests live behind raw pointers")]

use std::{
    cell::{Cell, RefCell},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
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

    unsafe fn connect(_: *mut Socket, _: *mut (), done: Completion, _local: SocketAddr, _remote: SocketAddr) {
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

    unsafe fn send(_: *mut Socket, _: *mut (), done: Completion, _bytes: *const u8, length: usize) {
        end(done, Ok(length));
    }

    unsafe fn receive(socket: *mut Socket, _: *mut (), done: Completion, _bytes: *mut u8, _length: usize) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*socket };
        assert!(!fields.closed.get(), "a receive on a closed socket");
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
