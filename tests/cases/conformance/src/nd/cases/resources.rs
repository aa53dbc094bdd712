//! What a program can use up: ND_INSUFFICIENT_RESOURCES.

use anyhow::{bail, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
};

use crate::{
    memory::PAGE_SIZE,
    nd::{
        client::{Adapter, Mr, SrqSize, both::CompletionQueue as _, end_of},
        pair::is,
        run::Nd,
    },
    pair::refused,
};

/// Requests of an adapter that wait at a time, at most (docs/decisions.md).
pub(super) const MAX_WAITING: usize = 1024;

/// Bytes that are registered again and again until no more can be locked.
pub(super) const CHUNK: usize = 64 << 20;

const SRQ: SrqSize = SrqSize { depth: 16, sges: 1, threshold: 0 };

// Shows R6.
pub(in crate::nd) fn requests(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let (cq, srq) = (adapter.cq(16)?, adapter.srq(SRQ)?);
    let mut waiting = (0..MAX_WAITING).map(|_| cq.notify(ND_CQ_NOTIFY_ANY)).collect::<Result<Vec<_>, _>>()?;
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS] {
        is(end_of(cq.notify(kind))?, STATUS_INSUFFICIENT_RESOURCES, "one request too many")?;
    }
    is(end_of(srq.notify())?, STATUS_INSUFFICIENT_RESOURCES, "one request too many, of a shared receive queue")?;
    ensure!(!waiting.iter_mut().any(|request| request.is_over()), "it ended one that waits");
    // Each adapter has as many.
    let others = nd.adapter()?.0.cq(16)?;
    let mut other = others.notify(ND_CQ_NOTIFY_ANY)?;
    cq.cancel()?;
    for request in &mut waiting {
        is(request.status()?, STATUS_CANCELLED, "a request that waited")?;
    }
    ensure!(!other.is_over(), "a request of another adapter is over");
    others.cancel()?;
    is(other.status()?, STATUS_CANCELLED, "the request of the other adapter")?;
    let (mut of_cq, mut of_srq) = (cq.notify(ND_CQ_NOTIFY_ANY)?, srq.notify()?);
    ensure!(!of_cq.is_over() && !of_srq.is_over(), "there is no room for requests again");
    cq.cancel()?;
    srq.cancel()?;
    is(of_cq.status()?, STATUS_CANCELLED, "the request of the completion queue")?;
    is(of_srq.status()?, STATUS_CANCELLED, "the request of the shared receive queue")
}

/// Registers `memory` until not one more page can be locked for this process.
fn lock_all(adapter: &Adapter, memory: &Mr) -> anyhow::Result<Vec<Mr>> {
    let (mut regions, mut length) = (Vec::new(), CHUNK);
    while length >= PAGE_SIZE {
        ensure!(regions.len() < 1000, "{} regions, and still no limit", regions.len());
        let region = Mr::new(adapter, 1)?;
        match end_of(region.register_range(memory.memory().address(0), length, 0))? {
            STATUS_SUCCESS => regions.push(region),
            STATUS_INSUFFICIENT_RESOURCES => length /= 2,
            status => bail!("registering {length} bytes: {status}"),
        }
    }
    Ok(regions)
}

// Shows N58, R6.
pub(in crate::nd) fn locked_memory(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let (cq, srq) = (adapter.cq(16)?, adapter.srq(SRQ)?);
    let memory = Mr::new(&adapter, CHUNK)?;
    let mut regions = lock_all(&adapter, &memory)?;
    // A ring is memory that is locked. Without rings there is nothing to lock.
    let grow = || (cq.resize(1024), srq.modify(1024, 0));
    let (resized, modified) = grow();
    if nd.uses_rings() {
        refused(resized, STATUS_INSUFFICIENT_RESOURCES, "a larger completion queue")?;
        refused(modified, STATUS_INSUFFICIENT_RESOURCES, "a larger shared receive queue")?;
    } else {
        resized?;
        modified?;
    }
    nd.note(format!("{} registrations lock all that a process may", regions.len()));
    drop(regions.swap_remove(0));
    let (resized, modified) = grow();
    resized?;
    Ok(modified?)
}
