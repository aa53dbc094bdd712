//! Listeners.

use std::{net::SocketAddr, thread, time::Instant};

use anyhow::{Context as _, ensure};
use ndk_abi::status::{
    STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_INVALID_ADDRESS,
    STATUS_INVALID_DEVICE_STATE, STATUS_SHARING_VIOLATION,
};

use crate::{
    bench::Bench,
    client::{Connector, Listener, ReadLimits, Request},
    pair::{End, Site, refused, when_free},
};

pub(super) fn ephemeral_ports(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let mut listeners = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..20 {
        let (listener, address) = site.listener()?;
        ensure!(address.ip() == site.address.ip(), "it listens on {address}, bound to {}", site.address.ip());
        ensure!(site.ports.contains(&address.port()), "port {}", address.port());
        ports.push(address.port());
        listeners.push(listener);
    }
    ports.sort_unstable();
    ports.dedup();
    ensure!(ports.len() == 20, "20 listeners share {} ports", ports.len());
    Ok(())
}

// Shows S706.
pub(super) fn in_use(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (site, other) = (Site::new(bench)?, Site::new(bench)?);
    let (listener, address) = site.listener()?;
    for site in [&site, &other] {
        let second = Listener::new(&site.adapter)?;
        // Bind may only note the address; then it is Listen that finds it in use.
        let result = second.bind(address).and_then(|()| second.listen(0));
        refused(result, STATUS_SHARING_VIOLATION, "listening on an address in use")?;
    }
    listener.free()?;
    let next = Listener::new(&other.adapter)?;
    when_free(site.client.patience(), || next.bind(address))?;
    next.listen(0).context("listening on the address after it became free")
}

pub(super) fn not_local(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    for address in ["203.0.113.77:5445", "[2001:db8:dead::77]:5445"] {
        let listener = Listener::new(&site.adapter)?;
        let result = listener.bind(address.parse()?).and_then(|()| listener.listen(0));
        refused(result, STATUS_INVALID_ADDRESS, address)?;
        let connector = Connector::new(&site.adapter)?;
        let end = site.end()?;
        let result = connector
            .bind(address.parse()?)
            .and_then(|()| connector.connect(&end.qp, site.address, ReadLimits::default(), &[]).finish().map(drop));
        refused(result, STATUS_INVALID_ADDRESS, &format!("connecting from {address}"))?;
    }
    Ok(())
}

pub(super) fn states(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let listener = Listener::new(&site.adapter)?;
    let connector = Connector::new(&site.adapter)?;
    refused(listener.listen(0), STATUS_INVALID_DEVICE_STATE, "listening before binding")?;
    let ask = listener.connection_request(&connector).finish();
    refused(ask, STATUS_INVALID_DEVICE_STATE, "asking for a request before listening")?;
    listener.bind(site.address)?;
    // IND2Listener::Bind on a bound listener, as clients rely on it.
    refused(listener.bind(site.address), STATUS_ADDRESS_ALREADY_ASSOCIATED, "binding twice")?;
    listener.listen(0)?;
    refused(listener.listen(0), STATUS_INVALID_DEVICE_STATE, "listening twice")
}

pub(super) fn cancelled(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let (listener, address) = site.listener()?;
    let connectors = (0..4).map(|_| Connector::new(&site.adapter)).collect::<crate::error::Result<Vec<_>>>()?;
    let mut requests: Vec<_> = connectors[..3].iter().map(|connector| listener.connection_request(connector)).collect();
    site.client.pended(3)?;
    requests[1].cancel();
    let status = requests[1].status()?;
    ensure!(status == STATUS_CANCELLED, "cancelled by itself: {status}");
    ensure!(!requests[0].is_over() && !requests[2].is_over(), "other requests ended too");
    listener.cancel_io()?;
    for index in [0, 2] {
        let status = requests[index].status()?;
        ensure!(status == STATUS_CANCELLED, "cancelled with all: {status}");
    }
    let mut request = listener.connection_request(&connectors[3]);
    site.client.pended(1)?;
    listener.free()?;
    let status = request.status().context("the listener was freed")?;
    ensure!(status == STATUS_CANCELLED, "cancelled by freeing: {status}");
    // No listener has the address.
    let end = site.end()?;
    end.connector.bind(site.address)?;
    let connect = end.connector.connect(&end.qp, address, ReadLimits::default(), &[]).finish();
    refused(connect, STATUS_CONNECTION_REFUSED, "connecting to a freed listener")
}

