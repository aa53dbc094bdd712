//! IND2MemoryRegion.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{
        ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE,
        ND_MR_FLAG_DO_NOT_SECURE_VM, ND_MR_FLAG_RDMA_READ_SINK, ND_OP_FLAG_ALLOW_READ,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_DEVICE_BUSY, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_PARAMETER,
        STATUS_SUCCESS,
    },
};

use crate::{
    memory::PAGE_SIZE,
    nd::{
        client::{Mr, Mw, Port, Shared, both::QueuePair as _, end_of},
        pair::{BIND, INVALIDATE, Pair, READ, RECEIVE, WRITE, expect},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows N54.
pub(in crate::nd) fn register(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let mr = Mr::new(&adapter, 3 * 4096)?;
    for flags in [
        0,
        ND_MR_FLAG_ALLOW_LOCAL_WRITE,
        ND_MR_FLAG_ALLOW_REMOTE_READ,
        ND_MR_FLAG_ALLOW_REMOTE_WRITE,
        ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE,
    ] {
        mr.register(flags)?;
        mr.deregister()?;
        mr.register_range(mr.memory().address(100), 5000, flags)?.finish()?;
        mr.deregister()?;
    }
    Ok(())
}

// Shows N56, N57.
pub(in crate::nd) fn register_refused(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let mr = Mr::new(&adapter, 4096)?;
    refused(mr.register_range(0, 0, 0), STATUS_INVALID_PARAMETER, "nothing at address 0")?;
    let address = mr.memory().address(0);
    refused(mr.register_range(address, 0, 0), STATUS_INVALID_BUFFER_SIZE, "no bytes")?;
    let found = end_of(mr.register_range(0x10, 4096, 0))?;
    ensure!(found == STATUS_ACCESS_VIOLATION, "memory that is not there: {found}");
    mr.register(0)?;
    let again = end_of(mr.register_range(address, 4096, 0))?;
    ensure!(again != STATUS_SUCCESS, "a region was registered twice");
    Ok(())
}

// Shows N57, T10.
pub(in crate::nd) fn protected(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let mr = Mr::new(&adapter, 4 * PAGE_SIZE)?;
    mr.protect(1, true);
    mr.protect(2, false);
    let (read, write) = (ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_LOCAL_WRITE);
    let (good, bad) = (STATUS_SUCCESS, STATUS_ACCESS_VIOLATION);
    for (pages, flags, expected) in [
        (0..1, write, good),
        (0..2, read, good),
        (0..2, write, bad),
        (1..2, write, bad),
        (1..3, read, bad),
        (2..3, read, bad),
        (0..4, read, bad),
        (3..4, write, good),
    ] {
        let (address, length) = (mr.memory().address(pages.start * PAGE_SIZE), pages.len() * PAGE_SIZE);
        let found = end_of(mr.register_range(address, length, flags))?;
        ensure!(found == expected, "pages {pages:?}, flags {flags:#x}: {found}");
        if found == good {
            mr.deregister()?;
        }
    }
    Ok(())
}

// Shows N41, N59.
pub(in crate::nd) fn deregister_refused(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mr = Mr::new(&pair.b.adapter, 4096)?;
    let never = end_of(mr.begin_deregister())?;
    ensure!(never != STATUS_SUCCESS, "a region that was never registered was deregistered");
    mr.register(ND_MR_FLAG_ALLOW_LOCAL_WRITE)?;
    let mw = Mw::new(&pair.b.adapter)?;
    pair.b.qp.bind(1, &mr, &mw, 0, 4096, ND_OP_FLAG_ALLOW_READ)?;
    expect(pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    // The call returns the status, and no packet is sent: the next packet is the next request's.
    let (port, other) = (Port::of(pair.b.adapter.file()), Mr::new(&pair.b.adapter, 4096)?);
    refused(mr.begin_deregister(), STATUS_DEVICE_BUSY, "deregistering under a window")?;
    let mut next = other.register_range(other.memory().address(0), 4096, 0)?;
    next.status()?;
    let packet = port.next(nd.patience()).context("no packet of the registration")?;
    ensure!(packet == next.address(), "a deregistration that was refused sent a packet");
    pair.b.qp.invalidate(2, &mw, 0)?;
    expect(pair.b.initiated()?, INVALIDATE, 2, STATUS_SUCCESS)?;
    mr.deregister()?;
    Ok(())
}

// Shows N60.
pub(in crate::nd) fn tokens(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let old = region.remote(0);
    pair.a.qp.write(1, &[local.sge(0..64)], old, 0)?;
    expect(pair.a.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
    region.deregister()?;
    pair.a.qp.write(2, &[local.sge(0..64)], old, 0)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_ACCESS_VIOLATION)?;
    Ok(())
}

/// Tokens are asked for all the time, by another thread, while the region is registered and deregistered.
pub(in crate::nd) fn tokens_meanwhile(nd: &Nd) -> anyhow::Result<()> {
    const ROUNDS: usize = 300;
    let (adapter, _) = nd.adapter()?;
    let mr = Mr::new(&adapter, 4096)?;
    let (shared, is_over) = (Shared::new(&mr), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                shared.get().local_token();
            }
        });
        let all = (0..ROUNDS).try_fold(0, |last, round| {
            mr.register(0)?;
            let token = mr.local_token();
            ensure!(token != 0 && token != last, "registration {round} has token {token:#x}, the one before {last:#x}");
            mr.deregister()?;
            ensure!(mr.local_token() == 0, "deregistration {round} leaves a token");
            Ok(token)
        });
        is_over.store(true, Relaxed);
        all
    })?;
    Ok(())
}

