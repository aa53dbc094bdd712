//! IND2CompletionQueue::Notify and INDCompletionQueue::Notify.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT},
    status::{STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use crate::{
    nd::{
        client::{
            RECEIVES, Shared,
            both::{CompletionQueue as _, QueuePair as _},
        },
        ends::Pair,
        interfaces::Interfaces,
        pair::{expect_received, is},
        run::Nd,
    },
    pair::refused,
};

/// Sends `count` empty messages that `pair.b` has receives for, and waits for the sends; contexts from `first` on.
fn send<V: Interfaces>(pair: &Pair<V>, first: usize, count: usize, flags: u32) -> anyhow::Result<()> {
    for context in first..first + count {
        pair.b.qp.receive(context, &[])?;
        pair.a.qp.send(context, &[], flags)?;
    }
    for _ in 0..count {
        is(pair.a.initiated()?.status, STATUS_SUCCESS, "the send")?;
    }
    Ok(())
}

/// Takes `count` receives.
fn take<V: Interfaces>(pair: &Pair<V>, first: usize, count: usize) -> anyhow::Result<()> {
    (first..first + count).try_for_each(|context| expect_received(pair.b.received()?, context, 0))
}

// Shows C15, C20, R6, V2 (nd1), V6 (nd1), V35, V35 (nd1).
pub(in crate::nd) fn any<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    for round in 0..20 {
        let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
        ensure!(!request.is_over(), "round {round}: over before anything completed");
        send(&pair, 5 * round, 5, 0)?;
        is(request.status()?, STATUS_SUCCESS, "the request")?;
        // One event, several completions: polled until there are fewer than asked for.
        take(&pair, 5 * round, 5)?;
        ensure!(pair.b.receive_cq.poll(1)?.is_empty(), "round {round}: a completion too many");
    }
    Ok(())
}

/// The eleven steps of the documentation.
// Shows C18, C19, V5 (nd1).
pub(in crate::nd) fn once<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let cq = &pair.b.receive_cq;
    for context in 0..2 {
        // 1, 6: Notify, which returns pending.
        let mut request = cq.notify(ND_CQ_NOTIFY_ANY)?;
        ensure!(!request.is_over(), "a completion that was taken already ended Notify");
        // 2, 7: a new completion.
        send(&pair, context, 1, 0)?;
        // 3, 8: the request completes.
        is(request.status()?, STATUS_SUCCESS, "the request")?;
        // 4, 9: GetResults returns 1. 5, 10: 0.
        let found = cq.poll(1)?;
        ensure!(found.len() == 1, "notified, and GetResults returned {}", found.len());
        expect_received(found[0], context, 0)?;
        ensure!(cq.poll(1)?.is_empty(), "a second completion");
    }
    // 11: Notify, which returns pending.
    let mut last = cq.notify(ND_CQ_NOTIFY_ANY)?;
    ensure!(!last.is_over(), "a completion that was taken already ended Notify");
    cq.cancel()?;
    is(last.status()?, STATUS_CANCELLED, "the last request")
}

/// A completion ends one Notify, also while it is not taken.
// Shows V5 (nd1).
pub(in crate::nd) fn not_twice<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let cq = &pair.b.receive_cq;
    let mut first = cq.notify(ND_CQ_NOTIFY_ANY)?;
    send(&pair, 0, 1, 0)?;
    is(first.status()?, STATUS_SUCCESS, "the first request")?;
    let mut second = cq.notify(ND_CQ_NOTIFY_ANY)?;
    ensure!(!second.is_over(), "the same completion ended two requests");
    send(&pair, 1, 1, 0)?;
    is(second.status()?, STATUS_SUCCESS, "the second request")?;
    take(&pair, 0, 2)
}

