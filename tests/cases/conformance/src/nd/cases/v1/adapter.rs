//! INDAdapter.

use std::ptr;

use anyhow::{Context as _, ensure};
use nd_com::{
    v1::{INDAdapter, INDCompletionQueue, INDOverlapped, INDProvider, ND_ADAPTER_INFO1},
    v2::IND2MemoryWindow,
};
use ndk_abi::{
    nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_SUCCESS},
};
use windows_core::{IUnknown, Interface as _};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;

use super::pair::{End, Pair};
use crate::nd::{
    client::{
        both::Connector as _,
        both::{CompletionQueue as _, QueuePair as _},
        cast, end_of,
        v1::{EndpointSize, Mr, Mw},
    },
    pair::{SEND, expect, expect_received, is},
    run::Nd,
};

// Shows V34.
pub(in crate::nd) fn query(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    let info = adapter.info()?;
    let needed = [
        ("MaxInboundSge", info.MaxInboundSge),
        ("MaxInboundRequests", info.MaxInboundRequests),
        ("MaxInboundLength", info.MaxInboundLength),
        ("MaxOutboundSge", info.MaxOutboundSge),
        ("MaxOutboundRequests", info.MaxOutboundRequests),
        ("MaxOutboundLength", info.MaxOutboundLength),
        ("MaxInboundReadLimit", info.MaxInboundReadLimit),
        ("MaxOutboundReadLimit", info.MaxOutboundReadLimit),
        ("MaxCqEntries", info.MaxCqEntries),
        ("MaxRegistrationSize", info.MaxRegistrationSize),
        ("MaxWindowSize", info.MaxWindowSize),
        ("MaxCallerData", info.MaxCallerData),
        ("MaxCalleeData", info.MaxCalleeData),
    ];
    for (name, value) in needed {
        ensure!(value > 0, "{name} is 0");
    }
    let (of_2, _) = nd.adapter()?;
    let of_2 = of_2.info()?;
    ensure!(info.MaxCqEntries == of_2.MaxCompletionQueueDepth as usize, "another limit than version 2");
    ensure!(info.MaxCallerData == of_2.MaxCallerData as usize, "another limit than version 2");

    const EXACT: usize = size_of::<ND_ADAPTER_INFO1>();
    for room in [0, 1, EXACT - 1] {
        let (status, length, written) = adapter.info_raw(1, room);
        is(status, STATUS_BUFFER_OVERFLOW, "too few bytes")?;
        ensure!(length == EXACT && !written, "{room} bytes: {length} needed, written to: {written}");
    }
    is(adapter.info_raw(1, EXACT).0, STATUS_SUCCESS, "as many bytes as needed")?;
    is(adapter.info_raw(1, 2 * EXACT).0, STATUS_SUCCESS, "more than is needed")?;
    for version in [0, 2, 0x20000, u32::MAX] {
        let (status, _, written) = adapter.info_raw(version, 2 * EXACT);
        ensure!(!status.is_success() && !written, "version {version:#x}: {status}, written to: {written}");
    }
    Ok(())
}

// Shows V13, V30.
pub(in crate::nd) fn interfaces(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let adapter = &pair.a.adapter;
    ensure!(adapter.com.cast::<INDProvider>().is_err(), "an adapter says that it is a provider");
    let (listen, _) = pair.a.listener()?;
    let with_requests: [(&str, IUnknown); 4] = [
        ("adapter", cast(&adapter.com)?),
        ("completion queue", cast(&pair.a.receive_cq.com)?),
        ("connector", cast(&pair.a.connector.com)?),
        ("listener", cast(&listen.com)?),
    ];
    for (what, object) in with_requests {
        let overlapped: INDOverlapped = cast(&object).with_context(|| format!("a {what} as INDOverlapped"))?;
        ensure!(cast::<IUnknown>(&overlapped)? == object, "two IUnknown of one {what}");
        ensure!(overlapped.cast::<INDProvider>().is_err(), "a {what} says that it is a provider");
        ensure!(overlapped.cast::<nd_com::v2::IND2Overlapped>().is_err(), "a {what} says that it is of version 2");
    }
    let endpoint: IUnknown = cast(&pair.a.qp.com)?;
    ensure!(endpoint.cast::<INDOverlapped>().is_err(), "an endpoint has no requests that pend");
    ensure!(endpoint.cast::<INDCompletionQueue>().is_err(), "an endpoint says that it is a completion queue");
    // One identifier for the windows of both versions.
    let window = Mw::new(adapter, 0)?;
    cast::<IND2MemoryWindow>(&window.com).context("a window by its identifier")?;
    ensure!(window.com.cast::<INDAdapter>().is_err(), "a window says that it is an adapter");
    Ok(())
}

