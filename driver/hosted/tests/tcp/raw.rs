//! Sockets and requests as the device has them, and peers of the standard library.
#![expect(unsafe_code, reason = "raw sockets")]

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use hosted::{Hosted, Socket, Tcp};
use platform::{Completion, DISPATCH_LEVEL, Platform, SocketError, Sockets};

pub(crate) type Outcome = Result<usize, SocketError>;

/// A wait that takes longer than this fails the test.
const LIMIT: Duration = Duration::from_secs(60);

/// A request, and its outcome.
pub(crate) struct Op(Box<Noted>);

#[derive(Default)]
struct Noted {
    outcomes: Mutex<Vec<Outcome>>,
    changed: Condvar,
}

unsafe fn note(context: *mut c_void, outcome: Outcome) {
    assert_eq!(Hosted::irql(), DISPATCH_LEVEL);
    // SAFETY: those of an `Op` that lives until it was waited for.
    let noted = unsafe { &*context.cast::<Noted>() };
    let mut outcomes = noted.outcomes.lock().unwrap();
    outcomes.push(outcome);
    // Notifies with the lock held: the waiter may free the `Op` as soon as it sees the outcome.
    noted.changed.notify_all();
}

impl Op {
    pub(crate) fn new() -> Self {
        Self(Box::default())
    }

    pub(crate) fn done(&self) -> Completion {
        Completion::new(note, std::ptr::from_ref(&*self.0).cast_mut().cast())
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.0.outcomes.lock().unwrap().is_empty()
    }

    /// The outcome; the `Op` may be used again.
    pub(crate) fn wait(&self) -> Outcome {
        let outcomes = self.0.outcomes.lock().unwrap();
        let (mut outcomes, wait) =
            self.0.changed.wait_timeout_while(outcomes, LIMIT, |outcomes| outcomes.is_empty()).unwrap();
        assert!(!wait.timed_out(), "a request does not end");
        assert_eq!(outcomes.len(), 1, "a routine is called once");
        outcomes.remove(0)
    }
}

/// A socket, closed when dropped.
pub(crate) struct Raw {
    socket: Box<UnsafeCell<Socket>>,
    is_open: bool,
}

// SAFETY: it is used by the calls of `Tcp`, as these allow.
unsafe impl Send for Raw {}
// SAFETY: as for Send.
unsafe impl Sync for Raw {}

impl Raw {
    pub(crate) fn new() -> Self {
        Self { socket: Box::new(UnsafeCell::new(Tcp::new_socket())), is_open: true }
    }

    pub(crate) fn at(&self) -> *mut Socket {
        self.socket.get()
    }

    pub(crate) fn connect(&self, op: &Op, local: SocketAddr, remote: SocketAddr) {
        // SAFETY: as documented; so for all that follow.
        unsafe { Tcp::connect(self.at(), &mut (), op.done(), local, remote) };
    }

    pub(crate) fn listen(&self, op: &Op, local: SocketAddr) {
        // SAFETY: as above.
        unsafe { Tcp::listen(self.at(), &mut (), op.done(), local) };
    }

    pub(crate) fn accept(&self, op: &Op, listener: &Self) {
        // SAFETY: as above.
        unsafe { Tcp::accept(listener.at(), self.at(), &mut (), op.done()) };
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        // SAFETY: as above.
        unsafe { Tcp::addresses(self.at()) }
    }

    /// The bytes are kept until the operation is over.
    pub(crate) fn send(&self, op: &Op, bytes: &[u8]) {
        // SAFETY: as above.
        unsafe { Tcp::send(self.at(), &mut (), op.done(), bytes.as_ptr(), bytes.len()) };
    }

    /// The room is kept, and left alone, until the operation is over.
    pub(crate) fn receive(&self, op: &Op, room: &mut [u8]) {
        // SAFETY: as above.
        unsafe { Tcp::receive(self.at(), &mut (), op.done(), room.as_mut_ptr(), room.len()) };
    }

    pub(crate) fn finish(&self) -> Outcome {
        let op = Op::new();
        // SAFETY: as above.
        unsafe { Tcp::finish(self.at(), &mut (), op.done()) };
        op.wait()
    }

    /// Begins to close; nothing else is called after that.
    pub(crate) fn start_close(&mut self, op: &Op) {
        self.start_close_with(op.done());
    }

    pub(crate) fn start_close_with(&mut self, done: Completion) {
        self.is_open = false;
        // SAFETY: as above.
        unsafe { Tcp::close(self.at(), &mut (), done) };
    }

    pub(crate) fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let op = Op::new();
        self.start_close(&op);
        assert_eq!(op.wait(), Ok(0));
    }

    /// Receives `count` bytes, or fewer if the peer finishes before.
    pub(crate) fn receive_all(&self, count: usize) -> Vec<u8> {
        let (op, mut room, mut bytes) = (Op::new(), vec![0; 1 << 16], Vec::new());
        while bytes.len() < count {
            self.receive(&op, &mut room);
            match op.wait().expect("bytes") {
                0 => break,
                some => bytes.extend_from_slice(&room[..some]),
            }
        }
        bytes
    }

    pub(crate) fn send_all(&self, bytes: &[u8]) {
        let op = Op::new();
        self.send(&op, bytes);
        assert_eq!(op.wait(), Ok(bytes.len()));
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if self.is_open && !std::thread::panicking() {
            self.end();
        }
    }
}

/// An address of this machine; the port is picked.
pub(crate) fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// As `any`, of IPv6, if the machine has it.
pub(crate) fn any_v6() -> Option<SocketAddr> {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    match TcpListener::bind(address) {
        Ok(_) => Some(address),
        Err(error) => {
            println!("skipped: no IPv6 here: {error}");
            None
        }
    }
}

/// An address without a listener. Hosts pick ephemeral ports elsewhere.
pub(crate) fn unused() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (std::process::id() % 1000) as u16 * 16;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let addresses = ports.map(|port| SocketAddr::new(any().ip(), port));
    addresses.take(1000).find(|address| TcpListener::bind(address).is_ok()).expect("a port that nobody uses")
}

/// A listening socket of the crate, and its address.
pub(crate) fn listener(at: SocketAddr) -> (Raw, SocketAddr) {
    let (listener, op) = (Raw::new(), Op::new());
    listener.listen(&op, at);
    assert_eq!(op.wait(), Ok(0));
    let (own, twice) = listener.addresses();
    assert_eq!((own, own.ip()), (twice, at.ip()));
    (listener, own)
}

/// A socket of the crate that has connected, and its peer.
pub(crate) fn connected(at: SocketAddr) -> (Raw, TcpStream) {
    let (peer, (raw, op)) = (TcpListener::bind(at).unwrap(), (Raw::new(), Op::new()));
    raw.connect(&op, at, peer.local_addr().unwrap());
    assert_eq!(op.wait(), Ok(0));
    (raw, peer.accept().unwrap().0)
}

/// A socket of the crate that has accepted, and its peer.
pub(crate) fn accepted(at: SocketAddr) -> (Raw, TcpStream) {
    let (listener, at) = listener(at);
    let (raw, op) = (Raw::new(), Op::new());
    raw.accept(&op, &listener);
    let peer = TcpStream::connect(at).unwrap();
    assert_eq!(op.wait(), Ok(0));
    (raw, peer)
}

/// Bytes that tell where they belong.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}
