//! A TCP connection by hand: nothing is read but by the thread of the test.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
};

use iwarp::{
    crc::Crc32c,
    fpdu,
    mpa::{self, FrameKind, MpaFrame},
};
use platform::{Deferred, Dispatch, OutOfMemory, Read, RunDeferred, RunStream, SocketError, Stream, Taken};
use simkernel::SimKernel;

use crate::{Arc, wait};

/// What requests of a socket keep alive.
struct Socket {
    deferred: Deferred<SimKernel>,
    stream: Stream<SimKernel>,
}

impl RunStream<SimKernel> for Socket {
    fn stream(&self) -> &Stream<SimKernel> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self>) {
        Deferred::schedule(this);
    }
}

impl RunDeferred<SimKernel> for Socket {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self>, _: &Dispatch<'_>) {
        // The stream sends queued bytes after the ones under way: a read makes it look for them.
        Stream::read(this, |_| Taken { used: 0, wanted: 0 });
    }
}

fn socket() -> Result<Arc<Socket>, OutOfMemory> {
    let socket = Arc::try_new(Socket { deferred: Deferred::default(), stream: Stream::new()? })?;
    Deferred::initialize(&socket);
    Ok(socket)
}

/// A peer, connected. Dropping it closes its connection: by a reset, unless both sides have finished.
pub struct Raw {
    socket: Arc<Socket>,
    unread: RefCell<Vec<u8>>,
    ended: Cell<Option<Result<(), SocketError>>>,
    /// Whether FPDUs have CRCs, in both directions.
    pub crc: Cell<bool>,
}

impl Raw {
    fn new(socket: Arc<Socket>) -> Self {
        Self { socket, unread: RefCell::default(), ended: Cell::new(None), crc: Cell::new(false) }
    }

    /// Begins to connect; [`Raw::started`] gives the result.
    ///
    /// # Errors
    /// No memory.
    pub fn connecting(from: SocketAddr, to: SocketAddr) -> Result<Self, OutOfMemory> {
        let socket = socket()?;
        Stream::connect(&socket, from, to)?;
        Ok(Self::new(socket))
    }

    /// The result of the connect, or the accept.
    pub fn started(&self) -> Option<Result<(), SocketError>> {
        self.socket.stream.started()
    }

