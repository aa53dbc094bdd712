//! Files of drivers whose requests come from Wine and not from the stand-in for ndis: the I/O manager unloads no driver that has open
//! files, but Wine does, as it delivers IRP_MJ_CLOSE at its leisure after the handle was closed.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::report::{self, violation};

type Unload = unsafe extern "system" fn(*mut c_void);

const IRP_MJ_CREATE: u8 = 0;
const IRP_MJ_CLOSE: u8 = 2;
/// Places in an IRP, its stack location, a DEVICE_OBJECT and a DRIVER_OBJECT (wdm.h).
const CURRENT_STACK_LOCATION: usize = 0xB8;
const DEVICE_OBJECT: usize = 0x28;
const DRIVER_OBJECT: usize = 0x08;
const DRIVER_UNLOAD: usize = 0x68;
/// How long Wine may take to deliver the last close.
const PATIENCE: Duration = Duration::from_secs(12);

#[derive(Default)]
struct Driver {
    /// Its own routine, once it has opened a file.
    unload: Option<Unload>,
    files: usize,
}

/// By the address of the driver object.
static DRIVERS: Mutex<BTreeMap<usize, Driver>> = Mutex::new(BTreeMap::new());
static CLOSED: Condvar = Condvar::new();

/// Counts the files of a driver from now on.
pub(crate) fn watch(driver: *mut c_void) {
    report::lock(&DRIVERS).entry(driver.addr()).or_default();
}

/// A driver completes a request with this status.
///
/// # Safety
/// The IRP is the driver's still, and has a current stack location.
pub(crate) unsafe fn completing(irp: *mut c_void, status: i32) {
    // SAFETY: passed on to the caller.
    let (major, device) = unsafe {
        let location = irp.byte_add(CURRENT_STACK_LOCATION).cast::<*mut c_void>().read();
        (location.cast::<u8>().read(), location.byte_add(DEVICE_OBJECT).cast::<*mut c_void>().read())
    };
    if device.is_null() {
        return; // A request that no device has, as those of Winsock Kernel.
    }
    // SAFETY: a live device names its driver.
    let driver = unsafe { device.byte_add(DRIVER_OBJECT).cast::<*mut c_void>().read() };
    let mut drivers = report::lock(&DRIVERS);
    let Some(known) = drivers.get_mut(&driver.addr()) else { return };
    match major {
        IRP_MJ_CREATE if status >= 0 => {
            known.files += 1;
            if known.unload.is_none() {
                // SAFETY: a field of a live driver object, which Wine reads when the driver is unloaded.
                let routine = unsafe { &mut *driver.byte_add(DRIVER_UNLOAD).cast::<Option<Unload>>() };
                known.unload = routine.replace(unload);
            }
        }
        IRP_MJ_CLOSE => {
            known.files = known.files.saturating_sub(1);
            CLOSED.notify_all();
        }
        _ => {}
    }
}

/// In place of the driver's own routine.
unsafe extern "system" fn unload(driver: *mut c_void) {
    let has_files =
        |drivers: &mut BTreeMap<usize, Driver>| drivers.get(&driver.addr()).is_some_and(|found| found.files > 0);
    let (mut drivers, result) =
        CLOSED.wait_timeout_while(report::lock(&DRIVERS), PATIENCE, has_files).unwrap_or_else(PoisonError::into_inner);
    let found = drivers.remove(&driver.addr());
    drop(drivers);
    if result.timed_out() {
        violation("a driver is unloaded with open files: Windows would not");
    }
    if let Some(unload) = found.and_then(|found| found.unload) {
        // SAFETY: the driver's own.
        unsafe { unload(driver) };
    }
}
