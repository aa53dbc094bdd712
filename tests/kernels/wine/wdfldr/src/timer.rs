//! Timers and DPCs, over the kernel's.

use std::{cell::UnsafeCell, ffi::c_void};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, ntoskrnl, status, violation};

use crate::{
    loader::Globals,
    object::{self, Attributes, Callback, Handle, Kind},
};

const STATUS_WDF_PARENT_NOT_SPECIFIED: i32 = 0xC020_0212_u32.cast_signed();

/// `WDF_TIMER_CONFIG` (wdftimer.h), 0x28 bytes.
#[repr(C)]
pub(crate) struct TimerConfig {
    size: u32,
    function: Option<Callback>,
    /// Milliseconds; 0: once.
    period: u32,
    automatic_serialization: u8,
    tolerable_delay: u32,
    high_resolution: u64,
}

const _: () = assert!(size_of::<TimerConfig>() == 0x28);

/// `WDF_DPC_CONFIG` (wdfdpc.h), 0x18 bytes.
#[repr(C)]
pub(crate) struct DpcConfig {
    size: u32,
    function: Option<Callback>,
    automatic_serialization: u8,
}

const _: () = assert!(size_of::<DpcConfig>() == 0x18);

/// A KDPC (0x40 bytes) and what it calls.
pub(crate) struct Dpc {
    kdpc: UnsafeCell<[u64; 8]>,
    function: Callback,
    handle: Handle,
}

// SAFETY: the KDPC is only used by the kernel's functions; the rest is constant once the object exists.
unsafe impl Send for Dpc {}

unsafe extern "system" fn run_dpc(_dpc: *mut c_void, context: *mut c_void, _: *mut c_void, _: *mut c_void) {
    // SAFETY: the context is the `Dpc`, which is freed only after its KDPC was removed and flushed.
    let dpc = unsafe { &*context.cast::<Dpc>() };
    // SAFETY: the driver gave this routine for this object.
    unsafe { (dpc.function)(dpc.handle) };
}

impl Dpc {
    fn new(function: Callback) -> Box<Self> {
        let dpc = Box::new(Self { kdpc: UnsafeCell::new([0; 8]), function, handle: std::ptr::null_mut() });
        let context = (&raw const *dpc).cast_mut().cast();
        // SAFETY: storage for a KDPC that does not move: it is in a box.
        unsafe { ntoskrnl::KeInitializeDpc(dpc.kdpc.get().cast(), run_dpc, context) };
        dpc
    }

    fn kdpc(&self) -> *mut c_void {
        self.kdpc.get().cast()
    }
}

/// A KTIMER (0x40 bytes) and the DPC it queues.
pub(crate) struct Timer {
    ktimer: UnsafeCell<[u64; 8]>,
    dpc: Box<Dpc>,
    period: u32,
}

// SAFETY: the KTIMER is only used by the kernel's functions.
unsafe impl Send for Timer {}

/// The parent of a timer, DPC or work item: required, and below a device.
fn required_parent(attributes: Option<&Attributes>) -> Result<Handle, i32> {
    let parent = attributes.map_or(std::ptr::null_mut(), |a| a.parent);
    if parent.is_null() {
        return Err(STATUS_WDF_PARENT_NOT_SPECIFIED);
    }
    match object::device_above(parent) {
        Some(_) => Ok(parent),
        None => Err(status::INVALID_DEVICE_REQUEST),
    }
}

pub(crate) fn checked_parent(attributes: *const Attributes) -> Result<(Option<&'static Attributes>, Handle), i32> {
    // SAFETY: callers pass on the driver's null or attributes; used for the duration of the call only.
    let attributes = unsafe { object::check_attributes(attributes) }?;
    Ok((attributes, required_parent(attributes)?))
}

