//! SoftNDK, the kernel driver: so far only its entry, which joins KMDF in miniport mode and declines to load.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unsafe_code)] // The driver's entry point and its calls into the kernel are foreign functions.

extern crate wdk_panic;

use wdk_sys::{
    DRIVER_OBJECT, NT_SUCCESS, NTSTATUS, PCUNICODE_STRING, STATUS_NOT_SUPPORTED, ULONG, WDF_DRIVER_CONFIG,
    WDF_NO_HANDLE, WDF_NO_OBJECT_ATTRIBUTES, WDFDRIVER, _WDF_DRIVER_INIT_FLAGS, call_unsafe_wdf_function_binding,
};

/// Called by KMDF's client stub at PASSIVE_LEVEL.
///
/// # Safety
/// `driver` and `registry_path` must be the pointers that the I/O manager handed to the stub.
#[unsafe(export_name = "DriverEntry")]
pub unsafe extern "system" fn driver_entry(driver: &mut DRIVER_OBJECT, registry_path: PCUNICODE_STRING) -> NTSTATUS {
    let mut config = WDF_DRIVER_CONFIG {
        Size: size_of::<WDF_DRIVER_CONFIG>() as ULONG,
        DriverInitFlags: _WDF_DRIVER_INIT_FLAGS::WdfDriverInitNoDispatchOverride as ULONG,
        ..Default::default()
    };
    // SAFETY: the arguments outlive the call; no attributes and no handle are wanted.
    let status = unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDriverCreate,
            &raw mut *driver,
            registry_path,
            WDF_NO_OBJECT_ATTRIBUTES,
            &raw mut config,
            WDF_NO_HANDLE.cast::<WDFDRIVER>(),
        )
    };
    wdk::println!("softndk: WdfDriverCreate -> {status:#x}");
    if NT_SUCCESS(status) { STATUS_NOT_SUPPORTED } else { status }
}
