//! KMDF, bound as the entry stub of the WDK binds it, and the checks of its stand-in.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use ndk_abi::wdm::UNICODE_STRING;

use crate::{
    checks::Storage,
    imports::{WdfVersionBind, WdfVersionUnbind},
    text::Text,
};

/// `WDF_BIND_INFO`.
#[repr(C)]
struct BindInfo {
    size: u32,
    component: *const u16,
    major: u32,
    minor: u32,
    build: u32,
    function_count: u32,
    functions: *mut c_void,
    module: *mut c_void,
}

/// `WDF_OBJECT_ATTRIBUTES`.
#[repr(C)]
struct Attributes {
    size: u32,
    cleanup: Option<unsafe extern "system" fn(*mut c_void)>,
    destroy: Option<unsafe extern "system" fn(*mut c_void)>,
    execution_level: i32,
    synchronization_scope: i32,
    parent: *mut c_void,
    context_size_override: usize,
    context_type: *const c_void,
}

/// `WDF_DRIVER_CONFIG`.
#[repr(C)]
struct DriverConfig {
    size: u32,
    device_add: usize,
    unload: usize,
    init_flags: u32,
    pool_tag: u32,
}

/// `WDF_TIMER_CONFIG`.
#[repr(C)]
struct TimerConfig {
    size: u32,
    function: unsafe extern "system" fn(*mut c_void),
    period: u32,
    automatic_serialization: u8,
    tolerable_delay: u32,
    high_resolution: u64,
}

const COMPONENT: [u16; 12] = {
    let mut text = [0; 12];
    let ascii = b"KmdfLibrary";
    let mut i = 0;
    while i < ascii.len() {
        text[i] = ascii[i] as u16;
        i += 1;
    }
    text
};
const NO_DISPATCH_OVERRIDE: u32 = 2;

static FUNCTIONS: AtomicPtr<*const c_void> = AtomicPtr::new(core::ptr::null_mut());
static GLOBALS: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DEVICE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FIRED: AtomicU32 = AtomicU32::new(0);
static CLEANED: AtomicU32 = AtomicU32::new(0);

fn info() -> BindInfo {
    BindInfo {
        size: size_of::<BindInfo>() as u32,
        component: COMPONENT.as_ptr(),
        major: 1,
        minor: 33,
        build: 0,
        function_count: 458,
        functions: FUNCTIONS.as_ptr().cast(),
        module: core::ptr::null_mut(),
    }
}

/// The KMDF function of an index, as type `F`.
///
/// # Safety
/// `F` is the type of that function.
unsafe fn function<F: Copy>(index: usize) -> F {
    // SAFETY: the table has 458 entries of pointer size, and so is `F`.
    unsafe { core::mem::transmute_copy(&*FUNCTIONS.load(Ordering::Relaxed).add(index)) }
}

fn attributes(parent: *mut c_void) -> Attributes {
    Attributes {
        size: size_of::<Attributes>() as u32,
        cleanup: Some(cleaned),
        destroy: None,
        execution_level: 1,
        synchronization_scope: 1,
        parent,
        context_size_override: 0,
        context_type: core::ptr::null(),
    }
}

unsafe extern "system" fn cleaned(_object: *mut c_void) {
    CLEANED.fetch_add(1, Ordering::Relaxed);
}

/// Binds and creates the framework's driver object, in miniport mode.
///
/// # Safety
/// The arguments of DriverEntry.
pub(crate) unsafe fn bind(driver: *mut c_void, path: *mut UNICODE_STRING) -> i32 {
    type DriverCreate = unsafe extern "system" fn(
        *mut c_void,
        *mut c_void,
        *mut UNICODE_STRING,
        *const Attributes,
        *const DriverConfig,
        *mut *mut c_void,
    ) -> i32;
    let config = DriverConfig {
        size: size_of::<DriverConfig>() as u32,
        device_add: 0,
        unload: 0,
        init_flags: NO_DISPATCH_OVERRIDE,
        pool_tag: 0,
    };
    let mut bind_info = info();
    // SAFETY: as wdfldr documents; index 116 is WdfDriverCreate.
    unsafe {
        let bound = WdfVersionBind(driver, path, (&raw mut bind_info).cast(), GLOBALS.as_ptr());
        if bound < 0 {
            return bound;
        }
        let create: DriverCreate = function(116);
        create(GLOBALS.load(Ordering::Relaxed), driver, path, core::ptr::null(), &config, DRIVER.as_ptr())
    }
}

/// Binds with a number of functions that no release has.
pub(crate) fn bind_to_no_release() {
    static TABLE: Storage<[*const c_void; 437]> = Storage::new();
    let mut globals = core::ptr::null_mut();
    let mut bind_info = BindInfo { function_count: 437, functions: TABLE.get().cast(), ..info() };
    // SAFETY: wrong on purpose; the table has room for so many functions.
    unsafe { WdfVersionBind(core::ptr::null_mut(), core::ptr::null_mut(), (&raw mut bind_info).cast(), &mut globals) };
}

/// Unbinds, without the driver object having been unloaded: the way of a DriverEntry that fails.
pub(crate) unsafe fn unbind() {
    let mut bind_info = info();
    // SAFETY: bound before.
    unsafe {
        WdfVersionUnbind(core::ptr::null_mut(), (&raw mut bind_info).cast(), GLOBALS.load(Ordering::Relaxed));
    }
}

