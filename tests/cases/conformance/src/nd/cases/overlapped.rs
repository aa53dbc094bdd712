//! IND2Overlapped: files and their completion ports.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_CANCELLED, STATUS_PENDING, STATUS_SUCCESS},
};

use super::both::overlapped::NOTHING;
use crate::nd::{
    client::{self, Port, ReadLimits, Signal, both::CompletionQueue as _},
    pair::{End, is},
    run::Nd,
};

/// A method that returns ND_SUCCESS sends no packet, one that returns ND_PENDING sends one. Only of CompleteConnect do programs expect
/// both; under Wine it pends, as every request of the file does.
// Shows N25.
pub(in crate::nd) fn completion_modes(nd: &Nd) -> anyhow::Result<()> {
    const FILE_SKIP_COMPLETION_PORT_ON_SUCCESS: u32 = 1;
    const FILE_SKIP_SET_EVENT_ON_HANDLE: u32 = 2;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let modes = client::completion_modes(a.adapter.file())?;
    let expected = FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE;
    ensure!(modes == expected, "the completion modes of the file are {modes:#x}");

    let port = Port::of(a.adapter.file());
    let (listener, address) = b.listener()?;
    let requested = listener.connection_request(&b.connector)?;
    a.connector.bind(a.address)?;
    let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[])?;
    requested.finish_unless_failed(&mut connect)?;
    let accept = b.connector.accept(&b.qp, ReadLimits::default(), &[])?;
    is(connect.status()?, STATUS_SUCCESS, "Connect")?;
    let mut complete = a.connector.begin_complete_connect()?;
    accept.finish()?;
    for request in [Some(&mut connect), complete.as_mut()].into_iter().flatten() {
        is(request.status()?, STATUS_SUCCESS, "Connect or CompleteConnect")?;
        let packet = port.next(nd.patience()).context("a packet is missing")?;
        ensure!(packet == request.address(), "the packet is of another request");
    }
    ensure!(port.next(NOTHING).is_none(), "more packets than requests that pended");
    Ok(())
}

// Shows N33.
pub(in crate::nd) fn file_closed(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let cq = adapter.with_new_file()?.cq(16)?;
    // The handle that the queue was made with is closed now.
    let mut request = cq.notify(ND_CQ_NOTIFY_ANY)?;
    cq.cancel()?;
    is(request.status()?, STATUS_CANCELLED, "the request")
}

pub(in crate::nd) fn duplicated(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let port = Port::of(adapter.file());
    let cq = adapter.with_duplicate().cq(16)?;
    // The duplicate is closed, and after the drop the first handle too.
    let mut pending = [cq.notify(ND_CQ_NOTIFY_ANY)?, cq.notify_by(ND_CQ_NOTIFY_ERRORS, Signal::Port)?];
    drop(adapter);
    for request in &pending {
        ensure!(request.internal() == STATUS_PENDING, "a request is over");
    }
    cq.cancel()?;
    for request in &mut pending {
        let packet = port.next(nd.patience()).context("no packet at the port of the file")?;
        ensure!(packet == request.address(), "the packet is of another request");
        is(request.status()?, STATUS_CANCELLED, "a request")?;
    }
    Ok(())
}

// Shows N23.
pub(in crate::nd) fn two_ports(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let second = adapter.with_new_file()?;
    let ports = [Port::of(adapter.file()), Port::of(second.file())];
    ensure!(ports.iter().all(Port::is_open), "two files of an adapter cannot have ports of their own");
    let queues = [adapter.cq(16)?, second.cq(16)?];
    for number in [1, 0] {
        let mut request = queues[number].notify_by(ND_CQ_NOTIFY_ANY, Signal::Port)?;
        queues[number].cancel()?;
        let packet = ports[number].next(nd.patience()).context("no packet at the port of the file")?;
        ensure!(packet == request.address(), "the packet is of another request");
        ensure!(ports[1 - number].next(NOTHING).is_none(), "a packet at the other file's port");
        is(request.status()?, STATUS_CANCELLED, "the request")?;
    }
    Ok(())
}
