//! A thread that waits serves the sockets. This test is a process of its own: in other tests only the reactor serves them.
#![expect(unsafe_code, reason = "a routine is called with a context pointer")]

use std::{
    cell::Cell,
    ffi::c_void,
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread, ThreadId},
    time::{Duration, Instant},
};

use hosted::{Tcp, serve_until, wake_leader};
use platform::{Completion, Sockets as _};
use raw::{Outcome, Raw, accepted, any};

#[allow(dead_code, reason = "this test needs little of it")]
#[path = "tcp/raw.rs"]
mod raw;

/// A wait that takes longer than this fails the test.
const LIMIT: Duration = Duration::from_secs(60);

/// What a thread waits for.
struct Wait {
    thread: Thread,
    is_over: AtomicBool,
    /// The thread that ended the wait.
    by: Mutex<Option<ThreadId>>,
}

impl Wait {
    fn new() -> Arc<Self> {
        Arc::new(Self { thread: thread::current(), is_over: AtomicBool::new(false), by: Mutex::default() })
    }

    fn end(&self) {
        *self.by.lock().unwrap() = Some(thread::current().id());
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
        wake_leader(self.key());
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits as a program that leaves its wait to the platform. False: it slept.
    fn serve(&self) -> bool {
        let serves = Cell::new(true);
        while !self.is_over.load(Ordering::Acquire) {
            serve_until(
                self.key(),
                || self.is_over.load(Ordering::Acquire),
                || {
                    serves.set(false);
                    thread::park();
                },
            );
        }
        serves.get()
    }

    /// Waits as a program with a wait of its own.
    fn sleep(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            thread::park();
        }
    }

    fn by(&self) -> ThreadId {
        self.by.lock().unwrap().unwrap()
    }
}

unsafe fn came(context: *mut c_void, outcome: Outcome) {
    assert_eq!(outcome, Ok(1));
    // SAFETY: leaked for this routine.
    unsafe { Arc::from_raw(context.cast_const().cast::<Wait>()) }.end();
}

/// Has a byte come, which ends the wait that `receive` gives to `wait`.
fn receive(raw: &Raw, peer: &mut impl Write, wait: impl FnOnce(&Wait)) -> ThreadId {
    let waits = Wait::new();
    let done = Completion::new(came, Arc::into_raw(waits.clone()).cast_mut().cast());
    let mut room = [0];
    // SAFETY: as documented; the room is there until the byte has come.
    unsafe { Tcp::receive(raw.at(), &mut (), done, room.as_mut_ptr(), 1) };
    peer.write_all(&[7]).unwrap();
    wait(&waits);
    assert_eq!(room, [7]);
    waits.by()
}

#[test]
fn what_a_thread_waits_for_comes_on_it() {
    let own = thread::current().id();
    let (raw, mut peer) = accepted(any());
    let (other, mut others_peer) = accepted(any());
    // The first ones come on the thread of the reactor, until the waits count as many.
    let started = Instant::now();
    let mut comes_here = || {
        let by = receive(&raw, &mut peer, |wait| {
            wait.serve();
        });
        assert!(started.elapsed() < LIMIT, "nothing comes on the thread that waits");
        by == own
    };
    while !comes_here() {}

    // Another thread ends the wait of the one that serves.
    for _ in 0..100 {
        let wait = Wait::new();
        let ended = wait.clone();
        let other = thread::spawn(move || ended.end());
        wait.serve();
        other.join().unwrap();
    }

    // A thread that waits otherwise gets its byte, whether another one serves, ceases to serve, or has ceased.
    let last = Wait::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            for _ in 0..1000 {
                receive(&other, &mut others_peer, |wait| wait.sleep());
            }
            last.end();
        });
        while !last.is_over.load(Ordering::Acquire) {
            receive(&raw, &mut peer, |wait| {
                wait.serve();
            });
        }
        sleeper.join().unwrap();
    });
    assert_ne!(receive(&raw, &mut peer, Wait::sleep), own);

    // Of two that would serve one does.
    thread::scope(|scope| {
        let both = [(&raw, &mut peer), (&other, &mut others_peer)].map(|(raw, peer)| {
            scope.spawn(move || {
                for _ in 0..1000 {
                    receive(raw, peer, |wait| {
                        wait.serve();
                    });
                }
            })
        });
        both.into_iter().for_each(|thread| thread.join().unwrap());
    });

    // One polls, and the other waits.
    thread::scope(|scope| {
        let poller = scope.spawn(|| {
            for _ in 0..1000 {
                receive(&other, &mut others_peer, |wait| {
                    while !wait.is_over.load(Ordering::Acquire) {
                        Tcp::poll_hint();
                    }
                });
            }
        });
        while !poller.is_finished() {
            receive(&raw, &mut peer, |wait| {
                wait.serve();
            });
        }
    });

    // A close while a thread serves.
    let wait = Wait::new();
    let ended = wait.clone();
    thread::scope(|scope| {
        let closing = scope.spawn(move || {
            drop(others_peer);
            other.close();
            ended.end();
        });
        wait.serve();
        closing.join().unwrap();
    });
    drop(peer);
    raw.close();
}
