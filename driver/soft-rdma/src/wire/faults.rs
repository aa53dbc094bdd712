//! Fault rules for DDP segments.

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
