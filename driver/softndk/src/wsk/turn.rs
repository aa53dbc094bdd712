//! The calls and the IRP that work on the start of a socket, counted. tests/random/loom-models compiles this file too, and explores it.

use crate::atomic::{AtomicU32, Ordering};

/// A close is wanted.
const CLOSING: u32 = 1 << 31;
/// The start is over.
const OVER: u32 = 1 << 30;
const COUNT: u32 = OVER - 1;

/// Counts who is at a step of a start: the call that asks WSK, the IRP, and whoever cancels that. The last one to leave takes the next
/// step: then no call for the socket is in progress, and the IRP is free. Whoever has left may find the socket gone.
pub(super) struct Turn(AtomicU32);

/// What there is to do for who wants to close.
pub(super) enum Close {
    /// The start is over: the socket is to be closed.
    Now,
    /// To cancel the IRP, and to leave. The socket is closed when the start is over.
    Cancel,
    /// Nothing: it is closed when the start is over.
    Later,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A step begins, with its call and its IRP. False: there are to be no more, as a close is wanted.
    pub(super) fn begin(&self) -> bool {
        let begun = |turn: u32| if turn & CLOSING == 0 { turn.checked_add(2) } else { None };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begun).is_ok()
    }

    /// One of them leaves. True: the last.
    pub(super) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & COUNT == 1
    }

    /// The start is over. True: a close is wanted, and is now its affair.
    pub(super) fn end(&self) -> bool {
        self.0.swap(OVER, Ordering::AcqRel) & CLOSING != 0
    }

    /// A close is wanted.
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