// Shows P26.
pub(super) fn queued(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (here, there) = (Site::new(bench)?, Site::new(&bench.there())?);
    let (listener, address) = there.listener()?;
    let ends = (0..4).map(|_| here.end()).collect::<crate::error::Result<Vec<End>>>()?;
    let mut connects = Vec::new();
    for (index, end) in ends.iter().enumerate() {
        end.connector.bind(here.address)?;
        connects.push(end.connector.connect(&end.qp, address, ReadLimits::default(), &[index as u8; 3]));
        here.client.pended(index as u32 + 1)?;
    }
    let mut served: Vec<End> = Vec::new();
    let mut found = Vec::new();
    for _ in 0..4 {
        let end = there.end()?;
        listener.connection_request(&end.connector).finish().context("a request that came before")?;
        let data = end.connector.private_data(508)?.output;
        ensure!(data.len() >= 3 && data[..3] == [data[0]; 3], "private data {data:?}");
        found.push(data[0]);
        served.push(end);
    }
    // NDKPI promises no order between connections.
    found.sort_unstable();
    ensure!(found == [0, 1, 2, 3], "requests {found:?} came");
    // The two lists may differ in order: the case rejects all requests before it waits for a connect.
    for end in &served {
        end.connector.reject(&[])?;
    }
    for connect in connects {
        refused(connect.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")?;
    }
    Ok(())
}

// Shows P25, S708.
pub(super) fn backlog(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (here, there) = (Site::new(bench)?, Site::new(&bench.there())?);
    let listener = Listener::new(&there.adapter)?;
    listener.bind(there.address)?;
    listener.listen(2)?;
    let address = listener.address()?.context("the listener's address has an unknown family")?;
    let ends = (0..3).map(|_| here.end()).collect::<crate::error::Result<Vec<End>>>()?;
    let mut connects = Vec::new();
    for end in &ends {
        end.connector.bind(here.address)?;
        connects.push(end.connector.connect(&end.qp, address, ReadLimits::default(), &[]));
    }
    // They may arrive in another order than they were sent in: one of them is too many, whichever it is.
    let (mut refusals, deadline) = (Vec::new(), Instant::now() + here.client.patience());
    while refusals.is_empty() {
        ensure!(Instant::now() < deadline, "none of three connects was refused by a backlog of 2");
        let over = |(index, connect): (usize, &mut Request)| connect.is_over().then_some(index);
        refusals = connects.iter_mut().enumerate().filter_map(over).collect();
        thread::yield_now();
    }
    ensure!(refusals.len() == 1, "connects {refusals:?} of 3 are over, with a backlog of 2");
    let late = refusals[0];
    refused(connects.remove(late).finish(), STATUS_CONNECTION_REFUSED, "a connect beyond the backlog")?;
    // Taking one makes room for one.
    let taken = there.end()?;
    listener.connection_request(&taken.connector).finish().context("the first request of two")?;
    let end = &ends[late];
    connects.push(end.connector.connect(&end.qp, address, ReadLimits::default(), &[]));
    let (second, third) = (there.end()?, there.end()?);
    listener.connection_request(&second.connector).finish().context("the second request")?;
    listener.connection_request(&third.connector).finish().context("the request that found room")?;
    for end in [&taken, &second, &third] {
        end.connector.reject(&[])?;
    }
    for connect in connects {
        refused(connect.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")?;
    }
    Ok(())
}

// Shows S706.
pub(super) fn any_address(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (here, there) = (Site::new(bench)?, Site::new(&bench.there())?);
    let all = there.client.addresses()?;
    for any in ["0.0.0.0:0", "[::]:0"] {
        let any: SocketAddr = any.parse()?;
        let listener = Listener::new(&there.adapter)?;
        listener.bind(any)?;
        listener.listen(0)?;
        let local = listener.address()?.context("the listener's address has an unknown family")?;
        let picked = there.ports.contains(&local.port());
        ensure!(local.ip() == any.ip() && picked, "bound to {any}, it listens on {local}");
        for ip in all.iter().map(SocketAddr::ip).filter(|ip| ip.is_ipv4() == any.is_ipv4()) {
            let remote = SocketAddr::new(ip, local.port());
            let (ours, theirs) = (here.end()?, there.end()?);
            let request = listener.connection_request(&theirs.connector);
            let mut connect = ours.connector.connect(&ours.qp, remote, ReadLimits::default(), &[]);
            request.finish_unless_failed(&mut connect).with_context(|| format!("a request for {remote}"))?;
            let found = theirs.connector.address()?;
            ensure!(found == Some(remote), "the request for {remote} came to {found:?}");
            theirs.connector.reject(&[])?;
            refused(connect.finish(), STATUS_CONNECTION_REFUSED, "a rejected connect")?;
        }
    }
    Ok(())
}
