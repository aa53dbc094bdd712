//! INDConnector: the end of a connection.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{STATUS_CANCELLED, STATUS_SUCCESS};

use super::pair::Pair;
use crate::nd::{
    cases::disconnect::told,
    client::{
        both::{Connector as _, QueuePair as _},
        end_of,
        v1::EndpointSize,
    },
    pair::{RECEIVE, SEND, expect, is},
    run::Nd,
};

// Shows S921.
pub(in crate::nd) fn graceful(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.qp.receive(1, &[])?;
    pair.a.connector.disconnect()?.finish().context("Disconnect")?;
    // It flushes its own endpoint.
    expect(pair.a.received()?, RECEIVE, 1, STATUS_CANCELLED)?;
    told(notification)?;
    pair.b.connector.disconnect()?.finish().context("Disconnect after the peer's")?;
    for end in [&pair.a, &pair.b] {
        // A program that posts does not know yet.
        end.qp.send(2, &[], 0).context("a send afterwards")?;
        expect(end.initiated()?, SEND, 2, STATUS_CANCELLED)?;
        end.quiet()?;
    }
    Ok(())
}

// Shows S921.
pub(in crate::nd) fn receives(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    for context in 0..10 {
        pair.b.qp.receive(context, &[])?;
    }
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.connector.disconnect()?.finish()?;
    told(notification)?;
    pair.b.connector.disconnect()?.finish()?;
    for context in 0..10 {
        expect(pair.b.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    pair.b.qp.receive(10, &[]).context("a receive afterwards")?;
    expect(pair.b.received()?, RECEIVE, 10, STATUS_CANCELLED)?;
    pair.b.quiet()
}

// Shows V32.
pub(in crate::nd) fn both_at_once(nd: &Nd) -> anyhow::Result<()> {
    for _ in 0..10 {
        let pair = Pair::new(nd)?;
        let (mut a, mut b) = (pair.a.connector.disconnect()?, pair.b.connector.disconnect()?);
        is(a.status()?, STATUS_SUCCESS, "Disconnect of the initiator")?;
        is(b.status()?, STATUS_SUCCESS, "Disconnect of the listener")?;
    }
    Ok(())
}

pub(in crate::nd) fn implicit(nd: &Nd) -> anyhow::Result<()> {
    let Pair { a, b } = Pair::new(nd)?;
    let notification = b.connector.notify_disconnect()?;
    drop(a);
    told(notification).map(drop)
}

pub(in crate::nd) fn notify_cancelled(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mut notification = pair.b.connector.notify_disconnect()?;
    ensure!(!notification.is_over(), "NotifyDisconnect is over on a connection that lives");
    pair.b.connector.cancel()?;
    is(notification.status()?, STATUS_CANCELLED, "NotifyDisconnect that was cancelled")?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.connector.disconnect()?.finish()?;
    told(notification).map(drop)
}

/// Neither an endpoint nor its connector serves a second connection.
pub(in crate::nd) fn not_again(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    pair.a.connector.disconnect()?.finish()?;
    pair.b.connector.disconnect()?.finish()?;
    let (_listen, address) = pair.b.listener()?;
    let fresh = pair.a.adapter.connector()?;
    for connector in [&pair.a.connector, &fresh] {
        let again = end_of(connector.connect(&pair.a.qp, address, &[]));
        ensure!(again.is_err() || again != Ok(STATUS_SUCCESS), "a used endpoint was connected again");
    }
    // With one of its own the fresh one asks.
    let fresh = pair.a.adapter.connector()?;
    let endpoint = fresh.endpoint(&pair.a.receive_cq, &pair.a.initiator_cq, EndpointSize::default())?;
    let mut asks = fresh.connect(&endpoint, address, &[])?;
    ensure!(!asks.is_over(), "a fresh connector does not connect");
    fresh.cancel()?;
    is(asks.status()?, STATUS_CANCELLED, "a Connect that nobody answers")
}
