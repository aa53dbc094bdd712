//! INDCompletionQueue apart from Notify.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use anyhow::{Context as _, anyhow, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_PENDING, STATUS_SUCCESS},
};

use super::pair::{BOTH, End, Pair};
use crate::{
    nd::{
        client::{
            Shared,
            both::{CompletionQueue as _, QueuePair as _},
            end_of,
            v1::{EndpointSize, Mw},
        },
        pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
        run::Nd,
    },
    pair::refused,
};

/// Sends empty messages; all of them are completed at both ends, none is taken at `pair.b`.
fn fill(pair: &Pair, contexts: std::ops::Range<usize>) -> anyhow::Result<()> {
    for context in contexts {
        pair.b.qp.receive(context, &[])?;
        pair.a.qp.send(context, &[], 0)?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
    }
    Ok(())
}

// Shows V22, V35.
pub(in crate::nd) fn resize(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::of(End::new(nd)?, End::with_cqs(nd, EndpointSize::default(), 32)?)?;
    let cq = &pair.b.receive_cq;
    let mut next = 0;
    for (depth, more) in [(64, 50), (50, 0), (512, 100), (150, 0)] {
        cq.resize(depth).with_context(|| format!("resizing to {depth} with {next} completions"))?;
        fill(&pair, next..next + more)?;
        next += more;
    }
    for context in 0..next {
        expect_received(pair.b.received()?, context, 0)?;
    }
    cq.resize(1)?;
    fill(&pair, 0..1)?;
    expect_received(pair.b.received()?, 0, 0)?;
    pair.quiet()
}

// Shows V22, V35.
pub(in crate::nd) fn resize_refused(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let cq = &pair.b.receive_cq;
    let max = pair.b.adapter.info()?.MaxCqEntries;
    refused(cq.resize(0), STATUS_INVALID_PARAMETER, "no entries")?;
    for depth in [max + 1, (1 << 32) + 64, usize::MAX] {
        refused(cq.resize(depth), STATUS_INVALID_PARAMETER, "more than the adapter's limit")?;
    }
    fill(&pair, 0..10)?;
    refused(cq.resize(9), STATUS_BUFFER_OVERFLOW, "9 entries for 10 completions")?;
    fill(&pair, 10..30)?;
    for context in 0..30 {
        expect_received(pair.b.received()?, context, 0)?;
    }
    pair.quiet()
}

pub(in crate::nd) fn resize_in_traffic(nd: &Nd) -> anyhow::Result<()> {
    const BURST: usize = 16;
    let pair = Pair::new(nd)?;
    let mut next = 0;
    for round in 0..60 {
        for context in 0..BURST {
            pair.b.qp.receive(round * BURST + context, &[])?;
        }
        for context in 0..BURST {
            pair.a.qp.send(context, &[], 0)?;
            if context == round % BURST {
                pair.b.receive_cq.resize(32 + 37 * (round % 5))?;
                pair.a.initiator_cq.resize(32 + 31 * (round % 4))?;
            }
        }
        for context in 0..BURST {
            expect_received(pair.b.received()?, next, 0).with_context(|| format!("round {round}"))?;
            expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
            next += 1;
        }
    }
    pair.quiet()
}

/// Receives of an endpoint that was never connected can be flushed: as many completions as there are receives.
// Shows V1, V10, V35.
pub(in crate::nd) fn overrun(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, address) = nd.adapter_v1()?;
    let (small, other) = (adapter.cq(4)?, adapter.cq(64)?);
    let connector = adapter.connector()?;
    let endpoint = connector.endpoint(&small, &other, EndpointSize { inbound: 1024, ..EndpointSize::default() })?;
    let mut any = small.notify(ND_CQ_NOTIFY_ANY)?;
    let mut errors = small.notify(ND_CQ_NOTIFY_ERRORS)?;
    for context in 0..1024 {
        endpoint.receive(context, &[])?;
    }
    endpoint.flush()?;
    is(errors.status()?, STATUS_BUFFER_OVERFLOW, "ERRORS after an overrun")?;
    // It may have been ended by the first of the completions.
    let status = any.status()?;
    ensure!(status == STATUS_BUFFER_OVERFLOW || status == STATUS_SUCCESS, "ANY after an overrun: {status}");
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS] {
        is(end_of(small.notify(kind))?, STATUS_BUFFER_OVERFLOW, "a later Notify")?;
    }
    while !small.poll(64)?.is_empty() {}
    // A ring takes requests until the driver has looked at one.
    let deadline = Instant::now() + nd.patience();
    while endpoint.receive(1, &[]).is_ok() {
        ensure!(Instant::now() < deadline, "the endpoint of a dead completion queue takes requests");
        std::thread::yield_now();
    }
    let connect = end_of(connector.connect(&endpoint, address, &[]));
    ensure!(connect.is_err() || connect != Ok(STATUS_SUCCESS), "the endpoint of a dead completion queue connects");
    Ok(())
}

