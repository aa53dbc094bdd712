//! IND2Overlapped, for the requests of every object.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
};
use std::{sync::mpsc, thread, time::Duration};

use crate::{
    error,
    nd::{
        client::{
            Mr, Port, QpSize, ReadLimits, Request, Shared, SrqSize,
            both::{CompletionQueue as _, Connector as _, QueuePair as _},
        },
        pair::{End, Pair, is},
        run::Nd,
    },
};

/// Existing programs wait at the completion port without a look at what the call returned: all but CompleteConnect must send a
/// packet, also what could be over at once. That they pend, [`Request`] sees to.
// Shows N25, N30.
pub(in crate::nd) fn each_pends(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, address) = nd.adapter()?;
    let port = Port::of(adapter.file());
    let on = || End::on(adapter.clone(), address, QpSize::default(), 16);
    let (a, b) = (on()?, on()?);
    let told = |what: &str, request: error::Result<Request>| -> anyhow::Result<()> {
        let mut request = request.with_context(|| what.to_owned())?;
        let packet = port.next(nd.patience()).with_context(|| format!("no packet of {what}"))?;
        ensure!(packet == request.address(), "{what}: the packet is of another request");
        is(request.status()?, STATUS_SUCCESS, what)
    };
    let mr = Mr::new(&adapter, 4096)?;
    told("Register", mr.register_range(mr.memory().address(0), 4096, 0))?;
    told("Deregister", mr.begin_deregister())?;
    let flushed = adapter.qp(&a.receive_cq, &a.initiator_cq, QpSize::default())?;
    flushed.receive(1, &[])?;
    flushed.flush()?;
    told("Notify, with a completion", a.receive_cq.notify(ND_CQ_NOTIFY_ANY))?;
    a.received()?;
    let srq = adapter.srq(SrqSize { depth: 4, sges: 1, threshold: 1 })?;
    told("Notify, with fewer receives than the threshold", srq.notify())?;

    let (listener, address) = b.listener()?;
    a.connector.bind(a.address)?;
    let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[])?;
    told("GetConnectionRequest", listener.connection_request(&b.connector))?;
    let mut accept = b.connector.accept(&b.qp, ReadLimits::default(), &[])?;
    let packet = port.next(nd.patience()).context("no packet of Connect")?;
    ensure!(packet == connect.address(), "the packet is not that of Connect");
    is(connect.status()?, STATUS_SUCCESS, "Connect")?;
    a.connector.complete_connect()?;
    // CompleteConnect may send one or none: what is not waited for is passed over.
    let packets_of = |requests: &[&Request]| -> anyhow::Result<()> {
        let mut missing: Vec<_> = requests.iter().map(|request| request.address()).collect();
        while !missing.is_empty() {
            let packet = port.next(nd.patience()).with_context(|| format!("{} packets are missing", missing.len()))?;
            missing.retain(|address| *address != packet);
        }
        Ok(())
    };
    packets_of(&[&accept]).context("of Accept")?;
    is(accept.status()?, STATUS_SUCCESS, "Accept")?;
    let (mut told, mut ended) = (b.connector.notify_disconnect()?, a.connector.disconnect()?);
    packets_of(&[&told, &ended]).context("of NotifyDisconnect and Disconnect")?;
    is(told.status()?, STATUS_SUCCESS, "NotifyDisconnect")?;
    is(ended.status()?, STATUS_SUCCESS, "Disconnect")
}

/// When the cancellation returns, the packets are there, in the order of issue, for each kind of object.
// Shows N31.
pub(in crate::nd) fn cancel_each(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let end = &pair.b;
    let port = Port::of(end.adapter.file());
    let cancelled = |what: &str, requests: &mut [Request]| -> anyhow::Result<()> {
        for (number, request) in requests.iter_mut().enumerate() {
            let packet = port.next(Duration::ZERO).with_context(|| format!("{what}: packet {number} is missing"))?;
            ensure!(packet == request.address(), "{what}: packet {number} is out of order");
            is(request.status()?, STATUS_CANCELLED, what)?;
        }
        ensure!(port.next(Duration::ZERO).is_none(), "{what}: a packet too many");
        Ok(())
    };
    let srq = end.adapter.srq(SrqSize { depth: 4, sges: 1, threshold: 1 })?;
    srq.receive(0, &[])?;
    let mut waiting = (0..6).map(|_| srq.notify()).collect::<Result<Vec<_>, _>>()?;
    srq.cancel()?;
    cancelled("SharedReceiveQueue::Notify", &mut waiting)?;
    let (listener, _) = end.listener()?;
    let fresh = (0..6).map(|_| end.adapter.connector()).collect::<Result<Vec<_>, _>>()?;
    let asked = fresh.iter().map(|connector| listener.connection_request(connector));
    let mut waiting = asked.collect::<Result<Vec<_>, _>>()?;
    listener.cancel()?;
    cancelled("GetConnectionRequest", &mut waiting)?;
    let mut waiting = [end.connector.notify_disconnect()?];
    end.connector.cancel()?;
    cancelled("NotifyDisconnect", &mut waiting)?;
    let mr = end.buffer(4096)?;
    mr.cancel().context("cancelling what a region has, which is nothing")
}

/// GetOverlappedResult waits on two threads at once, for requests of one object.
// Shows N11, N29.
pub(in crate::nd) fn waits_together(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let cq = &pair.b.receive_cq;
    let patience = nd.patience();
    let any = Shared::new(cq.notify(ND_CQ_NOTIFY_ANY)?);
    let errors = Shared::new(cq.notify(ND_CQ_NOTIFY_ERRORS)?);
    let (over, first) = mpsc::channel();
    let results = thread::scope(|scope| {
        let (any, errors) = (&any, &errors);
        let any = scope.spawn(move || {
            let result = any.get().result_awaited();
            let _ = over.send(());
            result
        });
        let errors = scope.spawn(move || errors.get().result_awaited());
        let sent = pair.b.qp.receive(1, &[]).and_then(|()| pair.a.qp.send(2, &[], 0));
        // Both end by this, if not before.
        let _ = first.recv_timeout(patience);
        cq.cancel().and(sent).map(|()| [any.join(), errors.join()])
    })?;
    let results = results.map(|result| result.map_err(|_| anyhow::anyhow!("a thread panicked")));
    let [any, errors] = results;
    is(any?, STATUS_SUCCESS, "the one that a completion ended")?;
    is(errors?, STATUS_CANCELLED, "the one that was cancelled")
}
