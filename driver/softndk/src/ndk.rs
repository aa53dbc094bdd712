//! The NDK provider's handlers: NDIS opens and closes NDK adapters, and turns RDMA on and off while the miniport adapter runs.
//!
//! The handler of OID_NDK_SET_STATE only stores the wanted state. NetEventNDKEnable and NetEventNDKDisable must come from a work item,
//! never from the handler, and NetEventNDKDisable returns only when the last NDK adapter is closed ("Enabling and disabling NDK
//! functionality").
#![expect(
    unsafe_code,
    reason = "handlers that NDIS calls, calls into NDIS, and a work item that carries the adapter by pointer"
)]

use core::{
    ffi::c_void,
    ptr::{NonNull, from_ref},
    sync::atomic::Ordering,
};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_HANDLE, NDIS_NDK_PROVIDER_CHARACTERISTICS, NDIS_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS,
        NDIS_OPEN_NDK_ADAPTER_PARAMETERS, NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_2, NET_PNP_EVENT, NET_PNP_EVENT_NOTIFICATION,
        NET_PNP_EVENT_NOTIFICATION_REVISION_2, NetEventNDKDisable, NetEventNDKEnable,
    },
    ndkpi::NDK_ADAPTER,
    status::{NDIS_STATUS, NDIS_STATUS_ADAPTER_NOT_READY, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::Passive;

use crate::{adapter::Adapter, events, ndis, platform::Windows};

/// The handlers that MiniportSetOptions registers.
pub(crate) fn characteristics() -> NDIS_NDK_PROVIDER_CHARACTERISTICS {
    NDIS_NDK_PROVIDER_CHARACTERISTICS {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS,
            NDIS_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
            NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        ),
        Flags: 0,
        OpenNDKAdapterHandler: Some(open),
        CloseNDKAdapterHandler: Some(close),
    }
}

/// `OPEN_NDK_ADAPTER_HANDLER`. PASSIVE_LEVEL, never pends.
unsafe extern "system" fn open(
    context: NDIS_HANDLE,
    parameters: *mut NDIS_OPEN_NDK_ADAPTER_PARAMETERS,
    ndk_adapter: *mut *mut NDK_ADAPTER,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during an open.
    let adapter = unsafe { Adapter::from_context(context) };
    if !adapter.rdma().enabled().load(Ordering::Relaxed) {
        return NDIS_STATUS_ADAPTER_NOT_READY;
    }
    // Only the version is read: the structure has no header that says which members NDIS has set.
    // SAFETY: NDIS gives valid parameters.
    let version = unsafe { (*parameters).Version };
    match adapter.provider().open(version) {
        Ok(opened) => {
            // SAFETY: NDIS gives a valid out parameter.
            unsafe { ndk_adapter.write(opened.as_ptr()) };
            STATUS_SUCCESS
        }
        Err(status) => status,
    }
}

/// `CLOSE_NDK_ADAPTER_HANDLER`. PASSIVE_LEVEL; returns after the last callback of the NDK adapter's last object.
unsafe extern "system" fn close(_context: NDIS_HANDLE, ndk_adapter: *mut NDK_ADAPTER) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    if let Some(adapter) = NonNull::new(ndk_adapter) {
        // SAFETY: `open` gave this adapter to NDIS, which closes it once.
        unsafe { Provider::<Windows>::close(adapter, &passive) };
    }
}

/// OID_NDK_SET_STATE: stores the wanted state; a work item turns RDMA on or off. NDIS_STATUS_ADAPTER_REMOVED: the device was removed.
pub(crate) fn set_state(adapter: &Adapter, enabled: bool) -> Result<(), NDIS_STATUS> {
    let context = from_ref(adapter).cast_mut().cast();
    // SAFETY: the halt waits in `RdmaState::stop` before it frees the adapter. `announce` calls `next_announcement` until that returns
    // `None`, and does not use the adapter after that.
    unsafe { adapter.rdma().set(enabled, announce, context) }
}

/// The work item's routine. PASSIVE_LEVEL. Raises NetEventNDKEnable or NetEventNDKDisable until NDIS has the wanted state. When RDMA is
/// turned off, it first closes the objects of programs, which NDIS does not know.
unsafe extern "system" fn announce(context: *mut c_void, _work_item: NDIS_HANDLE) {
    // SAFETY: NDIS runs work items at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: `set_state` passed the adapter. The halt frees the adapter only after `RdmaState::stop` has waited for the last
    // `next_announcement`.
    let adapter = unsafe { Adapter::from_context(context) };
    while let Some(enabled) = adapter.rdma().next_announcement() {
        if !enabled {
            adapter.close_files(&passive);
        }
        notify_ndis(adapter, enabled, &passive);
        events::rdma_changed(adapter.luid, enabled);
    }
}

fn notify_ndis(adapter: &Adapter, enabled: bool, _passive: &Passive<'_>) {
    let mut event = NET_PNP_EVENT_NOTIFICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NET_PNP_EVENT_NOTIFICATION_REVISION_2,
            NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_2,
        ),
        NetPnPEvent: NET_PNP_EVENT {
            NetEvent: if enabled { NetEventNDKEnable } else { NetEventNDKDisable },
            ..NET_PNP_EVENT::ZERO
        },
        ..NET_PNP_EVENT_NOTIFICATION::ZERO
    };
    // The driver cannot report a failure, as the OID request is completed already. After a failure consumers keep their NDK adapters.
    // SAFETY: the adapter's handle, and a complete event that outlives the call; PASSIVE_LEVEL by the token.
    let _status = unsafe { ndis::NdisMNetPnPEvent(adapter.miniport(), &raw mut event) };
}
