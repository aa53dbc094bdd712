//! Shared receive queues: the serving end has one, the connecting end sends.

use anyhow::ensure;
use ndk_abi::status::{STATUS_BUFFER_OVERFLOW, STATUS_DATA_ERROR, STATUS_SUCCESS};

use super::role::Role;
use crate::{
    nd::{
        client::{
            Connector, Qp, QpSize, ReadLimits, Srq, SrqSize,
            both::{CompletionQueue as _, QueuePair as _},
        },
        pair::{End, RECEIVE, SEND, expect, expect_received, is},
    },
    pair::{ensure_same, pattern},
};

const LINKS: usize = 5;
const SLOT: usize = 1024;

/// Several connected queue pairs, which the serving end has on one shared receive queue. Connectors go first.
struct Links {
    _connectors: Vec<Connector>,
    qps: Vec<Qp>,
    srq: Option<Srq>,
    end: End,
}

/// What the queue pair of a link reports.
const fn qp_context(link: usize) -> usize {
    0x100 * (link + 1)
}

impl Links {
    fn new(role: &Role<'_>, size: SrqSize) -> anyhow::Result<Self> {
        let end = role.site.end(QpSize::default())?;
        let srq = if role.connects() { None } else { Some(end.adapter.srq(size)?) };
        let (mut connectors, mut qps) = (Vec::new(), Vec::new());
        for link in 0..LINKS {
            let size = QpSize { context: qp_context(link), ..QpSize::default() };
            let qp = match &srq {
                Some(srq) => end.adapter.qp_with_srq(&end.receive_cq, &end.initiator_cq, srq, size)?,
                None => end.adapter.qp(&end.receive_cq, &end.initiator_cq, size)?,
            };
            let connector = end.adapter.connector()?;
            role.join(&end, &connector, &qp, ReadLimits::default())?;
            connectors.push(connector);
            qps.push(qp);
        }
        Ok(Self { _connectors: connectors, qps, srq, end })
    }
}

pub(super) fn shared(role: &Role<'_>) -> anyhow::Result<()> {
    const DEPTH: usize = 30;
    const THRESHOLD: usize = 10;
    const ROUNDS: usize = 20;
    let size = SrqSize { depth: DEPTH as u32, sges: 2, threshold: THRESHOLD as u32 };
    let links = Links::new(role, size)?;
    let end = &links.end;
    let memory = end.buffer(DEPTH * SLOT)?;
    let data = |round: usize, link: usize| pattern((round * LINKS + link) as u64, 1 + (round * 131 + link * 17) % SLOT);
    let Some(srq) = &links.srq else {
        for round in 0..ROUNDS {
            role.hear::<0>()?;
            for (link, qp) in links.qps.iter().enumerate() {
                let data = data(round, link);
                memory.memory().write(link * SLOT, &data);
                qp.send(link, &[memory.sge(link * SLOT..link * SLOT + data.len())], 0)?;
            }
            // Between queue pairs there is no order.
            let mut sent = (0..LINKS).map(|_| Ok(end.initiated()?.context)).collect::<anyhow::Result<Vec<_>>>()?;
            sent.sort_unstable();
            ensure!(sent == [0, 1, 2, 3, 4], "the sends that completed: {sent:?}");
        }
        role.meet()?;
        return end.quiet();
    };
    let receive = |slot: usize| {
        let start = slot * SLOT;
        srq.receive(slot, &[memory.sge(start..start + 10), memory.sge(start + 10..start + SLOT)])
    };
    (0..DEPTH).try_for_each(receive)?;
    let mut low = srq.notify()?;
    let mut free = Vec::new();
    for round in 0..ROUNDS {
        ensure!(!low.is_over(), "{} receives are not fewer than {THRESHOLD}", DEPTH - free.len());
        role.tell(&[])?;
        let mut seen = [false; LINKS];
        for _ in 0..LINKS {
            let found = end.received()?;
            let link = found.qp_context / 0x100 - 1;
            ensure!(link < LINKS && !seen[link], "a completion for the queue pair {:#x}", found.qp_context);
            seen[link] = true;
            let data = data(round, link);
            expect_received(found, found.context, data.len())?;
            let start = found.context * SLOT;
            ensure_same(&memory.memory().read(start..start + data.len()), &data)?;
            free.push(found.context);
        }
        if DEPTH - free.len() < THRESHOLD {
            is(low.status()?, STATUS_SUCCESS, "Notify of the shared queue")?;
            free.drain(..).try_for_each(receive)?;
            low = srq.notify()?;
        }
    }
    role.meet()?;
    end.quiet()
}

const SMALL: SrqSize = SrqSize { depth: 16, sges: 1, threshold: 0 };

pub(super) fn empty(role: &Role<'_>) -> anyhow::Result<()> {
    let links = Links::new(role, SMALL)?;
    let end = &links.end;
    let Some(srq) = &links.srq else {
        links.qps.iter().enumerate().try_for_each(|(link, qp)| qp.send(link, &[], 0))?;
        ensure!(end.initiator_cq.poll(1)?.is_empty(), "a send completed without a receive");
        role.tell(&[])?;
        for _ in 0..LINKS {
            is(end.initiated()?.status, STATUS_SUCCESS, "a send")?;
        }
        role.meet()?;
        return end.quiet();
    };
    role.hear::<0>()?;
    (0..LINKS).try_for_each(|context| srq.receive(context, &[]))?;
    for _ in 0..LINKS {
        let found = end.received()?;
        expect_received(found, found.context, 0)?;
    }
    role.meet()?;
    end.quiet()
}

pub(super) fn too_small(role: &Role<'_>) -> anyhow::Result<()> {
    let links = Links::new(role, SMALL)?;
    let (end, buffer) = (&links.end, links.end.buffer(64)?);
    let Some(srq) = &links.srq else {
        role.hear::<0>()?;
        links.qps[0].send(1, &[buffer.sge(0..11)], 0)?;
        expect(end.initiated()?, SEND, 1, STATUS_DATA_ERROR)?;
        for qp in &links.qps[1..] {
            role.hear::<0>()?;
            qp.send(2, &[buffer.sge(0..10)], 0)?;
            expect(end.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        }
        role.meet()?;
        return end.quiet();
    };
    let receive = |context| srq.receive(context, &[buffer.sge(0..10)]);
    receive(1)?;
    role.tell(&[])?;
    expect(end.received()?, RECEIVE, 1, STATUS_BUFFER_OVERFLOW)?;
    for context in 2..=LINKS {
        receive(context)?;
        role.tell(&[])?;
        expect_received(end.received()?, context, 10)?;
    }
    role.meet()?;
    end.quiet()
}
