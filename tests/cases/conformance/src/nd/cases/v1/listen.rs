//! INDAdapter::Listen and INDListen.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_SHARING_VIOLATION, STATUS_SUCCESS};
use std::ptr;
use windows_core::Interface as _;

use super::pair::{End, Pair, at};
use crate::{
    nd::{
        client::{
            both::{Connector as _, QueuePair as _},
            end_of,
            v1::EndpointSize,
        },
        pair::is,
        run::Nd,
    },
    pair::{refused, when_free},
};

// Shows V16.
pub(in crate::nd) fn ports(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (first, assigned) = b.adapter.listen(0, 0)?;
    let port = u16::from_be(assigned);
    ensure!(port != 0, "port {port} was assigned");
    for adapter in [&b.adapter, &a.adapter] {
        refused(adapter.listen(0, assigned), STATUS_SHARING_VIOLATION, "a port in use")?;
    }
    drop(first);
    // It is free again, and may be chosen.
    let (chosen, again) = when_free(nd.patience(), || b.adapter.listen(0, assigned))?;
    ensure!(again == assigned, "port {assigned:#x} was asked for, {again:#x} assigned");
    let request = chosen.connection_request(&b.connector)?;
    let mut connect = a.connector.connect(&a.qp, at(b.address, assigned), &[])?;
    request.finish_unless_failed(&mut connect)?;
    ensure!(b.connector.local_address()? == at(b.address, assigned), "the request came to another port");
    b.connector.reject(&[])?;
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    // A port is in use as long as connectors have it.
    let End { connector, adapter, .. } = b;
    drop((chosen, connector));
    // Without a place for the port, which is known.
    let silent =
        when_free(nd.patience(), || adapter.listen_silently(assigned)).context("without a place for the port")?;
    refused(a.adapter.listen(0, assigned), STATUS_SHARING_VIOLATION, "the same port")?;
    drop(silent);
    Ok(())
}

pub(in crate::nd) fn queued(nd: &Nd) -> anyhow::Result<()> {
    const COUNT: usize = 5;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (listen, address) = b.listener()?;
    // Some requests wait for connections, some connections for requests.
    let connectors = (0..COUNT).map(|_| b.adapter.connector()).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    for connector in &connectors[..2] {
        requests.push(listen.connection_request(connector)?);
    }
    let mut asking = Vec::new();
    for number in 0..COUNT {
        let connector = a.adapter.connector()?;
        let endpoint = connector.endpoint(&a.receive_cq, &a.initiator_cq, EndpointSize::default())?;
        let connect = connector.connect(&endpoint, address, &[number as u8 + 1])?;
        asking.push((connect, connector, endpoint));
    }
    for connector in &connectors[2..] {
        requests.push(listen.connection_request(connector)?);
    }
    for request in &mut requests {
        is(request.status()?, STATUS_SUCCESS, "a connection request")?;
    }
    let first = |connector: &crate::nd::client::v1::Connector| -> anyhow::Result<u8> {
        connector.data()?.private.first().copied().context("no private data")
    };
    let mut found = connectors.iter().map(first).collect::<anyhow::Result<Vec<_>>>()?;
    found.sort_unstable();
    ensure!(found == [1, 2, 3, 4, 5], "requests {found:?} came");
    for connector in &connectors {
        connector.reject(&[])?;
    }
    for (connect, ..) in &mut asking {
        is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    }
    Ok(())
}

pub(in crate::nd) fn cancelled(nd: &Nd) -> anyhow::Result<()> {
    let (a, end) = (End::new(nd)?, End::new(nd)?);
    let (listen, address) = end.listener()?;
    let other = end.adapter.connector()?;
    let mut requests = [listen.connection_request(&end.connector)?, listen.connection_request(&other)?];
    ensure!(requests.iter_mut().all(|request| !request.is_over()), "a request is over and nobody connects");
    listen.cancel()?;
    for request in &mut requests {
        is(request.status()?, STATUS_CANCELLED, "a request that was cancelled")?;
    }
    // The connectors of cancelled requests are as good as new, and so is the listener.
    let request = listen.connection_request(&end.connector)?;
    let mut connect = a.connector.connect(&a.qp, address, &[])?;
    request.finish_unless_failed(&mut connect)?;
    end.connector.reject(&[])?;
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    let mut last = listen.connection_request(&other)?;
    last.let_object_go();
    drop(requests);
    drop(listen);
    is(last.status()?, STATUS_CANCELLED, "a request of a listener that was released")
}

// Shows V16.
pub(in crate::nd) fn backlog(nd: &Nd) -> anyhow::Result<()> {
    const BACKLOG: usize = 2;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (_listen, port) = b.adapter.listen(BACKLOG, 0)?;
    let mut asking = Vec::new();
    for _ in 0..BACKLOG + 1 {
        let connector = a.adapter.connector()?;
        let endpoint = connector.endpoint(&a.receive_cq, &a.initiator_cq, EndpointSize::default())?;
        let connect = connector.connect(&endpoint, at(b.address, port), &[])?;
        asking.push((connect, connector, endpoint));
    }
    let Some((last, ..)) = asking.last_mut() else { unreachable!() };
    is(last.status()?, STATUS_CONNECTION_REFUSED, "one more than the backlog")?;
    ensure!(asking[..BACKLOG].iter_mut().all(|(connect, ..)| !connect.is_over()), "those in the backlog ended");
    Ok(())
}

pub(in crate::nd) fn released(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (listen, address) = b.listener()?;
    let mut waiting = a.connector.connect(&a.qp, address, &[])?;
    ensure!(!waiting.is_over(), "Connect is over and nobody has answered");
    drop(listen);
    is(waiting.status()?, STATUS_CONNECTION_REFUSED, "Connect to a listener that was released")?;
    // A connection outlives the listener that it was made through.
    let pair = Pair::new(nd)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    pair.b.received()?;
    Ok(())
}

pub(in crate::nd) fn wrong_connector(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (listen, address) = pair.b.listener()?;
    let foreign = pair.a.adapter.connector()?;
    let of_2 = nd.adapter()?.0.connector()?;
    for object in
        [ptr::null_mut(), pair.b.adapter.com.as_raw(), pair.b.qp.com.as_raw(), foreign.com.as_raw(), of_2.com.as_raw()]
    {
        ensure!(listen.connection_request_for(object).is_err(), "a connection request for no connector");
    }
    // A connected connector is refused, at once or when a connection request arrives.
    let used = listen.connection_request(&pair.b.connector);
    let asks = pair.a.adapter.connector()?;
    let endpoint = asks.endpoint(&pair.a.receive_cq, &pair.a.initiator_cq, EndpointSize::default())?;
    let connect = asks.connect(&endpoint, address, &[])?;
    let status = end_of(used)?;
    ensure!(status != STATUS_SUCCESS, "a connector that is connected took a connection request");
    asks.cancel()?;
    drop(connect);
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    is(pair.b.received()?.status, STATUS_SUCCESS, "the connection goes on")
}
