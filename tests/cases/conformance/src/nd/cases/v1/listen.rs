//! INDAdapter::Listen and INDListen.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{STATUS_CONNECTION_REFUSED, STATUS_SHARING_VIOLATION, STATUS_SUCCESS};
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
