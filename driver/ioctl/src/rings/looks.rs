//! When the rings of a queue are looked at again. tests/loom compiles this file once more, and explores it.

use crate::atomic::{AtomicBool, Ordering};

/// How long a queue that can do nothing for its ring waits to be woken before it looks by itself, in microseconds: sends that
/// succeed silently make room and tell nobody.
pub(crate) const STALLED_MICROSECONDS: u32 = 1000;

/// What there is to do for a ring, after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    /// Nothing until a doorbell, or a completion.
    Sleep,
    /// Requests wait for room in their queue, or for others to be reported.
    Wait,
    /// Look again.
    Run,
}

/// When the rings of a queue are looked at again.
#[derive(Debug)]
pub(crate) struct Looks {
    /// Completions are to have them looked at.
    waiting: AtomicBool,
}

/// What follows a run of the deferred call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing: a doorbell or a completion will come.
    Nothing,
    /// A timer, if no completion comes before: [`STALLED_MICROSECONDS`].
    Timer,
    /// Another run.
    Run,
}

impl Looks {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicBool::new(false) }
    }

    /// After all rings were served, which came to `next`. `sleep` is asked to let them sleep, or await completions; false: something has
    /// come.
    pub(crate) fn after(&self, next: Next, sleep: impl FnOnce() -> bool) -> After {
        if next == Next::Run {
            return After::Run;
        }
        // First: a ring that then has a completion to wait for is told of it.
        self.waiting.store(true, Ordering::Release);
        match next {
            Next::Wait => After::Timer,
            _ if sleep() => After::Nothing,
            _ => After::Run,
        }
    }

    /// A completion was reported, or will not be. True: a run is to follow.
    pub(crate) fn are_due(&self) -> bool {
        self.waiting.swap(false, Ordering::AcqRel)
    }
}