// Shows N55.
pub(in crate::nd) fn rights(nd: &Nd) -> anyhow::Result<()> {
    // (rights, may be read, may be written by the peer, may receive)
    let cases = [
        (0, false, false, false),
        (ND_MR_FLAG_ALLOW_LOCAL_WRITE, false, false, true),
        (ND_MR_FLAG_ALLOW_REMOTE_READ, true, false, false),
        (ND_MR_FLAG_ALLOW_REMOTE_WRITE, false, true, true),
    ];
    for (flags, reads, writes, receives) in cases {
        let expected = |allowed| if allowed { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION };
        let fresh = || -> anyhow::Result<_> {
            let pair = Pair::new(nd)?;
            let (local, region) = (pair.a.buffer(4096)?, Mr::new(&pair.b.adapter, 4096)?);
            region.register(flags)?;
            Ok((region, local, pair))
        };
        let (region, local, pair) = fresh()?;
        pair.a.qp.read(1, &[local.sge(0..64)], region.remote(0), 0)?;
        expect(pair.a.initiated()?, READ, 1, expected(reads))?;
        drop((region, local, pair));
        let (region, local, pair) = fresh()?;
        pair.a.qp.write(2, &[local.sge(0..64)], region.remote(0), 0)?;
        expect(pair.a.initiated()?, WRITE, 2, expected(writes))?;
        drop((region, local, pair));
        let (region, local, pair) = fresh()?;
        pair.b.qp.receive(3, &[region.sge(0..64)])?;
        pair.a.qp.send(4, &[local.sge(0..64)], 0)?;
        expect(pair.b.received()?, RECEIVE, 3, expected(receives))?;
    }
    Ok(())
}

/// A sink of reads, memory that need not be secured, and a flag that is none.
// Shows N54.
pub(in crate::nd) fn other_flags(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (sink, region) = (Mr::new(&pair.a.adapter, 4096)?, pair.b.buffer(4096)?);
    sink.register(ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_RDMA_READ_SINK | ND_MR_FLAG_DO_NOT_SECURE_VM)?;
    region.memory().write(0, &pattern(6, 4096));
    pair.a.qp.read(1, &[sink.sge(0..4096)], region.remote(0), 0)?;
    expect(pair.a.initiated()?, READ, 1, STATUS_SUCCESS)?;
    ensure_same(&sink.memory().read(0..4096), &pattern(6, 4096))?;
    let unknown = Mr::new(&pair.a.adapter, 4096)?;
    refused(unknown.register(0x10), STATUS_INVALID_PARAMETER, "a flag that is none")
}
