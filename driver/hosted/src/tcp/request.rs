//! Requests, and the bytes that they move.
#![expect(unsafe_code, reason = "routines are called with a context pointer, and bytes come by pointer")]

use std::{
    io::{self, Read, Write},
    slice,
};

use platform::{Completion, SocketError};

use super::outgoing::AllEnded;
use crate::processor::Raised;

/// What a request comes to.
pub(super) type Outcome = Result<usize, SocketError>;

/// A request under way.
pub(super) struct Request(Completion);

impl Request {
    /// # Safety
    /// It was taken with `done`, whose routine is called by nobody else.
    pub(super) unsafe fn new(done: Completion) -> Self {
        Self(done)
    }

    /// It is over, but for its routine.
    pub(super) fn ends(self, outcome: Outcome) -> Ended {
        Ended { done: self.0, outcome }
    }
}

/// A request that is over, and whose routine was not called.
#[must_use]
pub(super) struct Ended {
    done: Completion,
    outcome: Outcome,
}

impl Ended {
    /// Nothing else has ended.
    pub(super) fn alone(self) -> AllEnded {
        let mut all = AllEnded::default();
        all[0] = Some(self);
        all
    }

    /// Calls the routine. DPCs that it queues run on this thread, when it has returned, and before this does unless the caller is at
    /// `DISPATCH_LEVEL`. They may make any call of `Sockets`: no lock is held.
    pub(super) fn tell(self) {
        let _raised = Raised::to_dispatch();
        // SAFETY: a `Request` is of one completion, and moves into one `Ended`, which is used up.
        unsafe { self.done.complete(self.outcome) };
    }
}

/// Bytes of a request, not sent yet.
pub(super) struct Bytes {
    next: *const u8,
    left: usize,
    length: usize,
}

// SAFETY: they are anybody's to read until the request ends.
unsafe impl Send for Bytes {}

impl Bytes {
    /// # Safety
    /// The bytes are valid, and not written, as long as this lives: until the request that it is kept with ends.
    pub(super) unsafe fn new(first: *const u8, length: usize) -> Self {
        Self { next: first, left: length, length }
    }

    /// Sends all that goes.
    pub(super) fn send(&mut self, mut to: impl Write) -> io::Result<()> {
        while self.left > 0 {
            // SAFETY: valid by contract; those sent before are not in it.
            let bytes = unsafe { slice::from_raw_parts(self.next, self.left) };
            let sent = to.write(bytes)?;
            self.next = self.next.wrapping_add(sent);
            self.left -= sent;
        }
        Ok(())
    }

    /// So many they were.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// Room for the bytes of a request.
pub(super) struct Room {
    first: *mut u8,
    length: usize,
}

// SAFETY: nobody else uses it until the request ends.
unsafe impl Send for Room {}

impl Room {
    /// # Safety
    /// The bytes are valid and initialised, and nobody else uses them, as long as this lives: until the request that it is kept with
    /// ends.
    pub(super) unsafe fn new(first: *mut u8, length: usize) -> Self {
        Self { first, length }
    }

    /// Receives bytes into it; how many they are.
    pub(super) fn receive(&mut self, mut from: impl Read) -> io::Result<usize> {
        // SAFETY: by contract.
        let room = unsafe { slice::from_raw_parts_mut(self.first, self.length) };
        from.read(room)
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}
