//! Fault rules for completions and notifications.

use fault_rules::{Action, Passage, Point};
use platform::{Arc, Platform, Timer};

use super::{CompletionQueue, State};

/// Whether the notification of a satisfied arm has passed its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotifyPoint {
    Before,
    Passed,
    /// A rule delays the notification: the timer runs.
    Delays,
}

impl<P: Platform> CompletionQueue<P> {
    /// Has a completion pass its point. True: a rule has the queue fail. Locks of queue pairs and SRQs may be held.
    #[cold]
    pub(super) fn pass_complete(&self) -> bool {
        self.pass(Point::Complete) == Some(Action::Overrun)
    }

    /// Has a completion or a notification pass its point.
    fn pass(&self, point: Point) -> Option<Action> {
        let device = self.adapter.device();
        if self.has_failed() || !device.faults().has_rule_for(point) {
            return None;
        }
        let passage = Passage { process: self.adapter.process(), ..Passage::new(point, P::system_time()) };
        device.faults().fault(device, &passage)
    }
}

impl<P: Platform> State<P> {
    /// Whether a rule delays the notification of the satisfied arm, which passes its point once.
    #[cold]
    pub(super) fn is_delayed_by_rule(&mut self, this: &Arc<CompletionQueue<P>, P>) -> bool {
        if self.notify_point == NotifyPoint::Before {
            self.notify_point = NotifyPoint::Passed;
            // A notification that moderation delays already passes no point: the timer runs.
            if self.delayed.is_none()
                && let Some(Action::Delay(microseconds)) = this.pass(Point::Notify)
            {
                self.notify_point = NotifyPoint::Delays;
                self.delayed = Some(microseconds);
                Timer::start(this, microseconds);
            }
        }
        self.notify_point == NotifyPoint::Delays
    }
}
