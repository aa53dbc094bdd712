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
    /// Requests wait until their queue takes them, or for room in the ring of completions.
    Wait,
    /// Poll again.
    Run,
}

/// Says that the next completion schedules a run: only then may the rings of a queue pair be let sleep.
pub(crate) struct Awaited(());

/// When the rings of a queue are polled again.
#[derive(Debug)]
pub(crate) struct RingPoll {
    /// The next completion schedules a run, which polls them.
    waiting: AtomicBool,
}

impl RingPoll {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicBool::new(false) }
    }

    /// The next completion is to schedule a run. Before the rings are let sleep: one that then has a completion to wait for is told of it.
    pub(crate) fn await_completion(&self) -> Awaited {
        self.waiting.store(true, Ordering::Release);
        Awaited(())
    }

    /// A completion was reported, or will not be. True: a run is to follow.
    pub(crate) fn is_due(&self) -> bool {
        self.waiting.swap(false, Ordering::AcqRel)
    }
}
