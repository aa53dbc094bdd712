//! The count of what is at work on the start of a socket. tests/random/loom-models compiles this file too, and explores it.

use crate::atomic::{AtomicU32, Ordering};

/// A close waits for the end of the start.
const CLOSING: u32 = 1 << 31;
/// The start is over.
const OVER: u32 = 1 << 30;
const COUNT: u32 = OVER - 1;

/// Counts what is at a step of a start: the call of WSK, its IRP, and a close that cancels the IRP. The thread that leaves last takes the
/// next step: then no call for the socket is in progress, and the IRP is not in use. The other threads must not use the socket after they
/// have left, as it may be freed.
pub(super) struct Turn(AtomicU32);

/// What a close has to do.
pub(super) enum Close {
    /// The start is over: close the socket.
    Now,
    /// Cancel the IRP, then leave. The socket is closed when the start is over.
    Cancel,
    /// Nothing. The socket is closed when the start is over.
    Later,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Begins a step, with its call and its IRP. False: a close waits, so there are no more steps.
    pub(super) fn begin(&self) -> bool {
        let begun = |turn: u32| if turn & CLOSING == 0 { turn.checked_add(2) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begun).is_ok()
    }

    /// The call, the IRP or the close leaves the step. True: it is the last.
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
