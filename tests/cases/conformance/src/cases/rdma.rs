//! Reads and writes.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE},
    ndkpi::{
        NDK_OP_FLAG_READ_FENCE, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeRead, NdkOperationTypeReceive,
        NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ioctl::SOFTNDK_SGE,
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_REMOTE_RESOURCES, STATUS_SUCCESS},
};

use crate::{
    Carrier,
    bench::Bench,
    client::{Mr, ReadLimits, Remote},
    pair::{Pair, Site, connect_with, ensure_same, exchange, expect, pattern},
};

const LENGTHS: [usize; 6] = [0, 1, 513, 4096, 65_537, 1 << 20];

// Shows S202, S812 (processes).
pub(super) fn write(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (source, target) = (pair.a.site.buffer(1 << 20)?, pair.b.site.buffer((1 << 20) + 8192)?);
    for length in LENGTHS {
        let data = pattern(length as u64, length);
        source.memory().write(0, &data);
        target.memory().write(0, &vec![0xee; target.memory().length()]);
        pair.a.qp.write(1, &[source.sge(0..length)], target.remote(4095), 0)?;
        expect(&pair.a.initiated()?, NdkOperationTypeWrite, 1, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(4095..4095 + length), &data).with_context(|| format!("{length} bytes"))?;
        for outside in [0..4095, 4095 + length..target.memory().length()] {
            let bytes = target.memory().read(outside.clone());
            ensure!(bytes.iter().all(|byte| *byte == 0xee), "{length} bytes: something in {outside:?} was written");
        }
    }
    pair.quiet()
}

// Shows S812 (processes).
pub(super) fn read(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (sink, source) = (pair.a.site.buffer((1 << 20) + 8192)?, pair.b.site.buffer((1 << 20) + 4096)?);
    for length in LENGTHS {
        let data = pattern(length as u64 + 7, length);
        source.memory().write(4095, &data);
        sink.memory().write(0, &vec![0xee; sink.memory().length()]);
        pair.a.qp.read(1, &[sink.sge(1..1 + length)], source.remote(4095), 0)?;
        expect(&pair.a.initiated()?, NdkOperationTypeRead, 1, STATUS_SUCCESS)?;
        ensure_same(&sink.memory().read(1..1 + length), &data).with_context(|| format!("{length} bytes"))?;
        for outside in [0..1, 1 + length..sink.memory().length()] {
            let bytes = sink.memory().read(outside.clone());
            ensure!(bytes.iter().all(|byte| *byte == 0xee), "{length} bytes: something in {outside:?} was written");
        }
    }
    pair.quiet()
}

pub(super) fn many_entries(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (local, remote) = (pair.a.site.buffer(65_536)?, pair.b.site.buffer(65_536)?);
    // 16 entries of 1000 bytes, in reverse order, 24 bytes apart.
    let starts: Vec<_> = (0..16).rev().map(|index| index * 1024).collect();
    let entries: Vec<_> = starts.iter().map(|start| local.sge(*start..start + 1000)).collect();
    let data = pattern(5, 16_000);
    for (start, chunk) in starts.iter().zip(data.chunks(1000)) {
        local.memory().write(*start, chunk);
    }
    pair.a.qp.write(1, &entries, remote.remote(100), 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeWrite, 1, STATUS_SUCCESS)?;
    ensure_same(&remote.memory().read(100..16_100), &data).context("gathered")?;
    local.memory().write(0, &vec![0; 65_536]);
    pair.a.qp.read(2, &entries, remote.remote(100), 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
    for (start, chunk) in starts.iter().zip(data.chunks(1000)) {
        ensure_same(&local.memory().read(*start..start + 1000), chunk).context("scattered")?;
        let gap = local.memory().read(start + 1000..start + 1024);
        ensure!(gap.iter().all(|byte| *byte == 0), "bytes between the entries were written");
    }
    Ok(())
}

pub(super) fn write_then_send(bench: &Bench<'_>) -> anyhow::Result<()> {
    const LENGTH: usize = 200_000;
    let pair = Pair::new(bench)?;
    let (source, target) = (pair.a.site.buffer(LENGTH)?, pair.b.site.buffer(LENGTH)?);
    for round in 0..20 {
        let data = pattern(round, LENGTH);
        source.memory().write(0, &data);
        pair.b.qp.receive(round, &[])?;
        pair.a.qp.write(1, &[source.sge(0..LENGTH)], target.remote(0), NDK_OP_FLAG_SILENT_SUCCESS)?;
        pair.a.qp.send(2, &[], 0)?;
        expect(&pair.b.received()?, NdkOperationTypeReceive, round, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(0..LENGTH), &data).with_context(|| format!("round {round}"))?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_SUCCESS)?;
    }
    Ok(())
}

