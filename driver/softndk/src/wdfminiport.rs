//! The two functions of wdfminiport.h. wdk-sys reads wdf.h only, which does not include that header, so it has neither their types nor
//! their calls. The types and arguments here are from the ddi pages `nf-wdfminiport-*`.
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
/// PASSIVE_LEVEL; the framework driver object, and the device objects of an adapter.
pub(crate) unsafe fn device_miniport_create(
    driver: WDFDRIVER,
    device: PDEVICE_OBJECT,
    attached: PDEVICE_OBJECT,
    physical: PDEVICE_OBJECT,
) -> Result<WDFDEVICE, NTSTATUS> {
    // SAFETY: the stub writes this variable before DriverEntry only.
    let functions = unsafe { WdfFunctions };
    // SAFETY: the stub bound a framework that has all functions of KMDF 1.33.
    let function = unsafe { functions.add(WdfDeviceMiniportCreateTableIndex as usize) };
    // SAFETY: an entry of that table.
    let function = unsafe { read(function) };
    // SAFETY: all entries of the table have one type; the entry at this index is WdfDeviceMiniportCreate.
    let function = unsafe { transmute::<WDFFUNC, DeviceMiniportCreate>(function) };
    // SAFETY: the stub writes this variable before DriverEntry only.
    let globals = unsafe { WdfDriverGlobals };
    let mut created: WDFDEVICE = null_mut();
    let attributes = WDF_NO_OBJECT_ATTRIBUTES;
    // SAFETY: the caller's arguments, and an out parameter that outlives the call.
    let status = unsafe { function(globals, driver, attributes, device, attached, physical, &raw mut created) };
    if wdk_sys::NT_SUCCESS(status) { Ok(created) } else { Err(status) }
}

/// `WdfDriverMiniportUnload`. As in wdfminiport.h the call goes through the stub's variable, not through the table: the stub's function
/// also unbinds the driver from the framework.
///
/// # Safety
/// PASSIVE_LEVEL; the driver's last call into the framework, with the framework driver object.
pub(crate) unsafe fn driver_miniport_unload(driver: WDFDRIVER) {
    // SAFETY: the stub writes this variable before DriverEntry, and once after DriverEntry.
    let function = unsafe { WdfDriverMiniportUnloadOverride };
    // SAFETY: the variable has the type of the table's entries; it holds this function.
    let function = unsafe { transmute::<WDFFUNC, DriverMiniportUnload>(function) };
    // SAFETY: the stub writes this variable before DriverEntry only.
    let globals = unsafe { WdfDriverGlobals };
    // SAFETY: by contract.
    unsafe { function(globals, driver) };
}
