//! Adapters: each ADAPTER_OPEN opens an NDK adapter of its own.

use ndk_abi::nd_ioctl::{ND_ADAPTER_QUERY, ND_HANDLE, ND_OPEN_ADAPTER, ND_VERSION_2, ND2_ADAPTER_INFO};
use ndk_abi::ndkpi::{
    NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED,
    NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED, NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED,
    NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED,
};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};
use platform::{Arc, Passive};

use crate::decode::{Reply, input, output, overflow};
use crate::objects::Handles;
use crate::quota::Quota;
use crate::rings::user_ring::{descriptor, no_mappings, room_for_descriptor};
use crate::{Host, Ref, Request, addresses};
use ndk_consumer::{Adapter, OpenAdapters};

/// The flags that user mode has too (ND_ADAPTER_FLAG_* have the values of NDK_ADAPTER_FLAG_*).
const SHARED_FLAGS: u32 = NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED
    | NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED
    | NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED
    | NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED
    | NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED;

pub(crate) fn open<H: Host>(
    handles: &Handles<H>,
    adapters: &OpenAdapters<H::Platform>,
    quota: &Quota<H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_OPEN_ADAPTER = input(request)?;
    // There are no doorbell pages to map.
    no_mappings(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, 0)?;
    if input.AdapterId != host.adapter_id() {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let slot = handles.reserve()?;
    let adapter = adapters.open(host, Some(&quota.pool), passive)?;
    descriptor(request, slot.fill(adapter)?, 0)
}

/// Frees the handle, and closes the NDK adapter if nothing uses it. An adapter that still has objects is closed after them, by the next
/// ADAPTER_OPEN or ADAPTER_CLOSE of the context, or at the context's end.
pub(crate) fn close<H: Host>(
    handles: &Handles<H>,
    adapters: &OpenAdapters<H::Platform>,
    host: &H,
    request: &H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    drop(handles.remove::<Adapter<H::Platform>>(input.Handle)?);
    adapters.close_unused(host, passive);
    Ok(0)
}

pub(crate) fn query<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_ADAPTER_QUERY = input(request)?;
    let adapter: Arc<Adapter<H::Platform>, _> = handles.get(input.AdapterHandle)?;
    if input.InfoVersion != ND_VERSION_2 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    if request.output_length() < size_of::<ND2_ADAPTER_INFO>() {
        return Err(overflow(size_of::<ND2_ADAPTER_INFO>()));
    }
    let info = adapter.info(passive)?;
    let info = ND2_ADAPTER_INFO {
        InfoVersion: ND_VERSION_2,
        // The OUI and the device number have 32 bits in NDKPI and 16 in this structure.
        VendorId: info.VendorId as u16,
        DeviceId: info.DeviceId as u16,
        AdapterId: host.adapter_id(),
        MaxRegistrationSize: info.MaxRegistrationSize as u64,
        MaxWindowSize: info.MaxWindowSize as u64,
        MaxInitiatorSge: info.MaxInitiatorRequestSge,
        MaxReceiveSge: info.MaxReceiveRequestSge,
        MaxReadSge: info.MaxReadRequestSge,
        MaxTransferLength: info.MaxTransferLength,
        MaxInlineDataSize: info.MaxInlineDataSize,
        MaxInboundReadLimit: info.MaxInboundReadLimit,
        MaxOutboundReadLimit: info.MaxOutboundReadLimit,
        MaxReceiveQueueDepth: info.MaxReceiveQueueDepth,
        MaxInitiatorQueueDepth: info.MaxInitiatorQueueDepth,
        MaxSharedReceiveQueueDepth: info.MaxSrqDepth,
        MaxCompletionQueueDepth: info.MaxCqDepth,
        InlineRequestThreshold: info.MaxInlineDataSize,
        LargeRequestThreshold: info.LargeRequestThreshold,
        MaxCallerData: info.MaxCallerData,
        MaxCalleeData: info.MaxCalleeData,
        AdapterFlags: info.AdapterFlags & SHARED_FLAGS,
    };
    output(request, &info)
}

pub(crate) fn query_address_list<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.get::<Adapter<H::Platform>>(input.Handle)?;
    addresses::list(host, request)
}

/// STATUS_INVALID_PARAMETER_MIX: the objects belong to different NDK adapters, which a provider need not check.
pub(crate) fn same_adapter<H: Host>(
    one: &Ref<Adapter<H::Platform>, H>,
    other: &Ref<Adapter<H::Platform>, H>,
) -> Result<(), NTSTATUS> {
    if Arc::ptr_eq(one, other) { Ok(()) } else { Err(ndk_abi::status::STATUS_INVALID_PARAMETER_MIX) }
}
