//! INDMemoryWindow, and the requests of an endpoint that are about it.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_SUCCESS,
    },
};

use super::pair::{BOTH, End, Pair};
use crate::{
    nd::{
        client::{
            both::Connector as _,
            both::{CompletionQueue as _, QueuePair as _},
            v1::{Descriptor, Mr, Mw, REMOTE_INVALIDATION},
        },
        pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE, expect},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

/// A pair, memory of `b`, a window, and memory of `a`. The window is dropped first.
struct Fixture {
    mw: Mw,
    region: Mr,
    local: Mr,
    pair: Pair,
}

/// The context of the completion that tells of a remote invalidation.
const GONE: usize = 0x77;

impl Fixture {
    fn new(nd: &Nd) -> anyhow::Result<Self> {
        let pair = Pair::new(nd)?;
        let (region, local) = (pair.b.buffer(8192)?, pair.a.buffer(8192)?);
        Ok(Self { mw: Mw::new(&pair.b.adapter, GONE)?, region, local, pair })
    }

    /// Binds the window to 5000 bytes from 100 on.
    fn bind(&self, flags: u32) -> anyhow::Result<Descriptor> {
        let window = self.pair.b.qp.bind(1, &self.region, &self.mw, 100, 5000, flags)?;
        expect(self.pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        Ok(window)
    }

    fn write(&self, window: Descriptor, offset: u64, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.a.qp.write(2, &[self.local.sge(0..length)], window, offset, 0)?;
        expect(self.pair.a.initiated()?, WRITE, 2, status).map(drop)
    }

    fn read(&self, window: Descriptor, offset: u64, length: usize, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.a.qp.read(3, &[self.local.sge(0..length)], window, offset, 0)?;
        expect(self.pair.a.initiated()?, READ, 3, status).map(drop)
    }

    fn invalidate(&self, status: NTSTATUS) -> anyhow::Result<()> {
        self.pair.b.qp.invalidate(4, &self.mw, 0)?;
        expect(self.pair.b.initiated()?, INVALIDATE, 4, status).map(drop)
    }

    /// The peer sends, and invalidates the window.
    fn send_and_invalidate(&self, window: Descriptor) -> anyhow::Result<()> {
        Ok(self.pair.a.qp.send_and_invalidate(6, &[self.local.sge(0..10)], window, 0)?)
    }
}

// Shows V25.
pub(in crate::nd) fn access(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let data = pattern(1, 5000);
    fixture.local.memory().write(0, &data);
    let window = fixture.bind(BOTH)?;
    fixture.write(window, 0, 5000, STATUS_SUCCESS)?;
    ensure_same(&fixture.region.memory().read(100..5100), &data)?;
    fixture.region.memory().write(100, &pattern(2, 5000));
    fixture.read(window, 0, 5000, STATUS_SUCCESS)?;
    ensure_same(&fixture.local.memory().read(0..5000), &pattern(2, 5000))?;
    // The offset counts from the window's beginning.
    fixture.local.memory().write(0, &data);
    fixture.write(window, 4990, 10, STATUS_SUCCESS)?;
    ensure_same(&fixture.region.memory().read(5090..5100), &data[..10])?;
    fixture.write(window, 1, 1, STATUS_SUCCESS)?;
    ensure_same(&fixture.region.memory().read(101..102), &data[..1])?;
    ensure_same(&fixture.region.memory().read(100..101), &pattern(2, 5000)[..1])?;
    fixture.invalidate(STATUS_SUCCESS)
}

// Shows V26.
pub(in crate::nd) fn descriptor(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let mut last = None;
    for _ in 0..20 {
        let window = fixture.pair.b.qp.bind(1, &fixture.region, &fixture.mw, 100, 5000, BOTH)?;
        ensure!(window.length == 5000, "the descriptor says {} bytes, 5000 were bound", window.length);
        ensure!(window.base == fixture.region.memory().address(100), "the base is {:#x}", window.base);
        ensure!(last != Some(window.token), "two binds have the same token");
        last = Some(window.token);
        expect(fixture.pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        fixture.write(window, 0, 1, STATUS_SUCCESS)?;
        fixture.invalidate(STATUS_SUCCESS)?;
    }
    Ok(())
}

/// Refused accesses: the requester sees it, the target's receives are cancelled.
// Shows V25, V32.
pub(in crate::nd) fn refused_access(nd: &Nd) -> anyhow::Result<()> {
    type Access = fn(&Fixture, Descriptor) -> anyhow::Result<()>;
    const NO: NTSTATUS = STATUS_ACCESS_VIOLATION;
    let accesses: [(&str, u32, Access); 12] = [
        ("a byte behind it", BOTH, |fixture, window| fixture.write(window, 1, 5000, NO)),
        ("a byte behind it, read", BOTH, |fixture, window| fixture.read(window, 5000, 1, NO)),
        ("a byte before it", BOTH, |fixture, window| fixture.write(window, u64::MAX, 1, NO)),
        ("far behind", BOTH, |fixture, window| fixture.write(window, 1 << 40, 1, NO)),
        ("around the end of all addresses", BOTH, |fixture, window| fixture.read(window, u64::MAX - 4, 100, NO)),
        ("the peer makes the window longer", BOTH, |fixture, window| {
            fixture.write(Descriptor { length: 8000, ..window }, 0, 6000, NO)
        }),
        ("the peer moves the window", BOTH, |fixture, window| {
            fixture.write(Descriptor { base: window.base - 100, ..window }, 0, 10, NO)
        }),
        ("a token that nobody has", BOTH, |fixture, window| {
            fixture.write(Descriptor { token: !window.token, ..window }, 0, 10, NO)
        }),
        ("writes, where reads are allowed", ND_OP_FLAG_ALLOW_READ, |fixture, window| fixture.write(window, 0, 10, NO)),
        ("reads, where writes are allowed", ND_OP_FLAG_ALLOW_WRITE, |fixture, window| fixture.read(window, 0, 10, NO)),
        ("invalidated", BOTH, |fixture, window| {
            fixture.invalidate(STATUS_SUCCESS)?;
            fixture.write(window, 0, 10, NO)
        }),
        ("bound anew", BOTH, |fixture, window| {
            fixture.invalidate(STATUS_SUCCESS)?;
            fixture.bind(BOTH)?;
            fixture.read(window, 0, 10, NO)
        }),
    ];
    for (what, flags, access) in accesses {
        let fixture = Fixture::new(nd)?;
        fixture.region.memory().write(0, &[0xa5; 8192]);
        let window = fixture.bind(flags)?;
        fixture.pair.b.qp.receive(9, &[])?;
        access(&fixture, window).context(what)?;
        expect(fixture.pair.b.received()?, RECEIVE, 9, STATUS_CANCELLED).context(what)?;
        ensure!(fixture.region.memory().read(0..8192) == [0xa5; 8192], "{what}: the memory was written to");
    }
    Ok(())
}

pub(in crate::nd) fn bind_flags(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    fixture.bind(0)?;
    fixture.invalidate(STATUS_SUCCESS)?;
    let old = fixture.bind(ND_OP_FLAG_ALLOW_READ)?;
    fixture.read(old, 0, 10, STATUS_SUCCESS)?;
    fixture.invalidate(STATUS_SUCCESS)?;
    let window = fixture.bind(ND_OP_FLAG_ALLOW_WRITE)?;
    fixture.write(window, 0, 10, STATUS_SUCCESS)?;
    fixture.invalidate(STATUS_SUCCESS)
}

// Shows V29.
pub(in crate::nd) fn bind_refused(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let (endpoint, region, mw) = (&fixture.pair.b.qp, &fixture.region, &fixture.mw);
    refused(endpoint.bind(1, region, mw, 8000, 500, BOTH), STATUS_ACCESS_VIOLATION, "beyond the memory")?;
    ensure!(endpoint.bind(1, region, mw, 0, usize::MAX, BOTH).is_err(), "a bind of all addresses");
    ensure!(endpoint.bind(1, region, mw, 0, (1 << 32) + 64, BOTH).is_err(), "a bind of more than 32 bits of length");
    ensure!(endpoint.bind(1, region, mw, 0, 64, 0x4000_0000).is_err(), "a bind with unknown flags");
    ensure!(endpoint.bind_nothing(region, None).is_err(), "a bind without a window");
    ensure!(endpoint.bind_nothing(region, Some(mw)).is_err(), "a bind without memory");
    let foreign = Mw::new(&fixture.pair.a.adapter, 0)?;
    ensure!(endpoint.bind(1, region, &foreign, 0, 64, BOTH).is_err(), "a bind of a window of another adapter");
    ensure!(endpoint.invalidate(1, &foreign, 0).is_err(), "an invalidation of a window of another adapter");
    let of_2 = nd.adapter()?.0;
    let of_2 = Mw { com: crate::nd::client::cast(&crate::nd::client::Mw::new(&of_2)?.com)? };
    ensure!(endpoint.bind(1, region, &of_2, 0, 64, BOTH).is_err(), "a bind of a window of version 2");
    // What is no window at all.
    let no_window = Mw { com: crate::nd::client::cast(&fixture.pair.b.adapter.com)? };
    ensure!(endpoint.bind(1, region, &no_window, 0, 64, BOTH).is_err(), "a bind of an adapter");
    ensure!(endpoint.invalidate(1, &no_window, 0).is_err(), "an invalidation of an adapter");
    fixture.bind(BOTH).context("the endpoint is usable")?;
    let alone = End::new(nd)?;
    let (region, mw) = (alone.buffer(64)?, Mw::new(&alone.adapter, 0)?);
    refused(alone.qp.bind(1, &region, &mw, 0, 64, BOTH), STATUS_CONNECTION_INVALID, "without a connection")?;
    refused(alone.qp.invalidate(1, &mw, 0), STATUS_CONNECTION_INVALID, "an invalidate without a connection")
}

/// A window that is released while it is bound: its memory can be deregistered, and its peer gets in no more.
pub(in crate::nd) fn released(nd: &Nd) -> anyhow::Result<()> {
    let Fixture { mw, region, local, pair } = Fixture::new(nd)?;
    let window = pair.b.qp.bind(1, &region, &mw, 100, 5000, BOTH)?;
    expect(pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    drop(mw);
    pair.a.qp.write(2, &[local.sge(0..10)], window, 0, 0)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_ACCESS_VIOLATION)?;
    region.deregister().context("no window is left")?;
    // The peer invalidates a window, which is dropped before the program polls: the program gets no completion for the window.
    let Fixture { mw, region, local: _local, pair } = Fixture::new(nd)?;
    let window = pair.b.qp.bind(1, &region, &mw, 0, 64, BOTH)?;
    expect(pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    pair.b.qp.receive(2, &[])?;
    pair.a.qp.send_and_invalidate(3, &[], window, 0)?;
    expect(pair.a.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    drop(mw);
    expect(pair.b.received()?, RECEIVE, 2, STATUS_SUCCESS)?;
    pair.quiet()
}

/// One completion gives two results. A poll without room leaves the rest to the next poll: if the program releases a window before that,
/// the provider drops the window's result, whose memory may be freed.
pub(in crate::nd) fn left_over(nd: &Nd) -> anyhow::Result<()> {
    let Fixture { mw, region, local: _local, pair } = Fixture::new(nd)?;
    let (a, b, other) = (&pair.a, &pair.b, Mw::new(&pair.b.adapter, GONE + 1)?);
    for (mw, offset, context) in [(&mw, 0, 7), (&other, 64, 8)] {
        let window = b.qp.bind(1, &region, mw, offset, 64, BOTH)?;
        expect(b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        b.qp.receive(context, &[])?;
        let notify = b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
        a.qp.send_and_invalidate(6, &[], window, 0)?;
        notify.finish()?;
        expect(a.initiated()?, SEND, 6, STATUS_SUCCESS)?;
    }
    let found = b.receive_cq.poll(2)?;
    ensure!(found.len() == 2, "{found:?}");
    expect(found[0], REMOTE_INVALIDATION, GONE, STATUS_SUCCESS)?;
    expect(found[1], RECEIVE, 7, STATUS_SUCCESS)?;
    drop(other);
    expect(b.received()?, RECEIVE, 8, STATUS_SUCCESS)?;
    pair.quiet()
}

pub(in crate::nd) fn invalidate_unbound(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    fixture.invalidate(STATUS_INVALID_DEVICE_REQUEST)
}

// Shows V19.
pub(in crate::nd) fn remote_invalidation(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let window = fixture.bind(BOTH)?;
    fixture.pair.b.qp.receive(5, &[fixture.region.sge(6000..6100)])?;
    fixture.local.memory().write(0, &pattern(7, 10));
    fixture.send_and_invalidate(window)?;
    expect(fixture.pair.a.initiated()?, SEND, 6, STATUS_SUCCESS)?;
    // docs/decisions.md: the window's own ND_RESULT precedes the receive's.
    let told = fixture.pair.b.received()?;
    expect(told, REMOTE_INVALIDATION, GONE, STATUS_SUCCESS)?;
    let received = expect(fixture.pair.b.received()?, RECEIVE, 5, STATUS_SUCCESS)?;
    ensure!(received.bytes == 10, "{} bytes received, 10 were sent", received.bytes);
    ensure_same(&fixture.region.memory().read(6000..6010), &pattern(7, 10))?;
    fixture.pair.quiet()?;
    // A poll with room for two returns both at once.
    let (b, other) = (&fixture.pair.b, Mw::new(&fixture.pair.b.adapter, GONE + 1)?);
    let next = b.qp.bind(1, &fixture.region, &other, 0, 64, BOTH)?;
    expect(b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    b.qp.receive(8, &[fixture.region.sge(6000..6100)])?;
    let notify = b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    fixture.send_and_invalidate(next)?;
    expect(fixture.pair.a.initiated()?, SEND, 6, STATUS_SUCCESS)?;
    notify.finish()?;
    let found = b.receive_cq.poll(16)?;
    ensure!(found.len() == 2, "{found:?}");
    expect(found[0], REMOTE_INVALIDATION, GONE + 1, STATUS_SUCCESS)?;
    expect(found[1], RECEIVE, 8, STATUS_SUCCESS)?;
    drop(other);
    // It is as if the own side had invalidated it: bound anew it serves again, and the old descriptor does not.
    fixture.region.deregister().context("no window is bound any more")?;
    fixture.region.register()?;
    let next = fixture.bind(BOTH)?;
    fixture.write(next, 0, 10, STATUS_SUCCESS)?;
    fixture.invalidate(STATUS_SUCCESS)?;
    fixture.write(window, 0, 10, STATUS_ACCESS_VIOLATION)?;
    // A window without an ND_RESULT for its invalidation.
    let pair = Pair::new(nd)?;
    let region = pair.b.buffer(4096)?;
    let mw = Mw::silent(&pair.b.adapter)?;
    let window = pair.b.qp.bind(1, &region, &mw, 0, 64, BOTH)?;
    expect(pair.b.initiated()?, BIND, 1, STATUS_SUCCESS)?;
    pair.b.qp.receive(2, &[])?;
    pair.a.qp.send_and_invalidate(3, &[], window, 0)?;
    expect(pair.a.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    expect(pair.b.received()?, RECEIVE, 2, STATUS_SUCCESS)?;
    pair.quiet()
}

/// docs/decisions.md: the sender DATA_ERROR, receives cancelled.
// Shows V19.
pub(in crate::nd) fn invalidated_again(nd: &Nd) -> anyhow::Result<()> {
    for (what, is_made_up) in [("invalidated before", false), ("made up", true)] {
        let fixture = Fixture::new(nd)?;
        let window = fixture.bind(BOTH)?;
        let mut lost = fixture.pair.b.connector.notify_disconnect()?;
        let token = if is_made_up { !window.token } else { window.token };
        if !is_made_up {
            fixture.invalidate(STATUS_SUCCESS)?;
        }
        fixture.pair.b.qp.receive(5, &[fixture.region.sge(6000..6100)])?;
        fixture.send_and_invalidate(Descriptor { token, ..window })?;
        let sent = fixture.pair.a.initiated()?;
        ensure!(sent.status != STATUS_SUCCESS, "{what}: the send succeeded");
        let received = fixture.pair.b.received()?;
        ensure!(received.kind == RECEIVE && received.status != STATUS_SUCCESS, "{what}: {received:?}");
        lost.status().context(what)?;
    }
    Ok(())
}

/// Binds and invalidations that wait behind what fails.
pub(in crate::nd) fn behind_a_failure(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd)?;
    let (b, other) = (&fixture.pair.b, Mw::new(&fixture.pair.b.adapter, 0)?);
    fixture.bind(BOTH)?;
    // The invalidation and the bind wait behind a send, for which the peer has no receive.
    b.qp.send(10, &[], 0)?;
    b.qp.invalidate(11, &fixture.mw, 0)?;
    b.qp.bind(12, &fixture.region, &other, 0, 64, BOTH)?;
    b.qp.flush()?;
    expect(b.initiated()?, SEND, 10, STATUS_CANCELLED)?;
    expect(b.initiated()?, INVALIDATE, 11, STATUS_CANCELLED)?;
    expect(b.initiated()?, BIND, 12, STATUS_CANCELLED)?;
    b.quiet()
}