/// The client compares the ND_RESULTs that come back with those that requests were given: kind and context come from there.
// Shows V6, V21, V35.
pub(in crate::nd) fn results(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (source, target) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    for (context, length) in [(1, 17), (2, 0), (3, 4096)] {
        pair.b.qp.receive(context, &[target.sge(0..4096)])?;
        pair.a.qp.send(10 + context, &[source.sge(0..length)], 0)?;
        expect_received(pair.b.received()?, context, length)?;
        expect(pair.a.initiated()?, SEND, 10 + context, STATUS_SUCCESS)?;
    }
    let mw = Mw::new(&pair.b.adapter, 0)?;
    let window = pair.b.qp.bind(20, &target, &mw, 0, 4096, BOTH)?;
    expect(pair.b.initiated()?, BIND, 20, STATUS_SUCCESS)?;
    pair.a.qp.write(21, &[source.sge(0..64)], window, 0, 0)?;
    expect(pair.a.initiated()?, WRITE, 21, STATUS_SUCCESS)?;
    pair.a.qp.read(22, &[source.sge(0..64)], window, 0, 0)?;
    expect(pair.a.initiated()?, READ, 22, STATUS_SUCCESS)?;
    pair.b.qp.invalidate(23, &mw, 0)?;
    expect(pair.b.initiated()?, INVALIDATE, 23, STATUS_SUCCESS)?;
    pair.b.qp.receive(24, &[])?;
    pair.b.qp.flush()?;
    expect(pair.b.received()?, RECEIVE, 24, STATUS_CANCELLED)?;

    let pair = Pair::new(nd)?;
    ensure!(pair.b.receive_cq.poll(0)?.is_empty(), "results, although none were asked for");
    fill(&pair, 0..5)?;
    ensure!(pair.b.receive_cq.poll(0)?.is_empty(), "results, although none were asked for");
    let mut found = Vec::new();
    for asked in [2, 2, 2, 2] {
        found.push(pair.b.receive_cq.poll(asked)?.len());
    }
    ensure!(found == [2, 2, 1, 0], "five completions came as {found:?}, two at a time");
    fill(&pair, 0..5)?;
    let found = pair.b.receive_cq.poll(1000)?.len();
    ensure!(found == 5, "five completions came as {found}, a thousand at a time");
    Ok(())
}

pub(in crate::nd) fn order(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(65536)?, pair.b.buffer(65536)?);
    let (_mw, window) = pair.b.window(&region, BOTH)?;
    for context in 0..10 {
        pair.b.qp.receive(context, &[])?;
    }
    // Long and short ones alternate: those that are done sooner have to wait.
    for context in 0..30 {
        match context % 3 {
            0 => pair.a.qp.read(context, &[local.sge(0..65536)], window, 0, 0)?,
            1 => pair.a.qp.send(context, &[], 0)?,
            _ => pair.a.qp.write(context, &[local.sge(0..1)], window, 0, 0)?,
        }
    }
    for context in 0..30 {
        expect(pair.a.initiated()?, [READ, SEND, WRITE][context % 3], context, STATUS_SUCCESS)?;
    }
    for context in 0..10 {
        expect_received(pair.b.received()?, context, 0)?;
    }
    pair.quiet()
}

/// Two connected endpoints, all of whose completions of one side go to one queue.
pub(in crate::nd) fn shared(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let one = b.adapter.cq(64)?;
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let near = a.beside(&a.receive_cq, &a.initiator_cq, EndpointSize::default())?;
        pairs.push(Pair::of(near, b.beside(&one, &one, EndpointSize::default())?)?);
    }
    for (number, pair) in (1..).zip(&pairs) {
        let (near, far) = (&pair.a.qp, &pair.b.qp);
        far.receive(number, &[])?;
        near.receive(0x10 + number, &[])?;
        near.send(0x20 + number, &[], 0)?;
        far.send(0x30 + number, &[], 0)?;
        let mut found = [one.take_one()?, one.take_one()?];
        found.sort_by_key(|result| result.kind);
        for (result, kind, context) in [(found[0], RECEIVE, number), (found[1], SEND, 0x30 + number)] {
            expect(result, kind, context, STATUS_SUCCESS)?;
        }
        expect_received(a.received()?, 0x10 + number, 0)?;
        expect(a.initiated()?, SEND, 0x20 + number, STATUS_SUCCESS)?;
    }
    ensure!(one.poll(8)?.is_empty(), "completions too many");
    Ok(())
}

