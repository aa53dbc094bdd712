//! IND2Connector and INDConnector up to the connection.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use ndk_abi::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_INVALID_BUFFER_SIZE, STATUS_SUCCESS,
};

use crate::{
    error::Result,
    nd::{
        client::{Request, both::Connector as _, end_of},
        ends::{End, Pair, complete},
        interfaces::Interfaces,
        pair::is,
        run::Nd,
    },
    pair::{pattern, refused},
};

/// Two ends with a connection request on its way: `a` has asked, `b` has not answered.
pub(in crate::nd) struct Asked<V: Interfaces> {
    pub(in crate::nd) connect: Request,
    pub(in crate::nd) _listener: V::Listener,
    pub(in crate::nd) a: End<V>,
    pub(in crate::nd) b: End<V>,
}

/// `begin` begins to connect, to an address.
pub(in crate::nd) fn ask<V: Interfaces>(
    a: End<V>,
    b: End<V>,
    begin: impl FnOnce(&End<V>, SocketAddr) -> Result<Request>,
) -> anyhow::Result<Asked<V>> {
    let (listener, address) = b.listener()?;
    let request = V::connection_request(&listener, &b.connector)?;
    let mut connect = begin(&a, address)?;
    request.finish_unless_failed(&mut connect).context("the connection request")?;
    Ok(Asked { connect, _listener: listener, a, b })
}

pub(in crate::nd) fn asked<V: Interfaces>(nd: &Nd) -> anyhow::Result<Asked<V>> {
    ask(End::<V>::new(nd)?, End::<V>::new(nd)?, |a, address| {
        V::bind(a)?;
        V::connect(a, address, &[])
    })
}

// Shows N91, N105, N107, V27 (nd1).
pub(in crate::nd) fn private_data<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let (caller, callee) = V::private_data_limits(&a.adapter)?;
    let (listener, address) = b.listener()?;
    let request = V::connection_request(&listener, &b.connector)?;
    V::bind(&a)?;
    for length in [caller + 1, 70_000] {
        let long = V::connect(&a, address, &vec![0; length]);
        refused(long, STATUS_INVALID_BUFFER_SIZE, "too much private data to connect")?;
    }
    let data = pattern(3, caller);
    let mut connect = V::connect(&a, address, &data).context("the connector is usable")?;
    request.finish_unless_failed(&mut connect)?;

    let (status, length, found) = b.connector.private_data_raw(10);
    is(status, STATUS_BUFFER_OVERFLOW, "ten bytes of the private data")?;
    ensure!(length >= data.len() && found == data[..10], "a part of it: {length} bytes, {found:?}");
    let (status, again, _) = b.connector.private_data_raw(0);
    is(status, STATUS_BUFFER_OVERFLOW, "the length of the private data")?;
    ensure!(again == length, "now it has {again} bytes");
    ensure!(b.connector.private_data()?.starts_with(&data), "the private data");

    for length in [callee + 1, 70_000] {
        let long = V::accept(&b, &vec![0; length]);
        refused(long, STATUS_INVALID_BUFFER_SIZE, "too much private data to accept")?;
        let long = b.connector.reject(&vec![0; length]);
        refused(long, STATUS_INVALID_BUFFER_SIZE, "too much private data to reject")?;
    }
    complete(&a, &b, connect)
}

// Shows N106, N107.
pub(in crate::nd) fn address_buffers<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    for room in [0, 4, 15] {
        for (status, length) in pair.a.connector.addresses_raw(room) {
            is(status, STATUS_BUFFER_OVERFLOW, "a short buffer for an address")?;
            ensure!(length >= 16, "{length} bytes needed");
        }
    }
    Ok(())
}

// Shows N88, N100.
pub(in crate::nd) fn rejected<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let data = pattern(4, 40);
    let mut asked = asked::<V>(nd)?;
    asked.b.connector.reject(&data)?;
    is(asked.connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    ensure!(asked.a.connector.private_data()?.starts_with(&data), "the private data of the rejection");
    Ok(())
}

/// The initiator changes its mind after the accept: by Reject, or by going away.
// Shows N96, N99, N100, V32 (nd1).
pub(in crate::nd) fn initiator_backs_out<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    for rejects in [true, false] {
        let Asked { connect, _listener, a, b } = asked::<V>(nd)?;
        let mut accept = V::accept(&b, &[])?;
        connect.finish()?;
        if rejects {
            a.connector.reject(&[])?;
        }
        drop(a);
        let status = accept.status()?;
        ensure!(status == STATUS_CONNECTION_REFUSED, "Accept, when the initiator backed out: {status}");
    }
    Ok(())
}

// Shows N102.
pub(in crate::nd) fn request_dropped<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let Asked { mut connect, _listener, a, b } = asked::<V>(nd)?;
    drop(b);
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect, whose request was released")?;
    drop((connect, a));
    Ok(())
}

// Shows N95.
pub(in crate::nd) fn cancelled<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let mut asked = asked::<V>(nd)?;
    asked.a.connector.cancel()?;
    is(asked.connect.status()?, STATUS_CANCELLED, "Connect that was cancelled")?;
    let late = end_of(V::accept(&asked.b, &[]))?;
    ensure!(late != STATUS_SUCCESS, "Accept of a request that was cancelled");
    Ok(())
}
