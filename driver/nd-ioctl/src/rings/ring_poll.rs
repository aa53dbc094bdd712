//! When the deferred call of a queue polls its rings again. tests/random/loom-models compiles this file too, and explores it.

use crate::atomic::{AtomicBool, Ordering};

/// The time after which a queue that found no room for a request polls its ring again, in microseconds: a send that succeeds
/// silently makes room and wakes nobody.
pub(crate) const STALLED_MICROSECONDS: u32 = 1000;

/// What there is to do for a ring, after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    /// Nothing until a doorbell, or a completion.
    Sleep,
    /// Requests wait for room in their queue, or for others to be reported.
    Wait,
    /// Poll again.
    Run,
}

/// When the rings of a queue are polled again.
#[derive(Debug)]
pub(crate) struct RingPoll {
    /// The next completion schedules a run, which polls them.
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

impl RingPoll {
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
    pub(crate) fn is_due(&self) -> bool {
        self.waiting.swap(false, Ordering::AcqRel)
    }
}