// Shows T54, V17.
pub(in crate::nd) fn limits(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, address) = nd.adapter_v1()?;
    let info = adapter.info()?;
    for depth in [0, info.MaxCqEntries + 1, u32::MAX as usize + 17, usize::MAX] {
        ensure!(adapter.cq(depth).is_err(), "a completion queue of {depth} was made");
    }
    let (cq, usual) = (adapter.cq(info.MaxCqEntries.min(4096))?, EndpointSize::default());
    let connector = adapter.connector()?;
    // Numbers that are small again when they are cut to 32 bits are no smaller.
    const WRAPS: usize = (1 << 32) + 4;
    let wrong = [
        ("inbound", EndpointSize { inbound: info.MaxInboundRequests + 1, ..usual }),
        ("inbound", EndpointSize { inbound: WRAPS, ..usual }),
        ("outbound", EndpointSize { outbound: info.MaxOutboundRequests + 1, ..usual }),
        ("outbound", EndpointSize { outbound: WRAPS, ..usual }),
        ("inbound SGEs", EndpointSize { inbound_sges: info.MaxInboundSge + 1, ..usual }),
        ("inbound SGEs", EndpointSize { inbound_sges: WRAPS, ..usual }),
        ("outbound SGEs", EndpointSize { outbound_sges: info.MaxOutboundSge + 1, ..usual }),
        ("outbound SGEs", EndpointSize { outbound_sges: WRAPS, ..usual }),
    ];
    for (what, size) in wrong {
        ensure!(connector.endpoint(&cq, &cq, size).is_err(), "an endpoint with too much of {what}: {size:?}");
    }
    // Two adapters of one provider are different adapters.
    let (other, _) = nd.adapter_v1()?;
    let foreign = other.cq(16)?;
    let (queue, nothing) = (cq.com.as_raw(), ptr::null_mut());
    for wrong in [nothing, adapter.com.as_raw(), connector.com.as_raw(), foreign.com.as_raw()] {
        ensure!(connector.endpoint_of(wrong, queue, usual).is_err(), "an endpoint without a queue for receives");
        ensure!(connector.endpoint_of(queue, wrong, usual).is_err(), "an endpoint without a queue for initiators");
    }
    let (of_2, _) = nd.adapter()?;
    let of_2 = of_2.cq(16)?;
    let mixed = connector.endpoint_of(of_2.com.as_raw(), queue, usual);
    ensure!(mixed.is_err(), "an endpoint with a completion queue of version 2");
    // None of that did any harm.
    let endpoint = connector.endpoint(&cq, &cq, usual)?;
    ensure!(endpoint.inline <= info.MaxInlineData, "{} bytes inline were granted", endpoint.inline);
    let greedy = adapter.connector()?.endpoint(&cq, &cq, EndpointSize { inline: usize::MAX, ..usual });
    if let Ok(greedy) = greedy {
        ensure!(greedy.inline <= info.MaxInlineData, "{} bytes inline were granted", greedy.inline);
    }
    let (listen, port) = adapter.listen(1, 0)?;
    ensure!(port != 0, "the listener at {address} has no port");
    drop(listen);
    Ok(())
}

// Shows V14.
pub(in crate::nd) fn file(nd: &Nd) -> anyhow::Result<()> {
    let ((one, _), (other, _)) = (nd.adapter_v1()?, nd.adapter_v1()?);
    let file = one.file();
    ensure!(!file.is_null() && file != INVALID_HANDLE_VALUE, "no file");
    ensure!(one.file() == file && one.clone().file() == file, "another handle each time");
    ensure!(other.file() != file, "two adapters with one handle");
    // Objects keep the file that their requests are on.
    let cq = one.cq(16)?;
    drop(one);
    let mut request = cq.notify(ND_CQ_NOTIFY_ANY)?;
    cq.cancel()?;
    is(request.status()?, STATUS_CANCELLED, "a request after the adapter was released")
}

pub(in crate::nd) fn control(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter_v1()?;
    // Unknown; a code of the file system, of which Wine makes its own; the way in of the driver's protocol.
    for code in [0xdead_beef, 0, 0x0009_00a8, 0x0012_0000] {
        let status = end_of(adapter.control(code))?;
        ensure!(!status.is_success(), "code {code:#x}: {status}");
    }
    let (found, bytes) = adapter.diagnostics().context("IOCTL_SOFTNDK_DIAGNOSTICS")?;
    ensure!(bytes == size_of_val(&found), "{bytes} bytes");
    ensure!(found.Size as usize == bytes && found.Adapters > 0, "{} adapters", found.Adapters);
    Ok(())
}

/// Five parts of an end are released, in 20 orders, with requests and a post under way: each request ends.
pub(in crate::nd) fn releases(nd: &Nd) -> anyhow::Result<()> {
    const PARTS: usize = 5;
    for first in 0..PARTS {
        for step in 1..PARTS {
            let pair = Pair::new(nd)?;
            let memory = pair.b.buffer(4096)?;
            let (window, _) = pair.b.expose(&memory)?;
            pair.b.qp.receive(1, &[memory.sge(0..64)])?;
            pair.a.qp.send(2, &[], 0)?;
            expect_received(pair.b.received()?, 1, 0)?;
            expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
            pair.b.qp.receive(3, &[memory.sge(0..64)])?;
            let End { connector, qp, initiator_cq, receive_cq, adapter, .. } = pair.b;
            let mut waits = [
                receive_cq.notify(ND_CQ_NOTIFY_ERRORS)?,
                initiator_cq.notify(ND_CQ_NOTIFY_ANY)?,
                connector.notify_disconnect()?,
            ];
            waits.iter_mut().for_each(|request| request.let_object_go());
            let mut parts: [Option<Box<dyn std::any::Any>>; PARTS] = [
                Some(Box::new(connector)),
                Some(Box::new(qp)),
                Some(Box::new((initiator_cq, receive_cq))),
                Some(Box::new(adapter)),
                Some(Box::new((window, memory))),
            ];
            for number in 0..PARTS {
                drop(parts[(first + number * step) % PARTS].take());
            }
            for request in &mut waits {
                request.status().with_context(|| format!("order {first}, {step}"))?;
            }
        }
    }
    // The registered memory is the last object to be dropped.
    let pair = Pair::new(nd)?;
    let memory: Mr = pair.a.buffer(4096)?;
    drop(pair);
    drop(memory);
    Ok(())
}
