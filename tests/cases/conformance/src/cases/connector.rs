//! Making connections.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    status::{
        STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED,
        STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_INVALID_BUFFER_SIZE,
        STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
    },
};

use crate::{
    Carrier,
    bench::{Bench, Skipped},
    client::{Connector, Listener, ReadLimits, Request},
    error,
    pair::{End, Pair, Site, connect, ensure_same, exchange, pattern, refused, when_free},
    transport::Completion,
};

const LIMIT: usize = 508;

/// Two ends in the middle of connecting: `a`'s connect is pending, `b` has the request.
struct Asked {
    a: End,
    b: End,
    connect: Request,
    listener: Listener,
}

impl Asked {
    fn new(bench: &Bench<'_>, private_data: &[u8], limits: ReadLimits) -> anyhow::Result<Self> {
        let a = Site::new(bench)?.end()?;
        let b = Site::new(&bench.there())?.end()?;
        let (listener, address) = b.site.listener()?;
        let request = listener.connection_request(&b.connector);
        a.connector.bind(a.site.address)?;
        let mut connect = a.connector.connect(&a.qp, address, limits, private_data);
        request.finish_unless_failed(&mut connect).context("the connection request")?;
        Ok(Self { a, b, connect, listener })
    }
}

/// The private data of the peer: what was sent; a provider may pad it with zeros.
fn ensure_private_data(connector: &Connector, sent: &[u8]) -> anyhow::Result<()> {
    let completion = connector.private_data(1024)?;
    ensure!(completion.status == STATUS_SUCCESS, "private data: {}", completion.status);
    ensure!(completion.output.len() >= sent.len(), "{} bytes of {}", completion.output.len(), sent.len());
    let (data, padding) = completion.output.split_at(sent.len());
    ensure_same(data, sent)?;
    ensure!(padding.iter().all(|byte| *byte == 0), "private data is padded with something");
    Ok(())
}

/// Connects over addresses of one family with private data both ways, and checks what each side knows.
fn connects_on(bench: &Bench<'_>, family: fn(&SocketAddr) -> bool) -> anyhow::Result<()> {
    let at = |bench: &Bench<'_>| -> anyhow::Result<Option<End>> {
        let Some(address) = bench.client()?.addresses()?.into_iter().find(family) else { return Ok(None) };
        Ok(Some(Site { address: SocketAddr::new(address.ip(), 0), ..Site::new(bench)? }.end()?))
    };
    let (Some(a), Some(b)) = (at(bench)?, at(&bench.there())?) else {
        return Err(Skipped("an adapter has no address of the family").into());
    };
    let (listener, address) = b.site.listener()?;
    let request = listener.connection_request(&b.connector);
    a.connector.bind(a.site.address)?;
    let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), b"from the initiator");
    request.finish_unless_failed(&mut connect).context("the connection request")?;
    ensure_private_data(&b.connector, b"from the initiator").context("at the listener")?;
    let from = b.connector.peer_address()?.context("the peer has no address")?;
    ensure!(from.ip() == a.site.address.ip() && from.port() != 0, "the request comes from {from}");
    let accept = b.connector.accept(&b.qp, ReadLimits::default(), b"from the listener, a little longer");
    connect.finish().context("connecting")?;
    ensure_private_data(&a.connector, b"from the listener, a little longer").context("at the initiator")?;
    a.connector.complete_connect().finish().context("completing the connection")?;
    accept.finish().context("accepting")?;
    for (what, found, expected) in [
        ("the initiator", a.connector.address()?, from),
        ("the initiator's peer", a.connector.peer_address()?, address),
        ("the listener's side", b.connector.address()?, address),
        ("the listener's peer", b.connector.peer_address()?, from),
    ] {
        ensure!(found == Some(expected), "{what} is at {found:?} instead of {expected}");
    }
    exchange(&a, &b, &pattern(1, 5000))?;
    exchange(&b, &a, &pattern(2, 5000))
}

// Shows P21, P23, S701, S812 (processes).
pub(super) fn connects(bench: &Bench<'_>) -> anyhow::Result<()> {
    connects_on(bench, SocketAddr::is_ipv4)
}

