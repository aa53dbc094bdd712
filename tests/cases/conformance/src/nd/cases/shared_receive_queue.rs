//! IND2SharedReceiveQueue.

use anyhow::{Context as _, ensure};
use nd_com::v2::ND2_SGE;
use ndk_abi::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES,
    STATUS_SUCCESS,
};

use crate::{
    nd::{
        client::{
            QpSize, Srq, SrqSize,
            both::{CompletionQueue as _, QueuePair as _},
        },
        pair::{End, Pair, RECEIVE, SEND, expect, expect_received, is},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

/// A sender, and a receiver with a shared receive queue and queue pairs on it.
struct Fixture {
    /// Connected queue pairs; the receiver's use the shared queue.
    links: Vec<Pair>,
    srq: Srq,
    a: End,
    b: End,
}

/// What the far queue pair of link `number` reports.
const fn qp_context(number: usize) -> usize {
    0x100 * (number + 1)
}

impl Fixture {
    fn new(nd: &Nd, size: SrqSize, links: usize) -> anyhow::Result<Self> {
        let (a, b) = (End::new(nd)?, End::new(nd)?);
        let srq = b.adapter.srq(size)?;
        let mut fixture = Self { links: Vec::new(), srq, a, b };
        for number in 0..links {
            fixture.links.push(fixture.link(number)?);
        }
        Ok(fixture)
    }

    fn link(&self, number: usize) -> anyhow::Result<Pair> {
        let (a, b) = (&self.a, &self.b);
        let size = QpSize { context: qp_context(number), ..QpSize::default() };
        let near = a.on_same_adapter(&a.receive_cq, &a.initiator_cq, size)?;
        let far = End {
            connector: b.adapter.connector()?,
            qp: b.adapter.qp_with_srq(&b.receive_cq, &b.initiator_cq, &self.srq, size)?,
            initiator_cq: b.initiator_cq.clone(),
            receive_cq: b.receive_cq.clone(),
            adapter: b.adapter.clone(),
            address: b.address,
        };
        Pair::of(near, far)
    }

    /// Sends an empty message over a link; the receive gets completed with `context`.
    fn send(&self, link: usize, context: usize) -> anyhow::Result<()> {
        self.links[link].a.qp.send(context, &[], 0)?;
        expect(self.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
        expect_received(self.b.received()?, context, 0)
    }
}

const SMALL: SrqSize = SrqSize { depth: 8, sges: 2, threshold: 0 };

// Shows R6, S4, S5.
pub(in crate::nd) fn affinity(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let (group, mask) = adapter.srq_on(SMALL, 0, 1)?.affinity()?;
    ensure!((group, mask) == (0, 1), "asked for processor 0, group {group} and mask {mask:#x} were given");
    let srq = adapter.srq(SMALL)?;
    let (group, mask) = srq.affinity()?;
    ensure!(group == 0 && mask != 0, "nothing was asked for; group {group}, mask {mask:#x}");
    is(srq.affinity_nowhere(true), STATUS_INVALID_PARAMETER, "no place for the group")?;
    is(srq.affinity_nowhere(false), STATUS_INVALID_PARAMETER, "no place for the mask")
}

// Shows N53, R2, R6, S3, S14, S16, S401.
pub(in crate::nd) fn shared(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SrqSize { depth: 32, ..SMALL }, 3)?;
    let (source, target) = (fixture.a.buffer(4096)?, fixture.b.buffer(32 * 64)?);
    for context in 0..12 {
        // The entries are of no use after the call.
        let mut sges = [target.sge(64 * context..64 * context + 10), target.sge(64 * context + 10..64 * context + 50)];
        fixture.srq.receive(context, &sges)?;
        sges.fill(ND2_SGE { Buffer: std::ptr::null_mut(), BufferLength: 0, MemoryRegionToken: 0 });
    }
    for context in 0..12 {
        let (data, link) = (pattern(context as u64, 50), &fixture.links[context % 3]);
        source.memory().write(0, &data);
        link.a.qp.send(context, &[source.sge(0..50)], 0)?;
        expect(fixture.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
        let result = fixture.b.received()?;
        expect_received(result, context, 50)?;
        ensure!(result.qp_context == qp_context(context % 3), "the queue pair's context is {:#x}", result.qp_context);
        ensure_same(&target.memory().read(64 * context..64 * context + 50), &data)?;
    }
    fixture.b.quiet()
}

// Shows S13.
pub(in crate::nd) fn before_connect(nd: &Nd) -> anyhow::Result<()> {
    let mut fixture = Fixture::new(nd, SMALL, 0)?;
    fixture.srq.receive(1, &[])?;
    let link = fixture.link(0)?;
    fixture.links.push(link);
    fixture.send(0, 1)
}

/// A send that finds no receive does not end the connection: it waits.
// Shows N49, N81, S22.
pub(in crate::nd) fn empty(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 1)?;
    fixture.links[0].a.qp.send(1, &[], 0)?;
    ensure!(fixture.a.initiator_cq.poll(1)?.is_empty(), "a send completed without a receive");
    fixture.srq.receive(2, &[])?;
    expect_received(fixture.b.received()?, 2, 0)?;
    expect(fixture.a.initiated()?, SEND, 1, STATUS_SUCCESS)?;
    Ok(())
}

// Shows R6, S15, S17, S18, S19.
pub(in crate::nd) fn receive_refused(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 1)?;
    let target = fixture.b.buffer(4096)?;
    let three = [target.sge(0..1), target.sge(1..2), target.sge(2..3)];
    refused(fixture.srq.receive(1, &three), STATUS_DATA_OVERRUN, "more SGEs than maxRequestSge")?;
    let max = fixture.b.adapter.info()?.MaxTransferLength;
    let long = [ND2_SGE { BufferLength: max, ..target.sge(0..1) }, target.sge(1..2)];
    refused(fixture.srq.receive(1, &long), STATUS_BUFFER_OVERFLOW, "more data than the adapter supports")?;
    // A queue may hold more than asked for, but not without end.
    let mut posted = 0;
    let full = loop {
        match fixture.srq.receive(posted, &[]) {
            Ok(()) if posted < 100_000 => posted += 1,
            other => break other,
        }
    };
    refused(full, STATUS_NO_MORE_ENTRIES, "more receives than the queue holds")?;
    ensure!(posted >= SMALL.depth as usize, "a queue of {} holds {posted}", SMALL.depth);
    for context in 0..posted {
        fixture.send(0, context)?;
    }
    fixture.srq.receive(7, &[]).context("there is room again")?;
    fixture.send(0, 7)
}

// Shows S20, S21.
pub(in crate::nd) fn too_small(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 2)?;
    let (source, target) = (fixture.a.buffer(64)?, fixture.b.buffer(64)?);
    fixture.srq.receive(1, &[target.sge(0..10)])?;
    fixture.links[0].a.qp.send(2, &[source.sge(0..11)], 0)?;
    expect(fixture.b.received()?, RECEIVE, 1, STATUS_BUFFER_OVERFLOW)?;
    let sent = fixture.a.initiated()?;
    ensure!(sent.context == 2 && sent.status != STATUS_SUCCESS, "the send succeeded");
    // The other connection, and the queue, go on.
    fixture.srq.receive(3, &[])?;
    fixture.send(1, 3)
}

