//! Memory windows. `nc-ndkpi-ndk_fn_create_mw`, `nc-ndkpi-ndk_fn_bind`, `nc-ndkpi-ndk_fn_invalidate`.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ},
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NdkOperationTypeBind, NdkOperationTypeInvalidate, NdkOperationTypeRead, NdkOperationTypeReceiveAndInvalidate,
        NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CONNECTION_INVALID, STATUS_DEVICE_BUSY,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
        STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
    },
};

use crate::{
    bench::Bench,
    client::{Mr, Mw, Remote},
    memory::PAGE_SIZE,
    pair::{Pair, Site, ensure_same, expect, pattern, refused},
};

const READ: u32 = NDK_OP_FLAG_ALLOW_REMOTE_READ;
const WRITE: u32 = NDK_OP_FLAG_ALLOW_REMOTE_WRITE;

/// A pair, a region of `b` that gives `a` no rights, a window over it, and memory of `a`. The window is dropped first.
struct Fixture {
    mw: Mw,
    region: Mr,
    local: Mr,
    pair: Pair,
}

impl Fixture {
    fn new(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let pair = Pair::new(bench)?;
        let region = Mr::new(&pair.b.site.pd, 2 * PAGE_SIZE, ND_MR_FLAG_ALLOW_LOCAL_WRITE)?;
        let local = pair.a.site.buffer(2 * PAGE_SIZE)?;
        let mw = Mw::new(&pair.b.site.pd)?;
        Ok(Self { mw, region, local, pair })
    }

    /// Binds the window to `length` bytes from `offset` on, and waits.
    fn bind(&self, offset: usize, length: usize, flags: u32) -> anyhow::Result<Remote> {
        let remote = self.pair.b.qp.bind(0xb1, &self.mw, &self.region, offset..offset + length, flags)?;
        expect(&self.pair.b.initiated()?, NdkOperationTypeBind, 0xb1, STATUS_SUCCESS)?;
        Ok(remote)
    }

    /// `a` writes what its buffer begins with.
    fn write(&self, remote: Remote, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        let a = &self.pair.a;
        a.qp.write(0x11, &[self.local.sge(0..length)], remote, 0)?;
        if status != STATUS_SUCCESS {
            return a.expect_refused(NdkOperationTypeWrite, 0x11, status);
        }
        expect(&a.initiated()?, NdkOperationTypeWrite, 0x11, status).map(drop)
    }

    /// `a` reads to the second page of its buffer.
    fn read(&self, remote: Remote, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.a.qp.read(0x12, &[self.local.sge(PAGE_SIZE..PAGE_SIZE + length)], remote, 0)?;
        expect(&self.pair.a.initiated()?, NdkOperationTypeRead, 0x12, status).map(drop)
    }

    fn invalidate(&self, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.b.qp.invalidate_window(0x13, &self.mw, 0)?;
        expect(&self.pair.b.initiated()?, NdkOperationTypeInvalidate, 0x13, status).map(drop)
    }
}

pub(super) fn access(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    let remote = all.bind(100, 5000, READ | WRITE)?;
    let data = pattern(1, 5000);
    all.local.memory().write(0, &data);
    all.write(remote, 5000, STATUS_SUCCESS)?;
    ensure_same(&all.region.memory().read(100..5100), &data)?;
    ensure_same(&all.region.memory().read(0..100), &[0; 100])?;
    all.read(Remote { address: remote.address + 1000, ..remote }, 300, STATUS_SUCCESS)?;
    ensure_same(&all.local.memory().read(PAGE_SIZE..PAGE_SIZE + 300), &data[1000..1300])?;
    all.read(all.region.remote(100), 8, STATUS_ACCESS_VIOLATION).context("by the token of the region")
}

// Shows S601.
pub(super) fn ends(bench: &Bench<'_>) -> anyhow::Result<()> {
    for (offset, length) in [(99, 1), (99, 2), (149, 2), (150, 1), (0, 1), (PAGE_SIZE, 1)] {
        for is_write in [true, false] {
            let all = Fixture::new(bench)?;
            let remote = all.bind(100, 50, READ | WRITE)?;
            all.local.memory().write(0, &[0x77; 8]);
            let outside = Remote { address: all.region.memory().address(offset), ..remote };
            match is_write {
                true => all.write(outside, length, STATUS_ACCESS_VIOLATION),
                false => all.read(outside, length, STATUS_REMOTE_RESOURCES),
            }
            .with_context(|| format!("{length} bytes at {offset} of 100..150"))?;
            ensure_same(&all.region.memory().read(0..2 * PAGE_SIZE), &[0; 2 * PAGE_SIZE])?;
        }
    }
    Ok(())
}

pub(super) fn rights(bench: &Bench<'_>) -> anyhow::Result<()> {
    for (flags, may_read, may_write) in
        [(0, false, false), (READ, true, false), (WRITE, false, true), (READ | WRITE, true, true)]
    {
        let status = |allowed| if allowed { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION };
        let all = Fixture::new(bench)?;
        all.write(all.bind(0, 64, flags)?, 8, status(may_write)).with_context(|| format!("flags {flags:#x}"))?;
        let all = Fixture::new(bench)?;
        all.read(all.bind(0, 64, flags)?, 8, status(may_read)).with_context(|| format!("flags {flags:#x}"))?;
    }
    Ok(())
}

