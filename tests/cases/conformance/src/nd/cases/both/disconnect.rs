//! IND2Connector and INDConnector: the end of a connection.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_ACTIVE, STATUS_SUCCESS};

use crate::nd::{
    client::{
        Request,
        both::{Connector as _, QueuePair as _},
        end_of,
    },
    ends::{End, Pair},
    interfaces::Interfaces,
    pair::{RECEIVE, SEND, expect, is},
    run::Nd,
};

/// Existing programs take it for a success of NotifyDisconnect; has no ND name.
const STATUS_CONNECTION_DISCONNECTED: NTSTATUS = NTSTATUS::from_u32(0xc000_020c);

/// Waits for the end of the connection: what NotifyDisconnect ended with.
pub(in crate::nd) fn told(mut notification: Request) -> anyhow::Result<NTSTATUS> {
    let status = notification.status()?;
    ensure!(
        [STATUS_SUCCESS, STATUS_CANCELLED, STATUS_CONNECTION_DISCONNECTED].contains(&status),
        "NotifyDisconnect: {status}"
    );
    Ok(status)
}

// Shows N108, N110, N111, S921 (nd1).
pub(in crate::nd) fn graceful<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.qp.receive(1, &[])?;
    pair.a.connector.disconnect()?.finish().context("Disconnect")?;
    // It flushes its own queue pair.
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

/// The receives of the side that is told: existing programs wait for them to be cancelled when it disconnects, too.
// Shows N83, S921, S921 (nd1).
pub(in crate::nd) fn receives<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    for context in 0..10 {
        pair.b.qp.receive(context, &[])?;
    }
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.connector.disconnect()?.finish()?;
    told(notification)?;
    for context in 0..10 {
        expect(pair.b.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    for context in 10..12 {
        // A program that posts a receive again for each message does not know of it yet.
        pair.b.qp.receive(context, &[]).context("a receive after the peer's Disconnect")?;
        expect(pair.b.received()?, RECEIVE, context, STATUS_CANCELLED)?;
        pair.a.qp.receive(context, &[]).context("a receive after Disconnect")?;
        expect(pair.a.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    pair.b.connector.disconnect()?.finish()?;
    pair.b.qp.receive(12, &[]).context("a receive after both have disconnected")?;
    expect(pair.b.received()?, RECEIVE, 12, STATUS_CANCELLED)?;
    pair.b.quiet()
}

// Shows N111, V32 (nd1).
pub(in crate::nd) fn both_at_once<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    for _ in 0..10 {
        let pair = Pair::<V>::new(nd)?;
        let (mut a, mut b) = (pair.a.connector.disconnect()?, pair.b.connector.disconnect()?);
        is(a.status()?, STATUS_SUCCESS, "Disconnect of the initiator")?;
        is(b.status()?, STATUS_SUCCESS, "Disconnect of the listener")?;
    }
    Ok(())
}

// Shows N113.
pub(in crate::nd) fn implicit<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let Pair { a, b } = Pair::<V>::new(nd)?;
    let notification = b.connector.notify_disconnect()?;
    drop(a);
    told(notification).map(drop)
}

pub(in crate::nd) fn notify_cancelled<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let mut notification = pair.b.connector.notify_disconnect()?;
    ensure!(!notification.is_over(), "NotifyDisconnect is over on a connection that lives");
    pair.b.connector.cancel()?;
    is(notification.status()?, STATUS_CANCELLED, "NotifyDisconnect that was cancelled")?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.connector.disconnect()?.finish()?;
    told(notification).map(drop)
}

/// Neither a queue pair nor its connector serves a second connection.
// Shows N112.
pub(in crate::nd) fn not_again<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let Pair { a, b } = Pair::<V>::new(nd)?;
    a.connector.disconnect()?.finish()?;
    b.connector.disconnect()?.finish()?;
    let (_listener, address) = b.listener()?;
    let fresh = || -> anyhow::Result<_> {
        let fresh = a.on_same_adapter(&a.receive_cq, &a.initiator_cq, V::Size::default())?;
        V::bind(&fresh)?;
        Ok(fresh)
    };
    for used in [&a, &End { qp: a.qp.clone(), ..fresh()? }] {
        let again = end_of(V::connect(used, address, &[]))?;
        is(again, STATUS_CONNECTION_ACTIVE, "Connect of a used queue pair")?;
    }
    // With one of its own the fresh one asks.
    let fresh = fresh()?;
    let mut asks = V::connect(&fresh, address, &[])?;
    ensure!(!asks.is_over(), "a fresh connector does not connect");
    fresh.connector.cancel()?;
    is(asks.status()?, STATUS_CANCELLED, "a Connect that nobody answers")
}