pub(super) fn ipv6(bench: &Bench<'_>) -> anyhow::Result<()> {
    connects_on(bench, SocketAddr::is_ipv6)
}

// Shows P23.
pub(super) fn read_limits(bench: &Bench<'_>) -> anyhow::Result<()> {
    // (a's limits, b's limits): effective inbound = min(own inbound, peer's outbound, adapter's maximum), and the reverse.
    for (ours, theirs) in [((8, 8), (8, 8)), ((4, 9), (7, 2)), ((0, 16), (16, 0)), ((u32::MAX, 65), (1000, u32::MAX))] {
        let of = |(inbound, outbound)| ReadLimits { inbound, outbound };
        let asked = Asked::new(bench, &[], of(ours))?;
        let accept = asked.b.connector.accept(&asked.b.qp, of(theirs), &[]);
        asked.connect.finish()?;
        asked.a.connector.complete_connect().finish()?;
        accept.finish()?;
        let a_in = ours.0.min(theirs.1).min(64);
        let a_out = ours.1.min(theirs.0).min(64);
        let found = (asked.a.connector.read_limits()?, asked.b.connector.read_limits()?);
        ensure!(
            found == (of((a_in, a_out)), of((a_out, a_in))),
            "{ours:?} and {theirs:?} gave {found:?}, expected {a_in} in and {a_out} out at the initiator"
        );
    }
    Ok(())
}

// Shows P20, P22, S702.
pub(super) fn private_data(bench: &Bench<'_>) -> anyhow::Result<()> {
    let long = pattern(1, LIMIT + 1);
    let a = Site::new(bench)?.end()?;
    let b = Site::new(&bench.there())?.end()?;
    let (listener, address) = b.site.listener()?;
    let request = listener.connection_request(&b.connector);
    a.connector.bind(a.site.address)?;
    let connect = |data| a.connector.connect(&a.qp, address, ReadLimits::default(), data);
    refused(connect(&long).finish(), STATUS_INVALID_BUFFER_SIZE, "connecting with 509 bytes")?;
    let mut pending = connect(&long[..LIMIT]);
    request.finish_unless_failed(&mut pending).context("connecting with 508 bytes after 509 were refused")?;
    ensure_private_data(&b.connector, &long[..LIMIT])?;
    for room in [0, 1, LIMIT - 1] {
        let completion = b.connector.private_data(room)?;
        ensure!(completion.status == STATUS_BUFFER_OVERFLOW, "a buffer of {room} bytes: {}", completion.status);
        ensure!(completion.information >= LIMIT, "{} bytes needed", completion.information);
        ensure_same(&completion.output, &long[..room]).context("the partial copy")?;
    }
    let accept = |data| b.connector.accept(&b.qp, ReadLimits::default(), data);
    refused(accept(&long).finish(), STATUS_INVALID_BUFFER_SIZE, "accepting with 509 bytes")?;
    refused(b.connector.reject(&long), STATUS_INVALID_BUFFER_SIZE, "rejecting with 509 bytes")?;
    let accepted = accept(&long[1..]);
    pending.finish().context("accepted with 508 bytes after 509 were refused")?;
    ensure_private_data(&a.connector, &long[1..])?;
    a.connector.complete_connect().finish()?;
    accepted.finish()?;
    exchange(&a, &b, b"it works")
}

fn is_aborted<T>(result: &error::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.status() == Some(STATUS_CONNECTION_ABORTED))
}

