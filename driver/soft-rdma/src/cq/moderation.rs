//! Interrupt moderation: a notification is delayed until a number of completions wait, or an interval has passed.
//!
//! A count of 8 with interval MAXULONG gives one callback for 8 completions. The 20 us that NDKPerf and Microsoft's NDK sample set, with count
//! MAXULONG, is below a clock tick of Windows (docs/decisions.md); what it saves there was not measured.

use platform::{Arc, Platform, RunTimer, Timer};

use super::{CompletionQueue, State, faults::NotifyPoint};
use crate::{Error, watch};

/// MAXULONG: an interval or a count without limit.
const UNLIMITED: u32 = u32::MAX;

/// The limits of the delay.
#[derive(Clone, Copy)]
pub(super) struct Moderation {
    /// Microseconds for the timer. 0: no delay.
    delay: u32,
    /// Completions that end the delay. 0 and 1: no delay.
    count: u32,
}

impl Moderation {
    /// No delay, the default.
    pub(super) const NONE: Self = Self { delay: 0, count: 0 };

    fn is_none(self) -> bool {
        self.delay == 0 || self.count <= 1
    }
}

impl<P: Platform> State<P> {
    /// Whether the notification of a satisfied arm is delayed. Then the timer, a completion or the consumer ends the delay.
    // Not inlined: a push to a queue that is not armed does not pay for its registers.
    #[inline(never)]
    pub(super) fn delay_notification(&mut self, this: &Arc<CompletionQueue<P>, P>) -> bool {
        let Moderation { delay, count } = self.moderation;
        if self.failed.is_some() {
            return false;
        }
        if (watch::any() || self.notify_point == NotifyPoint::Delays) && self.is_delayed_by_rule(this) {
            return true;
        }
        if self.moderation.is_none() {
            return false;
        }
        let old = self.notified.max(self.taken);
        // No delay for a failed completion: perhaps no others follow that would reach the count. No delay for a full ring, which the next
        // completion overruns.
        let waiting = self.queued.wrapping_sub(old);
        if waiting >= u64::from(count) || self.error > old || self.ring.is_full() {
            return false;
        }
        if self.delayed.is_none() && delay != UNLIMITED {
            self.delayed = Some(delay);
            Timer::start(this, delay);
        }
        true
    }

    /// Ends the delay.
    pub(super) fn end_delay(&mut self, this: &Arc<CompletionQueue<P>, P>) {
        if self.delayed.take().is_some() {
            Timer::cancel(this);
        }
        if self.notify_point == NotifyPoint::Delays {
            self.notify_point = NotifyPoint::Passed;
        }
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Delays notifications until `count` completions wait or `interval` microseconds have passed
    /// (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION). MAXULONG is no limit, nor is a count above the depth; one of the two must be a
    /// limit. A notification that is delayed already is delivered by the new limits, at once if the interval is shorter, and not
    /// later than by the old ones: a consumer that changes the limits all the time does not delay it for ever. IRQL <= DISPATCH.
    pub fn moderate(this: &Arc<Self, P>, interval: u32, count: u32) -> Result<(), Error> {
        let mut state = this.state.lock();
        let count = if count as usize > state.ring.capacity() { UNLIMITED } else { count };
        if interval == UNLIMITED && count == UNLIMITED {
            return Err(Error::InvalidParameterMix);
        }
        // The interval is an upper limit, and the platform's timer may expire late.
        let early = if interval == UNLIMITED { 0 } else { P::timer_granularity() };
        let delay = interval.saturating_sub(early);
        state.moderation = Moderation { delay, count };
        let by_rule = state.notify_point == NotifyPoint::Delays;
        if !by_rule && state.delayed.is_some_and(|delayed| delay < delayed) {
            // The rest of the old interval is not known. A timer with the new interval, from now on, may end later.
            if state.is_satisfied() {
                state.notify(this);
            }
            state.end_delay(this);
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
        if state.notify_point == NotifyPoint::Delays && !this.timer.has_expired() {
            // A rule's delay, which began after this timer expired.
            return;
        }
        // Also ends a delay that began after this timer expired: that notification comes early.
        state.end_delay(this);
        if state.is_satisfied() {
            state.notify(this);
        }
    }
}