    /// Connects.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn connect(from: SocketAddr, to: SocketAddr) -> Self {
        let raw = Self::connecting(from, to).expect("memory");
        wait("the connection", || raw.started().is_some());
        assert_eq!(raw.started(), Some(Ok(())));
        raw
    }

    /// Writes what there is room for, and gives how many bytes that were.
    pub fn send_some(&self, bytes: &[u8]) -> usize {
        Stream::write(&self.socket, |room| {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            count
        })
    }

    /// Writes all, unless the connection dies.
    pub fn send(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.socket.stream.is_finished() {
            match self.send_some(bytes) {
                0 => simkernel::pause(),
                sent => bytes = &bytes[sent..],
            }
        }
    }

    /// Sends each ULPDU in an FPDU.
    pub fn send_frames<'a>(&self, ulpdus: impl IntoIterator<Item = &'a Vec<u8>>) {
        let frames: Vec<u8> = ulpdus.into_iter().flat_map(|ulpdu| crate::frames::fpdu(ulpdu, self.crc.get())).collect();
        self.send(&frames);
    }

    /// Sends an FIN after all that.
    pub fn finish(&self) {
        Stream::finish(&self.socket);
    }

    /// Resets the connection.
    pub fn reset(&self) {
        Stream::close(&self.socket);
    }

    /// Reads the bytes that have arrived.
    fn read(&self) {
        loop {
            let read = Stream::read(&self.socket, |bytes| {
                self.unread.borrow_mut().extend(bytes);
                Taken { used: bytes.len(), wanted: 0 }
            });
            match read {
                Read::Some => {}
                Read::Nothing => return,
                Read::Ended(how) => return self.ended.set(Some(how)),
            }
        }
    }

    /// How the stream has ended, if all bytes before the end were read; a reset is an error.
    pub fn ended(&self) -> Option<Result<(), SocketError>> {
        self.read();
        self.ended.get()
    }

    /// Takes what `parse` makes of the bytes that have arrived: it gives the result and the number of its bytes.
    fn take<T>(&self, parse: impl Fn(&[u8]) -> Option<(T, usize)>) -> Option<T> {
        let mut unread = self.unread.borrow_mut();
        let (result, count) = parse(&unread)?;
        unread.drain(..count);
        Some(result)
    }

    /// Waits for that. None: the stream has ended before.
    fn await_it<T>(&self, what: &str, parse: impl Fn(&[u8]) -> Option<(T, usize)>) -> Option<T> {
        let taken = Cell::new(None);
        wait(what, || {
            let ended = self.ended().is_some();
            let found = self.take(&parse);
            let is_over = ended || found.is_some();
            taken.set(found);
            is_over
        });
        taken.into_inner()
    }

    /// A Request or Reply, its bytes.
    ///
    /// # Panics
    /// If other bytes arrive.
    pub fn mpa_frame(&self, kind: FrameKind) -> Option<Vec<u8>> {
        self.await_it("a Request or Reply", |bytes| match MpaFrame::parse(kind, bytes).expect("a Request or Reply") {
            mpa::ParsedFrame::Frame(_, size) => Some((bytes[..size].to_vec(), size)),
            mpa::ParsedFrame::Incomplete => None,
        })
    }

    /// The ULPDU of the next FPDU; none: the stream has ended, maybe in the middle of one.
    ///
    /// # Panics
    /// If its CRC is wrong.
    pub fn ulpdu(&self) -> Option<Vec<u8>> {
        self.await_it("an FPDU", |bytes| self.parse(bytes))
    }

    /// The ULPDU of an FPDU that has arrived.
    ///
    /// # Panics
    /// If its CRC is wrong.
    pub fn ulpdu_that_has_come(&self) -> Option<Vec<u8>> {
        self.read();
        self.take(|bytes| self.parse(bytes))
    }

    fn parse(&self, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
        match fpdu::parse(bytes, self.crc.get().then_some(Crc32c::PORTABLE)).expect("its CRC") {
            fpdu::ParsedFpdu::Whole { ulpdu, size } => Some((ulpdu.to_vec(), size)),
            fpdu::ParsedFpdu::Incomplete(_) => None,
        }
    }

    /// Waits for the end of the stream, and gives all bytes before it.
    pub fn rest(&self) -> (Vec<u8>, Result<(), SocketError>) {
        wait("the end of the stream", || self.ended().is_some());
        (self.unread.take(), self.ended.get().unwrap_or(Ok(())))
    }

    /// Bytes that have arrived and were not taken.
    pub fn has_come(&self) -> usize {
        self.read();
        self.unread.borrow().len()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        close(&self.socket);
    }
}

fn close(socket: &Arc<Socket>) {
    Stream::close(socket);
    if !std::thread::panicking() {
        wait("the close", || socket.stream.is_closed());
    }
}

/// A peer that listens.
pub struct Door(Arc<Socket>);

impl Door {
    /// Listens.
    ///
    /// # Panics
    /// If it cannot.
    #[must_use]
    pub fn listen(at: SocketAddr) -> Self {
        let door = Self::listening(at).expect("memory");
        assert_eq!(door.started(), Ok(()));
        door
    }

    /// Begins to listen; [`Door::started`] gives the result.
    ///
    /// # Errors
    /// No memory.
    pub fn listening(at: SocketAddr) -> Result<Self, OutOfMemory> {
        let socket = socket()?;
        Stream::listen(&socket, at);
        Ok(Self(socket))
    }

    /// The result of the listen.
    ///
    /// # Errors
    /// Why it does not.
    ///
    /// # Panics
    /// If the listen does not complete.
    pub fn started(&self) -> Result<(), SocketError> {
        wait("the listener", || self.0.stream.started().is_some());
        self.0.stream.started().unwrap_or(Ok(()))
    }

    /// Takes the next connection.
    ///
    /// # Panics
    /// If it cannot.
    #[must_use]
    pub fn accept(&self) -> Raw {
        let raw = self.accepting().expect("memory");
        wait("a connection", || raw.started().is_some());
        assert_eq!(raw.started(), Some(Ok(())));
        raw
    }

    /// Begins to accept the next connection; [`Raw::started`] gives the result.
    ///
    /// # Errors
    /// No memory.
    pub fn accepting(&self) -> Result<Raw, OutOfMemory> {
        let socket = socket()?;
        Stream::accept(&socket, &self.0)?;
        Ok(Raw::new(socket))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        close(&self.0);
    }
}
