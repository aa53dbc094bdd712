//! Memory regions.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_MR_CREATE, IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_FREE, IOCTL_ND_MR_REGISTER, ND_IOCTL_VERSION,
        ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_REGISTER, ND_MR_REGISTER_HDR,
    },
    ndkpi::{NdkOperationTypeReceive, NdkOperationTypeWrite},
    softndk_ioctl::SOFTNDK_MR_TOKENS,
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_BUFFER_SIZE,
        STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER,
    },
};

use crate::{
    bench::Bench,
    client::{Mr, nd_handle},
    error,
    memory::{Memory, PAGE_SIZE},
    pair::{ALL_RIGHTS, Pair, Site, expect, refused},
};

/// A region by hand: `length` bytes at `address`.
fn register(site: &Site, handle: u64, address: u64, length: u64) -> error::Result<SOFTNDK_MR_TOKENS> {
    let request = ND_MR_REGISTER {
        Header: ND_MR_REGISTER_HDR {
            Version: ND_IOCTL_VERSION,
            Flags: ALL_RIGHTS,
            CbLength: length,
            TargetAddress: address,
            MrHandle: handle,
        },
        Address: address,
    };
    site.client.query(IOCTL_ND_MR_REGISTER, &request)
}

// Shows P16.
pub(super) fn tokens(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let memory = Arc::new(Memory::new(3 * PAGE_SIZE));
    let regions =
        (0..4).map(|_| Mr::register(&site.pd, memory.clone(), ALL_RIGHTS)).collect::<error::Result<Vec<_>>>()?;
    let mut tokens: Vec<_> = regions.iter().map(|mr| mr.remote(0).token).collect();
    ensure!(tokens.iter().all(|token| *token != 0), "a token is 0: {tokens:x?}");
    tokens.sort_unstable();
    tokens.dedup();
    ensure!(tokens.len() == 4, "four regions share tokens");
    drop(regions);
    // One object, registered twice, with a part of a page.
    let handle = site.client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let first = register(&site, handle, memory.address(100), 5000)?;
    site.client.call(IOCTL_ND_MR_DEREGISTER, &nd_handle(handle))?;
    let second = register(&site, handle, memory.address(0), 1)?;
    ensure!(first.RemoteToken != second.RemoteToken, "the new registration has the old token");
    site.client.call(IOCTL_ND_MR_DEREGISTER, &nd_handle(handle))?;
    site.client.call(IOCTL_ND_MR_FREE, &nd_handle(handle))?;
    Ok(())
}

pub(super) fn bad_ranges(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let memory = Memory::new(PAGE_SIZE);
    let handle: u64 = site.client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let start = memory.address(0);
    let before = site.client.diagnostics()?.PinnedBytes;
    for (what, address, length, status) in [
        // What IND2MemoryRegion::Register is relied on to say.
        ("nothing at 0", 0, 0, STATUS_INVALID_PARAMETER),
        ("nothing somewhere", start, 0, STATUS_INVALID_BUFFER_SIZE),
        ("a page at 0", 0, 4096, STATUS_ACCESS_VIOLATION),
        ("the last page of user space and more", 0x7fff_ffff_0000, 0x2_0000, STATUS_ACCESS_VIOLATION),
        ("kernel memory", 0xffff_8000_0000_0000, 4096, STATUS_ACCESS_VIOLATION),
    ] {
        refused(register(&site, handle, address, length), status, what)?;
    }
    for (what, address, length) in [("a range that wraps", u64::MAX - 4096, 8192), ("everything", start, u64::MAX)] {
        let error = register(&site, handle, address, length).err().with_context(|| format!("{what}: registered"))?;
        ensure!(
            [Some(STATUS_INVALID_PARAMETER), Some(STATUS_ACCESS_VIOLATION)].contains(&error.status()),
            "{what}: {error}"
        );
    }
    let pinned = site.client.diagnostics()?.PinnedBytes - before;
    ensure!(pinned == 0, "{pinned} bytes stayed pinned after refusals");
    // The object is as it was.
    register(&site, handle, start, 4096).context("a good range after the bad ones")?;
    site.client.call(IOCTL_ND_MR_DEREGISTER, &nd_handle(handle))?;
    site.client.call(IOCTL_ND_MR_FREE, &nd_handle(handle))?;
    Ok(())
}