/// Completions between GetResults and Notify.
// Shows C17, C24, V4 (nd1), V9 (nd1).
pub(in crate::nd) fn race<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let cq = &pair.b.receive_cq;
    for round in 0..100 {
        ensure!(cq.poll(1)?.is_empty(), "round {round}: the queue is not empty");
        pair.b.qp.receive(round, &[])?;
        pair.a.qp.send(round, &[], 0)?;
        // The completion arrives before, while or after the Notify is issued.
        if round % 2 == 0 {
            pair.a.initiated()?;
        }
        cq.notify(ND_CQ_NOTIFY_ANY)?.finish().with_context(|| format!("round {round}"))?;
        take(&pair, round, 1)?;
        if round % 2 == 1 {
            pair.a.initiated()?;
        }
    }
    Ok(())
}

// Shows C16, V3 (nd1).
pub(in crate::nd) fn solicited<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_SOLICITED)?;
    send(&pair, 0, 3, 0)?;
    take(&pair, 0, 3)?;
    ensure!(!request.is_over(), "plain sends ended SOLICITED");
    send(&pair, 3, 1, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
    is(request.status()?, STATUS_SUCCESS, "the request")?;
    take(&pair, 3, 1)?;
    // A completion that precedes the request.
    send(&pair, 4, 1, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
    pair.b.receive_cq.notify(ND_CQ_NOTIFY_SOLICITED)?.finish()?;
    take(&pair, 4, 1)
}

/// "Errors always satisfy", and in version 1: "Errors count."
// Shows N52, V3 (nd1), V23 (nd1).
pub(in crate::nd) fn solicited_by_failure<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    pair.b.qp.receive(1, &[])?;
    let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_SOLICITED)?;
    pair.b.qp.flush()?;
    is(request.status()?, STATUS_SUCCESS, "the request")?;
    is(pair.b.received()?.status, STATUS_CANCELLED, "the receive")
}

// Shows C14, V1 (nd1).
pub(in crate::nd) fn errors<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ERRORS)?;
    let mut second = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    send(&pair, 0, 2, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT)?;
    is(second.status()?, STATUS_SUCCESS, "ANY beside it")?;
    take(&pair, 0, 2)?;
    pair.b.qp.receive(2, &[])?;
    pair.b.qp.flush()?;
    is(pair.b.received()?.status, STATUS_CANCELLED, "the receive that was flushed")?;
    ensure!(!request.is_over(), "completions ended ERRORS");
    pair.b.receive_cq.cancel()?;
    is(request.status()?, STATUS_CANCELLED, "the request")
}

/// "All such requests will be completed by the next completion event."
// Shows C21, V7 (nd1).
pub(in crate::nd) fn all_waiters<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let cq = &pair.b.receive_cq;
    for (round, kind) in [(0, ND_CQ_NOTIFY_ANY), (1, ND_CQ_NOTIFY_SOLICITED)] {
        // In the second round the event is not solicited, but the requests for any event make it count for SOLICITED too.
        let mut requests = vec![cq.notify(kind)?];
        for _ in 0..5 {
            requests.push(cq.notify(ND_CQ_NOTIFY_ANY)?);
        }
        send(&pair, round, 1, 0)?;
        for (number, request) in requests.iter_mut().enumerate() {
            let status = request.status().with_context(|| format!("round {round}, request {number}"))?;
            is(status, STATUS_SUCCESS, "one of the requests")?;
        }
        take(&pair, round, 1)?;
    }
    Ok(())
}

// Shows C23.
pub(in crate::nd) fn any_precedes<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let cq = &pair.b.receive_cq;
    let mut solicited = cq.notify(ND_CQ_NOTIFY_SOLICITED)?;
    let mut any = cq.notify(ND_CQ_NOTIFY_ANY)?;
    send(&pair, 0, 1, 0)?;
    is(any.status()?, STATUS_SUCCESS, "ANY")?;
    is(solicited.status()?, STATUS_SUCCESS, "SOLICITED, which ANY changed")?;
    take(&pair, 0, 1)
}

