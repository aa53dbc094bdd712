//! The processors that a queue prefers.

use anyhow::ensure;
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_CQ_CREATE, IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_GET_AFFINITY, IOCTL_ND_SRQ_CREATE, IOCTL_ND_SRQ_FREE,
        IOCTL_ND_SRQ_GET_AFFINITY, ND_CREATE_CQ, ND_CREATE_SRQ, ND_RESOURCE_DESCRIPTOR,
    },
    wdm::GROUP_AFFINITY,
};
use zerocopy::IntoBytes as _;

use crate::{bench::Bench, client::nd_handle, pair::Site};

/// Makes a queue with each affinity, and asks for it.
fn asks(
    site: &Site,
    [get, free]: [u32; 2],
    make: impl Fn(GROUP_AFFINITY) -> crate::error::Result<ND_RESOURCE_DESCRIPTOR>,
) -> anyhow::Result<()> {
    let first = GROUP_AFFINITY { Mask: 1, ..GROUP_AFFINITY::ZERO };
    for asked in [GROUP_AFFINITY::ZERO, first] {
        let queue = nd_handle(make(asked)?.Handle);
        let found: GROUP_AFFINITY = site.client.query(get, &queue)?;
        // Without a wish: all processors of group 0, of which there is one at least.
        let expected = if asked == first { found == first } else { found.Group == 0 && found.Mask & 1 == 1 };
        ensure!(expected, "{found:?} where {asked:?} was asked for");
        let short = site.client.begin(get, queue.as_bytes(), size_of::<GROUP_AFFINITY>() - 1).status()?;
        ensure!(!short.is_success(), "an affinity without room for it");
        site.client.call(free, &queue)?;
    }
    Ok(())
}

// Shows P13.
pub(super) fn cq(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    asks(&site, [IOCTL_ND_CQ_GET_AFFINITY, IOCTL_ND_CQ_FREE], |affinity| {
        let create = ND_CREATE_CQ {
            Version: 1,
            QueueDepth: 1,
            AdapterHandle: site.adapter.handle(),
            Affinity: affinity,
            ..ND_CREATE_CQ::ZERO
        };
        site.client.query(IOCTL_ND_CQ_CREATE, &create)
    })
}

// Shows P13.
pub(super) fn srq(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    asks(&site, [IOCTL_ND_SRQ_GET_AFFINITY, IOCTL_ND_SRQ_FREE], |affinity| {
        let create = ND_CREATE_SRQ {
            Version: 1,
            QueueDepth: 1,
            MaxRequestSge: 1,
            PdHandle: site.pd.handle(),
            Affinity: affinity,
            ..ND_CREATE_SRQ::ZERO
        };
        site.client.query(IOCTL_ND_SRQ_CREATE, &create)
    })
}