/// Unloads as the stub's override does: WdfDriverMiniportUnload (201), then unbinding.
pub(crate) unsafe fn unload() {
    // SAFETY: bound before; no object of the framework is left but the driver.
    unsafe {
        let unload: unsafe extern "system" fn(*mut c_void, *mut c_void) = function(201);
        unload(GLOBALS.load(Ordering::Relaxed), DRIVER.load(Ordering::Relaxed));
        unbind();
    }
}

/// WdfDeviceMiniportCreate (200) for the adapter's device objects.
pub(crate) unsafe fn create_device(functional: *mut c_void, next: *mut c_void, physical: *mut c_void) -> i32 {
    type Create = unsafe extern "system" fn(
        *mut c_void,
        *mut c_void,
        *const Attributes,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut *mut c_void,
    ) -> i32;
    // SAFETY: the arguments are those of the adapter.
    unsafe {
        let create: Create = function(200);
        let (globals, driver) = (GLOBALS.load(Ordering::Relaxed), DRIVER.load(Ordering::Relaxed));
        create(globals, driver, core::ptr::null(), functional, next, physical, DEVICE.as_ptr())
    }
}

/// WdfObjectDelete (208).
unsafe fn delete(object: *mut c_void) {
    // SAFETY: an object of the framework, deleted once.
    unsafe {
        let delete: unsafe extern "system" fn(*mut c_void, *mut c_void) = function(208);
        delete(GLOBALS.load(Ordering::Relaxed), object);
    }
}

pub(crate) unsafe fn delete_device() {
    // SAFETY: created in MiniportInitializeEx, deleted in MiniportHaltEx.
    unsafe { delete(DEVICE.load(Ordering::Relaxed)) };
}

unsafe extern "system" fn fired(_timer: *mut c_void) {
    FIRED.fetch_add(1, Ordering::Relaxed);
}

/// WdfSpinLock*, WdfTimer* and objects.
pub(crate) fn check(text: &mut Text<'_>) {
    type CreateTimer =
        unsafe extern "system" fn(*mut c_void, *const TimerConfig, *const Attributes, *mut *mut c_void) -> i32;
    type Create = unsafe extern "system" fn(*mut c_void, *const Attributes, *mut *mut c_void) -> i32;
    let globals = GLOBALS.load(Ordering::Relaxed);
    let device = DEVICE.load(Ordering::Relaxed);
    let config = TimerConfig {
        size: size_of::<TimerConfig>() as u32,
        function: fired,
        period: 0,
        automatic_serialization: 0,
        tolerable_delay: 0,
        high_resolution: 0,
    };
    let mut timer = core::ptr::null_mut();
    let mut lock = core::ptr::null_mut();
    // SAFETY: indices and types as in the framework's headers; objects are used between creation and deletion.
    unsafe {
        let create: CreateTimer = function(318);
        let orphan = create(globals, &config, core::ptr::null(), &mut timer);
        text.check(orphan == 0xC020_0212_u32.cast_signed(), "a timer without a parent was created");
        text.check(create(globals, &config, &attributes(device), &mut timer) == 0, "WdfTimerCreate failed");
        let start: unsafe extern "system" fn(*mut c_void, *mut c_void, i64) -> u8 = function(319);
        let stop: unsafe extern "system" fn(*mut c_void, *mut c_void, u8) -> u8 = function(320);
        FIRED.store(0, Ordering::Relaxed);
        text.check(start(globals, timer, -100_000) == 0, "WdfTimerStart says it was queued");
        crate::checks::sleep(100);
        text.check(FIRED.load(Ordering::Relaxed) == 1, "a WDFTIMER did not fire once");
        text.check(stop(globals, timer, 1) == 0, "WdfTimerStop says it was queued");
        text.check(start(globals, timer, -600_000_000) == 0, "WdfTimerStart says it was queued");
        text.check(start(globals, timer, -600_000_000) == 1, "WdfTimerStart says it was not queued");

        let create: Create = function(315);
        text.check(create(globals, &attributes(timer), &mut lock) == 0, "WdfSpinLockCreate failed");
        let acquire: unsafe extern "system" fn(*mut c_void, *mut c_void) = function(316);
        let release: unsafe extern "system" fn(*mut c_void, *mut c_void) = function(317);
        acquire(globals, lock);
        text.check(crate::imports::KeGetCurrentIrql() == 2, "WdfSpinLockAcquire does not raise");
        release(globals, lock);
        text.check(crate::imports::KeGetCurrentIrql() == 0, "WdfSpinLockRelease does not lower");

        CLEANED.store(0, Ordering::Relaxed);
        delete(timer); // With its child, the lock.
        text.check(CLEANED.load(Ordering::Relaxed) == 2, "EvtCleanup was not called for a parent and its child");
    }
}

/// Calls a function that the stand-in does not have: WdfIoQueueCreate (152).
pub(crate) fn call_missing() {
    // SAFETY: the slot's trap takes no arguments that it uses.
    unsafe {
        let missing: unsafe extern "system" fn(*mut c_void) -> i32 = function(152);
        missing(GLOBALS.load(Ordering::Relaxed));
    }
}
