//! IND2Adapter.

use anyhow::{Context as _, ensure};
use nd_com::{
    status::E_NOINTERFACE,
    v2::{IND2Adapter, IND2CompletionQueue, IND2Overlapped, IND2Provider},
};
use ndk_abi::{
    nd_ioctl::{
        ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED, ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED, ND_CQ_NOTIFY_ANY,
        ND_VERSION_2, ND2_ADAPTER_INFO,
    },
    status::{
        NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_2,
        STATUS_INVALID_PARAMETER_3, STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_5, STATUS_INVALID_PARAMETER_6,
        STATUS_INVALID_PARAMETER_7, STATUS_INVALID_PARAMETER_8, STATUS_INVALID_PARAMETER_9, STATUS_SUCCESS,
    },
};
use std::ptr;
use windows_core::{IUnknown, Interface as _};

use crate::{
    nd::{
        client::{
            OnFirstProcessor, QpSize, SrqSize,
            both::{CompletionQueue as _, QueuePair as _},
            cast,
        },
        pair::{Pair, is},
        run::Nd,
    },
    pair::refused,
};

// Shows C12, N34, N35, N36, N37, S2.
pub(in crate::nd) fn query(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let info = adapter.info()?;
    ensure!(info.InfoVersion == ND_VERSION_2, "version {:#x}", info.InfoVersion);
    let needed = [
        ("MaxRegistrationSize", info.MaxRegistrationSize),
        ("MaxInitiatorSge", info.MaxInitiatorSge.into()),
        ("MaxReceiveSge", info.MaxReceiveSge.into()),
        ("MaxReadSge", info.MaxReadSge.into()),
        ("MaxTransferLength", info.MaxTransferLength.into()),
        ("MaxReceiveQueueDepth", info.MaxReceiveQueueDepth.into()),
        ("MaxInitiatorQueueDepth", info.MaxInitiatorQueueDepth.into()),
        ("MaxSharedReceiveQueueDepth", info.MaxSharedReceiveQueueDepth.into()),
        ("MaxCompletionQueueDepth", info.MaxCompletionQueueDepth.into()),
        ("MaxInboundReadLimit", info.MaxInboundReadLimit.into()),
        ("MaxOutboundReadLimit", info.MaxOutboundReadLimit.into()),
        ("MaxCallerData", info.MaxCallerData.into()),
        ("MaxCalleeData", info.MaxCalleeData.into()),
    ];
    for (name, value) in needed {
        ensure!(value > 0, "{name} is 0");
    }
    ensure!(info.MaxReadSge <= info.MaxInitiatorSge, "{} SGEs for reads", info.MaxReadSge);
    let flags = ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED | ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED;
    ensure!(info.AdapterFlags & flags == flags, "flags {:#x}", info.AdapterFlags);

    let exact = size_of::<ND2_ADAPTER_INFO>() as u32;
    let (status, length) = adapter.info_raw(ND_VERSION_2, exact - 1);
    is(status, STATUS_BUFFER_OVERFLOW, "one byte too few")?;
    ensure!(length == exact, "{length} bytes needed");
    is(adapter.info_raw(ND_VERSION_2, 2 * exact).0, STATUS_SUCCESS, "more than is needed")?;
    is(adapter.info_raw(1, exact).0, STATUS_INVALID_PARAMETER, "version 1")
}

// Shows N38.
pub(in crate::nd) fn addresses(nd: &Nd) -> anyhow::Result<()> {
    let (provider, (adapter, address)) = (nd.provider()?, nd.adapter()?);
    let id = provider.resolve(address)?;
    let mut of_provider = provider.addresses()?;
    // The computer may have other adapters.
    of_provider.retain(|address| provider.resolve(*address).is_ok_and(|other| other == id));
    let mut of_adapter = adapter.addresses()?;
    of_provider.sort();
    of_adapter.sort();
    ensure!(of_provider == of_adapter, "the provider has {of_provider:?} of the adapter, which has {of_adapter:?}");
    Ok(())
}

