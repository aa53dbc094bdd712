//! Fast-registered regions. `nc-ndkpi-ndk_fn_fast_register`, `nc-ndkpi-ndk_fn_invalidate`.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
        NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    status::{STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
};

use crate::{
    bench::Bench,
    client::{FastMr, Mr, Remote},
    memory::{Memory, PAGE_SIZE},
    pair::{Pair, ensure_same, expect, pattern, refused},
};

/// Where regions appear to peers: no address of any memory.
const BASE: u64 = 0x5000_0000_0000;

/// Fast-registers all of a region of `b` for reading and writing by `a`, and waits for it.
pub(super) fn open(pair: &Pair, fast: &FastMr) -> anyhow::Result<Remote> {
    let flags = NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    pair.b.qp.fast_register(0xfa57, fast, BASE, fast.memory().length() as u64, flags)?;
    expect(&pair.b.initiated()?, NdkOperationTypeFastRegister, 0xfa57, STATUS_SUCCESS)?;
    Ok(Remote { address: BASE, token: fast.remote_token() })
}

/// Writes to the region from `a`, reads back, checks the memory.
pub(super) fn use_it(pair: &Pair, fast: &FastMr, remote: Remote, local: &Mr, seed: u64) -> anyhow::Result<()> {
    let length = fast.memory().length();
    let data = pattern(seed, length);
    local.memory().write(0, &data);
    pair.a.qp.write(1, &[local.sge(0..length)], remote, 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeWrite, 1, STATUS_SUCCESS)?;
    ensure_same(&fast.memory().read(0..length), &data).context("written")?;
    let middle = pattern(seed + 1, 5000);
    fast.memory().write(1234, &middle);
    pair.a.qp.read(2, &[local.sge(0..5000)], Remote { address: remote.address + 1234, ..remote }, 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
    ensure_same(&local.memory().read(0..5000), &middle).context("read")
}

/// A write by `a` that must be refused, which ends the connection.
pub(super) fn access_refused(pair: &Pair, fast: &FastMr, remote: Remote, local: &Mr) -> anyhow::Result<()> {
    let before = fast.memory().read(0..fast.memory().length());
    local.memory().write(0, &[0x3c; 64]);
    pair.a.qp.write(9, &[local.sge(0..64)], remote, 0)?;
    pair.a.expect_refused(NdkOperationTypeWrite, 9, STATUS_ACCESS_VIOLATION)?;
    ensure_same(&fast.memory().read(0..fast.memory().length()), &before)
}

pub(super) fn access(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let fast = FastMr::new(&pair.b.site.pd, 3 * PAGE_SIZE)?;
    let local = pair.a.site.buffer(3 * PAGE_SIZE)?;
    let remote = open(&pair, &fast)?;
    use_it(&pair, &fast, remote, &local, 1)?;
    // The owner uses the region at these addresses too, with the local token.
    pair.b.qp.receive(3, &[fast.sge(BASE + 100, 200)])?;
    pair.a.qp.send_inline(4, &[0x42; 200], 0)?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 3, STATUS_SUCCESS)?;
    ensure_same(&fast.memory().read(100..300), &[0x42; 200])
}

pub(super) fn again(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let fast = FastMr::new(&pair.b.site.pd, 2 * PAGE_SIZE)?;
    let local = pair.a.site.buffer(2 * PAGE_SIZE)?;
    let token = fast.remote_token();
    for round in 0..5 {
        let remote = open(&pair, &fast)?;
        ensure!(remote.token == token, "the remote token changed");
        use_it(&pair, &fast, remote, &local, round)?;
        pair.b.qp.invalidate(round, &fast, 0)?;
        expect(&pair.b.initiated()?, NdkOperationTypeInvalidate, round, STATUS_SUCCESS)?;
    }
    Ok(())
}

pub(super) fn local_invalidate(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let fast = FastMr::new(&pair.b.site.pd, 2 * PAGE_SIZE)?;
    let local = pair.a.site.buffer(2 * PAGE_SIZE)?;
    let remote = open(&pair, &fast)?;
    use_it(&pair, &fast, remote, &local, 1)?;
    pair.b.qp.invalidate(5, &fast, 0)?;
    expect(&pair.b.initiated()?, NdkOperationTypeInvalidate, 5, STATUS_SUCCESS)?;
    access_refused(&pair, &fast, remote, &local)
}

