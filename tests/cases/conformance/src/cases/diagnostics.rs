//! Looks at the whole driver, as ndkctl takes them.

use std::{net::SocketAddr, thread, time::Instant};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_ALLOW_REMOTE_READ, NdkOperationTypeBind, NdkOperationTypeRead, NdkOperationTypeWrite},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::*,
    status::{STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
};
use zerocopy::IntoBytes as _;

use super::requests::send;
use crate::{
    Carrier,
    bench::Bench,
    client::{Client, Counters, Mw, ReadLimits},
    pair::{Pair, Site, exchange, expect},
};

/// The codes, and the bytes of output that each needs at least. All have inputs of two numbers.
const LOOKS: [(u32, usize); 6] = [
    (IOCTL_SOFTNDK_COUNTERS, size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_COUNTER>()),
    (IOCTL_SOFTNDK_ADAPTER, size_of::<SOFTNDK_ADAPTER>()),
    (IOCTL_SOFTNDK_ADDRESSES, size_of::<SOFTNDK_LIST>() + size_of::<SOCKADDR_INET>()),
    (IOCTL_SOFTNDK_ENDPOINTS, size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_ENDPOINT>()),
    (IOCTL_SOFTNDK_CABLE, SOFTNDK_CABLE_LENGTH),
    (IOCTL_SOFTNDK_FAULT_RULES, size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_FAULT_RULE>()),
];

// Shows S1504 (ioctl), S1504 (sim).
pub(super) fn refused(bench: &Bench<'_>) -> anyhow::Result<()> {
    for client in [bench.bare_client()?, bench.client()?] {
        for (code, needed) in LOOKS {
            let input = [1_u32, 0];
            for short in 0..input.as_bytes().len() {
                send(&client, code, &input.as_bytes()[..short], needed, STATUS_BUFFER_TOO_SMALL)?;
            }
            for version in [0, 2, u32::MAX] {
                send(&client, code, [version, 0].as_bytes(), needed, STATUS_INVALID_DEVICE_REQUEST)?;
            }
            for room in [0, 1, needed - 1] {
                let completion = client.begin(code, input.as_bytes(), room).completion()?;
                ensure!(
                    (completion.status, completion.information) == (STATUS_BUFFER_OVERFLOW, needed),
                    "code {code:#x}, {room} bytes of room: {}, {} bytes needed; it is {needed}",
                    completion.status,
                    completion.information
                );
            }
            // More room, and more input, do no harm.
            let output = client.begin(code, [1_u32, 0, 7].as_bytes(), needed + 100).finish()?.output;
            ensure!(output.len() <= needed + 100 && output[..4] == 1_u32.to_le_bytes(), "code {code:#x}: {output:x?}");
        }
    }
    Ok(())
}

/// Octets and frames.
type Volume = [u64; 2];

/// What was sent and what has arrived since `first`.
fn volumes(now: &Counters, first: &Counters) -> anyhow::Result<[Volume; 2]> {
    let since = |name| Ok::<_, anyhow::Error>(now.get(name)? - first.get(name)?);
    Ok([[since("out_octets")?, since("out_frames")?], [since("in_octets")?, since("in_frames")?]])
}

/// What two devices, or one, have counted, once what one has sent since `first` the other has received.
fn settled(a: &Client, b: &Client, first: &[Counters; 2]) -> anyhow::Result<[Counters; 2]> {
    let deadline = Instant::now() + a.patience();
    loop {
        let now = [a.counters()?, b.counters()?];
        let ([sent, received], [sent_there, received_there]) =
            (volumes(&now[0], &first[0])?, volumes(&now[1], &first[1])?);
        if (sent, sent_there) == (received_there, received) {
            return Ok(now);
        }
        ensure!(Instant::now() < deadline, "sent is not received: {now:?}, at first {first:?}");
        thread::yield_now();
    }
}

