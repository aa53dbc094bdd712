//! What an established connection waits for, and for how long. Its timer is the wire's timer, which nothing else uses
//! while the connection is established.

use iwarp::negotiate::RtrKind;
use platform::{Arc, Platform, Timer};

use super::{Wire, streams::Streams};
use crate::QueuePair;

/// Microseconds until the initiator sends a second RTR message, a write, if the responder has sent nothing. Linux siw handles a message that came
/// too early only when more bytes arrive.
const RESPONDER_MICROSECONDS: u32 = 50_000;
/// A tick of the wait for a receive, and the ticks that a message waits for a receive of a kernel consumer. iWARP has
/// no RNR NAK; so the wire waits a limited time, in which TCP's window holds the peer back.
const RECEIVE_MICROSECONDS: u32 = 1_000_000;
const RECEIVE_TICKS: u32 = 5;

/// What the timer of an established connection is for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WireTimer {
    #[default]
    Off,
    /// The responder's first FPDU is due.
    Responder,
    /// A message of the peer awaits its receive; the ticks so far.
    Receive(u32),
}

impl WireTimer {
    /// The timer after a run. `awaits_receive`: a message of the peer waits for its receive; `silent`: no FPDU was taken yet; `rtr_sent`: this run
    /// has sent the RTR message.
    pub(super) fn next(self, awaits_receive: bool, silent: bool, rtr_sent: bool) -> Self {
        match self {
            Self::Receive(_) if awaits_receive => self,
            _ if awaits_receive => Self::Receive(0),
            _ if silent && (rtr_sent || self == Self::Responder) => Self::Responder,
            _ => Self::Off,
        }
    }

    /// Whether a message has waited for its receive as long as it may: `send_timeout` seconds, as the program's own sends do, or [`RECEIVE_TICKS`]
    /// if that is 0.
    pub(super) fn receive_is_overdue(self, send_timeout: u32) -> bool {
        let most = if send_timeout > 0 { send_timeout } else { RECEIVE_TICKS };
        matches!(self, Self::Receive(ticks) if ticks >= most)
    }
}

impl<P: Platform> Streams<P> {
    /// The timer has expired: counts a tick of the wait for a receive, or makes a second RTR message due.
    pub(super) fn tick(&mut self, queue_pair: &QueuePair<P>) {
        match self.timer {
            WireTimer::Receive(ticks) => self.timer = WireTimer::Receive(ticks.saturating_add(1)),
            // Not between two segments of a message (RFC 5041 section 5.2).
            WireTimer::Responder if queue_pair.state.lock().done == 0 => {
                self.tx.rtr = Some(RtrKind::Write);
                self.sends_rtr_again = true;
                self.timer = WireTimer::Off;
            }
            WireTimer::Responder | WireTimer::Off => {}
        }
    }
}

impl<P: Platform> Wire<P> {
    /// Starts the timer for `streams.timer`, if that differs from `before` or the timer has expired (`late`). While a fault rule delays segments, it
    /// is for the end of the first delay, and at most a second: the rule may be removed.
    pub(super) fn set_timer(this: &Arc<Self, P>, streams: &mut Streams<P>, before: WireTimer, late: bool) {
        let delays = [streams.rx.delay, streams.tx.delay].into_iter().flatten();
        let delay = delays.map(|delay| delay.left::<P>().unwrap_or(1)).min();
        let was_delayed = core::mem::replace(&mut streams.is_delayed, delay.is_some());
        if before == streams.timer && !late && !streams.is_delayed && !was_delayed {
            return;
        }
        let mut state = this.state.lock();
        Timer::cancel(this);
        state.late = false;
        drop(state);
        let microseconds = match (delay, streams.timer) {
            (Some(left), _) => left.min(RECEIVE_MICROSECONDS),
            (None, WireTimer::Off) => return,
            (None, WireTimer::Responder) => RESPONDER_MICROSECONDS,
            (None, WireTimer::Receive(_)) => RECEIVE_MICROSECONDS,
        };
        Timer::start(this, microseconds);
    }
}
