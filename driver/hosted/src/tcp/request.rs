//! Requests, and the bytes that they send or receive.
#![expect(unsafe_code, reason = "routines are called with a context pointer, and bytes come by pointer")]

use std::{
    io::{self, Read, Write},
    slice,
};

use platform::{Completion, SocketError};

use super::outgoing::AllEnded;
use crate::processor::Raised;

/// The result of a request.
pub(super) type Outcome = Result<usize, SocketError>;

/// A request under way.
pub(super) struct Request(Completion);

impl Request {
    /// # Safety
    /// `done` came with the request, and no other code calls its routine.
    pub(super) unsafe fn new(done: Completion) -> Self {
        Self(done)
    }

    /// Ends the request, except for the call of its routine.
    pub(super) fn ends(self, outcome: Outcome) -> Ended {
        Ended { done: self.0, outcome }
    }
}

/// A request that has ended, and whose routine was not called yet.
#[must_use]
pub(super) struct Ended {
    done: Completion,
    outcome: Outcome,
}

impl Ended {
    /// This request as the only one that has ended.
    pub(super) fn alone(self) -> AllEnded {
        let mut all = AllEnded::default();
        all[0] = Some(self);
        all
    }

    /// Calls the routine. DPCs that the routine queues run on this thread after it has returned; unless the caller is
    /// at `DISPATCH_LEVEL`, they run before this function returns. The DPCs may make any call of `Sockets`, as no lock
    /// is held that such a call waits for.
    pub(super) fn complete(self) {
        let _raised = Raised::to_dispatch();
        // SAFETY: a `Request` has one completion, and becomes one `Ended`, which this call consumes.
        unsafe { self.done.complete(self.outcome) };
    }
}

/// The bytes of a send that were not sent yet.
pub(super) struct Bytes {
    next: *const u8,
    left: usize,
    length: usize,
}

// SAFETY: any thread may read the bytes until the request ends.
unsafe impl Send for Bytes {}

impl Bytes {
    /// # Safety
    /// The bytes are valid, and not written, as long as this value lives: until its request ends.
    pub(super) unsafe fn new(first: *const u8, length: usize) -> Self {
        Self { next: first, left: length, length }
    }

    /// Sends as many bytes as the host takes.
    pub(super) fn send(&mut self, mut to: impl Write) -> io::Result<()> {
        while self.left > 0 {
            let sent = to.write(self.rest())?;
            self.next = self.next.wrapping_add(sent);
            self.left -= sent;
        }
        Ok(())
    }

    /// The bytes that were not sent yet.
    pub(super) fn rest(&self) -> &[u8] {
        // SAFETY: valid by contract; `next` and `left` leave out the bytes that were sent.
        unsafe { slice::from_raw_parts(self.next, self.left) }
    }

    /// The length of the whole send.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// The room of a receive.
pub(super) struct Room {
    first: *mut u8,
    length: usize,
}

// SAFETY: no other code uses the room until the request ends.
unsafe impl Send for Room {}

impl Room {
    /// # Safety
    /// The bytes are valid and initialised, and no other code uses them, as long as this value lives: until its request
    /// ends.
    pub(super) unsafe fn new(first: *mut u8, length: usize) -> Self {
        Self { first, length }
    }

    /// Receives bytes into the room; returns their number.
    pub(super) fn receive(&mut self, mut from: impl Read) -> io::Result<usize> {
        // SAFETY: by contract.
        let room = unsafe { slice::from_raw_parts_mut(self.first, self.length) };
        from.read(room)
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}
