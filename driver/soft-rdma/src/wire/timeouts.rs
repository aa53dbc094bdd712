//! What an established connection waits for, and how long at most: the timer of its wire ends the wait.
//! Nothing else uses that timer then.

use iwarp::negotiate::First;
use platform::{Arc, Platform, Timer};

use super::{Wire, carry::Streams};
use crate::QueuePair;

/// The responder may have missed what the initiator has to send first, if that came too early: Linux siw looks at it only when
/// more comes. So it gets something more.
const RESPONDER_MICROSECONDS: u32 = 50_000;
/// A second, and how many of them a message of the peer waits for a receive of a consumer in the kernel: iWARP knows no receiver that is
/// not ready, this device does, in moderation. TCP holds the peer back that long.
const RECEIVE_MICROSECONDS: u32 = 1_000_000;
const RECEIVE_TICKS: u32 = 5;

/// What is waited for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    Nothing,
    /// A sign of the responder.
    Responder,
    /// A receive, for so many ticks already.
    Receive(u32),
}

impl Waits {
    /// What is waited for after a run: of a message that is `held` for its receive, or of a responder that is `silent`, to which
    /// what an initiator has to send first `was_sent` now.
    pub(super) fn next(self, held: bool, silent: bool, was_sent: bool) -> Self {
        match self {
            Self::Receive(_) if held => self,
            _ if held => Self::Receive(0),
            _ if silent && (was_sent || self == Self::Responder) => Self::Responder,
            _ => Self::Nothing,
        }
    }

    /// Whether a message has waited for its receive as long as it may; of a program as long as its own sends wait.
    pub(super) fn is_over(self, send_timeout: u32) -> bool {
        let most = if send_timeout > 0 { send_timeout } else { RECEIVE_TICKS };
        matches!(self, Self::Receive(ticks) if ticks >= most)
    }
}

impl<P: Platform> Streams<P> {
    /// The timer has expired.
    pub(super) fn tick(&mut self, queue_pair: &QueuePair<P>) {
        match self.waits {
            Waits::Receive(ticks) => self.waits = Waits::Receive(ticks.saturating_add(1)),
            // Not between two segments of a write (RFC 5041 section 5.2).
            Waits::Responder if queue_pair.state.lock().done == 0 => {
                self.tx.first = Some(First::Write);
                self.waits = Waits::Nothing;
            }
            Waits::Responder | Waits::Nothing => {}
        }
    }
}

impl<P: Platform> Wire<P> {
    /// Has the timer run for what is waited for now; it has expired if it is `late`.
    pub(super) fn wait(this: &Arc<Self, P>, before: Waits, now: Waits, late: bool) {
        if before == now && !late {
            return;
        }
        let mut state = this.state.lock();
        Timer::cancel(this);
        state.late = false;
        drop(state);
        match now {
            Waits::Nothing => {}
            Waits::Responder => Timer::start(this, RESPONDER_MICROSECONDS),
            Waits::Receive(_) => Timer::start(this, RECEIVE_MICROSECONDS),
        }
    }
}
