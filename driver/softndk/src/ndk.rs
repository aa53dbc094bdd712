//! The NDK provider's side of NDIS: opening and closing NDK adapters.
#![expect(unsafe_code, reason = "handlers that NDIS calls")]

use core::{ptr::NonNull, sync::atomic::Ordering};

use ndk_abi::{
    ndis::{
        NDIS_HANDLE, NDIS_NDK_PROVIDER_CHARACTERISTICS, NDIS_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS, NDIS_OPEN_NDK_ADAPTER_PARAMETERS,
        NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
    },
    ndkpi::NDK_ADAPTER,
    status::{NDIS_STATUS, NDIS_STATUS_ADAPTER_NOT_READY, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::Passive;

use crate::{adapter::Adapter, platform::Windows};

/// What MiniportSetOptions adds to the driver.
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
    // Only the version is there for certain: nothing tells which revision of the structure this is.
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

/// `CLOSE_NDK_ADAPTER_HANDLER`. PASSIVE_LEVEL; returns when the last callback of the last object has.
unsafe extern "system" fn close(_context: NDIS_HANDLE, ndk_adapter: *mut NDK_ADAPTER) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    if let Some(adapter) = NonNull::new(ndk_adapter) {
        // SAFETY: `open` gave this adapter to NDIS, which closes it once.
        unsafe { Provider::<Windows>::close(adapter, &passive) };
    }
}
