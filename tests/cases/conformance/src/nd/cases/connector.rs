//! IND2Connector up to the connection.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{
    NTSTATUS, STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_NETWORK_UNREACHABLE,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
};
use std::net::SocketAddr;

use super::both::connector::{Asked, ask, asked};
use crate::{
    nd::{
        client::{
            QpSize, ReadLimits,
            both::{Connector as _, QueuePair as _},
            end_of,
        },
        ends::complete,
        interfaces::{Interfaces as _, V2},
        pair::{End, Pair, is},
        run::Nd,
    },
    pair::{pattern, refused},
};

/// Where a request that connects to an unspecified address ends (existing programs look for it); has no ND name.
pub(in crate::nd) const STATUS_BAD_NETWORK_NAME: NTSTATUS = NTSTATUS::from_u32(0xc000_00cc);

fn ask_with(nd: &Nd, limits: ReadLimits, data: &[u8]) -> anyhow::Result<Asked<V2>> {
    ask(End::new(nd)?, End::new(nd)?, |a, address| {
        a.connector.bind(a.address)?;
        a.connector.connect(&a.qp, address, limits, data)
    })
}

// Shows N84, N88, N89, N98, N103.
pub(in crate::nd) fn connects(nd: &Nd) -> anyhow::Result<()> {
    let (to_b, to_a) = (pattern(1, 100), pattern(2, 33));
    let asked = ask_with(nd, ReadLimits { inbound: 3, outbound: 5 }, &to_b)?;
    let (a, b) = (&asked.a, &asked.b);
    let starts = |found: Vec<u8>, sent: &[u8]| found.starts_with(sent);
    ensure!(starts(b.connector.private_data()?, &to_b), "the private data that the listener got");
    // What one side takes in is what the other may have under way.
    ensure!(b.connector.read_limits()? == ReadLimits { inbound: 5, outbound: 3 }, "limits of the request");
    let accept = b.connector.accept(&b.qp, ReadLimits { inbound: 4, outbound: 9 }, &to_a)?;
    let (mut connect, mut accept) = (asked.connect, accept);
    is(connect.status()?, STATUS_SUCCESS, "Connect")?;
    ensure!(!accept.is_over(), "Accept is over before CompleteConnect");
    ensure!(starts(a.connector.private_data()?, &to_a), "the private data that the initiator got");
    ensure!(a.connector.read_limits()? == ReadLimits { inbound: 3, outbound: 4 }, "limits of the answer");
    a.connector.complete_connect()?;
    is(accept.status()?, STATUS_SUCCESS, "Accept")?;
    let (own, peer) = (a.connector.local_address()?, a.connector.peer_address()?);
    ensure!(own == b.connector.peer_address()?, "the initiator's address is not what its peer sees");
    ensure!(peer == b.connector.local_address()?, "the listener's address is not what its peer sees");
    ensure!(own.ip() == a.address.ip() && own.port() >= 49152, "the initiator is at {own}");
    Ok(())
}

pub(in crate::nd) fn ipv6(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let addresses = a.adapter.addresses()?;
    let Some(address) = addresses.iter().find(|address| address.is_ipv6()) else {
        nd.note("not tried: the adapter has no IPv6 address".to_owned());
        return Ok(());
    };
    let address = SocketAddr::new(address.ip(), 0);
    let listener = b.adapter.listener()?;
    listener.bind(address)?;
    listener.listen(0)?;
    let request = listener.connection_request(&b.connector)?;
    a.connector.bind(address)?;
    let mut connect = a.connector.connect(&a.qp, listener.local_address()?, ReadLimits::default(), &[])?;
    request.finish_unless_failed(&mut connect)?;
    complete(&a, &b, connect)?;
    ensure!(a.connector.local_address()? == b.connector.peer_address()?, "the addresses differ");
    Ok(())
}

// Shows N92, N93.
pub(in crate::nd) fn refused_connects(nd: &Nd) -> anyhow::Result<()> {
    let a = End::new(nd)?;
    let (listener, address) = a.listener()?;
    drop(listener);
    a.connector.bind(a.address)?;
    let limits = ReadLimits::default();
    let connect = |to: SocketAddr| end_of(a.connector.connect(&a.qp, to, limits, &[]));
    is(connect(address)?, STATUS_CONNECTION_REFUSED, "nobody listens")?;
    is(connect("0.0.0.0:5000".parse()?)?, STATUS_BAD_NETWORK_NAME, "the unspecified address")?;
    is(connect("224.0.0.1:5000".parse()?)?, STATUS_NETWORK_UNREACHABLE, "an address of nobody")?;
    // The connector can still be used.
    let Asked { connect, _listener, a, b } = ask(a, End::new(nd)?, |a, address| V2::connect(a, address, &[]))?;
    complete(&a, &b, connect)
}

