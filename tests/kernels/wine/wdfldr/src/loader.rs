//! The loader's contract: binding a driver to the framework.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicU32, Ordering},
};

use kernel::{DRIVER_OBJECT, PASSIVE_LEVEL, UNICODE_STRING, status, violation};

use crate::{object, table};

/// Entries of KMDF 1.33's table.
const FUNCTION_COUNT: u32 = 458;
/// Entries of the tables of KMDF 1.0, 1.1, 1.5, 1.9, 1.11 and 1.13. Up to the last the client's table is an array to fill, above it a
/// pointer variable to set.
const COPIED_COUNTS: [u32; 6] = [383, 386, 387, 396, 432, 438];
const LAST_COPIED_COUNT: u32 = 438;

/// `WDF_BIND_INFO` (0x30 bytes), and the fields that `WDF_BIND_INFO2` (0x58) adds as far as they are used.
#[repr(C)]
struct BindInfo {
    size: u32,
    component: *const u16,
    major: u32,
    minor: u32,
    build: u32,
    function_count: u32,
    function_table: *mut c_void,
    module: *mut c_void,
    minimum_version_required: *const u32,
    client_version_higher: *mut u8,
}

const BIND_INFO_SIZE: u32 = 0x30;
const BIND_INFO_2_SIZE: u32 = 0x58;

/// `WDF_DRIVER_GLOBALS` (wdfglobals.h), 0x38 bytes: the public head of a longer structure.
#[repr(C)]
pub(crate) struct Globals {
    pub(crate) driver: *mut c_void,
    pub(crate) driver_flags: u32,
    pub(crate) driver_tag: u32,
    pub(crate) driver_name: [u8; 32],
    pub(crate) displace_driver_unload: u8,
    private: [u64; 32],
}

const _: () = assert!(std::mem::offset_of!(Globals, displace_driver_unload) == 0x30);

/// Kind of object in the report.
const BINDING: &str = "WDF binding";
static BOUND: AtomicU32 = AtomicU32::new(0);

/// Gives the driver its table and globals; fails for versions above 1.33, and for sizes of a table to fill that no release has, as the
/// framework does (fxlibrarycommon.cpp: FxLibraryCommonRegisterClient). PASSIVE_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn WdfVersionBind(
    _driver: *mut DRIVER_OBJECT,
    _registry_path: *const UNICODE_STRING,
    info: *mut BindInfo,
    globals: *mut *mut Globals,
) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "WdfVersionBind");
    kernel::pin();
    if info.is_null() || globals.is_null() {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: a driver's bind information; fields beyond its size are not read.
    let size = unsafe { (*info).size };
    if size != BIND_INFO_SIZE && size != BIND_INFO_2_SIZE {
        violation(&format!("WdfVersionBind: bind information of {size:#x} bytes"));
        return status::INFO_LENGTH_MISMATCH;
    }
    // SAFETY: the size has been checked to cover these fields.
    let (count, function_table) = unsafe { ((*info).function_count, (*info).function_table) };
    if function_table.is_null() || count > FUNCTION_COUNT {
        return status::INVALID_PARAMETER;
    }
    if count <= LAST_COPIED_COUNT && !COPIED_COUNTS.contains(&count) {
        violation(&format!("WdfVersionBind: no release of KMDF has {count} functions"));
        return status::INVALID_PARAMETER;
    }
    let functions = table::functions();
    if count > LAST_COPIED_COUNT {
        // SAFETY: the address of the client's pointer variable.
        unsafe { function_table.cast::<*const *const c_void>().write(functions.as_ptr()) };
    } else {
        // SAFETY: the client's array of `count` pointers.
        unsafe { function_table.cast::<*const c_void>().copy_from(functions.as_ptr(), count as usize) };
    }
    if size == BIND_INFO_2_SIZE {
        // SAFETY: the size has been checked to cover the field; it is null or points to the client's variable.
        if let Some(higher) = unsafe { (*info).client_version_higher.as_mut() } {
            *higher = 0;
        }
    }
    let block = Box::new(Globals {
        driver: std::ptr::null_mut(),
        driver_flags: 0,
        driver_tag: 0,
        driver_name: [0; 32],
        displace_driver_unload: 0,
        private: [0; 32],
    });
    // SAFETY: a place for the pointer.
    unsafe { globals.write(Box::into_raw(block)) };
    BOUND.fetch_add(1, Ordering::Relaxed);
    kernel::object(BINDING, 1);
    status::SUCCESS
}

/// Ends the binding; the driver object of the framework goes with it if it is still there. PASSIVE_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn WdfVersionUnbind(
    _registry_path: *const UNICODE_STRING,
    _info: *mut BindInfo,
    globals: *mut Globals,
) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "WdfVersionUnbind");
    if globals.is_null() || BOUND.load(Ordering::Relaxed) == 0 {
        violation("WdfVersionUnbind: not bound");
        return status::INVALID_PARAMETER;
    }
    BOUND.fetch_sub(1, Ordering::Relaxed);
    kernel::object(BINDING, -1);
    // SAFETY: the globals of the binding, valid until here.
    let driver = unsafe { (*globals).driver };
    if !driver.is_null() {
        object::delete(driver);
    }
    // SAFETY: allocated by WdfVersionBind; the client must not use them any more.
    drop(unsafe { Box::from_raw(globals) });
    status::SUCCESS
}

/// No class extensions here.
#[unsafe(no_mangle)]
extern "system" fn WdfVersionBindClass(_info: *mut BindInfo, _globals: *mut Globals, _class: *mut c_void) -> i32 {
    violation("WdfVersionBindClass: there are no class extensions");
    status::NOT_SUPPORTED
}

/// No class extensions here.
#[unsafe(no_mangle)]
extern "system" fn WdfVersionUnbindClass(_info: *mut BindInfo, _globals: *mut Globals, _class: *mut c_void) {
    violation("WdfVersionUnbindClass: there are no class extensions");
}

/// The stub asks for the class-bind interface, which is not there.
#[unsafe(no_mangle)]
extern "system" fn WdfLdrQueryInterface(_interface: *mut c_void) -> i32 {
    status::NOT_SUPPORTED
}