/// wdftimer/nf-wdftimer-wdftimercreate (318): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfTimerCreate(
    _globals: *mut Globals,
    config: *const TimerConfig,
    attributes: *const Attributes,
    timer: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfTimerCreate");
    // SAFETY: the caller gives a configuration.
    let checked = unsafe { object::check_size(config, "WDF_TIMER_CONFIG") }.and_then(|()| checked_parent(attributes));
    let (attributes, parent) = match checked {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    // SAFETY: its size has been checked.
    let config = unsafe { &*config };
    let Some(function) = config.function else { return status::INVALID_PARAMETER };
    let high_resolution = config.high_resolution & 0xFF != 0;
    if config.period > i32::MAX as u32 || (high_resolution && config.tolerable_delay > 0) {
        return status::INVALID_PARAMETER;
    }
    let object = Box::new(Timer { ktimer: UnsafeCell::new([0; 8]), dpc: Dpc::new(function), period: config.period });
    // SAFETY: storage for a KTIMER that does not move: it is in a box. 0 is NotificationTimer.
    unsafe { ntoskrnl::KeInitializeTimerEx(object.ktimer.get().cast(), 0) };
    let handle = object::create(Kind::Timer(object), attributes, parent);
    object::with(handle, "WdfTimerCreate", |object| {
        if let Kind::Timer(timer) = &mut object.kind {
            timer.dpc.handle = handle;
        }
    });
    // SAFETY: the caller gives a place for the handle.
    unsafe { timer.write(handle) };
    status::SUCCESS
}

/// KTIMER, KDPC and period of a timer; its storage stays until the object is gone.
fn parts(timer: Handle, function: &str) -> Option<(*mut c_void, *mut c_void, u32)> {
    object::with(timer, function, |object| match &object.kind {
        Kind::Timer(timer) => Some((timer.ktimer.get().cast(), timer.dpc.kdpc(), timer.period)),
        _ => None,
    })
    .flatten()
}

/// wdftimer/nf-wdftimer-wdftimerstart (319): at most DISPATCH_LEVEL; 100 ns, negative relative; TRUE if it was queued already.
pub(crate) unsafe extern "system" fn WdfTimerStart(_globals: *mut Globals, timer: Handle, due: i64) -> u8 {
    kernel::at_most(DISPATCH_LEVEL, "WdfTimerStart");
    let Some((ktimer, kdpc, period)) = parts(timer, "WdfTimerStart") else { return 0 };
    // SAFETY: both live as long as the object, which is not deleted while it is used.
    unsafe { ntoskrnl::KeSetTimerEx(ktimer, due, period as i32, kdpc) }
}

/// wdftimer/nf-wdftimer-wdftimerstop (320): at most DISPATCH_LEVEL, with `wait` PASSIVE_LEVEL; TRUE if it was queued.
pub(crate) unsafe extern "system" fn WdfTimerStop(_globals: *mut Globals, timer: Handle, wait: u8) -> u8 {
    kernel::at_most(if wait != 0 { PASSIVE_LEVEL } else { DISPATCH_LEVEL }, "WdfTimerStop");
    let Some((ktimer, kdpc, _)) = parts(timer, "WdfTimerStop") else { return 0 };
    stop(ktimer, kdpc, wait != 0)
}

fn stop(ktimer: *mut c_void, kdpc: *mut c_void, wait: bool) -> u8 {
    // SAFETY: an initialised timer.
    let queued = unsafe { ntoskrnl::KeCancelTimer(ktimer) };
    // SAFETY: an initialised DPC.
    let removed = unsafe { ntoskrnl::KeRemoveQueueDpc(kdpc) };
    if wait && kernel::irql() == PASSIVE_LEVEL {
        // SAFETY: at PASSIVE_LEVEL.
        unsafe { ntoskrnl::KeFlushQueuedDpcs() };
    }
    queued | removed
}

/// wdftimer/nf-wdftimer-wdftimergetparentobject (321) and its like for DPCs (114) and work items (381): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfGetParentObject(_globals: *mut Globals, object: Handle) -> Handle {
    kernel::at_most(DISPATCH_LEVEL, "Wdf...GetParentObject");
    object::parent(object)
}

