//! Interrupt moderation: notifications are held back until enough completions wait, or until a time is over.

use platform::{Arc, Platform, RunTimer, Timer};

use super::{CompletionQueue, State};
use crate::Error;

/// No limit, for an interval and for a count.
const UNLIMITED: u32 = u32::MAX;

/// Until when a notification is held back.
#[derive(Clone, Copy)]
pub(super) struct Moderation {
    /// Microseconds to set the timer to. 0: nothing is held back.
    delay: u32,
    /// Completions. 0 and 1: nothing is held back.
    count: u32,
}

impl Moderation {
    /// The default.
    pub(super) const NONE: Self = Self { delay: 0, count: 0 };

    fn is_none(self) -> bool {
        self.delay == 0 || self.count <= 1
    }
}

impl<P: Platform> State<P> {
    /// Whether the arm, which is satisfied, has to wait. If so, something ends the wait: the timer, a completion, or the
    /// consumer.
    pub(super) fn hold_back(&mut self, this: &Arc<CompletionQueue<P>, P>) -> bool {
        let Moderation { delay, count } = self.moderation;
        if self.moderation.is_none() || self.failed.is_some() {
            return false;
        }
        let old = self.notified.max(self.taken);
        // A failed completion may be the last one for long: nobody may come to make up the number. A full queue is about to
        // overrun.
        let waiting = self.queued.wrapping_sub(old);
        if waiting >= u64::from(count) || self.error > old || self.ring.is_full() {
            return false;
        }
        if self.held.is_none() && delay != UNLIMITED {
            self.held = Some(delay);
            Timer::start(this, delay);
        }
        true
    }

    /// Nothing is held back any more.
    pub(super) fn let_go(&mut self, this: &Arc<CompletionQueue<P>, P>) {
        if self.held.take().is_some() {
            Timer::cancel(this);
        }
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Has notifications held back until `count` completions wait or `interval` microseconds are over, whichever is first
    /// (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION). MAXULONG, and a count above the depth, are no limit; both may not be without.
    /// A notification that is held back already is delivered when the new settings say, at once if the interval is shorter,
    /// and not later than under the old ones: settings that change all the time must not delay it for ever. IRQL <= DISPATCH.
    pub fn moderate(this: &Arc<Self, P>, interval: u32, count: u32) -> Result<(), Error> {
        let mut state = this.state.lock();
        let count = if count as usize > state.ring.capacity() { UNLIMITED } else { count };
        if interval == UNLIMITED && count == UNLIMITED {
            return Err(Error::InvalidParameterMix);
        }
        // The interval is a maximum, and the timer may be late.
        let early = if interval == UNLIMITED { 0 } else { P::timer_granularity() };
        let delay = interval.saturating_sub(early);
        state.moderation = Moderation { delay, count };
        if state.held.is_some_and(|held| delay < held) {
            // How much of the old interval is left is not known: the new one, from now on, may end later.
            if state.is_satisfied() {
                state.notify(this);
            }
            state.let_go(this);
        }
        Self::notify_if_due(this, &mut state);
        Ok(())
    }
}

impl<P: Platform> RunTimer<P> for CompletionQueue<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    fn expired(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // Also a timer that was started since this one expired: what it would wait for is looked at now.
        state.let_go(this);
        if state.is_satisfied() {
            state.notify(this);
        }
    }
}
