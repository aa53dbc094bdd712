//! The statuses that a program gets when the adapter is removed while it is in use.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{
    cases::v1,
    client::{
        Request, SrqSize,
        both::{CompletionQueue as _, Connector as _, QueuePair as _},
        end_of,
    },
    pair::Pair,
    run::Nd,
    table::Version,
};
use crate::error;

/// A method, and what it returned or its request ended with.
pub type Told = (&'static str, NTSTATUS);

/// What a program was told.
pub struct Removed {
    /// The statuses of requests that were pending when the adapter was removed.
    pub pending: Vec<Told>,
    /// What methods returned afterwards.
    pub methods: Vec<Told>,
}

/// Connects a pair of queue pairs, has requests pending, calls `ready`, waits until they have ended, and calls methods. Everything
/// is released then. `patience`: how long the adapter may stay.
///
/// # Errors
/// The requests do not end; objects are left in the DLL.
pub fn removed(version: Version, library: &Path, patience: Duration, ready: impl FnOnce()) -> anyhow::Result<Removed> {
    let nd = Nd::load(library, patience)?;
    let told = match version {
        Version::V1 => with_v1(&nd, ready),
        Version::V2 => with_v2(&nd, ready),
    }?;
    nd.is_unused()?;
    Ok(told)
}

fn with_v2(nd: &Nd, ready: impl FnOnce()) -> anyhow::Result<Removed> {
    let pair = Pair::new(nd)?;
    let (a, b) = (&pair.a, &pair.b);
    let srq = b.adapter.srq(SrqSize { depth: 8, sges: 1, threshold: 1 })?;
    srq.receive(1, &[])?;
    let (listener, _) = b.listener()?;
    let asked = b.adapter.connector()?;
    let pending = ended(
        vec![
            ("IND2CompletionQueue::Notify", a.receive_cq.notify(ND_CQ_NOTIFY_ERRORS)?),
            ("IND2CompletionQueue::Notify", a.initiator_cq.notify(ND_CQ_NOTIFY_ANY)?),
            ("IND2SharedReceiveQueue::Notify", srq.notify()?),
            ("IND2Connector::NotifyDisconnect", a.connector.notify_disconnect()?),
            ("IND2Listener::GetConnectionRequest", listener.connection_request(&asked)?),
        ],
        ready,
    )?;
    let methods = vec![
        ("IND2CompletionQueue::GetNotifyAffinity", status(a.receive_cq.affinity())?),
        ("IND2CompletionQueue::Resize", status(a.receive_cq.resize(256))?),
        ("IND2CompletionQueue::Notify", end_of(a.receive_cq.notify(ND_CQ_NOTIFY_ANY))?),
        ("IND2SharedReceiveQueue::GetNotifyAffinity", status(srq.affinity())?),
        ("IND2SharedReceiveQueue::Modify", status(srq.modify(16, 2))?),
        ("IND2SharedReceiveQueue::Notify", end_of(srq.notify())?),
        ("IND2Adapter::CreateCompletionQueue", status(a.adapter.cq(16))?),
        ("IND2Connector::Disconnect", end_of(a.connector.disconnect())?),
        ("IND2QueuePair::Flush", status(a.qp.flush())?),
    ];
    // The queue can still be polled.
    a.receive_cq.poll(16)?;
    Ok(Removed { pending, methods })
}

fn with_v1(nd: &Nd, ready: impl FnOnce()) -> anyhow::Result<Removed> {
    let pair = v1::pair::Pair::new(nd)?;
    let a = &pair.a;
    let pending = ended(
        vec![
            ("INDCompletionQueue::Notify", a.receive_cq.notify(ND_CQ_NOTIFY_ERRORS)?),
            ("INDConnector::NotifyDisconnect", a.connector.notify_disconnect()?),
        ],
        ready,
    )?;
    let methods = vec![
        ("INDCompletionQueue::Resize", status(a.receive_cq.resize(256))?),
        ("INDCompletionQueue::Notify", end_of(a.receive_cq.notify(ND_CQ_NOTIFY_ANY))?),
    ];
    a.receive_cq.poll(16)?;
    Ok(Removed { pending, methods })
}

/// Waits for the end of all of them.
fn ended(requests: Vec<(&'static str, Request)>, ready: impl FnOnce()) -> anyhow::Result<Vec<Told>> {
    ready();
    let end = |(method, mut request): (_, Request)| Ok((method, request.status().context("a pending request")?));
    requests.into_iter().map(end).collect()
}

/// What a method returned.
fn status<T>(result: error::Result<T>) -> anyhow::Result<NTSTATUS> {
    match result {
        Ok(_) => Ok(STATUS_SUCCESS),
        Err(error::Error::Refused { status, .. }) => Ok(status),
        Err(error) => Err(error.into()),
    }
}