// Shows N85, N86.
pub(in crate::nd) fn binds(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    end.connector.bind(end.address)?;
    refused(end.connector.bind(end.address), STATUS_ADDRESS_ALREADY_ASSOCIATED, "a second Bind")?;
    let (_listener, taken) = end.listener()?;
    let other = end.adapter.connector()?;
    // Not before it connects: docs/decisions.md.
    let connected = other.bind(taken).and_then(|()| other.connect(&end.qp, taken, ReadLimits::default(), &[]));
    is(end_of(connected)?, STATUS_SHARING_VIOLATION, "from an address in use")?;
    let third = end.adapter.connector()?;
    ensure!(third.bind("192.0.2.77:0".parse()?).is_err(), "an address of nobody was bound");
    third.bind(end.address).context("the connector is usable")?;
    Ok(())
}

// Shows N94, N97, N109.
pub(in crate::nd) fn states(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let fresh = pair.a.adapter.connector()?;
    refused(fresh.complete_connect(), STATUS_CONNECTION_INVALID, "CompleteConnect of a fresh connector")?;
    refused(fresh.read_limits(), STATUS_CONNECTION_INVALID, "GetReadLimits of a fresh connector")?;
    is(end_of(fresh.disconnect())?, STATUS_CONNECTION_INVALID, "Disconnect of a fresh connector")?;
    is(end_of(fresh.notify_disconnect())?, STATUS_CONNECTION_INVALID, "NotifyDisconnect of a fresh connector")?;
    let limits = ReadLimits::default();
    let again = end_of(pair.a.connector.connect(&pair.a.qp, pair.b.address, limits, &[]))?;
    is(again, STATUS_CONNECTION_ACTIVE, "Connect of a connected connector")?;
    let again = end_of(pair.b.connector.accept(&pair.b.qp, limits, &[]))?;
    ensure!(again != STATUS_SUCCESS, "Accept of a connected connector succeeded");
    Ok(())
}

/// Connects from the port that Bind asked for.
// Shows N84.
pub(in crate::nd) fn chosen_port(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    // A free port: its listener has been released.
    let (gone, own) = a.listener()?;
    drop(gone);
    let (listener, address) = b.listener()?;
    let request = listener.connection_request(&b.connector)?;
    a.connector.bind(own)?;
    let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[])?;
    request.finish_unless_failed(&mut connect)?;
    ensure!(b.connector.peer_address()? == own, "{own} was asked for, the peer sees {}", b.connector.peer_address()?);
    b.connector.reject(&[])?;
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")
}

/// Limits above the adapter's are no error: they are made smaller.
// Shows N89.
pub(in crate::nd) fn limits_clamped(nd: &Nd) -> anyhow::Result<()> {
    const ALL: ReadLimits = ReadLimits { inbound: u32::MAX, outbound: u32::MAX };
    let mut asked = ask_with(nd, ALL, &[])?;
    let info = asked.a.adapter.info()?;
    let fits = |found: ReadLimits| {
        (1..=info.MaxInboundReadLimit).contains(&found.inbound)
            && (1..=info.MaxOutboundReadLimit).contains(&found.outbound)
    };
    let found = asked.b.connector.read_limits()?;
    ensure!(fits(found), "the request has {found:?}");
    let accept = asked.b.connector.accept(&asked.b.qp, ALL, &[])?;
    is(asked.connect.status()?, STATUS_SUCCESS, "Connect")?;
    let found = asked.a.connector.read_limits()?;
    ensure!(fits(found), "the answer has {found:?}");
    asked.a.connector.complete_connect()?;
    Ok(accept.finish()?)
}

