//! The framework's driver and device objects, in miniport mode.

use std::ffi::c_void;

use kernel::{DRIVER_OBJECT, PASSIVE_LEVEL, Shared, UNICODE_STRING, status, violation};

use crate::{
    loader::Globals,
    object::{self, Attributes, Handle, Kind},
};

/// `WDF_DRIVER_CONFIG` (wdfdriver.h), 0x20 bytes.
#[repr(C)]
pub(crate) struct DriverConfig {
    size: u32,
    device_add: *const c_void,
    unload: *const c_void,
    init_flags: u32,
    pool_tag: u32,
}

const _: () = assert!(size_of::<DriverConfig>() == 0x20);

const NON_PNP_DRIVER: u32 = 1;
const NO_DISPATCH_OVERRIDE: u32 = 2;
const COMPANION: u32 = 0x10;
const STATUS_DRIVER_INTERNAL_ERROR: i32 = 0xC000_0183_u32.cast_signed();

/// wdfdriver/nf-wdfdriver-wdfdrivercreate (116): PASSIVE_LEVEL, once per driver; attributes without parent.
pub(crate) unsafe extern "system" fn WdfDriverCreate(
    globals: *mut Globals,
    driver_object: *mut DRIVER_OBJECT,
    registry_path: *const UNICODE_STRING,
    attributes: *const Attributes,
    config: *const DriverConfig,
    driver: *mut Handle,
) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "WdfDriverCreate");
    // SAFETY: the caller gives a configuration and null or attributes.
    let checked =
        unsafe { object::check_size(config, "WDF_DRIVER_CONFIG").and_then(|()| object::check_attributes(attributes)) };
    let attributes = match checked {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    // SAFETY: the globals of the binding.
    let globals = unsafe { &mut *globals };
    // SAFETY: its size has been checked.
    let config = unsafe { &*config };
    if !globals.driver.is_null() {
        violation("WdfDriverCreate: called twice");
        return STATUS_DRIVER_INTERNAL_ERROR;
    }
    if config.init_flags & !(NON_PNP_DRIVER | NO_DISPATCH_OVERRIDE | COMPANION) != 0
        || attributes.is_some_and(|a| !a.parent.is_null())
        || driver_object.is_null()
        || registry_path.is_null()
    {
        violation("WdfDriverCreate: invalid parameter");
        return status::INVALID_PARAMETER;
    }
    if config.init_flags & NO_DISPATCH_OVERRIDE == 0 {
        violation("WdfDriverCreate: a miniport driver must set WdfDriverInitNoDispatchOverride");
    }
    // What makes the stub in the driver replace DriverObject->DriverUnload, which is the port driver's.
    globals.displace_driver_unload =
        (config.init_flags & (NON_PNP_DRIVER | NO_DISPATCH_OVERRIDE) == 0 || !config.unload.is_null()).into();
    if globals.displace_driver_unload != 0 {
        violation("WdfDriverCreate: EvtDriverUnload in a miniport driver displaces the port driver's unload routine");
    }
    globals.driver_flags |= config.init_flags;
    globals.driver_tag = config.pool_tag;
    let kind = Kind::Driver { object: Shared(driver_object) };
    globals.driver = object::create(kind, attributes, std::ptr::null_mut());
    if !driver.is_null() {
        // SAFETY: the caller gives null or a place for the handle.
        unsafe { driver.write(globals.driver) };
    }
    status::SUCCESS
}

/// wdfdriver/nf-wdfdriver-wdfdriverwdmgetdriverobject (118): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfDriverWdmGetDriverObject(
    _globals: *mut Globals,
    driver: Handle,
) -> *mut DRIVER_OBJECT {
    kernel::at_most(kernel::DISPATCH_LEVEL, "WdfDriverWdmGetDriverObject");
    let found = object::with(driver, "WdfDriverWdmGetDriverObject", |found| match &found.kind {
        Kind::Driver { object } => object.get(),
        _ => std::ptr::null_mut(),
    });
    found.unwrap_or(std::ptr::null_mut())
}

/// wdfminiport/nf-wdfminiport-wdfdriverminiportunload (201): called in the miniport's unload routine, as the last call.
pub(crate) unsafe extern "system" fn WdfDriverMiniportUnload(globals: *mut Globals, driver: Handle) {
    kernel::at_most(PASSIVE_LEVEL, "WdfDriverMiniportUnload");
    // SAFETY: the globals of the binding.
    let globals = unsafe { &mut *globals };
    if driver.is_null() || driver != globals.driver {
        violation("WdfDriverMiniportUnload: not the driver's handle");
        return;
    }
    globals.driver = std::ptr::null_mut();
    object::delete(driver);
}

/// wdfminiport/nf-wdfminiport-wdfdeviceminiportcreate (200): PASSIVE_LEVEL; attached device and PDO come both or not at all.
pub(crate) unsafe extern "system" fn WdfDeviceMiniportCreate(
    _globals: *mut Globals,
    driver: Handle,
    attributes: *const Attributes,
    device_object: *mut c_void,
    attached: *mut c_void,
    pdo: *mut c_void,
    device: *mut Handle,
) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "WdfDeviceMiniportCreate");
    // SAFETY: the caller gives null or attributes.
    let attributes = match unsafe { object::check_attributes(attributes) } {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    if device_object.is_null() || attached.is_null() != pdo.is_null() {
        violation("WdfDeviceMiniportCreate: invalid device objects");
        return status::INVALID_PARAMETER;
    }
    if object::with(driver, "WdfDeviceMiniportCreate", |_| ()).is_none() {
        return status::INVALID_PARAMETER;
    }
    let kind = Kind::Device { fdo: Shared(device_object), attached: Shared(attached), pdo: Shared(pdo) };
    // SAFETY: the caller gives a place for the handle.
    unsafe { device.write(object::create(kind, attributes, driver)) };
    status::SUCCESS
}

/// One of the three device objects of a WDFDEVICE.
fn device_part(device: Handle, function: &str, part: impl FnOnce(&Kind) -> *mut c_void) -> *mut c_void {
    kernel::at_most(kernel::DISPATCH_LEVEL, function);
    object::with(device, function, |object| part(&object.kind)).unwrap_or(std::ptr::null_mut())
}

/// wdfdevice/nf-wdfdevice-wdfdevicewdmgetdeviceobject (31): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfDeviceWdmGetDeviceObject(
    _globals: *mut Globals,
    device: Handle,
) -> *mut c_void {
    device_part(device, "WdfDeviceWdmGetDeviceObject", |kind| match kind {
        Kind::Device { fdo, .. } => fdo.get(),
        _ => std::ptr::null_mut(),
    })
}

/// wdfdevice/nf-wdfdevice-wdfdevicewdmgetattacheddevice (32): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfDeviceWdmGetAttachedDevice(
    _globals: *mut Globals,
    device: Handle,
) -> *mut c_void {
    device_part(device, "WdfDeviceWdmGetAttachedDevice", |kind| match kind {
        Kind::Device { attached, .. } => attached.get(),
        _ => std::ptr::null_mut(),
    })
}

/// wdfdevice/nf-wdfdevice-wdfdevicewdmgetphysicaldevice (33): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfDeviceWdmGetPhysicalDevice(
    _globals: *mut Globals,
    device: Handle,
) -> *mut c_void {
    device_part(device, "WdfDeviceWdmGetPhysicalDevice", |kind| match kind {
        Kind::Device { pdo, .. } => pdo.get(),
        _ => std::ptr::null_mut(),
    })
}
