//! How the adapter comes about: by Plug and Play if a device node names the driver's service, else at once, as soon as DriverEntry
//! has returned. There are as many as the driver's parameter `Adapters` says, one if it says nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use kernel::{DEVICE_OBJECT, DRIVER_OBJECT, IRP, Shared, ntoskrnl, status, violation};
use ndk_abi::{ndis::*, status::NDIS_STATUS};

use crate::{
    adapter::{Adapter, Devices},
    driver::{self, Driver},
    irp::{self, IRP_MJ_PNP},
    lock, registry,
};

const FILE_DEVICE_NETWORK: u32 = 0x12;
const DO_DEVICE_INITIALIZING: u32 = 0x80;
const IRP_MN_START_DEVICE: u8 = 0;
const IRP_MN_REMOVE_DEVICE: u8 = 2;
const IRP_MN_SURPRISE_REMOVAL: u8 = 0x17;
/// A dispatch table entry that no driver here fills, by which the return of DriverEntry is seen.
pub(crate) const UNUSED_MAJOR_FUNCTION: usize = 1;

/// Functional devices, with the device below each.
static DEVICES: Mutex<BTreeMap<usize, Shared<DEVICE_OBJECT>>> = Mutex::new(BTreeMap::new());

/// Whether the thread that starts the adapter is at work.
static STARTING: Mutex<bool> = Mutex::new(false);
static STARTED: Condvar = Condvar::new();

/// Starts the adapter from another thread, unless a device node will.
pub(crate) fn start_without_device(driver: Arc<Driver>) {
    if registry::device_node(&driver.service).is_some() {
        kernel::trace("ndis: waiting for Plug and Play");
        return;
    }
    *lock(&STARTING) = true;
    std::thread::spawn(move || {
        if entry_has_returned(&driver) {
            let adapters = registry::text_parameter(&driver.service, 0, "Adapters");
            let adapters = adapters.and_then(|adapters| adapters.parse().ok()).unwrap_or(1);
            (0..adapters).for_each(|number| start_software_device(&driver, number));
        }
        *lock(&STARTING) = false;
        STARTED.notify_all();
    });
}

/// Waits until the adapter has been started, or its starting given up.
pub(crate) fn wait_for_start() {
    let starting = lock(&STARTING);
    drop(STARTED.wait_while(starting, |starting| *starting).unwrap_or_else(PoisonError::into_inner));
}