/// A call without a buffer gets the length, also if there is no private data.
// Shows N107.
pub(in crate::nd) fn no_private_data(nd: &Nd) -> anyhow::Result<()> {
    let asked = asked::<V2>(nd)?;
    let (status, length, _) = asked.b.connector.private_data_raw(0);
    is(status, STATUS_BUFFER_OVERFLOW, "the length of no private data")?;
    let (status, again, data) = asked.b.connector.private_data_raw(length.max(1));
    is(status, STATUS_SUCCESS, "no private data, into a buffer")?;
    ensure!(again == length, "now it has {again} bytes, before {length}");
    // A length may be rounded up; then it is filled up with zeroes.
    ensure!(data[..again].iter().all(|byte| *byte == 0), "private data that nobody sent: {data:?}");
    Ok(())
}

/// What a connector knows of a connection, before there is one.
// Shows N104.
pub(in crate::nd) fn nothing_yet(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let fresh = adapter.connector()?;
    refused(fresh.read_limits(), STATUS_CONNECTION_INVALID, "GetReadLimits")?;
    is(fresh.private_data_raw(64).0, STATUS_CONNECTION_INVALID, "GetPrivateData")?;
    for ((status, _), what) in fresh.addresses_raw(64).into_iter().zip(["GetLocalAddress", "GetPeerAddress"]) {
        is(status, STATUS_CONNECTION_INVALID, what)?;
    }
    Ok(())
}

/// A connected queue pair cannot be connected again.
// Shows N94.
pub(in crate::nd) fn queue_pair_in_use(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (_listener, address) = pair.b.listener()?;
    let fresh = pair.a.adapter.connector()?;
    fresh.bind(pair.a.address)?;
    let again = end_of(fresh.connect(&pair.a.qp, address, ReadLimits::default(), &[]))?;
    is(again, STATUS_CONNECTION_ACTIVE, "Connect with a queue pair that is connected")?;
    // The connection still works.
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    is(pair.a.initiated()?.status, STATUS_SUCCESS, "the send")
}

/// Accept with a queue pair that is connected; the request can still be accepted with another.
// Shows N94.
pub(in crate::nd) fn accept_in_use(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (a, b) = (&pair.a, &pair.b);
    let (listener, address) = b.listener()?;
    let fresh = (a.adapter.connector()?, b.adapter.connector()?);
    let qps = [a, b].map(|end| end.adapter.qp(&end.receive_cq, &end.initiator_cq, QpSize::default()));
    let [a_qp, b_qp] = qps;
    let (a_qp, b_qp) = (a_qp?, b_qp?);
    let request = listener.connection_request(&fresh.1)?;
    fresh.0.bind(a.address)?;
    let mut connect = fresh.0.connect(&a_qp, address, ReadLimits::default(), &[])?;
    request.finish_unless_failed(&mut connect)?;
    let in_use = end_of(fresh.1.accept(&b.qp, ReadLimits::default(), &[]))?;
    is(in_use, STATUS_CONNECTION_ACTIVE, "Accept with a queue pair that is connected")?;
    let accept = fresh.1.accept(&b_qp, ReadLimits::default(), &[])?;
    is(connect.status()?, STATUS_SUCCESS, "Connect")?;
    fresh.0.complete_connect()?;
    Ok(accept.finish()?)
}

/// The initiator has closed when the request is rejected.
// Shows N101.
pub(in crate::nd) fn rejected_late(nd: &Nd) -> anyhow::Result<()> {
    let Asked { connect, _listener, a, b } = asked::<V2>(nd)?;
    drop((connect, a));
    let status = b.connector.reject(&[]).map_or_else(|error| error.status(), |()| Some(STATUS_SUCCESS));
    let is_documented = [Some(STATUS_SUCCESS), Some(STATUS_CONNECTION_ABORTED)].contains(&status);
    ensure!(is_documented, "Reject of a request whose initiator is gone: {status:?}");
    Ok(())
}

/// Accept waits for the initiator, and can be cancelled.
// Shows N95.
pub(in crate::nd) fn accept_cancelled(nd: &Nd) -> anyhow::Result<()> {
    let mut asked = asked::<V2>(nd)?;
    let mut accept = asked.b.connector.accept(&asked.b.qp, ReadLimits::default(), &[])?;
    is(asked.connect.status()?, STATUS_SUCCESS, "Connect")?;
    asked.b.connector.cancel()?;
    is(accept.status()?, STATUS_CANCELLED, "Accept that was cancelled")?;
    ensure!(asked.a.connector.complete_connect().is_err(), "a connection with an Accept that was cancelled");
    Ok(())
}