// Shows S703.
pub(super) fn nobody_listens(bench: &Bench<'_>) -> anyhow::Result<()> {
    let a = Site::new(bench)?.end()?;
    let b = Site::new(&bench.there())?.end()?;
    let (listener, address) = b.site.listener()?;
    listener.free()?;
    // After the connect of one connector has failed, another connector can use the queue pair.
    let first = Connector::new(&a.site.adapter)?;
    first.bind(a.site.address)?;
    a.connector.bind(a.site.address)?;
    let deadline = Instant::now() + a.site.client.patience();
    for connector in [&first, &a.connector, &a.connector] {
        let connect = || connector.connect(&a.qp, address, ReadLimits::default(), &[]).finish();
        let mut result = connect();
        // TCP still accepts connections for a moment after the listener is freed, and resets them.
        while a.site.carrier == Carrier::Wire && is_aborted(&result) && Instant::now() < deadline {
            result = connect();
        }
        refused(result, STATUS_CONNECTION_REFUSED, "nobody listens")?;
    }
    first.free()?;
    // The connector and its queue pair can be used for another try (nc-ndkpi-ndk_fn_connect).
    let again = Listener::new(&b.site.adapter)?;
    when_free(b.site.client.patience(), || again.bind(address))?;
    again.listen(0)?;
    let request = again.connection_request(&b.connector);
    let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[]);
    request.finish_unless_failed(&mut connect)?;
    let accept = b.connector.accept(&b.qp, ReadLimits::default(), &[]);
    connect.finish().context("when somebody listens")?;
    a.connector.complete_connect().finish()?;
    accept.finish()?;
    exchange(&a, &b, b"it works")
}

// Shows P21.
pub(super) fn rejected(bench: &Bench<'_>) -> anyhow::Result<()> {
    for data in [&b"go away"[..], &[], &pattern(3, LIMIT)] {
        let asked = Asked::new(bench, &[], ReadLimits::default())?;
        asked.b.connector.reject(data)?;
        refused(asked.connect.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")?;
        ensure_private_data(&asked.a.connector, data).context("the private data of the reject")?;
    }
    Ok(())
}

// Shows S704.
pub(super) fn initiator_backs_out(bench: &Bench<'_>) -> anyhow::Result<()> {
    for reject in [true, false] {
        let asked = Asked::new(bench, &[], ReadLimits::default())?;
        let mut accept = asked.b.connector.accept(&asked.b.qp, ReadLimits::default(), &[]);
        asked.connect.finish()?;
        if reject {
            asked.a.connector.reject(b"changed my mind")?;
        } else {
            asked.a.connector.free()?;
        }
        // The page says CONNECTION_ABORTED, existing programs expect CONNECTION_REFUSED.
        let status = accept.status()?;
        ensure!(status == STATUS_CONNECTION_REFUSED, "reject {reject}: the accept ended with {status}");
    }
    Ok(())
}

pub(super) fn freed_before_accept(bench: &Bench<'_>) -> anyhow::Result<()> {
    // The consumer frees the connector that has the request.
    let asked = Asked::new(bench, &[], ReadLimits::default())?;
    asked.b.connector.free()?;
    refused(asked.connect.finish(), STATUS_CONNECTION_REFUSED, "the request was freed")?;
    // The consumer frees the listener, without having asked for requests.
    let a = Site::new(bench)?.end()?;
    let site = Site::new(&bench.there())?;
    let (listener, address) = site.listener()?;
    a.connector.bind(a.site.address)?;
    let connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[]);
    a.site.client.pended(1)?;
    listener.free()?;
    // Over the wire nothing says whether the request was in its queue.
    let wire = a.site.carrier == Carrier::Wire;
    let result = connect.finish();
    if wire && is_aborted(&result) {
        return Ok(());
    }
    refused(result, STATUS_CONNECTION_REFUSED, "the listener was freed with the request in its queue")
}

