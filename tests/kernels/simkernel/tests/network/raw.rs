//! Sockets and requests in pool memory.
#![expect(unsafe_code, reason = "raw sockets")]

use std::{alloc::Layout, ffi::c_void, net::SocketAddr, ptr::NonNull, sync::Mutex};

use platform::{Completion, Platform, SocketError, Sockets};
use simkernel::{Network, Request, SimKernel, Socket, pause};

pub(crate) type Outcome = Result<usize, SocketError>;

/// A value in pool memory, freed with this unless it was before.
pub(crate) struct Pool<T>(NonNull<T>);

impl<T> Pool<T> {
    pub(crate) fn new(value: T) -> Self {
        let memory = SimKernel::allocate(Layout::new::<T>()).expect("memory").cast::<T>();
        // SAFETY: room for one.
        unsafe { memory.write(value) };
        Self(memory)
    }

    pub(crate) fn at(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not used any more, or the simulated kernel notes it.
        unsafe { SimKernel::free(self.0.cast(), Layout::new::<T>()) };
    }
}

/// A request, and what it came to.
pub(crate) struct Op {
    pub(crate) request: Pool<Request>,
    outcome: Box<Mutex<Vec<Outcome>>>,
}

unsafe fn note(context: *mut c_void, outcome: Outcome) {
    // SAFETY: the outcome of an `Op` that lives.
    let noted = unsafe { &*context.cast::<Mutex<Vec<Outcome>>>() };
    noted.lock().unwrap().push(outcome);
}

impl Op {
    pub(crate) fn new() -> Self {
        Self { request: Pool::new(Network::new_request()), outcome: Box::default() }
    }

    pub(crate) fn done(&self) -> Completion {
        Completion::new(note, std::ptr::from_ref(&*self.outcome).cast_mut().cast())
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.outcome.lock().unwrap().is_empty()
    }

    /// What it came to; it may be used again.
    pub(crate) fn wait(&self) -> Outcome {
        while !self.is_over() {
            pause();
        }
        let outcomes = std::mem::take(&mut *self.outcome.lock().unwrap());
        assert_eq!(outcomes.len(), 1, "a routine is called once");
        outcomes[0]
    }
}

pub(crate) struct Raw(pub(crate) Pool<Socket>);

impl Raw {
    pub(crate) fn new() -> Self {
        Self(Pool::new(Network::new_socket()))
    }

    pub(crate) fn connect(&self, op: &Op, local: SocketAddr, remote: SocketAddr) {
        // SAFETY: as documented, or what the simulated kernel catches; so for all that follow.
        unsafe { Network::connect(self.0.at(), op.request.at(), op.done(), local, remote) };
    }

    pub(crate) fn listen(&self, op: &Op, local: SocketAddr) {
        // SAFETY: as above.
        unsafe { Network::listen(self.0.at(), op.request.at(), op.done(), local) };
    }

    pub(crate) fn accept(&self, op: &Op, listener: &Self) {
        // SAFETY: as above.
        unsafe { Network::accept(listener.0.at(), self.0.at(), op.request.at(), op.done()) };
    }

    pub(crate) fn send(&self, op: &Op, bytes: &Pool<[u8; SIZE]>, length: usize) {
        // SAFETY: as above.
        unsafe { Network::send(self.0.at(), op.request.at(), op.done(), bytes.at().cast(), length) };
    }

    pub(crate) fn receive(&self, op: &Op, bytes: &Pool<[u8; SIZE]>) {
        // SAFETY: as above.
        unsafe { Network::receive(self.0.at(), op.request.at(), op.done(), bytes.at().cast(), SIZE) };
    }

    pub(crate) fn finish(&self, op: &Op) {
        // SAFETY: as above.
        unsafe { Network::finish(self.0.at(), op.request.at(), op.done()) };
    }

    pub(crate) fn close(&self) {
        let op = Op::new();
        // SAFETY: as above.
        unsafe { Network::close(self.0.at(), op.request.at(), op.done()) };
        assert_eq!(op.wait(), Ok(0));
    }
}

pub(crate) const SIZE: usize = 1000;

pub(crate) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// A listener, and a connection to it.
pub(crate) fn connected() -> [Raw; 3] {
    let (listener, a, b) = (Raw::new(), Raw::new(), Raw::new());
    let (op, accept) = (Op::new(), Op::new());
    listener.listen(&op, address(80));
    assert_eq!(op.wait(), Ok(0));
    b.accept(&accept, &listener);
    a.connect(&op, address(0), address(80));
    assert_eq!((op.wait(), accept.wait()), (Ok(0), Ok(0)));
    [listener, a, b]
}

pub(crate) fn close(sockets: [Raw; 3]) {
    sockets.iter().for_each(Raw::close);
}