// Shows C1, N9, S1.
pub(in crate::nd) fn interfaces(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let adapter = &pair.a.adapter;
    ensure!(adapter.com.cast::<IND2Provider>().is_err(), "an adapter says that it is a provider");
    is(adapter.cq_as(&IND2Adapter::IID), NTSTATUS(E_NOINTERFACE.0), "a completion queue as an adapter")?;
    let srq = adapter.srq(SrqSize { depth: 8, sges: 1, threshold: 0 })?;
    let mr = pair.a.buffer(64)?;
    let listener = adapter.listener()?;
    let with_requests: [(&str, IUnknown); 5] = [
        ("completion queue", cast(&pair.a.initiator_cq.com)?),
        ("shared receive queue", cast(&srq.com)?),
        ("memory region", cast(&mr.com)?),
        ("connector", cast(&pair.a.connector.com)?),
        ("listener", cast(&listener.com)?),
    ];
    for (what, object) in with_requests {
        let overlapped: IND2Overlapped = cast(&object).with_context(|| format!("a {what} as IND2Overlapped"))?;
        ensure!(cast::<IUnknown>(&overlapped)? == object, "two IUnknown of one {what}");
        ensure!(overlapped.cast::<IND2Adapter>().is_err(), "a {what} says that it is an adapter");
    }
    let qp: IUnknown = cast(&pair.a.qp.com)?;
    ensure!(qp.cast::<IND2Overlapped>().is_err(), "a queue pair has no requests that pend");
    ensure!(qp.cast::<IND2CompletionQueue>().is_err(), "a queue pair says that it is a completion queue");
    Ok(())
}

// Shows N39, N42, N47, N48, T54.
pub(in crate::nd) fn limits(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let info = adapter.info()?;
    for depth in [0, info.MaxCompletionQueueDepth + 1] {
        refused(adapter.cq(depth), STATUS_INVALID_PARAMETER_3, &format!("a completion queue of {depth}"))?;
    }
    for depth in [0, info.MaxSharedReceiveQueueDepth + 1] {
        let size = SrqSize { depth, sges: 1, threshold: 0 };
        refused(adapter.srq(size), STATUS_INVALID_PARAMETER_3, &format!("a shared receive queue of {depth}"))?;
    }
    let size = SrqSize { depth: 8, sges: info.MaxReceiveSge + 1, threshold: 0 };
    refused(adapter.srq(size), STATUS_INVALID_PARAMETER_4, "too many SGEs of a shared receive queue")?;

    let (cq, usual) = (adapter.cq(16)?, QpSize::default());
    let wrong = [
        (QpSize { receives: info.MaxReceiveQueueDepth + 1, ..usual }, STATUS_INVALID_PARAMETER_5, "receives"),
        (QpSize { initiators: info.MaxInitiatorQueueDepth + 1, ..usual }, STATUS_INVALID_PARAMETER_6, "initiators"),
        (QpSize { receive_sges: info.MaxReceiveSge + 1, ..usual }, STATUS_INVALID_PARAMETER_7, "receive SGEs"),
        (QpSize { initiator_sges: info.MaxInitiatorSge + 1, ..usual }, STATUS_INVALID_PARAMETER_8, "initiator SGEs"),
        (QpSize { inline: info.MaxInlineDataSize + 1, ..usual }, STATUS_INVALID_PARAMETER_9, "inline data"),
    ];
    for (size, status, what) in wrong {
        refused(adapter.qp(&cq, &cq, size), status, &format!("a queue pair with too much of {what}"))?;
    }
    let (queue, no_queue, nothing) = (cq.com.as_raw(), adapter.com.as_raw(), ptr::null_mut());
    for wrong in [nothing, no_queue] {
        refused(adapter.qp_of(wrong, queue, usual), STATUS_INVALID_PARAMETER_2, "no completion queue for receives")?;
        refused(adapter.qp_of(queue, wrong, usual), STATUS_INVALID_PARAMETER_3, "no completion queue for initiators")?;
    }

    let srq = adapter.srq(SrqSize { depth: 8, sges: 1, threshold: 0 })?;
    let wrong = [
        (QpSize { initiators: info.MaxInitiatorQueueDepth + 1, ..usual }, STATUS_INVALID_PARAMETER_6, "initiators"),
        (QpSize { initiator_sges: info.MaxInitiatorSge + 1, ..usual }, STATUS_INVALID_PARAMETER_7, "initiator SGEs"),
        (QpSize { inline: info.MaxInlineDataSize + 1, ..usual }, STATUS_INVALID_PARAMETER_8, "inline data"),
    ];
    for (size, status, what) in wrong {
        let made = adapter.qp_with_srq(&cq, &cq, &srq, size);
        refused(made, status, &format!("a queue pair on a shared receive queue with too much of {what}"))?;
    }
    let shared = srq.com.as_raw();
    for wrong in [nothing, no_queue] {
        let with = |receive, initiator, srq| adapter.qp_with_srq_of(receive, initiator, srq, usual);
        refused(with(wrong, queue, shared), STATUS_INVALID_PARAMETER_2, "no completion queue for receives")?;
        refused(with(queue, wrong, shared), STATUS_INVALID_PARAMETER_3, "no completion queue for initiators")?;
        refused(with(queue, queue, wrong), STATUS_INVALID_PARAMETER_4, "no shared receive queue")?;
    }
    Ok(())
}

