//! Requests that wait, and how they are told.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::*,
    status::{
        NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_INVALID_DEVICE_STATE,
        STATUS_SUCCESS,
    },
};
use zerocopy::IntoBytes as _;

use crate::{
    bench::Bench,
    client::{Arm, Connector, ReadLimits, Request, Srq, nd_handle},
    memory::Memory,
    pair::{Site, refused},
};

/// Checks that a request ends with `status`, and that the call that began it has left that open.
fn told(what: &str, mut request: Request, status: NTSTATUS) -> anyhow::Result<()> {
    let found = request.status().with_context(|| what.to_owned())?;
    ensure!(found == status, "{what}: {found} instead of {status}");
    ensure!(request.pended(), "{what}: ended before the call returned, which no completion port is told");
    Ok(())
}

// Shows P11.
pub(super) fn always(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let client = &site.client;
    let region: u64 = client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let memory = Memory::new(4096);
    let header = ND_MR_REGISTER_HDR {
        Version: 1,
        CbLength: 4096,
        TargetAddress: memory.address(0),
        MrHandle: region,
        ..ND_MR_REGISTER_HDR::ZERO
    };
    let register = ND_MR_REGISTER { Header: header, Address: memory.address(0) };
    told("register", client.begin(IOCTL_ND_MR_REGISTER, register.as_bytes(), 8), STATUS_SUCCESS)?;
    refused(client.call(IOCTL_ND_MR_REGISTER, &register), STATUS_INVALID_DEVICE_STATE, "registering twice")?;
    let deregister = client.begin(IOCTL_ND_MR_DEREGISTER, nd_handle(region).as_bytes(), 0);
    told("deregister", deregister, STATUS_SUCCESS)?;
    client.call(IOCTL_ND_MR_FREE, &nd_handle(region))?;

    let (a, b) = (site.end()?, site.end()?);
    a.qp.receive(1, &[])?;
    a.qp.flush()?;
    a.received()?;
    a.qp.receive(2, &[])?;
    a.qp.flush()?;
    told("notify with a completion there", site.receive_cq.notify(Arm::Any), STATUS_SUCCESS)?;
    a.received()?;
    let srq = Srq::new(&site.pd, 4, 1, 2)?;
    told("notify of an empty SRQ", srq.notify(), STATUS_SUCCESS)?;

    let (listener, address) = site.listener()?;
    let closed = crate::client::Listener::new(&site.adapter)?;
    closed.bind(site.address)?;
    let nobody = closed.address()?.context("an address")?;
    drop(closed);
    let limits = ReadLimits::default();
    told("connect to nobody", a.connector.connect(&a.qp, nobody, limits, &[]), STATUS_CONNECTION_REFUSED)?;
    let mut connect = a.connector.connect(&a.qp, address, limits, &[]);
    told("a connection request that is there", listener.connection_request(&b.connector), STATUS_SUCCESS)?;
    let accept = b.connector.accept(&b.qp, limits, &[]);
    ensure!(connect.status()? == STATUS_SUCCESS, "connecting");
    told("connect", connect, STATUS_SUCCESS)?;
    told("complete connect", a.connector.complete_connect(), STATUS_SUCCESS)?;
    told("accept", accept, STATUS_SUCCESS)?;
    told("disconnect", a.connector.disconnect(), STATUS_SUCCESS)?;
    told("notify of a connection that has ended", b.connector.notify_disconnect(), STATUS_SUCCESS)?;
    let mut again = a.connector.disconnect();
    ensure!(again.status()? == STATUS_CONNECTION_INVALID, "disconnecting twice");
    Ok(())
}

// Shows P12.
pub(super) fn cancel_io(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let srq = Srq::new(&site.pd, 4, 1, 0)?;
    let (listener, _) = site.listener()?;
    let connectors = (0..3).map(|_| Connector::new(&site.adapter)).collect::<crate::error::Result<Vec<_>>>()?;
    let mut notifies = [Arm::Any, Arm::Errors, Arm::Solicited].map(|arm| site.receive_cq.notify(arm));
    let mut others = vec![srq.notify(), site.initiator_cq.notify(Arm::Any)];
    others.extend(connectors.iter().map(|connector| listener.connection_request(connector)));
    site.client.pended(8)?;
    site.client.call(IOCTL_ND_CQ_CANCEL_IO, &nd_handle(site.receive_cq.handle()))?;
    // In the driver they have ended by now.
    ensure!(site.client.diagnostics()?.PendedRequests == 5, "requests that wait on, or others that do not");
    for notify in &mut notifies {
        ensure!(notify.status()? == STATUS_CANCELLED, "a cancelled notification");
    }
    ensure!(!others.iter_mut().any(Request::is_over), "requests for other objects");
    let region: u64 = site.client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    for (code, handle) in [
        (IOCTL_ND_SRQ_CANCEL_IO, srq.handle()),
        (IOCTL_ND_CQ_CANCEL_IO, site.initiator_cq.handle()),
        (IOCTL_ND_LISTENER_CANCEL_IO, listener.handle()),
        (IOCTL_ND_CONNECTOR_CANCEL_IO, connectors[0].handle()),
        (IOCTL_ND_MR_CANCEL_IO, region),
    ] {
        site.client.call(code, &nd_handle(handle))?;
    }
    ensure!(site.client.diagnostics()?.PendedRequests == 0, "requests that wait on");
    for other in &mut others {
        ensure!(other.status()? == STATUS_CANCELLED, "a cancelled request");
    }
    site.client.call(IOCTL_ND_MR_FREE, &nd_handle(region))?;
    Ok(())
}
