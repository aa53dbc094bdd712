//! Who looks for completions serves the sockets. A process of its own: other tests expect that only the reactor does.
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

/// Tells on which thread a byte has come.
unsafe fn came(context: *mut c_void, outcome: Outcome) {
    assert_eq!(outcome, Ok(1));
    // SAFETY: leaked for this routine.
    let told = unsafe { Box::<Sender<ThreadId>>::from_raw(context.cast()) };
    told.send(thread::current().id()).unwrap();
}

/// Receives a byte, looking for it by `look`; on which thread it came.
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
        // Often: who looks now and then is not relied on.
        (0..100).for_each(|_| look());
        thread::yield_now();
    }
}

#[test]
fn bytes_come_on_the_thread_that_looks_for_them() {
    let own = thread::current().id();
    let (raw, mut peer) = accepted(any());
    // Nobody looks: the reactor does.
    assert_ne!(receive(&raw, &mut peer, || ()), own);
    // Whoever has a lock may not be called back.
    let looks_with_a_lock = || at_dispatch(|_| Tcp::poll_hint());
    assert!((0..1000).all(|_| receive(&raw, &mut peer, looks_with_a_lock) != own));
    // How many of them depends on who has a processor.
    let looked = (0..10_000).filter(|_| receive(&raw, &mut peer, Tcp::poll_hint) == own).count();
    assert!(looked > 0, "nothing came on this thread");
    // The reactor takes over when nobody looks any more.
    assert_ne!(receive(&raw, &mut peer, || ()), own);
    drop(peer);
    raw.close();
}