pub(super) fn used_queue_pair(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (listener, address) = pair.b.site.listener()?;
    let third = pair.a.site.end()?;
    third.connector.bind(third.site.address)?;
    let connect_with = |end: &End| third.connector.connect(&end.qp, address, ReadLimits::default(), &[]);
    refused(connect_with(&pair.a).finish(), STATUS_CONNECTION_ACTIVE, "connecting a connected queue pair")?;
    let fourth = pair.b.site.end()?;
    let request = listener.connection_request(&fourth.connector);
    let mut pending = connect_with(&third);
    request.finish_unless_failed(&mut pending)?;
    let accept = fourth.connector.accept(&pair.b.qp, ReadLimits::default(), &[]);
    refused(accept.finish(), STATUS_CONNECTION_ACTIVE, "accepting with a connected queue pair")?;
    // The request can still be accepted.
    let accept = fourth.connector.accept(&fourth.qp, ReadLimits::default(), &[]);
    pending.finish()?;
    third.connector.complete_connect().finish()?;
    accept.finish()?;
    exchange(&third, &fourth, b"new")?;
    // The connection does not end with a connector that was refused.
    let late = Connector::new(&pair.a.site.adapter)?;
    late.bind(pair.a.site.address)?;
    let connect = late.connect(&pair.a.qp, address, ReadLimits::default(), &[]);
    refused(connect.finish(), STATUS_CONNECTION_ACTIVE, "connecting a connected queue pair again")?;
    late.free()?;
    exchange(&pair.a, &pair.b, b"old")?;
    // Not even after it was disconnected: a queue pair serves one connection (NDKPI "disconnect scheme").
    pair.a.connector.disconnect().finish()?;
    let fifth = Connector::new(&pair.a.site.adapter)?;
    fifth.bind(pair.a.site.address)?;
    let again = fifth.connect(&pair.a.qp, address, ReadLimits::default(), &[]).finish();
    ensure!(again.as_ref().is_err_and(|error| error.status().is_some()), "a used queue pair: {again:?}");
    Ok(())
}

// Shows S705.
pub(super) fn states(bench: &Bench<'_>) -> anyhow::Result<()> {
    let a = Site::new(bench)?.end()?;
    let b = Site::new(&bench.there())?.end()?;
    let fresh = &a.connector;
    for (what, result) in [
        ("completing", fresh.complete_connect().finish().map(drop)),
        ("accepting", fresh.accept(&a.qp, ReadLimits::default(), &[]).finish().map(drop)),
        ("rejecting", fresh.reject(&[])),
        ("disconnecting", fresh.disconnect().finish().map(drop)),
        ("waiting for a disconnect", fresh.notify_disconnect().finish().map(drop)),
        ("asking for the peer's address", fresh.peer_address().map(drop)),
        ("asking for the read limits", fresh.read_limits().map(drop)),
    ] {
        refused(result, STATUS_CONNECTION_INVALID, &format!("{what}, not connected"))?;
    }
    let completion = fresh.private_data(508)?;
    ensure!(completion.status == STATUS_CONNECTION_INVALID, "private data, not connected: {}", completion.status);
    // None of it did any harm.
    let (listener, address) = b.site.listener()?;
    connect(&a, &b, &listener, address)?;
    exchange(&a, &b, b"it works")?;
    refused(a.connector.complete_connect().finish(), STATUS_CONNECTION_INVALID, "completing twice")?;
    let again = a.connector.connect(&a.qp, address, ReadLimits::default(), &[]).finish();
    ensure!(again.as_ref().is_err_and(|error| error.status().is_some()), "connecting twice: {again:?}");
    exchange(&b, &a, b"still works")?;
    drop((a, b));
    Ok(())
}

pub(super) fn cancelled(bench: &Bench<'_>) -> anyhow::Result<()> {
    // By CANCEL_IO, by itself, by freeing the connector; the request may be with the listener or in its queue.
    for (how, taken) in [(0, true), (1, true), (2, true), (0, false), (1, false), (2, false)] {
        let a = Site::new(bench)?.end()?;
        let b = Site::new(&bench.there())?.end()?;
        let (listener, address) = b.site.listener()?;
        a.connector.bind(a.site.address)?;
        let mut connect = a.connector.connect(&a.qp, address, ReadLimits::default(), &[]);
        a.site.client.pended(1)?;
        if taken {
            listener.connection_request(&b.connector).finish()?;
        }
        match how {
            0 => a.connector.cancel_io()?,
            1 => connect.cancel(),
            _ => a.connector.free()?,
        }
        let status = connect.status().with_context(|| format!("way {how}, request taken {taken}"))?;
        ensure!(status == STATUS_CANCELLED, "way {how}, request taken {taken}: {status}");
        if taken {
            let mut accept = b.connector.accept(&b.qp, ReadLimits::default(), &[]);
            let status = accept.status().with_context(|| format!("accepting after way {how}"))?;
            ensure!(!status.is_success(), "way {how}: a cancelled connect was accepted: {status}");
        }
        drop((a, b));
    }
    Ok(())
}

