//! Counts of what went no further, by reason.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::vtep::Dropped;

/// The counts, to which several threads add.
#[derive(Debug, Default)]
pub struct Drops([AtomicU64; Dropped::ALL.len()]);

impl Drops {
    /// Counts a frame or a datagram that goes no further.
    pub fn count(&self, why: Dropped) {
        if let Some(count) = self.0.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was dropped for this reason so far.
    #[must_use]
    pub fn of(&self, why: Dropped) -> u64 {
        self.0.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}
