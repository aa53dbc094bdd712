//! INDAdapter::RegisterMemory and DeregisterMemory.

use anyhow::{Context as _, ensure};
use nd_com::v1::ND_SGE;
use ndk_abi::status::{
    STATUS_ACCESS_VIOLATION, STATUS_DEVICE_BUSY, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};
use std::ptr;

use super::pair::Pair;
use crate::{
    nd::{
        client::{
            both::QueuePair as _,
            end_of,
            v1::{EndpointSize, Mr},
        },
        pair::{INVALIDATE, RECEIVE, SEND, expect, expect_received, is},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows V15.
pub(in crate::nd) fn register(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let mr = Mr::new(&adapter, 3 * 4096);
    for part in [0..3 * 4096, 100..5100, 0..1, 4095..4097, 4096..8192] {
        mr.register_part(part.clone()).with_context(|| format!("{part:?}"))?;
        mr.deregister().with_context(|| format!("{part:?}"))?;
    }
    // Several registrations at a time, two of one buffer, each with a handle of its own.
    let mut several = vec![Mr::new(&adapter, 4096), Mr::new(&adapter, 4096), Mr::new(&adapter, 1 << 20)];
    several.iter().try_for_each(Mr::register)?;
    let again = several[0].again();
    again.register()?;
    several.push(again);
    let mut handles: Vec<_> = several.iter().map(|mr| mr.handle().addr()).collect();
    handles.sort_unstable();
    handles.dedup();
    ensure!(handles.len() == several.len(), "two registrations have one handle");
    for mr in &several {
        mr.deregister()?;
    }
    Ok(())
}

pub(in crate::nd) fn register_refused(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let mr = Mr::new(&adapter, 4096);
    refused(mr.begin_register(0, 0), STATUS_INVALID_PARAMETER, "nothing at address 0")?;
    let address = mr.memory().address(0);
    refused(mr.begin_register(address, 0), STATUS_INVALID_BUFFER_SIZE, "no bytes")?;
    is(end_of(mr.begin_register(0x10, 4096))?, STATUS_ACCESS_VIOLATION, "memory that is not there")?;
    let over = adapter.info()?.MaxRegistrationSize.checked_add(1);
    for length in over.into_iter().chain([usize::MAX, usize::MAX - 4095, 1 << 63]) {
        let status = end_of(mr.begin_register(address, length))?;
        ensure!(!status.is_success(), "{length:#x} bytes: {status}");
    }
    ensure!(mr.begin_register_nowhere(address, 4096).is_err(), "no place for the handle");
    mr.register()?;
    Ok(())
}

pub(in crate::nd) fn deregister_refused(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let adapter = &pair.b.adapter;
    let mr = Mr::new(adapter, 4096);
    mr.register()?;
    let other = pair.a.buffer(4096)?;
    let strange = [ptr::null_mut(), mr.handle().map_addr(|address| !address), ptr::without_provenance_mut(usize::MAX)];
    for handle in strange {
        let status = end_of(adapter.deregister(handle))?;
        ensure!(!status.is_success(), "handle {handle:?} of nobody: {status}");
    }
    if other.handle() != mr.handle() {
        let status = end_of(adapter.deregister(other.handle()))?;
        ensure!(!status.is_success(), "the handle of another adapter: {status}");
    }
    let (mw, _) = pair.b.expose(&mr)?;
    refused(adapter.deregister(mr.handle()), STATUS_DEVICE_BUSY, "deregistering under a window")?;
    pair.b.qp.invalidate(2, &mw, 0)?;
    expect(pair.b.initiated()?, INVALIDATE, 2, STATUS_SUCCESS)?;
    mr.deregister()?;
    let status = end_of(adapter.deregister(mr.handle()))?;
    ensure!(!status.is_success(), "deregistering twice: {status}");
    other.deregister().context("that of the other adapter is untouched")?;
    Ok(())
}

// Shows V15.
pub(in crate::nd) fn handles(nd: &Nd) -> anyhow::Result<()> {
    // Nothing inline, so that handles are looked at.
    let fresh = || Pair::sized(nd, EndpointSize { inline: 0, ..EndpointSize::default() });
    let pair = fresh()?;
    let (local, target) = (Mr::new(&pair.a.adapter, 8192), pair.b.buffer(8192)?);
    local.register_part(1000..3000)?;
    local.memory().write(0, &pattern(1, 8192));
    pair.b.qp.receive(1, &[target.sge(0..8192)])?;
    pair.a.qp.send(2, &[local.sge(1000..3000)], 0)?;
    expect_received(pair.b.received()?, 1, 2000)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    ensure_same(&target.memory().read(0..2000), &pattern(1, 8192)[1000..3000])?;
    // From the end of it, and over its ends: a byte each.
    for (range, is_inside) in [(2999..3000, true), (2999..3001, false), (999..1001, false), (0..1, false)] {
        let pair = fresh()?;
        let (local, target) = (Mr::new(&pair.a.adapter, 8192), pair.b.buffer(8192)?);
        local.register_part(1000..3000)?;
        pair.b.qp.receive(1, &[target.sge(0..8192)])?;
        pair.a.qp.send(2, &[local.sge(range.clone())], 0)?;
        let status = if is_inside { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION };
        expect(pair.a.initiated()?, SEND, 2, status).with_context(|| format!("bytes {range:?} of 1000..3000"))?;
    }
    // A receive that was posted while its memory was registered.
    let pair = fresh()?;
    let (local, target) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    target.memory().write(0, &[0xa5; 4096]);
    pair.b.qp.receive(1, &[target.sge(0..4096)])?;
    target.deregister()?;
    pair.a.qp.send(2, &[local.sge(0..4096)], 0)?;
    expect(pair.b.received()?, RECEIVE, 1, STATUS_ACCESS_VIOLATION)?;
    ensure!(target.memory().read(0..4096) == [0xa5; 4096], "memory was written to after it had been deregistered");
    // Addresses that wrap around.
    let pair = fresh()?;
    let local = pair.a.buffer(4096)?;
    let wraps = ND_SGE { pAddr: ptr::without_provenance_mut(usize::MAX - 10), Length: 64, ..local.sge(0..64) };
    let target = pair.b.buffer(4096)?;
    pair.b.qp.receive(1, &[target.sge(0..4096)])?;
    match pair.a.qp.send(2, &[wraps], 0) {
        Ok(()) => expect(pair.a.initiated()?, SEND, 2, STATUS_ACCESS_VIOLATION).map(drop),
        // Refusing it at once does as well.
        Err(_) => Ok(()),
    }
}

/// Programs that wait at a completion port may never call GetOverlappedResult, and use one OVERLAPPED again and again.
pub(in crate::nd) fn unasked(nd: &Nd) -> anyhow::Result<()> {
    const ROUNDS: usize = 300;
    let (adapter, _) = nd.adapter_v1()?;
    let before = adapter.diagnostics()?.0;
    let memory = Mr::new(&adapter, 4096);
    memory.register_unasked(ROUNDS)?;
    let after = adapter.diagnostics()?.0;
    // The last ones may be waiting to be asked for.
    ensure!(after.Mrs <= before.Mrs + 2, "{} regions in the driver before, {} after", before.Mrs, after.Mrs);
    ensure!(after.PinnedBytes == before.PinnedBytes, "{} bytes are still locked", after.PinnedBytes);
    Ok(())
}

/// The pages are unlocked when the adapter is released: the run checks that.
pub(in crate::nd) fn forgotten(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let mut memories = Vec::new();
    for _ in 0..5 {
        let mr = Mr::new(&adapter, 65_536);
        mr.register()?;
        memories.push(mr.forget());
    }
    drop(adapter);
    ensure!(nd.library().can_unload(), "registered memory keeps the DLL after the adapter is gone");
    drop(memories);
    // Asked for, and forgotten before it is over.
    let (adapter, _) = nd.adapter_v1()?;
    let mr = Mr::new(&adapter, 1 << 20);
    let mut request = mr.begin_register(mr.memory().address(0), 1 << 20)?;
    request.let_object_go();
    let memory = mr.forget();
    drop(adapter);
    request.status().context("a registration whose adapter was released")?;
    drop(memory);
    Ok(())
}
