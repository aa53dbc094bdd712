//! The processors for a queue's notifications. A query returns the affinity of the create request, as there are no interrupts to steer.

use ndk_abi::wdm::GROUP_AFFINITY;

use crate::decode::{Reply, output};
use crate::{Host, Request};

/// The affinity of a create request; `None` if it names no processors.
pub(crate) fn preference(asked: GROUP_AFFINITY) -> Option<GROUP_AFFINITY> {
    Some(asked).filter(|affinity| affinity.Mask != 0)
}

/// Returns the affinity of a queue; without a preference, all processors of group 0.
pub(crate) fn reply<H: Host>(host: &H, request: &mut impl Request, asked: Option<GROUP_AFFINITY>) -> Reply {
    let all = || GROUP_AFFINITY { Mask: host.processors(), Group: 0, Reserved: [0; 3] };
    output(request, &asked.unwrap_or_else(all))
}
