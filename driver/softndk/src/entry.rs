//! DriverEntry and the unload. DriverEntry sets up KMDF in miniport mode, then NDIS; the unload undoes both in reverse order.
//!
//! NDIS owns the driver object: this driver does not change `DriverUnload` or `MajorFunction` ("Creating a KMDF miniport
//! driver", and the KMDF stub's handling of `WdfDriverInitNoDispatchOverride`).
#![expect(unsafe_code, reason = "the driver's entry points are foreign functions, and so is all they call")]

use core::{ffi::c_void, ptr::null_mut};

use ::platform::Passive;
use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_HANDLE, NDIS_MINIPORT_DRIVER_CHARACTERISTICS, NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
        NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_MINIPORT_DRIVER_CHARACTERISTICS,
        NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
    },
    status::{NDIS_STATUS, STATUS_SUCCESS},
};
use wdk_sys::{
    _WDF_DRIVER_INIT_FLAGS::WdfDriverInitNoDispatchOverride, DRIVER_OBJECT, NT_SUCCESS, NTSTATUS, PCUNICODE_STRING,
    WDF_DRIVER_CONFIG, WDF_NO_OBJECT_ATTRIBUTES, WDFDRIVER, call_unsafe_wdf_function_binding,
};

use crate::{
    cable::patch, control, datapath, driver, events, lifecycle, ndis, ndk, oid, platform::Windows, processors,
    wdfminiport, wsk::client,
};

/// The oldest version of NDIS with all functions that the driver uses: the version of Windows Server 2016.
const NDIS_VERSION: (u8, u8) = (6, 60);

/// The KMDF stub, which is the image's entry point, calls this once, at PASSIVE_LEVEL.
///
/// # Safety
/// The arguments are the I/O manager's.
#[unsafe(export_name = "DriverEntry")]
unsafe extern "system" fn driver_entry(driver: *mut DRIVER_OBJECT, registry_path: PCUNICODE_STRING) -> NTSTATUS {
    control::initialize();
    patch::initialize();
    // SAFETY: DriverEntry is called at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    if let Err(status) = processors::start(&passive) {
        return status.0;
    }
    events::register(&passive);
    let status = start(driver, registry_path, &passive);
    if !NT_SUCCESS(status) {
        processors::stop(&passive);
        events::unregister(&passive);
    }
    status
}

/// Creates the framework driver object, then registers the process notify routine, the WSK client and the miniport driver.
fn start(driver: *mut DRIVER_OBJECT, registry_path: PCUNICODE_STRING, passive: &Passive<'_>) -> NTSTATUS {
    let mut config = WDF_DRIVER_CONFIG {
        Size: size_of::<WDF_DRIVER_CONFIG>() as u32,
        // EvtDriverUnload stays null: else the stub would replace DriverObject->DriverUnload, which is NDIS's.
        DriverInitFlags: WdfDriverInitNoDispatchOverride as u32,
        ..WDF_DRIVER_CONFIG::default()
    };
    let mut wdf_driver: WDFDRIVER = null_mut();
    // SAFETY: the arguments of DriverEntry, and out parameters that outlive the call.
    let status = unsafe {
        call_unsafe_wdf_function_binding!(
            WdfDriverCreate,
            driver,
            registry_path,
            WDF_NO_OBJECT_ATTRIBUTES,
            &raw mut config,
            &raw mut wdf_driver
        )
    };
    if !NT_SUCCESS(status) {
        return status;
    }
    driver::set_wdf(wdf_driver);

    // If this or a later call fails, the stub unbinds from KMDF.
    if let Err(status) = control::watch_processes() {
        return status.0;
    }
    client::register(passive);
    // NDIS calls set_options inside this call.
    let mut handle = null_mut();
    let mut characteristics = characteristics();
    // SAFETY: the arguments of DriverEntry, complete characteristics, and an out parameter that outlives the call.
    let status = unsafe {
        ndis::NdisMRegisterMiniportDriver(
            driver.cast(),
            registry_path.cast_mut().cast(),
            null_mut(),
            &raw mut characteristics,
            &raw mut handle,
        )
    };
    if status == STATUS_SUCCESS {
        driver::set_ndis(handle);
    } else {
        client::deregister(passive);
        control::ignore_processes();
    }
    status.0
}

/// The versions and the handlers of the miniport driver.
fn characteristics() -> NDIS_MINIPORT_DRIVER_CHARACTERISTICS {
    let [major, minor, ..] = driver::VERSION;
    NDIS_MINIPORT_DRIVER_CHARACTERISTICS {
        Header: NDIS_OBJECT_HEADER {
            Type: NDIS_OBJECT_TYPE_MINIPORT_DRIVER_CHARACTERISTICS,
            Revision: NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
            Size: NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
        },
        MajorNdisVersion: NDIS_VERSION.0,
        MinorNdisVersion: NDIS_VERSION.1,
        MajorDriverVersion: major as u8,
        MinorDriverVersion: minor as u8,
        SetOptionsHandler: Some(set_options),
        InitializeHandlerEx: Some(lifecycle::initialize),
        HaltHandlerEx: Some(lifecycle::halt),
        UnloadHandler: Some(unload),
        PauseHandler: Some(datapath::pause),
        RestartHandler: Some(datapath::restart),
        OidRequestHandler: Some(oid::request),
        SendNetBufferListsHandler: Some(datapath::send),
        ReturnNetBufferListsHandler: Some(datapath::return_lists),
        CancelSendHandler: Some(datapath::cancel_send),
        DevicePnPEventNotifyHandler: Some(lifecycle::pnp_event),
        ShutdownHandlerEx: Some(lifecycle::shutdown),
        CancelOidRequestHandler: Some(oid::cancel),
        DirectOidRequestHandler: Some(oid::direct_request),
        CancelDirectOidRequestHandler: Some(oid::cancel),
        ..NDIS_MINIPORT_DRIVER_CHARACTERISTICS::ZERO
    }
}

/// `MiniportSetOptions`: registers the NDK provider's handlers. PASSIVE_LEVEL. Stores the handle here too, as NdisMRegisterMiniportDriver
/// may write its out parameter only later.
unsafe extern "system" fn set_options(driver: NDIS_HANDLE, _context: NDIS_HANDLE) -> NDIS_STATUS {
    driver::set_ndis(driver);
    let mut provider = ndk::characteristics();
    // SAFETY: the handle NDIS gave, and complete characteristics.
    unsafe { ndis::NdisSetOptionalHandlers(driver, (&raw mut provider).cast()) }
}

/// `MiniportDriverUnload`. PASSIVE_LEVEL; all adapters are halted. The driver unbinds from the framework last, so that no framework
/// object outlives the binding.
unsafe extern "system" fn unload(_driver: *mut c_void) {
    control::ignore_processes();
    // SAFETY: registered, and not yet deregistered.
    unsafe { ndis::NdisMDeregisterMiniportDriver(driver::ndis()) };
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    client::deregister(&passive);
    // A halt does not wait until deferred calls return: the last ones may still run code of this image.
    processors::stop(&passive);
    events::unregister(&passive);
    // SAFETY: the last call into the framework, at PASSIVE_LEVEL, with the driver it created.
    unsafe { wdfminiport::driver_miniport_unload(driver::wdf()) };
}
