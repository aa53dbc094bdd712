//! The processors that a queue would have its notifications on: what it was asked for, as there are no interrupts to steer.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::Arc;

use crate::decode::{Reply, input, output};
use crate::objects::Handles;
use crate::objects::cq::Cq;
use crate::objects::srq::Srq;
use crate::{Host, Request};

/// An affinity without processors is none.
pub(crate) fn preference(asked: GROUP_AFFINITY) -> Option<GROUP_AFFINITY> {
    Some(asked).filter(|affinity| affinity.Mask != 0)
}

pub(crate) fn of_cq<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request) -> Reply {
    let cq: Arc<Cq<H>, _> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    reply(host, request, cq.affinity)
}

pub(crate) fn of_srq<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request) -> Reply {
    let srq: Arc<Srq<H>, _> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    reply(host, request, srq.affinity)
}

/// Without a preference: all processors of group 0.
fn reply<H: Host>(host: &H, request: &mut impl Request, asked: Option<GROUP_AFFINITY>) -> Reply {
    let all = || GROUP_AFFINITY { Mask: host.processors(), Group: 0, Reserved: [0; 3] };
    output(request, &asked.unwrap_or_else(all))
}