/// wdfdpc/nf-wdfdpc-wdfdpccreate (111): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfDpcCreate(
    _globals: *mut Globals,
    config: *const DpcConfig,
    attributes: *const Attributes,
    dpc: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfDpcCreate");
    // SAFETY: the caller gives a configuration.
    let checked = unsafe { object::check_size(config, "WDF_DPC_CONFIG") }.and_then(|()| checked_parent(attributes));
    let (attributes, parent) = match checked {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    // SAFETY: its size has been checked.
    let Some(function) = (unsafe { (*config).function }) else { return status::INVALID_PARAMETER };
    let handle = object::create(Kind::Dpc(Dpc::new(function)), attributes, parent);
    object::with(handle, "WdfDpcCreate", |object| {
        if let Kind::Dpc(dpc) = &mut object.kind {
            dpc.handle = handle;
        }
    });
    // SAFETY: the caller gives a place for the handle.
    unsafe { dpc.write(handle) };
    status::SUCCESS
}

fn kdpc(dpc: Handle, function: &str) -> Option<*mut c_void> {
    object::with(dpc, function, |object| match &object.kind {
        Kind::Dpc(dpc) => Some(dpc.kdpc()),
        _ => None,
    })
    .flatten()
}

/// wdfdpc/nf-wdfdpc-wdfdpcenqueue (112): any IRQL; FALSE if queued already.
pub(crate) unsafe extern "system" fn WdfDpcEnqueue(_globals: *mut Globals, dpc: Handle) -> u8 {
    let Some(kdpc) = kdpc(dpc, "WdfDpcEnqueue") else { return 0 };
    // SAFETY: an initialised DPC that lives as long as the object.
    unsafe { ntoskrnl::KeInsertQueueDpc(kdpc, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// wdfdpc/nf-wdfdpc-wdfdpccancel (113): with `wait` PASSIVE_LEVEL; TRUE if it was queued.
pub(crate) unsafe extern "system" fn WdfDpcCancel(_globals: *mut Globals, dpc: Handle, wait: u8) -> u8 {
    if wait != 0 {
        kernel::at_most(PASSIVE_LEVEL, "WdfDpcCancel");
    }
    let Some(kdpc) = kdpc(dpc, "WdfDpcCancel") else { return 0 };
    // SAFETY: an initialised DPC.
    let removed = unsafe { ntoskrnl::KeRemoveQueueDpc(kdpc) };
    if wait != 0 && kernel::irql() == PASSIVE_LEVEL {
        // SAFETY: at PASSIVE_LEVEL.
        unsafe { ntoskrnl::KeFlushQueuedDpcs() };
    }
    removed
}

/// wdfdpc/nf-wdfdpc-wdfdpcwdmgetdpc (115): any IRQL.
pub(crate) unsafe extern "system" fn WdfDpcWdmGetDpc(_globals: *mut Globals, dpc: Handle) -> *mut c_void {
    kdpc(dpc, "WdfDpcWdmGetDpc").unwrap_or(std::ptr::null_mut())
}

/// Stops a timer or DPC that is being deleted, and waits for its routine.
pub(crate) fn stop_for_delete(handle: Handle) {
    let found = object::with(handle, "WdfObjectDelete", |object| match &object.kind {
        Kind::Timer(timer) => Some((Some(timer.ktimer.get().cast::<c_void>()), timer.dpc.kdpc())),
        Kind::Dpc(dpc) => Some((None, dpc.kdpc())),
        _ => None,
    });
    let Some(Some((ktimer, kdpc))) = found else { return };
    if kernel::irql() > PASSIVE_LEVEL {
        violation("a timer or DPC is deleted above PASSIVE_LEVEL: its routine may be running");
    }
    if let Some(ktimer) = ktimer {
        stop(ktimer, kdpc, true);
    } else {
        // SAFETY: an initialised DPC.
        unsafe { ntoskrnl::KeRemoveQueueDpc(kdpc) };
        if kernel::irql() == PASSIVE_LEVEL {
            // SAFETY: at PASSIVE_LEVEL.
            unsafe { ntoskrnl::KeFlushQueuedDpcs() };
        }
    }
}
