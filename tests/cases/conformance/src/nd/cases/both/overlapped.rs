//! IND2Overlapped and INDOverlapped: what a program is told when a request is over.

use std::{sync::mpsc, thread, time::Duration};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_CANCELLED, STATUS_PENDING, STATUS_SUCCESS},
};

use crate::nd::{
    client::{
        Port, Shared, Signal,
        both::{CompletionQueue as _, Connector as _, QueuePair as _},
    },
    ends::{End, Pair},
    interfaces::Interfaces,
    pair::is,
    run::Nd,
};

/// The wait for a packet that must not arrive: no time.
pub(in crate::nd) const NOTHING: Duration = Duration::ZERO;

/// Makes `pair.b` get a receive completed.
pub(in crate::nd) fn send<V: Interfaces>(pair: &Pair<V>) -> anyhow::Result<()> {
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    pair.a.initiated()?;
    Ok(())
}

// Shows C27, N21, N27, V31 (nd1).
pub(in crate::nd) fn event<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    is(request.result_now(), STATUS_PENDING, "the result of a pending request")?;
    is(request.internal(), STATUS_PENDING, "OVERLAPPED.Internal of a pending request")?;
    ensure!(!request.is_over(), "its event is set");
    send(&pair)?;
    is(request.status()?, STATUS_SUCCESS, "the request")?;
    is(request.result_now(), STATUS_SUCCESS, "its result, asked for again")?;
    is(request.result_awaited(), STATUS_SUCCESS, "its result, waited for")?;
    pair.b.received()?;
    Ok(())
}

// Shows N28.
pub(in crate::nd) fn waits<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let mut request = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    // The thread has not looked at the event. GetOverlappedResult waits without a limit: the cancellation sets one.
    let (queue, patience, (over, is_over)) = (Shared::new(pair.b.receive_cq.clone()), nd.patience(), mpsc::channel());
    let result = thread::scope(|scope| {
        scope.spawn(move || match is_over.recv_timeout(patience) {
            Err(mpsc::RecvTimeoutError::Timeout) => drop(queue.get().cancel()),
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => (),
        });
        let result = request.result_awaited();
        let _ = over.send(());
        result
    });
    is(result, STATUS_SUCCESS, "the result that was waited for")?;
    ensure!(request.is_over(), "the event is not set");
    request.status()?;
    pair.b.received()?;
    pair.a.initiated()?;
    Ok(())
}

// Shows N26, V31 (nd1).
pub(in crate::nd) fn event_only<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let port = Port::of(V::file(&pair.b.adapter));
    let mut request = pair.b.receive_cq.notify_by(ND_CQ_NOTIFY_ANY, Signal::EventOnly)?;
    send(&pair)?;
    is(request.status()?, STATUS_SUCCESS, "the request")?;
    pair.b.received()?;
    // If the event-only request sent a packet, it would precede the next request's packet.
    let mut next = pair.b.receive_cq.notify_by(ND_CQ_NOTIFY_ANY, Signal::Event)?;
    send(&pair)?;
    let packet = port.next(nd.patience()).context("no packet of the next request")?;
    ensure!(packet == next.address(), "a packet came although the event had its low bit set");
    next.status()?;
    pair.b.received()?;
    Ok(())
}

// Shows N31, N32, V31 (nd1).
pub(in crate::nd) fn cancel_in_order<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = V::adapter(nd)?;
    let port = Port::of(V::file(&adapter));
    let (cq, other) = (V::cq(&adapter, 16)?, V::cq(&adapter, 16)?);
    let mut untouched = other.notify(ND_CQ_NOTIFY_ERRORS)?;
    let mut requests = (0..8).map(|_| cq.notify_by(ND_CQ_NOTIFY_ANY, Signal::Event)).collect::<Result<Vec<_>, _>>()?;
    cq.cancel()?;
    // Packets are there when the cancellation returns, in the order of issue.
    for (number, request) in requests.iter_mut().enumerate() {
        let packet = port.next(NOTHING).with_context(|| format!("packet {number} is missing"))?;
        ensure!(packet == request.address(), "packet {number} is out of order");
        is(request.status()?, STATUS_CANCELLED, "a cancelled request")?;
    }
    ensure!(!untouched.is_over(), "a request of another object was cancelled");
    cq.cancel().context("cancelling nothing")?;
    other.cancel()?;
    is(untouched.status()?, STATUS_CANCELLED, "the other request")
}

// Shows C4, C22, N22, V8 (nd1), V14 (nd1).
pub(in crate::nd) fn port<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let port = Port::of(V::file(&pair.b.adapter));
    ensure!(port.is_open(), "the file has no completion port");
    send(&pair)?;
    ensure!(port.next(NOTHING).is_none(), "a packet without a request");
    pair.b.received()?;
    for signal in [Signal::Port, Signal::Event] {
        let mut request = pair.b.receive_cq.notify_by(ND_CQ_NOTIFY_ANY, signal)?;
        send(&pair)?;
        let packet = port.next(nd.patience()).context("no packet came")?;
        ensure!(packet == request.address(), "the packet is of another request");
        is(request.result_now(), STATUS_SUCCESS, "the result of the request")?;
        ensure!(request.is_over() || signal == Signal::Port, "the event is not set");
        request.status()?;
        pair.b.received()?;
    }
    // Requests of other objects send their packets to this port too.
    let mr = V::unregistered(&pair.b.adapter, 4096)?;
    let mut request = V::register(&mr, V::memory(&mr).address(0), 4096)?;
    is(request.status()?, STATUS_SUCCESS, "the registration")?;
    let packet = port.next(nd.patience()).context("no packet of the registration")?;
    ensure!(packet == request.address(), "the packet is for another request than the registration");
    let mut request = pair.b.connector.disconnect()?;
    let packet = port.next(nd.patience()).context("no packet of Disconnect")?;
    ensure!(packet == request.address(), "the packet is not that of Disconnect");
    is(request.status()?, STATUS_SUCCESS, "Disconnect")
}

// Shows N24, V31 (nd1).
pub(in crate::nd) fn refused_silently<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let end = End::<V>::new(nd)?;
    let port = Port::of(V::file(&end.adapter));
    let mr = V::unregistered(&end.adapter, 4096)?;
    ensure!(V::register(&mr, 0, 0).is_err(), "nothing was registered");
    ensure!(end.receive_cq.notify(77).is_err(), "a notification of an unknown type");
    V::bind(&end)?;
    let long = vec![0; V::private_data_limits(&end.adapter)?.0 + 1];
    ensure!(V::connect(&end, end.address, &long).is_err(), "too much private data");
    let mut request = V::register(&mr, V::memory(&mr).address(0), 4096)?;
    request.status()?;
    let packet = port.next(nd.patience()).context("no packet of the registration")?;
    ensure!(packet == request.address(), "a request that was refused sent a packet");
    Ok(())
}
