//! Fault rules for frames of the cable. Frames that a rule delays wait in `transmit` or `receive`, in the order in which they came.

use ndk_provider::Fault;
use platform::{Addresses, Arc, Deferred, OutOfMemory, Platform as _, RunTimer, SpinLock, Timer, Weak};
use task_offload::packet::Packet;

use super::{Cable, RECEIVES_PER_RUN, SENDS_PER_RUN, interrupt_time};
use crate::platform::Windows;

/// Units of [`interrupt_time`] in a microsecond.
const PER_MICROSECOND: u64 = 10;

/// When a frame goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Behind the next frame of its direction, unless one waits so already.
    BehindNext,
    /// At this time, by [`interrupt_time`].
    At(u64),
}

impl Turn {
    pub(super) fn of(fault: Option<Fault>) -> Self {
        match fault {
            Some(Fault::Reorder) => Self::BehindNext,
            Some(Fault::Delay(microseconds)) => {
                // The clock may be that much behind.
                let delay = u64::from(microseconds).saturating_add(Windows::timer_granularity().into());
                Self::At(interrupt_time().saturating_add(delay.saturating_mul(PER_MICROSECOND)))
            }
            _ => Self::Now,
        }
    }
}

/// The timer of delayed frames, at whose expiry the cable runs. It is no timer of the cable, whose one timer is the opener's, and whose references
/// `close` awaits: a timer keeps its object, here for an hour at most.
pub(super) struct Delays {
    timer: Timer<Windows>,
    cable: SpinLock<Option<Weak<Cable, Windows>>, Windows>,
}

impl Delays {
    pub(super) fn new() -> Result<Arc<Self, Windows>, OutOfMemory> {
        let cable = SpinLock::<_, Windows>::new(None);
        let delays = Arc::try_new(Self { timer: Timer::default(), cable })?;
        Timer::initialize(&delays);
        Ok(delays)
    }

    /// Called once, before a frame is delayed.
    pub(super) fn begin(&self, cable: &Arc<Cable, Windows>) {
        *self.cable.lock() = Some(Arc::downgrade(cable));
    }
}

impl RunTimer<Windows> for Delays {
    fn timer(&self) -> &Timer<Windows> {
        &self.timer
    }

    fn expired(this: &Arc<Self, Windows>) {
        let cable = this.cable.lock().as_ref().and_then(Weak::upgrade);
        if let Some(cable) = cable {
            Deferred::schedule_and_release(cable);
        }
    }
}

impl Cable {
    /// Has a frame pass its point, and changes a bit of it if a rule says so. IRQL <= DISPATCH.
    pub(super) fn pass_frame(&self, is_received: bool, frame: &mut [u8]) -> Option<Fault> {
        let mut packet = None;
        let fault = self.provider.pass_frame(is_received, frame.len(), || {
            packet = Packet::of(frame);
            let (local, remote) = packet.map(|packet| (packet.source, packet.destination)).unzip();
            let addresses =
                if is_received { Addresses { local: remote, remote: local } } else { Addresses { local, remote } };
            (addresses, packet.is_some_and(|packet| packet.is_tcp()))
        });
        if let (Some(Fault::Corrupt), Some(packet)) = (fault, packet) {
            // Else two ends of a patch cable could undo what the other did.
            packet.corrupt(frame, if is_received { 2 } else { 1 });
        }
        fault
    }

    /// Queues frames whose delay is over, and all that wait for a point without rules; starts the timer for the next. Called in a run.
    pub(super) fn end_delays(this: &Arc<Self, Windows>) {
        let now = interrupt_time();
        let received = if this.provider.has_frame_rule(true) {
            this.receive.end_delays(now, RECEIVES_PER_RUN)
        } else {
            this.receive.release();
            None
        };
        let sent = if this.provider.has_frame_rule(false) {
            this.transmit.end_delays(now, SENDS_PER_RUN)
        } else {
            this.transmit.release();
            None
        };
        let Some(next) = [received, sent].into_iter().flatten().min() else { return };
        let left = next.saturating_sub(now) / PER_MICROSECOND;
        Timer::cancel(&this.delays);
        Timer::start(&this.delays, u32::try_from(left).unwrap_or(u32::MAX).max(1));
    }
}
