//! Fault rules for DDP segments. A rule that delays a segment stops its direction of the connection for a time: [`Delay`].

use fault_rules::{Action, Passage, Point, Role};
use platform::Platform;

use super::Wire;
use crate::{Device, QueuePair};

/// A point of a wire that a rule is for.
pub(super) struct SegmentPoint<'a, P: Platform> {
    device: &'a Device<P>,
    /// Of a segment whose length is not said.
    passage: Passage,
}

impl<'a, P: Platform> SegmentPoint<'a, P> {
    /// `None`: no rule is for the point. IRQL <= DISPATCH.
    pub(super) fn new(point: Point, wire: &'a Wire<P>, queue_pair: &QueuePair<P>) -> Option<Self> {
        let device = &*wire.device;
        if !device.faults().has_rule_for(point) {
            return None;
        }
        let addresses = wire.addresses();
        let passage = Passage {
            local: addresses.local,
            remote: addresses.remote,
            role: Some(if wire.is_initiator { Role::Active } else { Role::Passive }),
            process: queue_pair.pd.adapter().process(),
            queue_pair: Some(queue_pair.number),
            ..Passage::new(point, P::system_time())
        };
        Some(Self { device, passage })
    }

    /// Has a segment with `bytes` of data pass. `is_checked`: its FPDU has a CRC.
    pub(super) fn pass(&self, bytes: usize, is_checked: bool) -> Option<Action> {
        let passage = Passage { bytes: Some(bytes as u64), is_checked, ..self.passage };
        self.device.faults().fault(self.device, &passage)
    }
}

/// A time in which no segment of a direction moves.
#[derive(Clone, Copy)]
pub(super) struct Delay {
    /// When it began, by [`Platform::system_time`].
    since: u64,
    microseconds: u32,
}

impl Delay {
    pub(super) fn new<P: Platform>(microseconds: u32) -> Self {
        Self { since: P::system_time(), microseconds }
    }

    /// Whether `delay` goes on; else ends it. It ends early if no rule is for the point any more.
    pub(super) fn goes_on<P: Platform>(delay: &mut Option<Self>, point: Option<&SegmentPoint<'_, P>>) -> bool {
        let goes_on = delay.is_some_and(|delay| point.is_some() && delay.left::<P>().is_some());
        if !goes_on {
            *delay = None;
        }
        goes_on
    }

    /// Microseconds until it is over; `None`: it is over, or the clock was set back.
    pub(super) fn left<P: Platform>(self) -> Option<u32> {
        const PER_MICROSECOND: u64 = 10;
        let passed = P::system_time().checked_sub(self.since)? / PER_MICROSECOND;
        let left = u64::from(self.microseconds).checked_sub(passed).filter(|left| *left > 0)?;
        u32::try_from(left).ok()
    }
}
