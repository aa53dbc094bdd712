//! IND2MemoryWindow, and the requests of a queue pair that are about it.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_SUCCESS,
    },
};
use std::ptr;

use crate::{
    nd::{
        client::{Mr, Mw, QpSize, Remote, both::QueuePair as _},
        pair::{BIND, End, INVALIDATE, Pair, READ, RECEIVE, SEND, WRITE, expect},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

/// A pair, a region of `b` that gives its peer no rights, a window, and memory of `a`. The window is dropped first.
struct Fixture {
    mw: Mw,
    region: Mr,
    local: Mr,
    pair: Pair,
}

impl Fixture {
    fn new(nd: &Nd) -> anyhow::Result<Self> {
        let pair = Pair::new(nd)?;
        let region = Mr::new(&pair.b.adapter, 8192)?;
        region.register(ND_MR_FLAG_ALLOW_LOCAL_WRITE)?;
        Ok(Self { mw: Mw::new(&pair.b.adapter)?, region, local: pair.a.buffer(8192)?, pair })
    }

    fn bind(&self, flags: u32) -> anyhow::Result<Remote> {
        let remote = self.pair.b.qp.bind(1, &self.region, &self.mw, 100, 5000, flags)?;
        expect(self.pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        Ok(remote)
    }

    fn write(&self, remote: Remote, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.a.qp.write(2, &[self.local.sge(0..length)], remote, 0)?;
        expect(self.pair.a.initiated()?, WRITE, 2, status).map(drop)
    }

    fn read(&self, remote: Remote, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.a.qp.read(3, &[self.local.sge(0..length)], remote, 0)?;
        expect(self.pair.a.initiated()?, READ, 3, status).map(drop)
    }

    fn invalidate(&self, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.b.qp.invalidate(4, &self.mw, 0)?;
        expect(self.pair.b.initiated()?, INVALIDATE, 4, status).map(drop)
    }
}

const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;

// Shows N75.
pub(in crate::nd) fn access(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let data = pattern(1, 5000);
    fixture.local.memory().write(0, &data);
    let remote = fixture.bind(BOTH)?;
    fixture.write(remote, 5000, STATUS_SUCCESS)?;
    ensure_same(&fixture.region.memory().read(100..5100), &data)?;
    fixture.region.memory().write(100, &pattern(2, 5000));
    fixture.read(remote, 5000, STATUS_SUCCESS)?;
    ensure_same(&fixture.local.memory().read(0..5000), &pattern(2, 5000))?;
    fixture.invalidate(STATUS_SUCCESS)?;
    // Bound anew the window has another token.
    let next = fixture.bind(ND_OP_FLAG_ALLOW_READ)?;
    ensure!(next.token != remote.token, "two binds in a row have the same token");
    fixture.read(next, 100, STATUS_SUCCESS)?;
    fixture.invalidate(STATUS_SUCCESS)
}

/// The token is known when Bind has returned, not only when it has completed.
// Shows N61, S602.
pub(in crate::nd) fn token_at_once(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let mut last = None;
    for _ in 0..20 {
        let remote = fixture.pair.b.qp.bind(1, &fixture.region, &fixture.mw, 100, 5000, BOTH)?;
        let at_once = remote.token;
        expect(fixture.pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        ensure!(fixture.mw.remote_token() == at_once, "the token changed when the bind completed");
        ensure!(last != Some(at_once), "two binds have the same token");
        fixture.write(remote, 1, STATUS_SUCCESS)?;
        fixture.invalidate(STATUS_SUCCESS)?;
        last = Some(at_once);
    }
    Ok(())
}

/// Refused accesses: the requester sees it, the target's receives are cancelled.
// Shows N78, N79, R5, S510.
pub(in crate::nd) fn refused_access(nd: &Nd) -> anyhow::Result<()> {
    type Access = fn(&Fixture, Remote) -> anyhow::Result<()>;
    let accesses: [(u32, Access); 6] = [
        (BOTH, |fixture, remote| {
            fixture.write(Remote { address: remote.address + 1, ..remote }, 5000, STATUS_ACCESS_VIOLATION)
        }),
        (BOTH, |fixture, remote| {
            fixture.read(Remote { address: remote.address + 1, ..remote }, 5000, STATUS_ACCESS_VIOLATION)
        }),
        (BOTH, |fixture, remote| {
            fixture.write(Remote { address: remote.address - 1, ..remote }, 10, STATUS_ACCESS_VIOLATION)
        }),
        (ND_OP_FLAG_ALLOW_READ, |fixture, remote| fixture.write(remote, 10, STATUS_ACCESS_VIOLATION)),
        (ND_OP_FLAG_ALLOW_WRITE, |fixture, remote| fixture.read(remote, 10, STATUS_ACCESS_VIOLATION)),
        (BOTH, |fixture, remote| {
            fixture.invalidate(STATUS_SUCCESS)?;
            fixture.write(remote, 10, STATUS_ACCESS_VIOLATION)
        }),
    ];
    for (flags, access) in accesses {
        let fixture = Fixture::new(nd)?;
        let remote = fixture.bind(flags)?;
        fixture.pair.b.qp.receive(9, &[])?;
        access(&fixture, remote)?;
        expect(fixture.pair.b.received()?, RECEIVE, 9, STATUS_CANCELLED)?;
    }
    Ok(())
}

/// No rights at all, and reading from a region that is for local writes only: existing programs do both.
// Shows N76.
pub(in crate::nd) fn bind_flags(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    fixture.bind(0)?;
    fixture.invalidate(STATUS_SUCCESS)?;
    let remote = fixture.bind(ND_OP_FLAG_ALLOW_READ)?;
    fixture.read(remote, 10, STATUS_SUCCESS)?;
    fixture.invalidate(STATUS_SUCCESS)
}

// Shows N70, N75.
pub(in crate::nd) fn bind_refused(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let (qp, region, mw) = (&fixture.pair.b.qp, &fixture.region, &fixture.mw);
    refused(qp.bind(1, region, mw, 8000, 500, BOTH), STATUS_ACCESS_VIOLATION, "beyond the region")?;
    let read_only = Mr::new(&fixture.pair.b.adapter, 4096)?;
    read_only.register(0)?;
    refused(
        qp.bind(1, &read_only, mw, 0, 64, ND_OP_FLAG_ALLOW_WRITE),
        STATUS_ACCESS_VIOLATION,
        "writes to a region without local writes",
    )?;
    ensure!(qp.bind_nothing(ptr::null_mut()).is_err(), "a bind without a region");
    let alone = End::new(nd)?;
    let (region, mw) = (alone.buffer(64)?, Mw::new(&alone.adapter)?);
    refused(alone.qp.bind(1, &region, &mw, 0, 64, BOTH), STATUS_CONNECTION_INVALID, "without a connection")?;
    refused(alone.qp.invalidate(1, &mw, 0), STATUS_CONNECTION_INVALID, "an invalidate without a connection")
}

// Shows N41, R5.
pub(in crate::nd) fn invalidate_unbound(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    fixture.invalidate(STATUS_INVALID_DEVICE_REQUEST)
}

/// Requests that wait behind a send, for which the peer has no receive.
// Shows R5.
pub(in crate::nd) fn cancelled(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    fixture.bind(BOTH)?;
    let qp = &fixture.pair.b.qp;
    qp.send(1, &[], 0)?;
    qp.invalidate(2, &fixture.mw, 0)?;
    qp.bind(3, &fixture.region, &fixture.mw, 100, 5000, BOTH)?;
    qp.flush()?;
    for (context, kind) in [(1, SEND), (2, INVALIDATE), (3, BIND)] {
        expect(fixture.pair.b.initiated()?, kind, context, STATUS_CANCELLED)?;
    }
    fixture.pair.quiet()
}

/// A message may carry the token before the bind has completed: the peer's access takes place after the bind.
// Shows N61, N62.
pub(in crate::nd) fn token_sent_at_once(nd: &Nd) -> anyhow::Result<()> {
    let Fixture { mw, region, local, pair } = Fixture::new(nd)?;
    pair.a.qp.receive(1, &[local.sge(0..4)])?;
    let remote = pair.b.qp.bind(2, &region, &mw, 100, 5000, BOTH)?;
    pair.b.qp.send_inline(3, &remote.token.to_ne_bytes(), 0)?;
    expect(pair.a.received()?, RECEIVE, 1, STATUS_SUCCESS)?;
    let sent: [u8; 4] = local.memory().read(0..4).as_slice().try_into()?;
    let told = Remote { token: u32::from_ne_bytes(sent), ..remote };
    pair.a.qp.write(4, &[local.sge(0..5000)], told, 0)?;
    expect(pair.a.initiated()?, WRITE, 4, STATUS_SUCCESS)?;
    expect(pair.b.initiated()?, BIND, 2, STATUS_SUCCESS)?;
    expect(pair.b.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    pair.quiet()
}

/// Only the peer of the queue pair that bound it may use a window.
// Shows N77, S603.
pub(in crate::nd) fn of_one_queue_pair(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let remote = fixture.bind(BOTH)?;
    // Another queue pair of the window's adapter, with a peer of its own.
    let second_end = End::on(fixture.pair.b.adapter.clone(), fixture.pair.b.address, QpSize::default(), 16)?;
    let other = Pair::of(End::new(nd)?, second_end)?;
    let local = other.a.buffer(64)?;
    other.a.qp.write(1, &[local.sge(0..64)], remote, 0)?;
    expect(other.a.initiated()?, WRITE, 1, STATUS_ACCESS_VIOLATION)?;
    fixture.write(remote, 64, STATUS_SUCCESS)
}