// Shows S1501 (ioctl), S1501 (sim).
pub(super) fn traffic(bench: &Bench<'_>) -> anyhow::Result<()> {
    let both = [bench.bare_client()?.counters()?, bench.there().bare_client()?.counters()?];
    let first = &both[0];
    let pair = Pair::new(bench)?;
    let (a, b) = (&pair.a.site.client, &pair.b.site.client);
    // Over a wire, an initiator that has received no frame sends a second RTR message, which counts as a frame: so the responder sends first.
    exchange(&pair.b, &pair.a, &[7])?;
    let [before, _] = settled(a, b, &both)?;
    // Its sides, of which one is elsewhere over a wire.
    let sides = if pair.a.site.carrier == Carrier::Device { 2 } else { 1 };
    let since = |name| Ok::<_, anyhow::Error>(before.get(name)? - first.get(name)?);
    let connected = [since("connects")?, since("active_connections")?];
    ensure!(connected == [1, sides], "connects and sides of a connection: {connected:?}");
    ensure!(b.counters()?.get("accepts")? > 0, "nothing was accepted");

    exchange(&pair.a, &pair.b, &[7; 1000])?;
    let (near, far) = (pair.a.site.buffer(5000)?, pair.b.site.buffer(5000)?);
    pair.a.qp.write(1, &[near.sge(0..3000)], far.remote(0), 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeWrite, 1, STATUS_SUCCESS)?;
    pair.a.qp.read(2, &[near.sge(0..5000)], far.remote(0), 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
    // It moves nothing.
    let window = Mw::new(&pair.a.site.pd)?;
    pair.a.qp.bind(3, &window, &near, 0..8, NDK_OP_FLAG_ALLOW_REMOTE_READ)?;
    expect(&pair.a.initiated()?, NdkOperationTypeBind, 3, STATUS_SUCCESS)?;
    let [after, _] = settled(a, b, &both)?;
    let moved = volumes(&after, &before)?;
    let expected = match pair.a.site.carrier {
        Carrier::Device => [[9000, 3], [9000, 3]],
        Carrier::Wire => [[4000, 2], [5000, 1]],
    };
    ensure!(moved == expected, "octets and frames, out and in: {moved:?}; they are {expected:?}");
    drop(pair);

    let site = Site::new(bench)?;
    let end = site.end()?;
    end.connector.bind(site.address)?;
    // A port that was free a moment ago.
    let nobody = site.listener()?.1;
    let failures = site.client.counters()?.get("connect_failures")?;
    let refused = end.connector.connect(&end.qp, nobody, ReadLimits::default(), &[]).status()?;
    ensure!(!refused.is_success(), "connected to nobody");
    let failures = site.client.counters()?.get("connect_failures")? - failures;
    ensure!(failures == 1, "{failures} failures of one connect");
    Ok(())
}

/// An endpoint as it is compared: kind, flags without SOFTNDK_ENDPOINT_USER, which must be set, and addresses.
type Endpoint = (u32, u32, Option<SocketAddr>, Option<SocketAddr>);

fn endpoints(client: &Client, at_a_time: usize) -> anyhow::Result<Vec<Endpoint>> {
    let mut all = Vec::new();
    for found in client.list::<SOFTNDK_ENDPOINT>(IOCTL_SOFTNDK_ENDPOINTS, at_a_time)? {
        ensure!(found.Flags & SOFTNDK_ENDPOINT_USER != 0 && found.ProcessId != 0, "whose is it: {found:?}");
        let flags = found.Flags & !SOFTNDK_ENDPOINT_USER;
        let (mut local, mut remote) = (found.Local.socket_addr(), found.Remote.socket_addr());
        // The case does not know the port of an attempt.
        let unknown = match (found.Kind, flags) {
            (SOFTNDK_ENDPOINT_ACTIVE, 0) => &mut local,
            (SOFTNDK_ENDPOINT_PASSIVE, 0) => &mut remote,
            _ => &mut None,
        };
        if let Some(address) = unknown {
            address.set_port(0);
        }
        all.push((found.Kind, flags, local, remote));
    }
    all.sort_unstable();
    Ok(all)
}

// Shows S1502 (ioctl), S1502 (sim).
pub(super) fn lists(bench: &Bench<'_>) -> anyhow::Result<()> {
    let observer = bench.bare_client()?;
    ensure!(endpoints(&observer, 8)?.is_empty(), "there is something: {:?}", endpoints(&observer, 8)?);
    let pair = Pair::new(bench)?;
    let (here, there) = (pair.a.connector.address()?, pair.listener.address()?);
    // A second connect, whose request is not answered.
    let waiting = pair.a.site.end()?;
    waiting.connector.bind(pair.a.site.address)?;
    let destination = there.context("the listener has no address")?;
    let connect = waiting.connector.connect(&waiting.qp, destination, ReadLimits::default(), &[]);
    let attempt = Some(pair.a.site.address);
    let established = SOFTNDK_ENDPOINT_ESTABLISHED;
    let near = [(SOFTNDK_ENDPOINT_ACTIVE, established, here, there), (SOFTNDK_ENDPOINT_ACTIVE, 0, attempt, there)];
    let far = [
        (SOFTNDK_ENDPOINT_LISTENER, established, there, None),
        (SOFTNDK_ENDPOINT_PASSIVE, established, there, here),
        (SOFTNDK_ENDPOINT_PASSIVE, 0, there, attempt),
    ];
    // The far end first: once it has the last request, TCP has picked the port. Until then, parts of a list may have an endpoint twice.
    let mut clients = [(pair.b.site.client.clone(), far.to_vec()), (observer, near.to_vec())];
    if pair.a.site.carrier == Carrier::Device {
        for (_, expected) in &mut clients {
            *expected = [&near[..], &far].concat();
        }
    }
    for (client, expected) in &mut clients {
        expected.sort_unstable();
        let deadline = Instant::now() + client.patience();
        // The request of the last one may still be on its way.
        while endpoints(client, 8)? != *expected {
            ensure!(Instant::now() < deadline, "listed: {:?}; there is {expected:?}", endpoints(client, 8)?);
            thread::yield_now();
        }
        // One entry at a time gives the list too; a part from behind the end is empty.
        ensure!(endpoints(client, 1)? == *expected, "one at a time: {:?}", endpoints(client, 1)?);
        let (none, next) = client.part::<SOFTNDK_ENDPOINT>(IOCTL_SOFTNDK_ENDPOINTS, u32::MAX - 5, 8)?;
        ensure!(none.is_empty() && next == SOFTNDK_LIST_END, "behind the end: {none:?}, {next:#x}");
    }
    let (first, next) = clients[0].0.part::<SOFTNDK_ENDPOINT>(IOCTL_SOFTNDK_ENDPOINTS, 0, 1)?;
    ensure!(first.len() == 1 && next != SOFTNDK_LIST_END, "a part: {first:?}, {next:#x}");
    drop((connect, waiting, pair));
    Ok(())
}

// Shows S1503 (ioctl), S1503 (sim).
pub(super) fn adapter(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    // Without a provider context.
    let client = bench.bare_client()?;
    let (found, info) = (client.adapter_state()?, site.adapter.info()?);
    ensure!(found.Size as usize == size_of::<SOFTNDK_ADAPTER>(), "Size {}", found.Size);
    ensure!(found.State == SOFTNDK_ADAPTER_ENABLED, "RDMA is off: {}", found.State);
    let limits = [
        (found.AdapterId, info.AdapterId),
        (found.MaxRegistrationSize, info.MaxRegistrationSize),
        (found.MaxWindowSize, info.MaxWindowSize),
        (found.MaxInitiatorRequestSge.into(), info.MaxInitiatorSge.into()),
        (found.MaxReceiveRequestSge.into(), info.MaxReceiveSge.into()),
        (found.MaxReadRequestSge.into(), info.MaxReadSge.into()),
        (found.MaxTransferLength.into(), info.MaxTransferLength.into()),
        (found.MaxInlineDataSize.into(), info.MaxInlineDataSize.into()),
        (found.MaxInboundReadLimit.into(), info.MaxInboundReadLimit.into()),
        (found.MaxOutboundReadLimit.into(), info.MaxOutboundReadLimit.into()),
        (found.MaxReceiveQueueDepth.into(), info.MaxReceiveQueueDepth.into()),
        (found.MaxInitiatorQueueDepth.into(), info.MaxInitiatorQueueDepth.into()),
        (found.MaxSrqDepth.into(), info.MaxSharedReceiveQueueDepth.into()),
        (found.MaxCqDepth.into(), info.MaxCompletionQueueDepth.into()),
        (found.LargeRequestThreshold.into(), info.LargeRequestThreshold.into()),
        (found.MaxCallerData.into(), info.MaxCallerData.into()),
        (found.MaxCalleeData.into(), info.MaxCalleeData.into()),
    ];
    for (nth, (shown, asked)) in limits.into_iter().enumerate() {
        ensure!(shown == asked, "limit {nth}: {shown}, and {asked} by ADAPTER_QUERY");
    }
    ensure!((found.NdkVersionMajor, found.NdkVersionMinor) == (2, 1), "version: {found:?}");
    ensure!(found.MaxQpCount > 0 && found.MaxPdCount > 0 && found.FRMRPageCount >= 16, "counts: {found:?}");
    let addresses = site.client.addresses()?;
    for at_a_time in [1, 300] {
        let listed = client.list::<SOCKADDR_INET>(IOCTL_SOFTNDK_ADDRESSES, at_a_time)?;
        let listed: Vec<_> = listed.iter().filter_map(SOCKADDR_INET::socket_addr).collect();
        ensure!(listed == addresses, "addresses, {at_a_time} at a time: {listed:?}; there are {addresses:?}");
    }
    Ok(())
}
