//! INDConnector up to the connection.

use anyhow::ensure;
use ndk_abi::status::{
    STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_NETWORK_UNREACHABLE,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
};
use std::{net::SocketAddr, ptr};
use windows_core::Interface as _;

use super::{
    super::both::connector::{Asked, ask, asked},
    pair::{End, Pair},
};
use crate::{
    nd::{
        cases::connector::STATUS_BAD_NETWORK_NAME,
        client::{
            QpSize, ReadLimits, Remote,
            both::{Connector as _, QueuePair as _},
            end_of,
            v1::{Connector, Descriptor, EndpointSize},
        },
        ends::complete,
        interfaces::{Interfaces as _, V1},
        pair::{self as of_2, SEND, WRITE, expect, expect_received, is},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

/// SOCKADDR_IN.
fn ipv4(address: SocketAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = 2;
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    if let std::net::IpAddr::V4(ip) = address.ip() {
        bytes[4..8].copy_from_slice(&ip.octets());
    }
    bytes
}

// Shows V17, V27.
pub(in crate::nd) fn connects(nd: &Nd) -> anyhow::Result<()> {
    let (to_b, to_a) = (pattern(1, 100), pattern(2, 33));
    let reads = |inbound_reads, outbound_reads| EndpointSize { inbound_reads, outbound_reads, ..Default::default() };
    let ends = (End::with_cqs(nd, reads(3, 5), 64)?, End::with_cqs(nd, reads(4, 9), 64)?);
    let Asked { mut connect, _listener, a, b } = ask(ends.0, ends.1, |a, address| V1::connect(a, address, &to_b))?;
    let data = b.connector.data()?;
    ensure!(data.private.starts_with(&to_b), "the private data that the listener got");
    // What one side takes in is what the other may have under way.
    ensure!((data.inbound, data.outbound) == (5, 3), "limits of the request: {}, {}", data.inbound, data.outbound);
    let mut accept = b.connector.accept(&b.qp, &to_a)?;
    is(connect.status()?, STATUS_SUCCESS, "Connect")?;
    ensure!(!accept.is_over(), "Accept is over before CompleteConnect");
    let data = a.connector.data()?;
    ensure!(data.private.starts_with(&to_a), "the private data that the initiator got");
    ensure!((data.inbound, data.outbound) == (3, 4), "limits of the answer: {}, {}", data.inbound, data.outbound);
    a.connector.complete_connect()?;
    is(accept.status()?, STATUS_SUCCESS, "Accept")?;
    let (own, peer) = (a.connector.local_address()?, a.connector.peer_address()?);
    ensure!(own == b.connector.peer_address()?, "the initiator's address is not what its peer sees");
    ensure!(peer == b.connector.local_address()?, "the listener's address is not what its peer sees");
    ensure!(own.ip() == a.address.ip() && own.port() >= 49152, "the initiator is at {own}");
    Ok(())
}

pub(in crate::nd) fn ipv6(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider_v1()?;
    let Some(address) = provider.addresses()?.into_iter().find(SocketAddr::is_ipv6) else {
        nd.note("not tried: the adapter has no IPv6 address".to_owned());
        return Ok(());
    };
    let end = || -> anyhow::Result<End> {
        let adapter = provider.open(address)?;
        let (receive_cq, initiator_cq, connector) = (adapter.cq(64)?, adapter.cq(64)?, adapter.connector()?);
        let qp = connector.endpoint(&receive_cq, &initiator_cq, EndpointSize::default())?;
        Ok(End { connector, qp, initiator_cq, receive_cq, adapter, address: SocketAddr::new(address.ip(), 0) })
    };
    let Asked { connect, _listener, a, b } = ask(end()?, end()?, |a, address| V1::connect(a, address, &[]))?;
    complete(&a, &b, connect)?;
    let own = a.connector.local_address()?;
    ensure!(own.ip() == address.ip() && own == b.connector.peer_address()?, "the addresses differ: {own}");
    Ok(())
}

/// A connection between the versions, with data and windows both ways.
// Shows V33.
pub(in crate::nd) fn other_version(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, of_2::End::new(nd)?);
    let (listener, address) = b.listener()?;
    let request = listener.connection_request(&b.connector)?;
    let mut connect = a.connector.connect(&a.qp, address, &[7])?;
    request.finish_unless_failed(&mut connect)?;
    ensure!(b.connector.private_data()?.starts_with(&[7]), "the private data");
    let accept = b.connector.accept(&b.qp, ReadLimits::default(), &[])?;
    connect.finish()?;
    a.connector.complete_connect()?;
    accept.finish()?;

    let (near, far) = (a.buffer(4096)?, b.buffer(4096)?);
    near.memory().write(0, &pattern(1, 1000));
    b.qp.receive(1, &[far.sge(0..4096)])?;
    a.qp.send(2, &[near.sge(0..1000)], 0)?;
    expect_received(b.received()?, 1, 1000)?;
    expect(a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    ensure_same(&far.memory().read(0..1000), &pattern(1, 1000))?;
    // Version 2 uses a window of version 1, whose token it has as it travels.
    let (_window, descriptor) = a.expose(&near)?;
    let remote = Remote { address: descriptor.base + 100, token: descriptor.token.to_be() };
    far.memory().write(0, &pattern(2, 1000));
    b.qp.write(3, &[far.sge(0..1000)], remote, 0)?;
    expect(b.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
    ensure_same(&near.memory().read(100..1100), &pattern(2, 1000))?;
    // And the other way around.
    let remote = far.remote(0);
    let descriptor = Descriptor { base: remote.address, length: 4096, token: u32::from_be(remote.token) };
    a.qp.write(4, &[near.sge(100..200)], descriptor, 3000, 0)?;
    expect(a.initiated()?, WRITE, 4, STATUS_SUCCESS)?;
    ensure_same(&far.memory().read(3000..3100), &pattern(2, 1000)[..100])?;
    let mut told = b.connector.notify_disconnect()?;
    a.connector.disconnect()?.finish()?;
    told.status()?;
    Ok(())
}

// Shows V28.
pub(in crate::nd) fn local_port(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    // A free port: its listener has been released.
    let (listen, port) = a.adapter.listen(0, 0)?;
    drop(listen);
    let (listen, address) = b.listener()?;
    let request = listen.connection_request(&b.connector)?;
    let mut connect = a.connector.connect_from(a.qp.com.as_raw(), address, port, &[])?;
    request.finish_unless_failed(&mut connect)?;
    complete(&a, &b, connect)?;
    let found = a.connector.local_address()?;
    ensure!(found.port() == u16::from_be(port), "port {} was asked for; it is {found}", u16::from_be(port));
    ensure!(b.connector.peer_address()? == found, "the peer sees another address");
    let other = a.adapter.connector()?;
    let endpoint = other.endpoint(&a.receive_cq, &a.initiator_cq, EndpointSize::default())?;
    let again = end_of(other.connect_from(endpoint.com.as_raw(), address, port, &[]))?;
    is(again, STATUS_SHARING_VIOLATION, "the same port once more")?;
    // docs/decisions.md: a connector keeps its first port.
    let other = a.adapter.connector()?;
    let listening = end_of(other.connect_from(endpoint.com.as_raw(), address, address.port().to_be(), &[]))?;
    is(listening, STATUS_SHARING_VIOLATION, "the port of a listener")
}

// Shows V32.
pub(in crate::nd) fn refused_connects(nd: &Nd) -> anyhow::Result<()> {
    let a = End::new(nd)?;
    let (listen, address) = a.listener()?;
    drop(listen);
    let connect = |to: SocketAddr| end_of(a.connector.connect(&a.qp, to, &[]));
    is(connect(address)?, STATUS_CONNECTION_REFUSED, "nobody listens")?;
    is(connect("0.0.0.0:5000".parse()?)?, STATUS_BAD_NETWORK_NAME, "the unspecified address")?;
    is(connect("224.0.0.1:5000".parse()?)?, STATUS_NETWORK_UNREACHABLE, "an address of nobody")?;
    ensure!(connect("[2001:db8::77]:5000".parse()?)? != STATUS_SUCCESS, "an address of the other family");
    for (what, refused) in [
        ("half an address", a.connector.connect_raw(&a.qp, &[2, 0, 0x12, 0x34], 6)),
        ("no address", a.connector.connect_raw(&a.qp, &[], 6)),
        ("UDP", a.connector.connect_raw(&a.qp, &ipv4(address), 17)),
    ] {
        ensure!(refused.is_err(), "{what}: the connect was not refused");
    }
    // The connector and its endpoint can still be used.
    let Asked { connect, _listener, a, b } = ask(a, End::new(nd)?, |a, address| V1::connect(a, address, &[]))?;
    complete(&a, &b, connect)
}

pub(in crate::nd) fn wrong_endpoints(nd: &Nd) -> anyhow::Result<()> {
    let Asked { connect, _listener, a, b } = asked::<V1>(nd)?;
    let (_other, address) = b.listener()?;
    let fresh = a.adapter.connector()?;
    let of_2 = nd.adapter()?.0;
    let cq = of_2.cq(16)?;
    let of_2 = of_2.qp(&cq, &cq, QpSize::default())?;
    for object in [ptr::null_mut(), a.adapter.com.as_raw(), fresh.com.as_raw(), b.qp.com.as_raw(), of_2.com.as_raw()] {
        ensure!(fresh.connect_from(object, address, 0, &[]).is_err(), "Connect with no endpoint of the adapter");
    }
    for object in
        [ptr::null_mut(), b.adapter.com.as_raw(), b.connector.com.as_raw(), a.qp.com.as_raw(), of_2.com.as_raw()]
    {
        ensure!(b.connector.accept_for(object, &[]).is_err(), "Accept with no endpoint of the adapter");
    }
    // None of that did any harm.
    complete(&a, &b, connect)
}

pub(in crate::nd) fn states(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let fresh = pair.a.adapter.connector()?;
    let endpoint = fresh.endpoint(&pair.a.receive_cq, &pair.a.initiator_cq, EndpointSize::default())?;
    refused(fresh.complete_connect(), STATUS_CONNECTION_INVALID, "CompleteConnect of a fresh connector")?;
    refused(fresh.data().map(drop), STATUS_CONNECTION_INVALID, "GetConnectionData of a fresh connector")?;
    is(end_of(fresh.disconnect())?, STATUS_CONNECTION_INVALID, "Disconnect of a fresh connector")?;
    is(end_of(fresh.notify_disconnect())?, STATUS_CONNECTION_INVALID, "NotifyDisconnect of a fresh connector")?;
    ensure!(fresh.reject(&[]).is_err(), "Reject of a fresh connector");
    ensure!(end_of(fresh.accept(&endpoint, &[]))? != STATUS_SUCCESS, "Accept of a fresh connector");
    let unknown: [fn(&Connector) -> anyhow::Result<SocketAddr>; 2] =
        [|fresh| fresh.local_address(), |fresh| fresh.peer_address()];
    for address in unknown {
        ensure!(address(&fresh).is_err(), "a fresh connector has an address");
    }
    let again = end_of(pair.a.connector.connect(&pair.a.qp, pair.b.address, &[]))?;
    is(again, STATUS_CONNECTION_ACTIVE, "Connect of a connected connector")?;
    let again = end_of(pair.b.connector.accept(&pair.b.qp, &[]))?;
    ensure!(again != STATUS_SUCCESS, "Accept of a connected connector succeeded");
    refused(pair.b.connector.complete_connect(), STATUS_CONNECTION_INVALID, "CompleteConnect of the passive side")
}
