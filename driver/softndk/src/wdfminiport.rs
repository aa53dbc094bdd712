//! The two functions of wdfminiport.h. wdf.h does not include that header, so wdk-sys, which reads wdf.h only, has neither
//! their types nor calls of them. Types and arguments are those of the ddi pages `nf-wdfminiport-*`.
#![expect(unsafe_code, reason = "calls through the framework's function table")]

use core::{
    mem::transmute,
    ptr::{null_mut, read},
};

use wdk_sys::{
    _WDFFUNCENUM::WdfDeviceMiniportCreateTableIndex, NTSTATUS, PDEVICE_OBJECT, PWDF_DRIVER_GLOBALS,
    PWDF_OBJECT_ATTRIBUTES, WDF_NO_OBJECT_ATTRIBUTES, WDFDEVICE, WDFDRIVER, WDFFUNC, WdfDriverGlobals,
    WdfDriverMiniportUnloadOverride, WdfFunctions,
};

/// `PFN_WDFDEVICEMINIPORTCREATE`: the globals, the driver, attributes, the device object of the adapter, the next lower one, the
/// lowest one, the new object.
type DeviceMiniportCreate = unsafe extern "C" fn(
    PWDF_DRIVER_GLOBALS,
    WDFDRIVER,
    PWDF_OBJECT_ATTRIBUTES,
    PDEVICE_OBJECT,
    PDEVICE_OBJECT,
    PDEVICE_OBJECT,
    *mut WDFDEVICE,
) -> NTSTATUS;

/// `PFN_WDFDRIVERMINIPORTUNLOAD`.
type DriverMiniportUnload = unsafe extern "C" fn(PWDF_DRIVER_GLOBALS, WDFDRIVER);

/// `WdfDeviceMiniportCreate`, without attributes.
///
/// # Safety
/// PASSIVE_LEVEL; the framework's driver object, and the device objects of an adapter.
pub(crate) unsafe fn device_miniport_create(
    driver: WDFDRIVER,
    device: PDEVICE_OBJECT,
    attached: PDEVICE_OBJECT,
    physical: PDEVICE_OBJECT,
) -> Result<WDFDEVICE, NTSTATUS> {
    // SAFETY: written by the stub before DriverEntry, never since.
    let functions = unsafe { WdfFunctions };
    // SAFETY: the stub bound a framework that has all functions of KMDF 1.33.
    let function = unsafe { functions.add(WdfDeviceMiniportCreateTableIndex as usize) };
    // SAFETY: as above.
    let function = unsafe { read(function) };
    // SAFETY: the table has the type of all functions; at this index it is that of WdfDeviceMiniportCreate.
    let function = unsafe { transmute::<WDFFUNC, DeviceMiniportCreate>(function) };
    // SAFETY: written by the stub before DriverEntry, never since.
    let globals = unsafe { WdfDriverGlobals };
    let mut created: WDFDEVICE = null_mut();
    let attributes = WDF_NO_OBJECT_ATTRIBUTES;
    // SAFETY: the caller's arguments, and an out parameter that outlives the call.
    let status = unsafe { function(globals, driver, attributes, device, attached, physical, &raw mut created) };
    if wdk_sys::NT_SUCCESS(status) { Ok(created) } else { Err(status) }
}

/// `WdfDriverMiniportUnload`. As in wdfminiport.h it goes by the stub's variable, not by the table: the stub's function also
/// unbinds the driver from the framework.
///
/// # Safety
/// PASSIVE_LEVEL; the last call into the framework, with the driver object that it created.
pub(crate) unsafe fn driver_miniport_unload(driver: WDFDRIVER) {
    // SAFETY: written by the stub before DriverEntry and once after it, never since.
    let function = unsafe { WdfDriverMiniportUnloadOverride };
    // SAFETY: the variable has the type of all functions; it is this one.
    let function = unsafe { transmute::<WDFFUNC, DriverMiniportUnload>(function) };
    // SAFETY: written by the stub before DriverEntry, never since.
    let globals = unsafe { WdfDriverGlobals };
    // SAFETY: as the caller promises.
    unsafe { function(globals, driver) };
}