pub(super) fn states(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let memory = Memory::new(PAGE_SIZE);
    let handle: u64 = site.client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let deregister = || site.client.call(IOCTL_ND_MR_DEREGISTER, &nd_handle(handle));
    refused(deregister(), STATUS_INVALID_DEVICE_STATE, "deregistering before registering")?;
    register(&site, handle, memory.address(0), 4096)?;
    let again = register(&site, handle, memory.address(0), 4096);
    refused(again, STATUS_INVALID_DEVICE_STATE, "registering twice")?;
    deregister()?;
    refused(deregister(), STATUS_INVALID_DEVICE_STATE, "deregistering twice")?;
    // Freeing a registered region ends its registration; the bench checks that nothing stays pinned.
    register(&site, handle, memory.address(0), 4096)?;
    site.client.call(IOCTL_ND_MR_FREE, &nd_handle(handle))?;
    Ok(())
}

// Shows S502.
pub(super) fn deregistered(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (local, target) = (pair.a.site.buffer(4096)?, pair.b.site.buffer(4096)?);
    let stale = target.remote(0);
    target.deregister()?;
    pair.a.qp.write(1, &[local.sge(0..64)], stale, 0)?;
    pair.a.expect_refused(NdkOperationTypeWrite, 1, STATUS_ACCESS_VIOLATION).context("writing by a stale token")?;
    target.free()?;
    // A region that is registered afterwards, even over this memory, has another token.
    let pair = Pair::new(bench)?;
    let local = pair.a.site.buffer(4096)?;
    let memory = Arc::new(Memory::new(4096));
    let target = Mr::register(&pair.b.site.pd, memory.clone(), ALL_RIGHTS)?;
    let stale = target.remote(0);
    drop(target);
    let register = |_| Mr::register(&pair.b.site.pd, memory.clone(), ALL_RIGHTS);
    let regions = (0..130).map(register).collect::<error::Result<Vec<_>>>()?;
    ensure!(regions.iter().all(|mr| mr.remote(0).token != stale.token), "a token is used again at once");
    local.memory().write(0, &[1; 64]);
    pair.a.qp.write(2, &[local.sge(0..64)], stale, 0)?;
    let refused = pair.a.expect_refused(NdkOperationTypeWrite, 2, STATUS_ACCESS_VIOLATION);
    refused.context("by a stale token, with new regions")?;
    ensure!(memory.read(0..64) == [0; 64], "the memory was written by a stale token");
    Ok(())
}

pub(super) fn local_rights(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let target = Mr::new(&pair.b.site.pd, 4096, ND_MR_FLAG_ALLOW_REMOTE_READ)?;
    pair.b.qp.receive(1, &[target.sge(0..4096)])?;
    pair.a.qp.send_inline(2, b"no", 0)?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_ACCESS_VIOLATION)?;
    ensure!(target.memory().read(0..2) == [0, 0], "the region was written");
    Ok(())
}

/// One piece of memory is registered many times: each registration counts.
// Shows T11.
pub(super) fn limit(bench: &Bench<'_>) -> anyhow::Result<()> {
    const LENGTH: usize = 64 << 20;
    const LIMIT: u64 = 4 << 30;
    let (site, other) = (Site::new(bench)?, Site::new(bench)?);
    let memory = Arc::new(Memory::new(LENGTH));
    let before = site.client.diagnostics()?.PinnedBytes;
    // Rings may be locked already.
    let most = ((LIMIT - before) / LENGTH as u64) as usize;
    let register = |_| Mr::register(&site.pd, memory.clone(), ALL_RIGHTS);
    let mut regions = (0..most).map(register).collect::<error::Result<Vec<_>>>()?;
    let pinned = site.client.diagnostics()?.PinnedBytes - before;
    ensure!(pinned == (most * LENGTH) as u64, "{pinned} bytes are locked by {most} regions");
    let left = LIMIT - before - pinned;
    let handle: u64 = site.client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let register_start = |length| self::register(&site, handle, memory.address(0), length);
    refused(register_start(left + 1), STATUS_INSUFFICIENT_RESOURCES, "one byte too much")?;
    // By another file of the process, too.
    let more = Mr::register(&other.pd, memory.clone(), ALL_RIGHTS).map(drop);
    refused(more, STATUS_INSUFFICIENT_RESOURCES, "too much by another file")?;
    if left > 0 {
        register_start(left).context("up to the last byte")?;
        site.client.call(IOCTL_ND_MR_DEREGISTER, &nd_handle(handle))?;
    }
    // What is freed can be had again.
    regions.pop();
    register_start(LENGTH as u64).context("after one was freed")?;
    site.client.call(IOCTL_ND_MR_FREE, &nd_handle(handle))?;
    Ok(())
}
