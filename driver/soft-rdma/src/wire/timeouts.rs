//! The waits of an established connection, and their time limits. Their timer is the wire's, which nothing else uses then.

use iwarp::negotiate::RtrKind;
use platform::{Arc, Platform, Timer};

use super::{Wire, carry::Streams};
use crate::QueuePair;

/// Microseconds until the initiator sends a second RTR message, a write, if the responder has sent nothing. Linux siw
/// looks at a message that came too early only when more bytes arrive.
const RESPONDER_MICROSECONDS: u32 = 50_000;
/// A tick of the wait for a receive, and the ticks that a message waits for a receive of a kernel consumer. iWARP has
/// no RNR NAK; so the wire waits a limited time, in which TCP's window holds the peer back.
const RECEIVE_MICROSECONDS: u32 = 1_000_000;
const RECEIVE_TICKS: u32 = 5;

/// What a connection waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    Nothing,
    /// The responder's first FPDU.
    Responder,
    /// A receive for a message of the peer; the ticks so far.
    Receive(u32),
}

impl Waits {
    /// The wait after a run. `awaits_receive`: a message of the peer does; `silent`: nothing was received yet; `was_sent`:
    /// this run has sent the RTR message.
    pub(super) fn next(self, awaits_receive: bool, silent: bool, was_sent: bool) -> Self {
        match self {
            Self::Receive(_) if awaits_receive => self,
            _ if awaits_receive => Self::Receive(0),
            _ if silent && (was_sent || self == Self::Responder) => Self::Responder,
            _ => Self::Nothing,
        }
    }

    /// Whether a message has waited for its receive as long as it may: with a `send_timeout`, as long as the program's own sends wait.
    pub(super) fn is_over(self, send_timeout: u32) -> bool {
        let most = if send_timeout > 0 { send_timeout } else { RECEIVE_TICKS };
        matches!(self, Self::Receive(ticks) if ticks >= most)
    }
}

impl<P: Platform> Streams<P> {
    /// A tick of the timer.
    pub(super) fn tick(&mut self, queue_pair: &QueuePair<P>) {
        match self.waits {
            Waits::Receive(ticks) => self.waits = Waits::Receive(ticks.saturating_add(1)),
            // Not between two segments of a message (RFC 5041 section 5.2).
            Waits::Responder if queue_pair.state.lock().done == 0 => {
                self.tx.rtr = Some(RtrKind::Write);
                self.waits = Waits::Nothing;
            }
            Waits::Responder | Waits::Nothing => {}
        }
    }
}

impl<P: Platform> Wire<P> {
    /// Starts the timer for the wait `now`, if that is another than `before` or the timer has expired (`late`).
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
