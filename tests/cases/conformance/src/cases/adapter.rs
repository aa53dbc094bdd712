//! Finding, opening and asking the adapter.

use std::net::SocketAddr;

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST,
        ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED,
        ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED, ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED,
        ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED, ND_VERSION_2,
    },
    ndkpi::{NDK_OP_FLAG_ALLOW_REMOTE_READ, NdkOperationTypeBind},
    sockaddr::SOCKADDR_INET,
    status::{STATUS_BUFFER_OVERFLOW, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};
use zerocopy::IntoBytes as _;

use crate::{
    Carrier,
    bench::Bench,
    client::{Adapter, FastMr, Mw, Srq, nd_handle},
    pair::{Pair, Site, expect, refused},
};

pub(super) fn limits(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let info = site.adapter.info()?;
    ensure!(info.InfoVersion == ND_VERSION_2, "InfoVersion {:#x}", info.InfoVersion);
    ensure!(info.AdapterId == site.client.resolve(site.address)?, "AdapterId is not what the address resolves to");
    // The limits in `driver/soft-rdma/src/limits.rs`; other cases try each of them.
    let expected = [
        ("MaxInitiatorSge", info.MaxInitiatorSge, 16),
        ("MaxReceiveSge", info.MaxReceiveSge, 16),
        ("MaxReadSge", info.MaxReadSge, 16),
        ("MaxTransferLength", info.MaxTransferLength, 1 << 30),
        ("MaxInlineDataSize", info.MaxInlineDataSize, 1024),
        ("MaxInboundReadLimit", info.MaxInboundReadLimit, 64),
        ("MaxOutboundReadLimit", info.MaxOutboundReadLimit, 64),
        ("MaxReceiveQueueDepth", info.MaxReceiveQueueDepth, 4096),
        ("MaxInitiatorQueueDepth", info.MaxInitiatorQueueDepth, 4096),
        ("MaxSharedReceiveQueueDepth", info.MaxSharedReceiveQueueDepth, 16384),
        ("MaxCompletionQueueDepth", info.MaxCompletionQueueDepth, 65536),
        ("MaxCallerData", info.MaxCallerData, 508),
        ("MaxCalleeData", info.MaxCalleeData, 508),
    ];
    for (name, value, wanted) in expected {
        ensure!(value == wanted, "{name} is {value}, and should be {wanted}");
    }
    // Programs are not told NDK_ADAPTER_FLAG_RDMA_READ_*, which only NDKPI has.
    let flags = ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED
        | ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED
        | ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED
        | ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED
        | ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED;
    ensure!(info.AdapterFlags == flags, "AdapterFlags are {:#x}, and should be {flags:#x}", info.AdapterFlags);
    Ok(())
}

// Shows P6.
pub(super) fn addresses(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    let all = client.addresses()?;
    ensure!(!all.is_empty(), "no address");
    let adapter = Adapter::open(&client, client.resolve(all[0])?)?;
    let own = adapter.addresses()?;
    ensure!(own == all, "the only adapter has {own:?}, the provider {all:?}");
    for address in &all {
        // ResolveAddress ignores the port (IND2Provider::ResolveAddress).
        let id = client.resolve(SocketAddr::new(address.ip(), 4791))?;
        ensure!(id == adapter.info()?.AdapterId, "{address} resolves to {id:#x}");
    }
    let needed = all.len() * size_of::<SOCKADDR_INET>();
    for (code, handle) in
        [(IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, 0), (IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, adapter.handle())]
    {
        for room in [0, 1, needed - 1] {
            let completion = client.begin(code, nd_handle(handle).as_bytes(), room).completion()?;
            ensure!(
                (completion.status, completion.information) == (STATUS_BUFFER_OVERFLOW, needed),
                "{room} bytes of room: {}, {} bytes needed; there are {needed}",
                completion.status,
                completion.information
            );
        }
    }
    Ok(())
}

// Shows P7.
pub(super) fn unknown_address(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    // TEST-NET-3 and the documentation prefix, which no host has (RFC 5737, RFC 3849).
    for address in ["203.0.113.77:0", "[2001:db8:dead::77]:0"] {
        refused(client.resolve(address.parse()?), STATUS_INVALID_ADDRESS, address)?;
    }
    Ok(())
}

pub(super) fn unknown_adapter(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    let id = client.resolve(bench.address(&client)?)?;
    refused(Adapter::open(&client, !id), STATUS_INVALID_PARAMETER, "opening an unknown adapter")
}

// Shows S906.
pub(super) fn closes_with_children(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let site = &pair.a.site;
    let region = site.buffer(1)?;
    let fast = FastMr::new(&site.pd, 1)?;
    let srq = Srq::new(&site.pd, 8, 1, 0)?;
    let (listener, _) = site.listener()?;
    let window = Mw::new(&site.pd)?;
    pair.a.qp.bind(1, &window, &region, 0..8, NDK_OP_FLAG_ALLOW_REMOTE_READ)?;
    expect(&pair.a.initiated()?, NdkOperationTypeBind, 1, STATUS_SUCCESS)?;
    let live = site.client.diagnostics()?;
    // On one device, the objects of both ends count.
    let ends = if site.carrier == Carrier::Device { 2 } else { 1 };
    ensure!(
        live.Mrs >= 2 && live.Mws >= 1 && live.Srqs >= 1 && live.Qps >= ends && live.Listeners >= ends,
        "not all counted: {live:?}"
    );
    // No object is freed by itself: closing the file has to do. The bench checks that nothing is left.
    site.client.abandon();
    drop((region, window, fast, srq, listener));
    Ok(())
}
