//! The two kinds of objects that have streams: an end of a connection, which sends and receives what it is told to, and a door,
//! which accepts connections.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
};

use platform::{Arc, Deferred, Dispatch, OutOfMemory, Read, RunDeferred, RunStream, SocketError, Stream, Taken};
use simkernel::{SimKernel, lock_paused, pause};

/// What an end does, and has done.
#[derive(Default)]
pub(crate) struct Work {
    /// The bytes to send, and how many of them were written.
    pub(crate) data: Vec<u8>,
    pub(crate) written: usize,
    /// Whether it says that there are no more, when all is written.
    pub(crate) finishes: bool,
    /// Whether the end leaves the received bytes in the stream.
    pub(crate) holds: bool,
    /// Bytes that it uses together; 0: any number.
    pub(crate) frame: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) ended: Option<Result<(), SocketError>>,
    pub(crate) closes: bool,
    pub(crate) closed: bool,
}

pub(crate) struct End {
    deferred: Deferred<SimKernel>,
    pub(crate) stream: Stream<SimKernel>,
    pub(crate) work: Mutex<Work>,
    door: Option<Arc<Door, SimKernel>>,
}

impl RunStream<SimKernel> for End {
    fn stream(&self) -> &Stream<SimKernel> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, SimKernel>) {
        Deferred::schedule(this);
    }
}

impl RunDeferred<SimKernel> for End {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        let started = this.stream.started();
        if let Some(door) = this.door.as_ref().filter(|_| started.is_some()) {
            Deferred::schedule(door);
        }
        let mut work = this.work();
        if work.closes || started.is_some_and(|started| started.is_err()) {
            Stream::close(this);
            work.closed = this.stream.is_closed();
            return;
        }
        this.receive(&mut work, this);
        this.send(&mut work, this);
    }
}

impl End {
    pub(crate) fn new() -> Result<Arc<Self, SimKernel>, OutOfMemory> {
        Self::with(None)
    }

    fn with(door: Option<Arc<Door, SimKernel>>) -> Result<Arc<Self, SimKernel>, OutOfMemory> {
        let end = Self { deferred: Deferred::default(), stream: Stream::new()?, work: Mutex::default(), door };
        let end = Arc::try_new(end)?;
        Deferred::initialize(&end);
        Ok(end)
    }

    /// An end that connects.
    pub(crate) fn connect(local: SocketAddr, remote: SocketAddr) -> Result<Arc<Self, SimKernel>, OutOfMemory> {
        let end = Self::new()?;
        Stream::connect(&end, local, remote)?;
        Ok(end)
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        lock_paused(&self.work)
    }

    fn receive(&self, work: &mut Work, this: &Arc<Self, SimKernel>) {
        loop {
            let (holds, frame) = (work.holds, work.frame);
            let outcome = Stream::read(this, |bytes| {
                let used = match frame {
                    _ if holds => 0,
                    0 => bytes.len(),
                    frame => bytes.len() - bytes.len() % frame,
                };
                work.received.extend(&bytes[..used]);
                Taken { used, wanted: if holds { 0 } else { frame } }
            });
            match outcome {
                Read::Some => continue,
                Read::Nothing => {}
                Read::Ended(how) => work.ended = Some(how),
            }
            return;
        }
    }

    fn send(&self, work: &mut Work, this: &Arc<Self, SimKernel>) {
        while work.written < work.data.len() {
            let left = &work.data[work.written..];
            let written = Stream::write(this, |room| {
                let count = left.len().min(room.len());
                room[..count].copy_from_slice(&left[..count]);
                count
            });
            if written == 0 {
                return;
            }
            work.written += written;
        }
        if work.finishes {
            Stream::finish(this);
        }
    }

    /// Changes what it does, and has it done.
    pub(crate) fn tell(this: &Arc<Self, SimKernel>, change: impl FnOnce(&mut Work)) {
        change(&mut this.work());
        Deferred::schedule(this);
    }

    /// Closes it, and waits for the end of that.
    pub(crate) fn close(this: &Arc<Self, SimKernel>) {
        Self::tell(this, |work| work.closes = true);
        wait("the close of an end", || this.work().closed);
    }
}

