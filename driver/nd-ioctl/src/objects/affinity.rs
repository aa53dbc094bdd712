//! The processors that a queue would have its notifications on: what it was asked for, as there are no interrupts to steer.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::Arc;

use crate::decode::{Reply, input, output};
use crate::objects::cq::Cq;
use crate::objects::srq::Srq;
use crate::session::file::ProviderContext;
use crate::{Host, Request};

/// An affinity without processors is none.
pub(crate) fn preference(asked: GROUP_AFFINITY) -> Option<GROUP_AFFINITY> {
    Some(asked).filter(|affinity| affinity.Mask != 0)
}

pub(crate) fn of_cq<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    let cq: Arc<Cq<H>, _> = context.handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    reply(context, request, cq.affinity)
}

pub(crate) fn of_srq<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    let srq: Arc<Srq<H>, _> = context.handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    reply(context, request, srq.affinity)
}

/// Without a preference: all processors of group 0.
fn reply<H: Host>(context: &ProviderContext<H>, request: &mut impl Request, asked: Option<GROUP_AFFINITY>) -> Reply {
    let all = || GROUP_AFFINITY { Mask: context.device.host.processors(), Group: 0, Reserved: [0; 3] };
    output(request, &asked.unwrap_or_else(all))
}
