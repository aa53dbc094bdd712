//! When the deferred call of a queue polls its rings again. tests/random/loom-models compiles this file too, and explores its
//! interleavings.

use crate::atomic::{AtomicBool, Ordering};

/// If its queue had no room for a request, a ring is polled again after this time, in microseconds: a send that succeeds silently makes
/// room, and no completion schedules a run.
pub(crate) const STALLED_MICROSECONDS: u32 = 1000;

/// What a ring needs after it was served, in ascending order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    /// Nothing: a doorbell or a completion schedules the next run.
    Sleep,
    /// Requests wait in the ring for room in their queue or in the ring of completions: a timer or a completion schedules the next run.
    Wait,
    /// Another run.
    Run,
}

/// Proof that the next completion schedules a run; without it the rings of a queue pair must not sleep.
pub(crate) struct Awaited(());

/// When the rings of a queue are polled again.
#[derive(Debug)]
pub(crate) struct RingPoll {
    /// The next completion schedules a run.
    waiting: AtomicBool,
}

impl RingPoll {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicBool::new(false) }
    }

    /// Makes the next completion schedule a run. Called before the rings sleep, so that a completion in between is not missed.
    pub(crate) fn await_completion(&self) -> Awaited {
        self.waiting.store(true, Ordering::Release);
        Awaited(())
    }

    /// A completion was reported. True: the caller has to schedule a run.
    pub(crate) fn take_due(&self) -> bool {
        self.waiting.swap(false, Ordering::AcqRel)
    }
}
