//! The processors that a queue would have its notifications on: what it was asked for, as there are no interrupts to steer.

use ndk_abi::wdm::GROUP_AFFINITY;

use crate::decode::{Reply, output};
use crate::{Host, Request};

/// An affinity without processors is none.
pub(crate) fn preference(asked: GROUP_AFFINITY) -> Option<GROUP_AFFINITY> {
    Some(asked).filter(|affinity| affinity.Mask != 0)
}

/// The affinity of a queue. Without a preference: all processors of group 0.
pub(crate) fn reply<H: Host>(host: &H, request: &mut impl Request, asked: Option<GROUP_AFFINITY>) -> Reply {
    let all = || GROUP_AFFINITY { Mask: host.processors(), Group: 0, Reserved: [0; 3] };
    output(request, &asked.unwrap_or_else(all))
}
