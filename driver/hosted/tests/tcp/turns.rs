//! On which thread routines and deferred calls run, and for how long one connection holds the reactor.
#![expect(unsafe_code, reason = "a routine is called with a context pointer")]

use std::{
    ffi::c_void,
    io::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, ThreadId},
};

use hosted::{Hosted, Tcp};
use platform::{Arc, Completion, Deferred, Dispatch, RunDeferred, Sockets as _};

use crate::raw::{Outcome, Raw, accepted, any, bytes};

/// Receives a byte at a time, from its deferred call, for as long as there are any.
struct Reader {
    deferred: Deferred<Hosted>,
    raw: Raw,
    room: Mutex<Box<[u8; 1]>>,
    received: AtomicUsize,
    /// The reader stops after this number of bytes.
    enough: usize,
    /// The threads that ran routines and deferred calls.
    threads: Mutex<Vec<(&'static str, ThreadId)>>,
    /// At its first byte the reader waits for this, and blocks the reactor.
    first: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    /// After `enough` bytes, gets the number of bytes that `other` has received by then, or the reader itself if it has no other.
    done: Mutex<Option<Sender<usize>>>,
    other: Option<Arc<Self, Hosted>>,
}

impl RunDeferred<Hosted> for Reader {
    fn deferred(&self) -> &Deferred<Hosted> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Hosted>, _: &Dispatch<'_>) {
        this.threads.lock().unwrap().push(("run", thread::current().id()));
        let received = this.received.load(Ordering::Relaxed);
        if received < this.enough {
            Reader::receive(this);
        } else if let Some(done) = this.done.lock().unwrap().take() {
            done.send(this.other.as_ref().map_or(received, |other| other.received.load(Ordering::Relaxed))).unwrap();
        }
    }
}

unsafe fn came(context: *mut c_void, outcome: Outcome) {
    // SAFETY: leaked for this routine.
    let reader = unsafe { Arc::<Reader, Hosted>::from_raw(context.cast()) };
    assert_eq!(outcome, Ok(1));
    reader.received.fetch_add(1, Ordering::Relaxed);
    let runs = |threads: &[(&str, ThreadId)]| threads.iter().filter(|(what, _)| *what == "run").count();
    let before = runs(&reader.threads.lock().unwrap());
    if let Some((there, go)) = reader.first.lock().unwrap().take() {
        there.send(()).unwrap();
        go.recv().unwrap();
    }
    Deferred::schedule(&reader);
    let mut threads = reader.threads.lock().unwrap();
    assert_eq!(runs(&threads), before, "a run within a routine");
    threads.push(("routine", thread::current().id()));
}

impl Reader {
    fn new(raw: Raw, enough: usize) -> Self {
        Self {
            deferred: Deferred::default(),
            raw,
            room: Mutex::default(),
            received: AtomicUsize::new(0),
            enough,
            threads: Mutex::default(),
            first: Mutex::default(),
            done: Mutex::default(),
            other: None,
        }
    }

    fn start(self) -> Arc<Self, Hosted> {
        let this = Arc::try_new(self).unwrap();
        Deferred::initialize(&this);
        Deferred::schedule(&this);
        this
    }

    /// Waits until the last run is over; then this thread closes the socket, as the reactor cannot wait for itself.
    fn end(mut this: Arc<Self, Hosted>) {
        while hosted::at_dispatch(|_| Arc::get_mut(&mut this).is_none()) {
            thread::yield_now();
        }
    }

    fn receive(this: &Arc<Self, Hosted>) {
        let done = Completion::new(came, Arc::into_raw(this.clone()).cast_mut().cast());
        let room = this.room.lock().unwrap().as_mut_ptr();
        // SAFETY: the reference that was leaked keeps socket and room, which nobody else uses.
        unsafe { Tcp::receive(this.raw.at(), &mut (), done, room, 1) };
    }
}

#[test]
fn what_a_routine_schedules_runs_after_it_on_its_thread() {
    let (raw, mut peer) = accepted(any());
    let (done, all) = mpsc::channel();
    let reader = Reader { done: Mutex::new(Some(done)), ..Reader::new(raw, 20) };
    let reader = reader.start();
    for _ in 0..20 {
        peer.write_all(&[1]).unwrap();
    }
    assert_eq!(all.recv(), Ok(20));
    let threads = reader.threads.lock().unwrap();
    let own = thread::current().id();
    assert_eq!(threads[0], ("run", own), "scheduled here");
    // The next routine is called by the reactor.
    let reactor = threads.iter().find(|(what, _)| *what == "routine").unwrap().1;
    assert_ne!(reactor, own);
    assert!(threads[1..].iter().all(|(_, thread)| *thread == reactor), "{threads:?}");
    drop(threads);
    Reader::end(reader);
}

/// A connection with many bytes, and a second one behind it.
#[test]
fn nobody_is_starved() {
    const MANY: usize = 2000;
    let (raw, mut flood) = accepted(any());
    let (there, held) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let (done, all) = mpsc::channel();
    let reader = Reader { first: Mutex::new(Some((there, may_go))), ..Reader::new(raw, MANY) };
    let flooded = reader.start();
    let (raw, mut behind) = accepted(any());
    let other = Reader { done: Mutex::new(Some(done)), other: Some(flooded.clone()), ..Reader::new(raw, 1) };
    let other = other.start();
    // The reactor is blocked in a routine until both connections have bytes.
    flood.write_all(&bytes(1)).unwrap();
    held.recv().unwrap();
    flood.write_all(&bytes(MANY)).unwrap();
    behind.write_all(&bytes(1)).unwrap();
    go.send(()).unwrap();
    let by_then = all.recv().unwrap();
    println!("{by_then} bytes of the other connection");
    assert!(by_then < 100, "{by_then} of {MANY} bytes first");
    while flooded.received.load(Ordering::Relaxed) < MANY {
        thread::yield_now();
    }
    Reader::end(other);
    Reader::end(flooded);
}