// Shows R6, S10, S12.
pub(in crate::nd) fn notify(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SrqSize { threshold: 3, ..SMALL }, 1)?;
    for context in 0..4 {
        fixture.srq.receive(context, &[])?;
    }
    let mut request = fixture.srq.notify()?;
    ensure!(!request.is_over(), "four receives are not fewer than three");
    fixture.send(0, 0)?;
    ensure!(!request.is_over(), "three receives are not fewer than three");
    fixture.send(0, 1)?;
    is(request.status()?, STATUS_SUCCESS, "the request")?;
    // It is fewer already.
    fixture.srq.notify()?.finish().context("a request while there are fewer")?;
    fixture.send(0, 2)?;
    fixture.send(0, 3)
}

// Shows S11.
pub(in crate::nd) fn all_waiters(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SrqSize { threshold: 1, ..SMALL }, 1)?;
    fixture.srq.receive(0, &[])?;
    let mut requests = (0..5).map(|_| fixture.srq.notify()).collect::<Result<Vec<_>, _>>()?;
    fixture.send(0, 0)?;
    for request in &mut requests {
        is(request.status()?, STATUS_SUCCESS, "one of the requests")?;
    }
    Ok(())
}

// Shows R6.
pub(in crate::nd) fn cancelled(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let srq = adapter.srq(SrqSize { threshold: 1, ..SMALL })?;
    srq.receive(0, &[])?;
    let mut requests = [srq.notify()?, srq.notify()?];
    srq.cancel()?;
    for request in &mut requests {
        is(request.status()?, STATUS_CANCELLED, "a request that was cancelled")?;
    }
    let mut last = srq.notify()?;
    last.let_object_go();
    drop((requests, srq));
    is(last.status()?, STATUS_CANCELLED, "a request on a queue that was released")
}

