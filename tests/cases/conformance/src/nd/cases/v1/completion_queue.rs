//! INDCompletionQueue apart from Notify.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::ND_CQ_NOTIFY_ANY,
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use super::{
    super::both::completion_queue::fill,
    pair::{BOTH, End, Pair},
};
use crate::{
    nd::{
        client::{
            both::{CompletionQueue as _, QueuePair as _},
            v1::{EndpointSize, Mw},
        },
        pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
        run::Nd,
    },
    pair::refused,
};

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

/// The client compares each returned ND_RESULT with the request that it was passed to: kind and context are the request's.
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

/// docs/decisions.md: the completions of a released endpoint are dropped, other endpoints' are not.
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
    // The queue still serves the other endpoint.
    let next = connector.endpoint(&receive_cq, &a.initiator_cq, EndpointSize::default());
    ensure!(next.is_err(), "an endpoint with queues of two adapters");
    other.receive(6, &[])?;
    other.flush()?;
    expect(receive_cq.take_one()?, RECEIVE, 6, STATUS_CANCELLED).map(drop)
}