/// Accepts connections for as long as it is open.
pub(crate) struct Door {
    deferred: Deferred<SimKernel>,
    pub(crate) stream: Stream<SimKernel>,
    pub(crate) state: Mutex<Accepted>,
}

#[derive(Default)]
pub(crate) struct Accepted {
    pub(crate) ends: Vec<Arc<End, SimKernel>>,
    /// The one that is to get the next connection.
    next: Option<Arc<End, SimKernel>>,
    /// There was no memory, or an accept failed: no more are accepted.
    pub(crate) gave_up: bool,
    closes: bool,
}

impl RunStream<SimKernel> for Door {
    fn stream(&self) -> &Stream<SimKernel> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, SimKernel>) {
        Deferred::schedule(this);
    }
}

impl RunDeferred<SimKernel> for Door {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        let mut state = this.state();
        if let Some(next) = state.next.take() {
            match next.stream.started() {
                None => state.next = Some(next),
                Some(Ok(())) => state.ends.push(next),
                Some(Err(_)) => state.gave_up = true,
            }
        }
        if state.closes {
            return Stream::close(this);
        }
        if this.stream.started() != Some(Ok(())) || state.next.is_some() || state.gave_up {
            return;
        }
        let accepts = End::with(Some(this.clone())).and_then(|end| {
            Stream::accept(&end, this)?;
            Ok(end)
        });
        match accepts {
            Ok(end) => state.next = Some(end),
            Err(OutOfMemory) => state.gave_up = true,
        }
    }
}

impl Door {
    pub(crate) fn listen(local: SocketAddr) -> Result<Arc<Self, SimKernel>, OutOfMemory> {
        let door = Self { deferred: Deferred::default(), stream: Stream::new()?, state: Mutex::default() };
        let door = Arc::try_new(door)?;
        Deferred::initialize(&door);
        Stream::listen(&door, local);
        wait("the listener", || door.stream.started().is_some());
        Ok(door)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Accepted> {
        lock_paused(&self.state)
    }

    /// The end with that number, when it is there.
    pub(crate) fn accepted(&self, number: usize) -> Arc<End, SimKernel> {
        wait("an accepted connection", || self.state().ends.len() > number);
        self.state().ends[number].clone()
    }

    pub(crate) fn is_accepting(&self) -> bool {
        self.state().next.is_some()
    }

    /// Closes the end that is to get the next connection.
    pub(crate) fn close_next(&self) {
        let next = self.state().next.clone();
        next.iter().for_each(End::close);
    }

    /// Closes it, and waits for the end of that.
    pub(crate) fn close(this: &Arc<Self, SimKernel>) {
        this.state().closes = true;
        Deferred::schedule(this);
        wait("the close of a door", || this.stream.is_closed() && this.state().next.is_none());
    }

    /// Closes it and all that it has accepted.
    pub(crate) fn close_all(this: &Arc<Self, SimKernel>) {
        Self::close(this);
        let ends = std::mem::take(&mut this.state().ends);
        ends.iter().for_each(End::close);
    }
}

/// Waits until another thread or a deferred call has made `is` true.
pub(crate) fn wait(_what: &str, is: impl Fn() -> bool) {
    while !is() {
        pause();
    }
}

/// An own address with a port.
pub(crate) fn address(machine: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, machine], port))
}

/// `length` bytes that are not alike.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A connection from machine 1 to machine 2: the listener, the connecting end, the accepted end.
pub(crate) type Pair = (Arc<Door, SimKernel>, Arc<End, SimKernel>, Arc<End, SimKernel>);

pub(crate) fn pair() -> Pair {
    let door = Door::listen(address(2, 5445)).expect("memory");
    let a = End::connect(address(1, 0), address(2, 5445)).expect("memory");
    let b = door.accepted(0);
    wait("the start", || a.stream.started().is_some());
    (door, a, b)
}

/// Closes all of it; nothing may be left that keeps an end.
pub(crate) fn close((door, a, b): Pair) {
    End::close(&a);
    Door::close_all(&door);
    for end in [a, b] {
        wait("the last reference", || last(&end));
    }
}

/// Whether this is the only reference: requests and runs have given theirs up.
fn last(end: &Arc<End, SimKernel>) -> bool {
    Arc::release(end.clone()).is_ok() && end.work().closed
}