// Shows R6, S6, S7.
pub(in crate::nd) fn modify(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SrqSize { depth: 4, sges: 1, threshold: 2 }, 1)?;
    for context in 0..4 {
        fixture.srq.receive(context, &[])?;
    }
    fixture.srq.modify(40, 0).context("a larger queue")?;
    for context in 4..40 {
        fixture.srq.receive(context, &[]).with_context(|| format!("receive {context} of the larger queue"))?;
    }
    let mut request = fixture.srq.notify()?;
    for context in 0..35 {
        fixture.send(0, context)?;
    }
    ensure!(!request.is_over(), "five receives are not fewer than two: a threshold of 0 changed it");
    fixture.srq.modify(0, 5).context("another threshold")?;
    fixture.send(0, 35)?;
    is(request.status()?, STATUS_SUCCESS, "four receives are fewer than five")?;
    fixture.srq.modify(4, 1).context("a smaller queue")?;
    for context in 36..40 {
        fixture.send(0, context)?;
    }
    Ok(())
}

// Shows R6, S2, S8, S9.
pub(in crate::nd) fn modify_refused(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 1)?;
    let max = fixture.b.adapter.info()?.MaxSharedReceiveQueueDepth;
    refused(fixture.srq.modify(max + 1, 0), STATUS_INVALID_PARAMETER, "more than the adapter's limit")?;
    for context in 0..8 {
        fixture.srq.receive(context, &[])?;
    }
    refused(fixture.srq.modify(7, 0), STATUS_BUFFER_OVERFLOW, "7 entries for 8 receives")?;
    for context in 0..8 {
        fixture.send(0, context)?;
    }
    fixture.b.quiet()
}

pub(in crate::nd) fn flush(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 1)?;
    fixture.srq.receive(1, &[])?;
    fixture.links[0].b.qp.flush()?;
    ensure!(fixture.b.receive_cq.poll(1)?.is_empty(), "a flush of a queue pair took receives of the shared queue");
    Ok(())
}

/// A threshold of 0 is none: not even an empty queue ends a request.
// Shows N43.
pub(in crate::nd) fn no_threshold(nd: &Nd) -> anyhow::Result<()> {
    let fixture = Fixture::new(nd, SMALL, 1)?;
    let mut request = fixture.srq.notify()?;
    fixture.srq.receive(1, &[])?;
    fixture.send(0, 1)?;
    ensure!(!request.is_over(), "a queue without a threshold notified");
    fixture.srq.cancel()?;
    is(request.status()?, STATUS_CANCELLED, "the request")
}
