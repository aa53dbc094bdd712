//! IND2Connector: the end of a connection.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_SILENT_SUCCESS},
    status::{NTSTATUS, STATUS_CANCELLED, STATUS_SUCCESS},
};

use crate::nd::{
    client::{
        Mw, Request,
        both::{Connector as _, QueuePair as _},
    },
    pair::{BIND, End, INVALIDATE, Pair, READ, RECEIVE, SEND, WRITE, expect, is},
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

// Shows N108, N110, N111.
pub(in crate::nd) fn graceful(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.qp.receive(1, &[])?;
    pair.a.connector.disconnect()?.finish().context("Disconnect")?;
    // It flushes its own queue pair.
    expect(pair.a.received()?, RECEIVE, 1, STATUS_CANCELLED)?;
    told(notification)?;
    pair.b.connector.disconnect()?.finish().context("Disconnect after the peer's")?;
    pair.quiet()
}

/// A program that posts does not know yet that its peer has gone. IND2QueuePair: after a failure all further requests complete
/// with ND_CANCELED.
// Shows N122, S921.
pub(in crate::nd) fn requests(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let notification = pair.b.connector.notify_disconnect()?;
    pair.a.connector.disconnect()?.finish()?;
    told(notification)?;
    for end in [&pair.a, &pair.b] {
        let (mr, mw) = (end.buffer(64)?, Mw::new(&end.adapter)?);
        let kinds = |context| -> anyhow::Result<()> {
            end.qp.send(context, &[mr.sge(0..64)], 0)?;
            end.qp.send(context + 1, &[], ND_OP_FLAG_SILENT_SUCCESS)?;
            end.qp.write(context + 2, &[mr.sge(0..1)], mr.remote(0), 0)?;
            end.qp.read(context + 3, &[mr.sge(0..1)], mr.remote(0), 0)?;
            for (context, kind) in (context..).zip([SEND, SEND, WRITE, READ]) {
                expect(end.initiated()?, kind, context, STATUS_CANCELLED)?;
            }
            end.qp.bind(context, &mr, &mw, 0, 64, ND_OP_FLAG_ALLOW_READ)?;
            expect(end.initiated()?, BIND, context, STATUS_CANCELLED)?;
            end.qp.invalidate(context, &mw, 0)?;
            expect(end.initiated()?, INVALIDATE, context, STATUS_CANCELLED)?;
            Ok(())
        };
        // More than the queue holds.
        (0..20).try_for_each(|round| kinds(10 * round))?;
    }
    pair.b.connector.disconnect()?.finish()?;
    pair.b.qp.send(1, &[], 0).context("a send after both have disconnected")?;
    expect(pair.b.initiated()?, SEND, 1, STATUS_CANCELLED)?;
    pair.quiet()
}

/// The receives of the side that is told: existing programs wait for them to be cancelled when it disconnects, too.
// Shows N83, S921.
pub(in crate::nd) fn receives(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
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
        // Who posts a receive again with each message does not know yet.
        pair.b.qp.receive(context, &[]).context("a receive after the peer's Disconnect")?;
        expect(pair.b.received()?, RECEIVE, context, STATUS_CANCELLED)?;
        pair.a.qp.receive(context, &[]).context("a receive after Disconnect")?;
        expect(pair.a.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    pair.b.connector.disconnect()?.finish()?;
    pair.b.quiet()
}

// Shows N111.
pub(in crate::nd) fn both_at_once(nd: &Nd) -> anyhow::Result<()> {
    for _ in 0..10 {
        let pair = Pair::new(nd)?;
        let (mut a, mut b) = (pair.a.connector.disconnect()?, pair.b.connector.disconnect()?);
        is(a.status()?, STATUS_SUCCESS, "Disconnect of the initiator")?;
        is(b.status()?, STATUS_SUCCESS, "Disconnect of the listener")?;
    }
    Ok(())
}

// Shows N113.
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

/// A queue pair serves one connection.
// Shows N112.
pub(in crate::nd) fn not_again(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    pair.a.connector.disconnect()?.finish()?;
    pair.b.connector.disconnect()?.finish()?;
    let (_listener, address) = pair.b.listener()?;
    let connector = pair.a.adapter.connector()?;
    connector.bind(pair.a.address)?;
    let again = connector.connect(&pair.a.qp, address, Default::default(), &[]);
    let status = again.and_then(|mut request| request.status());
    ensure!(status.is_err() || status != Ok(STATUS_SUCCESS), "a used queue pair was connected again");
    Ok(())
}

/// Releasing the last reference to the queue pair disconnects, whoever still has the connector.
// Shows N113.
pub(in crate::nd) fn by_queue_pair(nd: &Nd) -> anyhow::Result<()> {
    let Pair { a, b } = Pair::new(nd)?;
    b.qp.receive(1, &[])?;
    let mut notification = b.connector.notify_disconnect()?;
    let End { connector, qp, .. } = a;
    let second = qp.clone();
    drop(qp);
    ensure!(!notification.is_over(), "the connection ended with a reference to its queue pair left");
    drop(second);
    told(notification)?;
    expect(b.received()?, RECEIVE, 1, STATUS_CANCELLED)?;
    drop(connector);
    Ok(())
}