// Shows S506.
pub(super) fn rights(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let private = FastMr::pin(&pair.b.site.pd, Arc::new(Memory::new(PAGE_SIZE)), false)?;
    for flags in [NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE] {
        let result = pair.b.qp.fast_register(1, &private, BASE, 4096, flags);
        refused(result, STATUS_ACCESS_VIOLATION, &format!("flags {flags:#x} without remote access"))?;
    }
    pair.b.qp.fast_register(2, &private, BASE, 4096, NDK_OP_FLAG_ALLOW_LOCAL_WRITE)?;
    expect(&pair.b.initiated()?, NdkOperationTypeFastRegister, 2, STATUS_SUCCESS)?;
    pair.b.qp.receive(3, &[private.sge(BASE, 4096)])?;
    pair.a.qp.send_inline(4, b"local", 0)?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 3, STATUS_SUCCESS)?;
    ensure_same(&private.memory().read(0..5), b"local")?;
    // Open for peers to read only.
    let readable = FastMr::new(&pair.b.site.pd, PAGE_SIZE)?;
    let local = pair.a.site.buffer(PAGE_SIZE)?;
    pair.b.qp.fast_register(5, &readable, BASE, 4096, NDK_OP_FLAG_ALLOW_REMOTE_READ)?;
    expect(&pair.b.initiated()?, NdkOperationTypeFastRegister, 5, STATUS_SUCCESS)?;
    let remote = Remote { address: BASE, token: readable.remote_token() };
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 4, STATUS_SUCCESS)?;
    pair.a.qp.read(6, &[local.sge(0..64)], remote, 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeRead, 6, STATUS_SUCCESS)?;
    access_refused(&pair, &readable, remote, &local)
}

pub(super) fn too_long(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let fast = FastMr::new(&pair.b.site.pd, 2 * PAGE_SIZE)?;
    let local = pair.a.site.buffer(2 * PAGE_SIZE)?;
    for length in [2 * PAGE_SIZE as u64 + 1, 3 * PAGE_SIZE as u64, u64::MAX] {
        let result = pair.b.qp.fast_register(1, &fast, BASE, length, NDK_OP_FLAG_ALLOW_REMOTE_READ);
        ensure!(result.as_ref().is_err_and(|error| error.status().is_some()), "{length} bytes of 8192: {result:?}");
    }
    let none = pair.b.site.initiator_cq.poll(8)?.len();
    ensure!(none == 0, "{none} completions of refused requests");
    let remote = open(&pair, &fast)?;
    use_it(&pair, &fast, remote, &local, 1)
}

// Shows S607.
pub(super) fn read_invalidates(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let sink = FastMr::new(&pair.a.site.pd, 2 * PAGE_SIZE)?;
    let source = pair.b.site.buffer(2 * PAGE_SIZE)?;
    for round in 0..4 {
        let data = pattern(round, 2 * PAGE_SIZE);
        source.memory().write(0, &data);
        pair.a.qp.fast_register(1, &sink, BASE, 2 * PAGE_SIZE as u64, NDK_OP_FLAG_ALLOW_LOCAL_WRITE)?;
        expect(&pair.a.initiated()?, NdkOperationTypeFastRegister, 1, STATUS_SUCCESS)?;
        let sges = [sink.sge(BASE, 2 * PAGE_SIZE as u32)];
        pair.a.qp.read(2, &sges, source.remote(0), NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE)?;
        expect(&pair.a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
        ensure_same(&sink.memory().read(0..2 * PAGE_SIZE), &data)?;
    }
    pair.a.qp.invalidate(3, &sink, 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeInvalidate, 3, STATUS_INVALID_DEVICE_REQUEST)
        .map(drop)
        .context("an invalidate after it")
}

pub(super) fn not_valid_yet(bench: &Bench<'_>) -> anyhow::Result<()> {
    type Address = fn(&FastMr) -> u64;
    let addresses: [(&str, Address); 3] = [
        ("where it may be one day", |_| BASE),
        ("where its memory is", |fast| fast.memory().address(0)),
        ("at 0", |_| 0),
    ];
    for (what, address) in addresses {
        let pair = Pair::new(bench)?;
        let fast = FastMr::new(&pair.b.site.pd, PAGE_SIZE)?;
        let local = pair.a.site.buffer(PAGE_SIZE)?;
        let remote = Remote { address: address(&fast), token: fast.remote_token() };
        access_refused(&pair, &fast, remote, &local).context(what)?;
    }
    Ok(())
}