pub(in crate::nd) fn apart(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mut receives = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    let mut initiators = pair.b.initiator_cq.notify(ND_CQ_NOTIFY_ANY)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    is(receives.status()?, STATUS_SUCCESS, "the queue for receives")?;
    ensure!(!initiators.is_over(), "a receive ended a Notify of the queue for initiators");
    is(initiators.result_now(), STATUS_PENDING, "the queue for initiators")?;
    expect_received(pair.b.received()?, 1, 0)?;
    pair.a.qp.receive(3, &[])?;
    pair.b.qp.send(4, &[], 0)?;
    is(initiators.status()?, STATUS_SUCCESS, "the queue for initiators")?;
    expect(pair.b.initiated()?, SEND, 4, STATUS_SUCCESS)?;
    expect_received(pair.a.received()?, 3, 0)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    pair.quiet()
}

/// docs/decisions.md: what an endpoint that was released has completed does not come any more, that of others does.
pub(in crate::nd) fn released_endpoint(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let other = b.adapter.connector()?.endpoint(&b.receive_cq, &b.initiator_cq, EndpointSize::default())?;
    for (context, endpoint) in [(1, &b.qp), (2, &other), (3, &b.qp), (4, &other)] {
        endpoint.receive(context, &[])?;
        let mut request = b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
        endpoint.flush()?;
        is(request.status()?, STATUS_SUCCESS, "Notify")?;
    }
    b.qp.receive(5, &[])?;
    let End { connector, qp, receive_cq, .. } = b;
    drop(qp);
    expect(receive_cq.take_one()?, RECEIVE, 2, STATUS_CANCELLED)?;
    expect(receive_cq.take_one()?, RECEIVE, 4, STATUS_CANCELLED)?;
    ensure!(receive_cq.poll(8)?.is_empty(), "results of an endpoint that was released");
    // The queue serves others.
    let next = connector.endpoint(&receive_cq, &a.initiator_cq, EndpointSize::default());
    ensure!(next.is_err(), "an endpoint with queues of two adapters");
    other.receive(6, &[])?;
    other.flush()?;
    expect(receive_cq.take_one()?, RECEIVE, 6, STATUS_CANCELLED).map(drop)
}

/// One queue for three endpoints, which three threads poll while another resizes it: everything comes once.
pub(in crate::nd) fn many(nd: &Nd) -> anyhow::Result<()> {
    const ROUNDS: usize = 15;
    const BURST: usize = 8;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let one = b.adapter.cq(64)?;
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let near = a.beside(&a.receive_cq, &a.initiator_cq, EndpointSize::default())?;
        pairs.push(Pair::of(near, b.beside(&one, &one, EndpointSize::default())?)?);
    }
    let (queue, taken, over) = (Shared::new(one), AtomicUsize::new(0), AtomicBool::new(false));
    let poll = || -> anyhow::Result<()> {
        while !over.load(Relaxed) {
            for found in queue.get().poll(3)? {
                expect(found, RECEIVE, found.context, STATUS_SUCCESS)?;
                taken.fetch_add(1, Relaxed);
            }
            std::thread::yield_now();
        }
        Ok(())
    };
    let resize = || -> anyhow::Result<()> {
        for depth in [100, 64, 200, 80].into_iter().cycle().take_while(|_| !over.load(Relaxed)) {
            queue.get().resize(depth)?;
            std::thread::yield_now();
        }
        Ok(())
    };
    let send = || -> anyhow::Result<()> {
        for round in 0..ROUNDS {
            for pair in &pairs {
                for context in 0..BURST {
                    pair.b.qp.receive(context, &[])?;
                    pair.a.qp.send(context, &[], 0)?;
                }
            }
            for _ in 0..BURST * pairs.len() {
                is(a.initiated()?.status, STATUS_SUCCESS, "a send")?;
            }
            let deadline = std::time::Instant::now() + nd.patience();
            while taken.load(Relaxed) < (round + 1) * BURST * pairs.len() {
                ensure!(std::time::Instant::now() < deadline, "round {round}: {} completions", taken.load(Relaxed));
                std::thread::yield_now();
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let pollers: Vec<_> = (0..3).map(|_| scope.spawn(poll)).collect();
        let resizer = scope.spawn(resize);
        let sent = send();
        over.store(true, Relaxed);
        for thread in pollers.into_iter().chain([resizer]) {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        sent
    })?;
    ensure!(queue.get().poll(8)?.is_empty(), "completions too many");
    Ok(())
}