pub(super) fn binds(bench: &Bench<'_>) -> anyhow::Result<()> {
    let a = Site::new(bench)?.end()?;
    let b = Site::new(&bench.there())?.end()?;
    let (listener, address) = b.site.listener()?;
    let limits = ReadLimits::default();
    let completion = a.connector.address_sized(size_of::<SOCKADDR_INET>())?;
    ensure!(completion.status == STATUS_CONNECTION_INVALID, "the address before a bind: {}", completion.status);
    let connect = |connector: &Connector| connector.connect(&a.qp, address, limits, &[]);
    // The listener has the address, so the connect is refused; the queue pair can still be used.
    let (_other, taken) = a.site.listener()?;
    let in_use = Connector::new(&a.site.adapter)?;
    in_use.bind(taken)?;
    refused(in_use.bind(a.site.address), STATUS_ADDRESS_ALREADY_ASSOCIATED, "binding twice")?;
    ensure!(in_use.address()? == Some(taken), "the address it is bound to");
    refused(connect(&in_use).finish(), STATUS_SHARING_VIOLATION, "connecting from an address in use")?;
    in_use.free()?;
    // Bound to a port, that is where it connects from.
    let port = {
        let (free, local) = a.site.listener()?;
        free.free()?;
        local
    };
    a.connector.bind(port)?;
    let request = listener.connection_request(&b.connector);
    let mut pending = connect(&a.connector);
    request.finish_unless_failed(&mut pending)?;
    let peer = b.connector.peer_address()?;
    ensure!(peer == Some(port), "bound to {port}, it connects from {peer:?}");
    b.connector.reject(&[])?;
    refused(pending.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")?;
    // Without a bind the adapter picks an address and a port.
    let free = Connector::new(&a.site.adapter)?;
    let third = b.site.end()?;
    let request = listener.connection_request(&third.connector);
    let mut pending = connect(&free);
    request.finish_unless_failed(&mut pending).context("connecting without a bind")?;
    let picked = third.connector.peer_address()?.context("the peer has no address")?;
    ensure!(a.site.ports.contains(&picked.port()), "it picked port {}", picked.port());
    third.connector.reject(&[])?;
    refused(pending.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")
}

pub(super) fn address_buffers(bench: &Bench<'_>) -> anyhow::Result<()> {
    let asked = Asked::new(bench, &[], ReadLimits::default())?;
    let accept = asked.b.connector.accept(&asked.b.qp, ReadLimits::default(), &[]);
    asked.connect.finish()?;
    let needed = size_of::<SOCKADDR_INET>();
    type Query<'a> = (&'a str, &'a dyn Fn(usize) -> crate::error::Result<Completion>);
    let queries: [Query<'_>; 5] = [
        ("the listener's", &|room| asked.listener.address_sized(room)),
        ("the initiator's", &|room| asked.a.connector.address_sized(room)),
        ("the initiator's peer's", &|room| asked.a.connector.peer_address_sized(room)),
        ("the listener's side's", &|room| asked.b.connector.address_sized(room)),
        ("that side's peer's", &|room| asked.b.connector.peer_address_sized(room)),
    ];
    for (what, query) in queries {
        for room in [0, 1, needed - 1] {
            let completion = query(room)?;
            let found = (completion.status, completion.information);
            ensure!(found == (STATUS_BUFFER_OVERFLOW, needed), "{what} address in {room} bytes: {found:?}");
        }
        for room in [needed, needed + 50] {
            let completion = query(room)?;
            let found = (completion.status, completion.information, completion.output.len());
            ensure!(found == (STATUS_SUCCESS, needed, needed), "{what} address in {room} bytes: {found:?}");
        }
    }
    asked.a.connector.complete_connect().finish()?;
    accept.finish()?;
    exchange(&asked.a, &asked.b, b"it works")
}
