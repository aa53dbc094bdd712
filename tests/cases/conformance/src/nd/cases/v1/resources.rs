//! What a program can use up: ND_INSUFFICIENT_RESOURCES.

use anyhow::{bail, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES},
};

use crate::{
    error::Error,
    memory::PAGE_SIZE,
    nd::{
        cases::resources::{CHUNK, MAX_WAITING},
        client::{both::CompletionQueue as _, end_of, v1::Mr},
        pair::is,
        run::Nd,
    },
    pair::refused,
};

// Shows V35.
pub(in crate::nd) fn requests(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let cq = adapter.cq(16)?;
    let mut waiting = (0..MAX_WAITING).map(|_| cq.notify(ND_CQ_NOTIFY_ANY)).collect::<Result<Vec<_>, _>>()?;
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS] {
        is(end_of(cq.notify(kind))?, STATUS_INSUFFICIENT_RESOURCES, "one request too many")?;
    }
    ensure!(!waiting.iter_mut().any(|request| request.is_over()), "it ended one that waits");
    cq.cancel()?;
    for request in &mut waiting {
        is(request.status()?, STATUS_CANCELLED, "a request that waited")?;
    }
    let mut again = cq.notify(ND_CQ_NOTIFY_ANY)?;
    ensure!(!again.is_over(), "there is no room for requests again");
    cq.cancel()?;
    is(again.status()?, STATUS_CANCELLED, "the last request")
}

/// Registers parts of `memory` until not one more page can be locked for this process.
fn lock_all(memory: &Mr) -> anyhow::Result<Vec<Mr>> {
    let (mut regions, mut length) = (Vec::new(), CHUNK);
    while length >= PAGE_SIZE {
        ensure!(regions.len() < 1000, "{} regions, and still no limit", regions.len());
        let region = memory.again();
        match region.register_part(0..length) {
            Ok(()) => regions.push(region),
            Err(Error::Refused { status: STATUS_INSUFFICIENT_RESOURCES, .. }) => length /= 2,
            Err(error) => bail!("registering {length} bytes: {error}"),
        }
    }
    Ok(regions)
}

// Shows V35.
pub(in crate::nd) fn locked_memory(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let cq = adapter.cq(16)?;
    let mut regions = lock_all(&Mr::new(&adapter, CHUNK))?;
    // A ring is memory that is locked. Without rings there is nothing to lock.
    if nd.uses_rings() {
        refused(cq.resize(1024), STATUS_INSUFFICIENT_RESOURCES, "a larger completion queue")?;
    } else {
        cq.resize(1024)?;
    }
    nd.note(format!("{} registrations lock all that a process may", regions.len()));
    drop(regions.swap_remove(0));
    Ok(cq.resize(1024)?)
}
