//! A thread that polls for completions serves the sockets. This test is a process of its own: in other tests only the reactor serves them.
#![cfg(unix)]
#![expect(unsafe_code, reason = "a routine is called with a context pointer")]

use std::{
    ffi::c_void,
    sync::mpsc::{self, Sender},
    thread::{self, ThreadId},
};

use hosted::{Tcp, at_dispatch};
use platform::{Completion, Sockets as _};
use raw::{Outcome, Raw, accepted, any};

#[allow(dead_code, reason = "this test needs little of it")]
#[path = "tcp/raw.rs"]
mod raw;

/// Sends the id of the thread that the byte's routine runs on.
unsafe fn came(context: *mut c_void, outcome: Outcome) {
    assert_eq!(outcome, Ok(1));
    // SAFETY: leaked for this routine.
    let told = unsafe { Box::<Sender<ThreadId>>::from_raw(context.cast()) };
    told.send(thread::current().id()).unwrap();
}

/// Receives a byte, polling by `look`; returns the thread of the byte's routine.
fn receive(raw: &Raw, peer: &mut impl std::io::Write, look: impl Fn()) -> ThreadId {
    let (told, threads) = mpsc::channel();
    let done = Completion::new(came, Box::into_raw(Box::new(told)).cast());
    let mut room = [0];
    // SAFETY: as documented; the room is there until the byte has come.
    unsafe { Tcp::receive(raw.at(), &mut (), done, room.as_mut_ptr(), 1) };
    peer.write_all(&[7]).unwrap();
    loop {
        if let Ok(thread) = threads.try_recv() {
            assert_eq!(room, [7]);
            return thread;
        }
        // 100 times in a row: the reactor does not leave the sockets to a thread that polls rarely.
        (0..100).for_each(|_| look());
        thread::yield_now();
    }
}

#[test]
fn bytes_come_on_the_thread_that_looks_for_them() {
    let own = thread::current().id();
    let (raw, mut peer) = accepted(any());
    // No thread polls: the reactor calls the routine.
    assert_ne!(receive(&raw, &mut peer, || ()), own);
    // A poll at DISPATCH_LEVEL, as under a lock, calls no routine.
    let looks_with_a_lock = || at_dispatch(|_| Tcp::poll_hint());
    assert!((0..1000).all(|_| receive(&raw, &mut peer, looks_with_a_lock) != own));
    // The scheduler of the host determines how many bytes arrive on this thread.
    let looked = (0..10_000).filter(|_| receive(&raw, &mut peer, Tcp::poll_hint) == own).count();
    assert!(looked > 0, "nothing came on this thread");
    // When the thread stops polling, the reactor serves the sockets again.
    assert_ne!(receive(&raw, &mut peer, || ()), own);
    drop(peer);
    raw.close();
}