// Shows S213.
pub(super) fn read_fence(bench: &Bench<'_>) -> anyhow::Result<()> {
    const LENGTH: usize = 200_000;
    let pair = Pair::new(bench)?;
    let (local, remote) = (pair.a.site.buffer(LENGTH)?, pair.b.site.buffer(2 * LENGTH)?);
    for round in 0..20 {
        let data = pattern(round, LENGTH);
        remote.memory().write(0, &data);
        pair.b.qp.receive(1, &[remote.sge(LENGTH..2 * LENGTH)])?;
        // What was read is sent back.
        pair.a.qp.read(2, &[local.sge(0..LENGTH)], remote.remote(0), 0)?;
        pair.a.qp.send(3, &[local.sge(0..LENGTH)], NDK_OP_FLAG_READ_FENCE)?;
        expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_SUCCESS)?;
        ensure_same(&remote.memory().read(LENGTH..2 * LENGTH), &data).with_context(|| format!("round {round}"))?;
        expect(&pair.a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, 3, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

/// A request that the peer has to refuse: what the requester is told, and what becomes of the connection.
fn refused_access(pair: &Pair, target: &Mr, remote: Remote, write: bool, status: NTSTATUS) -> anyhow::Result<()> {
    let local = pair.a.site.buffer(4096)?;
    local.memory().write(0, &[0x99; 4096]);
    let before = target.memory().read(0..target.memory().length());
    let lost = pair.b.connector.notify_disconnect();
    pair.b.site.client.pended(1)?;
    pair.b.qp.receive(7, &[])?;
    let kind = if write {
        pair.a.qp.write(1, &[local.sge(0..64)], remote, 0)?;
        NdkOperationTypeWrite
    } else {
        pair.a.qp.read(1, &[local.sge(0..64)], remote, 0)?;
        NdkOperationTypeRead
    };
    pair.a.expect_refused(kind, 1, status)?;
    lost.finish().context("the target's disconnect notification")?;
    let after = target.memory().read(0..target.memory().length());
    ensure!(after == before, "the target's memory was written");
    let sink = local.memory().read(0..4096);
    ensure!(sink.iter().all(|byte| *byte == 0x99), "something was read");
    pair.b.qp.flush()?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 7, STATUS_CANCELLED)?;
    Ok(())
}

// Shows S510.
pub(super) fn wrong_token(bench: &Bench<'_>) -> anyhow::Result<()> {
    for write in [true, false] {
        for difference in [1, 0x100, 0xffff_ffff] {
            let pair = Pair::new(bench)?;
            let target = pair.b.site.buffer(4096)?;
            let remote = target.remote(0);
            let remote = Remote { token: remote.token ^ difference, ..remote };
            refused_access(&pair, &target, remote, write, STATUS_ACCESS_VIOLATION)
                .with_context(|| format!("write {write}, token {:#x}", remote.token))?;
        }
        // A local region's token is not one of the peer's protection domain.
        let pair = Pair::new(bench)?;
        let (target, own) = (pair.b.site.buffer(4096)?, pair.a.site.buffer(4096)?);
        refused_access(&pair, &target, own.remote(0), write, STATUS_ACCESS_VIOLATION)
            .with_context(|| format!("write {write}, the token of a region of the requester"))?;
    }
    Ok(())
}

// Shows S501, S510.
pub(super) fn out_of_range(bench: &Bench<'_>) -> anyhow::Result<()> {
    type Address = fn(&Mr) -> u64;
    for write in [true, false] {
        let cases: [(&str, Address); 5] = [
            ("across the end", |mr| mr.memory().address(4096 - 63)),
            ("behind the end", |mr| mr.memory().address(4096)),
            ("across the start", |mr| mr.memory().address(0) - 1),
            ("at 0", |_| 0),
            ("wrapping", |_| u64::MAX - 31),
        ];
        for (what, address) in cases {
            let pair = Pair::new(bench)?;
            let target = pair.b.site.buffer(4096)?;
            // nc-ndkpi-ndk_fn_read: STATUS_REMOTE_RESOURCES for a read beyond the remote memory.
            let status = if write { STATUS_ACCESS_VIOLATION } else { STATUS_REMOTE_RESOURCES };
            let remote = Remote { address: address(&target), ..target.remote(0) };
            refused_access(&pair, &target, remote, write, status).with_context(|| format!("write {write}, {what}"))?;
        }
    }
    Ok(())
}

// Shows S501.
pub(super) fn missing_right(bench: &Bench<'_>) -> anyhow::Result<()> {
    for (write, flags) in [
        (true, ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ),
        (false, ND_MR_FLAG_ALLOW_REMOTE_WRITE),
        (true, ND_MR_FLAG_ALLOW_LOCAL_WRITE),
        (false, 0),
    ] {
        let pair = Pair::new(bench)?;
        let target = Mr::new(&pair.b.site.pd, 4096, flags)?;
        refused_access(&pair, &target, target.remote(0), write, STATUS_ACCESS_VIOLATION)
            .with_context(|| format!("write {write}, region flags {flags:#x}"))?;
    }
    Ok(())
}

pub(super) fn read_sink(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let sink = Mr::new(&pair.a.site.pd, 4096, ND_MR_FLAG_ALLOW_REMOTE_READ)?;
    let source = pair.b.site.buffer(4096)?;
    source.memory().write(0, &[1; 4096]);
    pair.a.qp.read(1, &[sink.sge(0..64)], source.remote(0), 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeRead, 1, STATUS_ACCESS_VIOLATION)?;
    ensure!(sink.memory().read(0..64).iter().all(|byte| *byte == 0), "the sink was written");
    Ok(())
}

/// nc-ndkpi-ndk_fn_connect: a limit of 0 means no reads that way. With which status they are refused is left open.
pub(super) fn no_reads(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (none, some) = (ReadLimits { inbound: 0, outbound: 8 }, ReadLimits::default());
    let (a, b) = (Site::new(bench)?.end()?, Site::new(&bench.there())?.end()?);
    let (listener, address) = b.site.listener()?;
    let limits = match a.site.carrier {
        Carrier::Device => [some, none],
        // A device serves one read, by which the other device confirms its sends, also if its consumer allows none.
        Carrier::Wire => [ReadLimits { inbound: 8, outbound: 0 }, some],
    };
    connect_with(&a, &b, &listener, address, limits)?;
    let (here, there) = (a.site.buffer(64)?, b.site.buffer(64)?);
    let refused = a.qp.read(1, &[here.sge(0..64)], there.remote(0), 0);
    ensure!(refused.as_ref().is_err_and(|error| error.status().is_some()), "a read with no reads allowed: {refused:?}");
    b.qp.read(2, &[there.sge(0..64)], here.remote(0), 0)?;
    expect(&b.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS).context("the other way")?;
    exchange(&a, &b, b"it still works")?;
    drop((a, b));
    Ok(())
}

// Shows S509.
pub(super) fn many_reads(bench: &Bench<'_>) -> anyhow::Result<()> {
    // The ends agreed on 8 reads at a time; the rest waits in the initiator queue.
    let pair = Pair::new(bench)?;
    let (local, remote) = (pair.a.site.buffer(32 * 4096)?, pair.b.site.buffer(32 * 4096)?);
    let data = pattern(1, 32 * 4096);
    remote.memory().write(0, &data);
    for context in 0..32_u64 {
        let at = context as usize * 4096;
        let sge: SOFTNDK_SGE = local.sge(at..at + 4096);
        pair.a.qp.read(context, &[sge], remote.remote(at), 0)?;
    }
    for context in 0..32 {
        expect(&pair.a.initiated()?, NdkOperationTypeRead, context, STATUS_SUCCESS)?;
    }
    ensure_same(&local.memory().read(0..32 * 4096), &data)?;
    pair.quiet()
}
