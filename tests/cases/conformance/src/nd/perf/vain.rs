//! Polling for what has not arrived yet.

use std::{
    hint, thread,
    time::{Duration, Instant},
};

use anyhow::ensure;

use crate::nd::{
    client::{Cq, Request, both::CompletionQueue as _},
    roles::ANY,
};

/// Looks in vain before other threads are let in: there may be fewer processors than threads that are needed.
const LOOKS: u32 = 64;
/// How long to look before sleeping: about what it takes to wake up.
const AWAKE: Duration = Duration::from_micros(100);
/// How long to look where no queue can wake the thread, and how long to sleep then: short, compared with the time it has waited already.
const WIDE_AWAKE: Duration = Duration::from_millis(10);
const NAP: Duration = Duration::from_millis(1);

/// Looks in vain, one after another.
pub(super) struct Vain {
    /// About when they began.
    since: Instant,
    limit: Duration,
    /// Whether to sleep for a queue.
    sleeps: bool,
    looks: u32,
    /// By which the next one sleeps.
    arrival: Option<Request>,
}

impl Vain {
    /// None so far. There may be some for `limit`.
    pub(super) fn new(limit: Duration, sleeps: bool) -> Self {
        Self { since: Instant::now(), limit, sleeps, looks: 0, arrival: None }
    }

    /// The last one was not.
    pub(super) fn end(&mut self) {
        (self.looks, self.arrival) = (0, None);
    }

    /// Counts a poll that found no completion. Returns when the caller polls again: after a spin, a yield or `NAP`, or when the Notify of
    /// `cq` has ended.
    pub(super) fn count(&mut self, cq: Option<&Cq>) -> anyhow::Result<()> {
        self.looks += 1;
        if let Some(mut arrival) = self.arrival.take() {
            arrival.is_over_within(self.limit.saturating_sub(self.since.elapsed()));
            return Ok(());
        }
        if !self.looks.is_multiple_of(LOOKS) {
            hint::spin_loop();
            return Ok(());
        }
        // Not with the first look: to ask for the time costs more than looking.
        if self.looks == LOOKS {
            self.since = Instant::now();
        }
        let waited = self.since.elapsed();
        ensure!(waited < self.limit, "nothing has come within {:?}", self.limit);
        match cq.filter(|_| self.sleeps) {
            // Earlier completions may not end the Notify: the caller polls between this and sleeping.
            Some(cq) if waited >= AWAKE => self.arrival = Some(cq.notify(ANY)?),
            None if waited >= WIDE_AWAKE => thread::sleep(NAP),
            _ => thread::yield_now(),
        }
        Ok(())
    }
}
