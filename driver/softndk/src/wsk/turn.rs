//! The count of the users of a step in a socket's start. tests/random/loom-models compiles this file too, and explores it.

use crate::atomic::{AtomicU32, Ordering};

/// A close waits for the end of the start.
const CLOSING: u32 = 1 << 31;
/// The start is over.
const OVER: u32 = 1 << 30;
const COUNT: u32 = OVER - 1;

/// Counts the users of a step: the call of WSK, its IRP, and a close that cancels the IRP. The user that leaves last takes the next step,
/// the IRP by a DPC: then no call for the socket is in progress, and the IRP is not in use. The other users must not use the socket after
/// they have left, as it may be freed.
pub(super) struct Turn(AtomicU32);

/// The action of the thread that closes the socket.
pub(super) enum Close {
    /// The start is over: close the socket.
    Now,
    /// Cancel the IRP, then leave. The thread that ends the start closes the socket.
    Cancel,
    /// None. The thread that takes the next step, or ends the start, closes the socket.
    Later,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Begins a step, with two users: its call and its IRP. False: a close waits, so the start ends without this step.
    pub(super) fn begin(&self) -> bool {
        let begun = |turn: u32| if turn & CLOSING == 0 { turn.checked_add(2) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begun).is_ok()
    }

    /// Called when the call, the IRP or the close leaves the step. True: it was the last user.
    pub(super) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & COUNT == 1
    }

    /// Ends the start. True: a close waits, and the caller carries it out.
    pub(super) fn end(&self) -> bool {
        self.0.swap(OVER, Ordering::AcqRel) & CLOSING != 0
    }

    /// Begins a close.
    pub(super) fn close(&self) -> Close {
        let wanted = |turn: u32| match turn {
            OVER => None,
            0 => Some(CLOSING),
            busy => Some(busy.saturating_add(1) | CLOSING),
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, wanted) {
            Err(_) => Close::Now,
            Ok(0) => Close::Later,
            Ok(_) => Close::Cancel,
        }
    }
}
