//! INDOverlapped.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::ND_CQ_NOTIFY_ANY,
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
};

use super::{
    super::both::overlapped::{NOTHING, send},
    pair::{End, Pair},
};
use crate::nd::{
    client::{
        Port, Signal,
        both::{CompletionQueue as _, Connector as _},
        v1::Mr,
    },
    pair::is,
    run::Nd,
};

/// None of the requests returns data: the number of bytes is 0 for each.
// Shows V24.
pub(in crate::nd) fn bytes(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mut notify = pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    send(&pair)?;
    notify.status()?;
    ensure!(notify.bytes_now() == (STATUS_SUCCESS, 0), "Notify: {:?}", notify.bytes_now());
    pair.b.received()?;
    let mr = Mr::new(&pair.b.adapter, 4096);
    let mut register = mr.begin_register(mr.memory().address(0), 4096)?;
    register.status()?;
    ensure!(register.bytes_now() == (STATUS_SUCCESS, 0), "RegisterMemory: {:?}", register.bytes_now());
    let mut deregister = pair.b.adapter.deregister(mr.handle())?;
    deregister.status()?;
    ensure!(deregister.bytes_now() == (STATUS_SUCCESS, 0), "DeregisterMemory: {:?}", deregister.bytes_now());
    let mut cancelled = pair.b.connector.notify_disconnect()?;
    pair.b.connector.cancel()?;
    cancelled.status()?;
    let (status, bytes) = cancelled.bytes_now();
    ensure!(status == STATUS_CANCELLED && bytes == 0, "NotifyDisconnect: {status}, {bytes} bytes");
    Ok(())
}

/// The requests of an adapter are registrations; Cancel of the adapter does not cancel requests of its objects.
// Shows V13.
pub(in crate::nd) fn adapter_cancels(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    let mut notify = end.receive_cq.notify(ND_CQ_NOTIFY_ANY)?;
    let (listen, _) = end.listener()?;
    let mut request = listen.connection_request(&end.connector)?;
    let memory = (0..20).map(|_| Mr::new(&end.adapter, 65_536)).collect::<Vec<_>>();
    let begun = memory.iter().map(|mr| mr.begin_register(mr.memory().address(0), 65_536));
    let mut begun = begun.collect::<Result<Vec<_>, _>>()?;
    end.adapter.cancel()?;
    for (mr, register) in memory.iter().zip(&mut begun) {
        // It may have been over before.
        if register.status()? == STATUS_SUCCESS {
            end.adapter.deregister(mr.handle())?.finish()?;
        }
    }
    ensure!(!notify.is_over(), "cancelling what the adapter has ended a Notify");
    ensure!(!request.is_over(), "cancelling what the adapter has ended a GetConnectionRequest");
    end.receive_cq.cancel()?;
    listen.cancel()?;
    is(notify.status()?, STATUS_CANCELLED, "Notify")?;
    is(request.status()?, STATUS_CANCELLED, "GetConnectionRequest")
}

pub(in crate::nd) fn two_ports(nd: &Nd) -> anyhow::Result<()> {
    let adapters = [nd.adapter_v1()?.0, nd.adapter_v1()?.0];
    let ports = [Port::of(adapters[0].file()), Port::of(adapters[1].file())];
    ensure!(ports.iter().all(Port::is_open), "two adapters cannot have ports of their own");
    let queues = [adapters[0].cq(16)?, adapters[1].cq(16)?];
    for number in [1, 0] {
        let mut request = queues[number].notify_by(ND_CQ_NOTIFY_ANY, Signal::Port)?;
        queues[number].cancel()?;
        let packet = ports[number].next(nd.patience()).context("no packet at the port of the adapter")?;
        ensure!(packet == request.address(), "the packet is of another request");
        ensure!(ports[1 - number].next(NOTHING).is_none(), "a packet at the other adapter's port");
        is(request.status()?, STATUS_CANCELLED, "the request")?;
    }
    Ok(())
}

/// Both sides cancel after `stop` steps of a connection; each request that had begun ends.
pub(in crate::nd) fn cancel_anywhere(nd: &Nd) -> anyhow::Result<()> {
    for stop in 0..6 {
        let (a, b) = (End::new(nd)?, End::new(nd)?);
        let (listen, address) = b.listener()?;
        let mut begun = vec![listen.connection_request(&b.connector)?];
        let mut steps = || -> anyhow::Result<()> {
            if stop == 0 {
                return Ok(());
            }
            begun.push(a.connector.connect(&a.qp, address, &[])?);
            if stop == 1 {
                return Ok(());
            }
            begun[0].status()?;
            begun.push(b.connector.accept(&b.qp, &[])?);
            if stop == 2 {
                return Ok(());
            }
            begun[1].status()?;
            a.connector.complete_connect()?;
            if stop == 3 {
                return Ok(());
            }
            begun[2].status()?;
            begun.push(a.connector.notify_disconnect()?);
            begun.push(b.connector.notify_disconnect()?);
            if stop == 4 {
                return Ok(());
            }
            begun.push(a.connector.disconnect()?);
            Ok(())
        };
        steps().with_context(|| format!("up to step {stop}"))?;
        for canceller in [&a.connector, &b.connector] {
            canceller.cancel()?;
        }
        listen.cancel()?;
        for (number, request) in begun.iter_mut().enumerate() {
            request.status().with_context(|| format!("cancelled after step {stop}: request {number}"))?;
        }
    }
    Ok(())
}