/// Waits for DriverEntry to return; false if the driver has deregistered by then. The I/O manager fills the dispatch entries that
/// a driver left empty once its DriverEntry has succeeded.
fn entry_has_returned(driver: &Driver) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    while !driver.is_deregistered() {
        // SAFETY: the driver object lives as long as the driver; the entry is only written once, by the I/O manager.
        let entry = unsafe { (&raw const (*driver.object.get()).MajorFunction[UNUSED_MAJOR_FUNCTION]).read_volatile() };
        if entry.is_some() {
            return true;
        }
        if Instant::now() > limit {
            violation("stand-in: DriverEntry did not return within 10 s");
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// A device object of the driver without a name.
fn create_device(driver: *mut DRIVER_OBJECT) -> Result<*mut DEVICE_OBJECT, i32> {
    let mut device = std::ptr::null_mut();
    // SAFETY: the driver's object and a place for the result.
    let created =
        unsafe { ntoskrnl::IoCreateDevice(driver, 0, std::ptr::null(), FILE_DEVICE_NETWORK, 0, 0, &mut device) };
    if created < 0 { Err(created) } else { Ok(device) }
}

/// Stands in for a device node: a physical device, the functional one on top, and the adapter; both go with the adapter.
fn start_software_device(driver: &Arc<Driver>, number: u32) {
    let object = driver.object.get();
    let (Ok(physical), Ok(functional)) = (create_device(object), create_device(object)) else {
        violation("stand-in: no device objects for the adapter");
        return;
    };
    let devices = Devices { physical: Shared(physical), functional: Shared(functional), next: Shared(physical) };
    if Adapter::start(driver, devices, number).is_success() {
        lock(&SOFTWARE_DEVICES).push(devices);
    } else {
        delete_software_device(devices);
    }
}

static SOFTWARE_DEVICES: Mutex<Vec<Devices>> = Mutex::new(Vec::new());

/// Deletes an adapter's devices, if `start_software_device` made them, once the adapter is halted.
pub(crate) fn forget_software_device(devices: Devices) {
    let is_the_same = |made: &Devices| made.functional.get() == devices.functional.get();
    let mut software = lock(&SOFTWARE_DEVICES);
    if let Some(place) = software.iter().position(is_the_same) {
        software.swap_remove(place);
        drop(software);
        delete_software_device(devices);
    }
}

fn delete_software_device(devices: Devices) {
    // SAFETY: created by `start_software_device`, deleted once.
    unsafe {
        ntoskrnl::IoDeleteDevice(devices.functional.get());
        ntoskrnl::IoDeleteDevice(devices.physical.get());
    }
}

/// wdm/nc-wdm-driver_add_device: PASSIVE_LEVEL. NDIS's, set in the driver object by NdisMRegisterMiniportDriver.
pub(crate) unsafe extern "system" fn add_device(driver: *const DRIVER_OBJECT, physical: *const DEVICE_OBJECT) -> i32 {
    let device = match create_device(driver.cast_mut()) {
        Ok(device) => device,
        Err(code) => return code,
    };
    // SAFETY: two live device objects.
    let lower = unsafe { ntoskrnl::IoAttachDeviceToDeviceStack(device, physical.cast_mut()) };
    lock(&DEVICES).insert(device as usize, Shared(lower));
    // SAFETY: the new device.
    unsafe { (*device).Flags &= !DO_DEVICE_INITIALIZING };
    status::SUCCESS
}

/// IRPs of functional devices: Plug and Play starts and stops the adapter, everything is passed down.
///
/// # Safety
/// `irp` is an IRP for `device` that the caller owns.
pub(crate) unsafe fn dispatch(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> i32 {
    // SAFETY: passed on to the caller.
    let (major, minor) = unsafe {
        let location = irp::current_location(irp);
        ((*location).MajorFunction, (*location).MinorFunction)
    };
    let lower = lock(&DEVICES).get(&(device as usize)).copied();
    let Some(lower) = lower else {
        // SAFETY: the caller owns the IRP.
        return unsafe { irp::complete(irp, status::INVALID_DEVICE_REQUEST) };
    };
    if major == IRP_MJ_PNP {
        let result = plug_and_play(device, lower, minor);
        if let Some(result) = result {
            // SAFETY: the caller owns the IRP.
            unsafe { (*irp).IoStatus.Anonymous.Status = result };
            if result < 0 {
                // SAFETY: as above.
                return unsafe { irp::complete(irp, result) };
            }
        }
    }
    // IoSkipCurrentIrpStackLocation, then IoCallDriver.
    // SAFETY: the caller owns the IRP; the location above the current one exists because the device below was the top.
    let passed = unsafe {
        (*irp).CurrentLocation += 1;
        let location = irp::current_location(irp).add(1);
        (*irp).Tail.Overlay.Anonymous2.Anonymous.CurrentStackLocation = location;
        ntoskrnl::IofCallDriver(lower.get(), irp)
    };
    if major == IRP_MJ_PNP && minor == IRP_MN_REMOVE_DEVICE {
        lock(&DEVICES).remove(&(device as usize));
        // SAFETY: the device is detached and deleted once, after its last IRP.
        unsafe {
            ntoskrnl::IoDetachDevice(lower.get());
            ntoskrnl::IoDeleteDevice(device);
        }
    }
    passed
}

/// The status of a Plug and Play request that concerns the adapter.
fn plug_and_play(device: *mut DEVICE_OBJECT, lower: Shared<DEVICE_OBJECT>, minor: u8) -> Option<i32> {
    let driver = driver::registered()?;
    match minor {
        IRP_MN_START_DEVICE => {
            let devices = Devices { physical: lower, functional: Shared(device), next: lower };
            let result: NDIS_STATUS = Adapter::start(&driver, devices, 0);
            Some(result.0)
        }
        IRP_MN_SURPRISE_REMOVAL | IRP_MN_REMOVE_DEVICE => {
            match driver.first_adapter() {
                Some(adapter) if minor == IRP_MN_SURPRISE_REMOVAL => adapter.remove_surprisingly(),
                Some(adapter) => adapter.stop(NdisHaltDeviceDisabled),
                None => {}
            }
            Some(status::SUCCESS)
        }
        _ => None,
    }
}
