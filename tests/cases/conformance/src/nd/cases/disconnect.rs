//! IND2Connector: the end of a connection.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_SILENT_SUCCESS},
    status::STATUS_CANCELLED,
};

use super::both::disconnect::told;
use crate::nd::{
    client::{
        Mw,
        both::{Connector as _, QueuePair as _},
    },
    pair::{BIND, End, INVALIDATE, Pair, READ, RECEIVE, SEND, WRITE, expect},
    run::Nd,
};

/// A program posts before it knows that its peer has disconnected. IND2QueuePair: after a failure all further requests complete with
/// ND_CANCELED.
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

/// Releasing the last reference to the queue pair disconnects, also if the connector is still referenced.
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