pub(super) fn bind_again(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    let mut last = all.bind(0, 64, READ | WRITE)?;
    for offset in 1..300 {
        let remote = all.bind(offset, 64, READ | WRITE)?;
        ensure!(remote.token != last.token, "the same token twice in a row");
        all.write(remote, 8, STATUS_SUCCESS)?;
        last = remote;
    }
    all.bind(0, 64, READ | WRITE)?;
    all.write(last, 8, STATUS_ACCESS_VIOLATION).context("by the token before")
}

pub(super) fn invalidate(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    for _ in 0..3 {
        all.write(all.bind(0, 64, WRITE)?, 8, STATUS_SUCCESS)?;
        all.invalidate(STATUS_SUCCESS)?;
    }
    all.invalidate(STATUS_INVALID_DEVICE_REQUEST).context("twice")?;
    let all = Fixture::new(bench)?;
    let remote = all.bind(0, 64, WRITE)?;
    all.invalidate(STATUS_SUCCESS)?;
    all.write(remote, 8, STATUS_ACCESS_VIOLATION).context("after it")
}

// Shows S630.
pub(super) fn remote_invalidate(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    let (a, b) = (&all.pair.a, &all.pair.b);
    let mut remote = all.bind(0, 64, READ | WRITE)?;
    for context in 0..3 {
        all.write(remote, 8, STATUS_SUCCESS)?;
        b.qp.receive(context, &[])?;
        a.qp.post(a.qp.send_and_invalidate(context, 0, remote.token), &[])?;
        expect(&a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
        let received = b.received()?;
        expect(&received, NdkOperationTypeReceiveAndInvalidate, context, STATUS_SUCCESS)?;
        ensure!(received.Output == u64::from(remote.token), "token {:#x} reported", received.Output);
        if context < 2 {
            remote = all.bind(0, 64, READ | WRITE)?;
        }
    }
    all.write(remote, 8, STATUS_ACCESS_VIOLATION)
}

// Shows P17, S604.
pub(super) fn busy(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    let remote = all.bind(0, 64, READ | WRITE)?;
    refused(all.region.deregister(), STATUS_DEVICE_BUSY, "deregistering a region with a window")?;
    all.write(remote, 8, STATUS_SUCCESS)?;
    all.invalidate(STATUS_SUCCESS)?;
    all.region.deregister()?;
    // A region that is freed with a bound window ends when the window is freed.
    let all = Fixture::new(bench)?;
    let remote = all.bind(0, 64, READ | WRITE)?;
    all.region.free()?;
    all.write(remote, 8, STATUS_SUCCESS).context("after the region was freed")?;
    all.mw.free()?;
    all.write(remote, 8, STATUS_ACCESS_VIOLATION).context("after the window was freed")
}

pub(super) fn bad_binds(bench: &Bench<'_>) -> anyhow::Result<()> {
    let all = Fixture::new(bench)?;
    let qp = &all.pair.b.qp;
    let size = 2 * PAGE_SIZE;
    for (range, flags, status) in [
        (0..0, READ, STATUS_INVALID_PARAMETER),
        (0..size + 1, READ, STATUS_ACCESS_VIOLATION),
        (size - 1..size + 1, READ, STATUS_ACCESS_VIOLATION),
        (0..8, NDK_OP_FLAG_ALLOW_LOCAL_WRITE, STATUS_INVALID_PARAMETER_4),
        (0..8, 0x4000_0000, STATUS_INVALID_PARAMETER_4),
    ] {
        let what = format!("{range:?} of {size} bytes, flags {flags:#x}");
        refused(qp.bind(1, &all.mw, &all.region, range, flags), status, &what)?;
    }
    let readable = Mr::new(&all.pair.b.site.pd, PAGE_SIZE, ND_MR_FLAG_ALLOW_REMOTE_READ)?;
    let result = qp.bind(1, &all.mw, &readable, 0..8, WRITE);
    refused(result, STATUS_ACCESS_VIOLATION, "writing where the owner may not")?;
    // A window and a region of another file, and of another domain.
    let strange = Mw::new(&all.pair.a.site.pd)?;
    refused(qp.bind(1, &strange, &all.region, 0..8, READ), STATUS_INVALID_HANDLE, "another file's window")?;
    refused(qp.bind(1, &all.mw, &all.local, 0..8, READ), STATUS_INVALID_HANDLE, "another file's region")?;
    let idle = Site::new(bench)?.end()?;
    let (mr, mw) = (idle.site.buffer(1)?, Mw::new(&idle.site.pd)?);
    refused(idle.qp.bind(1, &mw, &mr, 0..8, READ), STATUS_CONNECTION_INVALID, "not connected")?;
    drop(mw);
    all.pair.b.quiet()?;
    all.write(all.bind(0, size, WRITE)?, 8, STATUS_SUCCESS)
}
