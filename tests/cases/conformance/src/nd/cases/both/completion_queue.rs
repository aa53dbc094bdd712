//! IND2CompletionQueue and INDCompletionQueue apart from Notify.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use anyhow::{Context as _, anyhow, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CONNECTION_INVALID, STATUS_INTERNAL_ERROR, STATUS_NO_MORE_ENTRIES,
        STATUS_PENDING, STATUS_SUCCESS,
    },
};

use crate::nd::{
    client::{
        Shared,
        both::{CompletionQueue as _, QueuePair as _},
        end_of,
    },
    ends::{End, Pair},
    interfaces::Interfaces,
    pair::{READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
    run::Nd,
};

/// Sends empty messages; all of them are completed at both ends, none is taken at `pair.b`.
pub(in crate::nd) fn fill<V: Interfaces>(pair: &Pair<V>, contexts: std::ops::Range<usize>) -> anyhow::Result<()> {
    for context in contexts {
        pair.b.qp.receive(context, &[])?;
        let notify = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
        pair.a.qp.send(context, &[], 0)?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
        // The queues are independent: the receive's completion may come later.
        notify.finish()?;
    }
    Ok(())
}

// Shows C9, N37, R6, V22 (nd1), V35 (nd1).
pub(in crate::nd) fn resize<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::of(End::new(nd)?, End::with_cqs(nd, V::Size::default(), 32)?)?;
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

// Shows C13.
pub(in crate::nd) fn resize_in_traffic<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const BURST: usize = 16;
    let pair = Pair::<V>::new(nd)?;
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

/// Receives of a queue pair that was never connected can be flushed: as many completions as there are receives.
// Shows C14, C25, R6, V1 (nd1), V10 (nd1), V35 (nd1).
pub(in crate::nd) fn overrun<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let end = End::<V>::new(nd)?;
    let small = V::cq(&end.adapter, 4)?;
    let end = end.on_same_adapter(&small, &end.initiator_cq, V::with_room(1024, 32))?;
    let mut any = small.notify(ND_CQ_NOTIFY_ANY)?;
    let mut errors = small.notify(ND_CQ_NOTIFY_ERRORS)?;
    for context in 0..1024 {
        end.qp.receive(context, &[])?;
    }
    end.qp.flush()?;
    is(errors.status()?, STATUS_BUFFER_OVERFLOW, "ERRORS after an overrun")?;
    // It may have been ended by the first of the completions.
    let status = any.status()?;
    ensure!(status == STATUS_BUFFER_OVERFLOW || status == STATUS_SUCCESS, "ANY after an overrun: {status}");
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS] {
        is(end_of(small.notify(kind))?, STATUS_BUFFER_OVERFLOW, "a later Notify")?;
    }
    while !small.poll(64)?.is_empty() {}
    // A ring that has room takes the receive, and the driver drops it.
    let late = 1024;
    if let Err(error) = end.qp.receive(late, &[]) {
        let refused = matches!(error.status(), Some(STATUS_CONNECTION_INVALID | STATUS_NO_MORE_ENTRIES));
        ensure!(refused, "a receive after an overrun: {error}");
    }
    let (_listener, address) = end.listener()?;
    V::bind(&end)?;
    let connect = end_of(V::connect(&end, address, &[]))?;
    is(connect, STATUS_INTERNAL_ERROR, "Connect of the queue pair of a dead completion queue")?;
    let completed = small.poll(64)?.iter().any(|completion| completion.context == late);
    ensure!(!completed, "a receive on a dead completion queue completed");
    Ok(())
}

/// Two connected queue pairs, all of whose completions of one side go to one queue.
// Shows C2, N44, N45, R2.
pub(in crate::nd) fn shared<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let one = V::cq(&b.adapter, 64)?;
    let mut pairs = Vec::new();
    for number in 1..=2 {
        let size = V::with_context(0x100 * number);
        let near = a.on_same_adapter(&a.receive_cq, &a.initiator_cq, size)?;
        pairs.push(Pair::of(near, b.on_same_adapter(&one, &one, size)?)?);
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
            let is_its_context = !V::HAS_QUEUE_PAIR_CONTEXT || result.qp_context == 0x100 * number;
            ensure!(is_its_context, "the queue pair's context is {:#x}", result.qp_context);
        }
        expect_received(a.received()?, 0x10 + number, 0)?;
        expect(a.initiated()?, SEND, 0x20 + number, STATUS_SUCCESS)?;
    }
    ensure!(one.poll(8)?.is_empty(), "completions too many");
    Ok(())
}

// Shows C3.
pub(in crate::nd) fn notify_separately<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
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

// Shows C29, C30.
pub(in crate::nd) fn order<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let (local, region) = (pair.a.buffer(65536)?, pair.b.buffer(65536)?);
    let (_exposed, remote) = pair.b.expose(&region)?;
    for context in 0..10 {
        pair.b.qp.receive(context, &[])?;
    }
    // Long and short requests alternate: a short one has to wait for the long one before it.
    for context in 0..30 {
        match context % 3 {
            0 => pair.a.qp.read_at(context, &[V::sge(&local, 0..65536)], remote, 0, 0)?,
            1 => pair.a.qp.send(context, &[], 0)?,
            _ => pair.a.qp.write_at(context, &[V::sge(&local, 0..1)], remote, 0, 0)?,
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

/// One queue for three queue pairs, which three threads poll while a fourth resizes it: each completion arrives once.
pub(in crate::nd) fn many<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const ROUNDS: usize = 15;
    const BURST: usize = 8;
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let one = V::cq(&b.adapter, 64)?;
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let near = a.on_same_adapter(&a.receive_cq, &a.initiator_cq, V::Size::default())?;
        pairs.push(Pair::of(near, b.on_same_adapter(&one, &one, V::Size::default())?)?);
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
