//! What a soak counts.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// More of them tell nothing new.
const FINDINGS_KEPT: usize = 20;

/// Counts of operations, and of their results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// All that the device was asked for: connections, work requests, resizes, arms, registrations, disconnects.
    pub operations: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Work requests posted.
    pub posted: u64,
    /// Of those, reported.
    pub completed: u64,
    /// Of the posted, not reported: their file or shared receive queue was closed, or their adapter removed.
    pub forgone: u64,
    /// Queues that were resized.
    pub resizes: u64,
    /// Files that were closed in mid-traffic.
    pub kills: u64,
    /// Calls of the kernel that were made to fail.
    pub faults: u64,
    /// Lives that such a fault, or the adapter's going, cut short.
    pub disturbed: u64,
    /// Completions, ends of control requests and notifications that were due and did not arrive.
    pub lost: u64,
    /// What was left behind: memory, objects, locked pages, sockets, timers.
    pub leaked: u64,
    /// Rules of the kernel that were broken.
    pub violations: u64,
    /// Other errors: wrong data, a completion that arrives twice, an unexpected refusal.
    pub wrong: u64,
    /// What was lost, leaked, broken or wrong, in words.
    pub findings: Vec<String>,
}

impl Figures {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        (self.lost, self.leaked, self.violations, self.wrong) == (0, 0, 0, 0)
    }

    /// Says what one of the counts is about.
    pub(super) fn find(&mut self, what: String) {
        if self.findings.len() < FINDINGS_KEPT {
            self.findings.push(what);
        }
    }
}

/// Figures that many threads add to.
#[derive(Debug, Default)]
pub struct Record(Mutex<Figures>);

impl Record {
    /// The figures, for oneself.
    pub(super) fn add(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As they are now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.add().clone()
    }
}