// Shows T54.
pub(in crate::nd) fn files(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let (other, _) = nd.adapter()?;
    // A request that reached the wrong adapter would wait there, or end this Notify.
    let theirs = other.cq(16)?;
    let mut untouched = theirs.notify(ND_CQ_NOTIFY_ANY)?;
    for (what, wrong) in
        [("a file of another adapter", adapter.with_file_of(&other)), ("an event", adapter.with_event())]
    {
        let size = SrqSize { depth: 8, sges: 1, threshold: 0 };
        refused(wrong.cq(16), STATUS_INVALID_PARAMETER_2, &format!("a completion queue with {what}"))?;
        refused(wrong.srq(size), STATUS_INVALID_PARAMETER_2, &format!("a shared receive queue with {what}"))?;
        refused(wrong.region(), STATUS_INVALID_PARAMETER_2, &format!("a memory region with {what}"))?;
        refused(wrong.connector(), STATUS_INVALID_PARAMETER_2, &format!("a connector with {what}"))?;
        refused(wrong.listener(), STATUS_INVALID_PARAMETER_2, &format!("a listener with {what}"))?;
    }
    // Both are good for their own.
    for adapter in [&adapter, &other] {
        let cq = adapter.cq(16)?;
        let mut request = cq.notify(ND_CQ_NOTIFY_ANY)?;
        cq.cancel()?;
        is(request.status()?, STATUS_CANCELLED, "a request on the adapter's own file")?;
    }
    ensure!(!untouched.is_over(), "a request of another adapter is over");
    theirs.cancel()?;
    is(untouched.status()?, STATUS_CANCELLED, "the request of the other adapter")
}

// Shows N2, N10.
pub(in crate::nd) fn parents_first(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let mr = pair.b.buffer(4096)?;
    let Pair { a, b } = pair;
    // Connected queue pairs outlive everything that they were made from and with.
    let (a_qp, b_qp) = (a.qp.clone(), b.qp.clone());
    drop(mr);
    drop(a);
    drop(b);
    ensure!(!nd.library().can_unload(), "the DLL could be unloaded with queue pairs alive");
    a_qp.flush()?;
    drop(a_qp);
    b_qp.flush()?;
    Ok(())
}

/// Where notifications run is a wish.
// Shows N40.
pub(in crate::nd) fn affinity_is_advice(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    for (group, mask) in [(0, 1 << 63), (0, usize::MAX), (7, 1), (u16::MAX, 0)] {
        adapter.cq_on(16, group, mask).with_context(|| format!("group {group}, mask {mask:#x}"))?;
        let size = SrqSize { depth: 8, sges: 1, threshold: 0 };
        adapter.srq_on(size, group, mask).with_context(|| format!("group {group}, mask {mask:#x}"))?;
    }
    Ok(())
}

/// Without an affinity, the object gets the affinity of the calling thread.
// Shows S5a.
pub(in crate::nd) fn affinity_of_thread(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, _) = nd.adapter()?;
    let _on_first = OnFirstProcessor::new()?;
    ensure!(adapter.cq(16)?.affinity()? == (0, 1), "a completion queue that a thread of processor 0 made");
    let srq = adapter.srq(SrqSize { depth: 8, sges: 1, threshold: 0 })?;
    ensure!(srq.affinity()? == (0, 1), "a shared receive queue that a thread of processor 0 made");
    Ok(())
}
