//! How many runs of the deferred call poll an empty ring before the ring sleeps.
//!
//! Of 1,000 writes on Linux, each posted when the one before had completed, none rang a doorbell (median); without these polls each did
//! (docs/decisions.md).

/// The least number of runs that find the ring empty before it sleeps.
const IDLE_RUNS: u32 = 16;
/// If fewer requests than this came since the previous doorbell, the ring went to sleep too early.
const WORTH: u32 = 64;
/// Each such doorbell in a row doubles the number of runs, this often at most: the program may not have returned from the doorbell when the
/// ring sleeps again.
const DOUBLINGS: u32 = 5;
/// After more such doorbells in a row than this, the program is taken to post only now and then, and the number of runs is not raised.
/// After PAUSE such doorbells it is raised again.
const TRIES: u32 = 16;
const PAUSE: u32 = 128;

/// Counts the runs that poll an empty ring.
#[derive(Debug, Default)]
pub(crate) struct PollBackoff {
    /// Runs that found the ring empty, since the last request or doorbell.
    idle: u32,
    /// Requests since the last doorbell.
    served: u32,
    /// Doorbells in a row that came after few requests. One that came after many reduces this to at most DOUBLINGS.
    early: u32,
}

impl PollBackoff {
    /// The ring has a request.
    pub(crate) fn busy(&mut self) {
        self.idle = 0;
        self.served = self.served.saturating_add(1);
    }

    /// The ring is empty in this run. False: it has to sleep.
    pub(crate) fn idle(&mut self) -> bool {
        self.idle = self.idle.saturating_add(1);
        !self.is_spent()
    }

    /// Whether enough runs have found the ring empty.
    pub(crate) fn is_spent(&self) -> bool {
        let doublings = if self.early > TRIES { 0 } else { self.early.min(DOUBLINGS) };
        self.idle >= IDLE_RUNS << doublings
    }

    /// A doorbell has rung.
    pub(crate) fn woken(&mut self) {
        if self.served < WORTH {
            self.early = if self.early < PAUSE { self.early.wrapping_add(1) } else { 0 };
        } else {
            self.early = self.early.min(DOUBLINGS);
        }
        (self.idle, self.served) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs until the ring sleeps; 0: it does not.
    fn runs(poll_backoff: &mut PollBackoff) -> u32 {
        (1..=IDLE_RUNS << DOUBLINGS).find(|_| !poll_backoff.idle()).unwrap_or(0)
    }

    #[test]
    fn doorbells_that_bring_little_have_it_look_longer_until_they_do_not_help() {
        let mut poll_backoff = PollBackoff::default();
        let mut seen = [0; PAUSE as usize + 1];
        for place in &mut seen {
            *place = runs(&mut poll_backoff);
            poll_backoff.woken();
            poll_backoff.busy();
        }
        assert_eq!(seen[..6], [16, 32, 64, 128, 256, 512]);
        assert!(seen[6..=16].iter().all(|runs| *runs == 512), "{seen:?}");
        assert!(seen[17..].iter().all(|runs| *runs == 16), "{seen:?}");
        assert_eq!(
            [runs(&mut poll_backoff), {
                poll_backoff.woken();
                runs(&mut poll_backoff)
            }],
            [16, 32],
            "it tries again"
        );
    }

    #[test]
    fn doorbells_that_are_worth_it_change_nothing() {
        let mut poll_backoff = PollBackoff::default();
        for _ in 0..3 {
            assert_eq!(runs(&mut poll_backoff), 16);
            (0..WORTH).for_each(|_| poll_backoff.busy());
            poll_backoff.woken();
        }
    }

    #[test]
    fn a_request_has_it_look_as_long_again() {
        let mut poll_backoff = PollBackoff::default();
        assert_eq!((1..IDLE_RUNS).filter(|_| !poll_backoff.idle()).count(), 0);
        poll_backoff.busy();
        assert_eq!(runs(&mut poll_backoff), 16);
    }
}