/// Several threads issue Notify and take completions while more completions arrive.
// Shows N11, V7 (nd1).
pub(in crate::nd) fn threads<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const MESSAGES: usize = 400;
    let pair = Pair::<V>::new(nd)?;
    let cq = Shared::new(pair.b.receive_cq.clone());
    let taken = AtomicUsize::new(0);
    let patience = nd.patience();
    let take_some = || -> anyhow::Result<()> {
        loop {
            let found = cq.get().poll(8)?.len();
            if taken.fetch_add(found, Relaxed) + found >= MESSAGES {
                // The cancellation lets the other threads see the count.
                cq.get().cancel()?;
                return Ok(());
            }
            if found == 0 {
                let mut request = cq.get().notify(ND_CQ_NOTIFY_ANY)?;
                // Wine passes on requests of different threads in any order: a cancellation may overtake the request it is for.
                let deadline = Instant::now() + patience;
                while !request.is_over_within(Duration::from_millis(20)) && Instant::now() < deadline {
                    if taken.load(Relaxed) >= MESSAGES {
                        cq.get().cancel()?;
                    }
                }
                request.status()?;
            }
        }
    };
    std::thread::scope(|scope| {
        let takers: Vec<_> = (0..3).map(|_| scope.spawn(take_some)).collect();
        let sent = (0..MESSAGES / 8).try_for_each(|round| {
            // There is room for a receive when the completion of one before was seen.
            let deadline = Instant::now() + patience;
            while 8 * (round + 1) > taken.load(Relaxed) + RECEIVES {
                ensure!(Instant::now() < deadline, "only {} of {} messages are taken", taken.load(Relaxed), 8 * round);
                std::thread::sleep(Duration::from_millis(1));
            }
            send(&pair, 8 * round, 8, 0)
        });
        let ends: Vec<_> = takers.into_iter().map(|taker| taker.join()).collect();
        sent?;
        ends.into_iter().try_for_each(|end| end.map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    ensure!(taken.into_inner() == MESSAGES, "not as many completions as messages");
    Ok(())
}

/// One thread cancels all the time; another issues Notify, and finds each completion.
pub(in crate::nd) fn cancels<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let (queue, over) = (Shared::new(pair.b.receive_cq.clone()), AtomicBool::new(false));
    let cancel = || -> anyhow::Result<()> {
        while !over.load(Relaxed) {
            queue.get().cancel()?;
            std::thread::yield_now();
        }
        Ok(())
    };
    let (mut ended, mut cancelled) = (0, 0);
    let mut ask = || -> anyhow::Result<()> {
        for context in 0..200 {
            send(&pair, context, 1, 0)?;
            // A completion may end the request, or the other thread; it is there in either case.
            match pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?.status()? {
                STATUS_SUCCESS => ended += 1,
                STATUS_CANCELLED => cancelled += 1,
                other => anyhow::bail!("Notify: {other}"),
            }
            take(&pair, context, 1)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let canceller = scope.spawn(cancel);
        let asked = ask();
        over.store(true, Relaxed);
        canceller.join().map_err(|_| anyhow!("a thread panicked"))??;
        asked
    })?;
    nd.note(format!("{ended} requests ended by completions, {cancelled} cancelled"));
    Ok(())
}

// Shows C26, R6, V35 (nd1).
pub(in crate::nd) fn released<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = V::adapter(nd)?;
    let cq = V::cq(&adapter, 16)?;
    let mut requests =
        [cq.notify(ND_CQ_NOTIFY_ERRORS)?, cq.notify(ND_CQ_NOTIFY_ANY)?, cq.notify(ND_CQ_NOTIFY_SOLICITED)?];
    requests.iter_mut().for_each(|request| request.let_object_go());
    drop(cq);
    for request in &mut requests {
        is(request.status()?, STATUS_CANCELLED, "what waited for a queue that was released")?;
    }
    Ok(())
}

pub(in crate::nd) fn unknown_type<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = V::adapter(nd)?;
    let cq = V::cq(&adapter, 16)?;
    for kind in [3, 0x100, u32::MAX] {
        refused(cq.notify(kind), STATUS_INVALID_PARAMETER, &format!("type {kind}"))?;
    }
    Ok(())
}
