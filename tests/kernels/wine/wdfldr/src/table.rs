//! The function table: indices as in the framework's `wdffuncenum.h`.

use std::{ffi::c_void, sync::OnceLock};

use kernel::{ntoskrnl, status, violation};

use crate::{context, driver, loader::Globals, lock, memory, object, timer, work};

/// Room for all 458 entries of KMDF 1.33, in rows of ten.
const LENGTH: usize = 460;

/// What an unfilled slot does.
unsafe extern "system" fn missing<const INDEX: usize>() -> i32 {
    violation(&format!("KMDF function {INDEX} is not simulated"));
    status::NOT_IMPLEMENTED
}

/// Ten slots from `10 * $row` on, for each row.
macro_rules! rows {
    ($($row:literal)*) => {
        [$(
            missing::<{ $row * 10 }> as *const c_void, missing::<{ $row * 10 + 1 }> as *const c_void,
            missing::<{ $row * 10 + 2 }> as *const c_void, missing::<{ $row * 10 + 3 }> as *const c_void,
            missing::<{ $row * 10 + 4 }> as *const c_void, missing::<{ $row * 10 + 5 }> as *const c_void,
            missing::<{ $row * 10 + 6 }> as *const c_void, missing::<{ $row * 10 + 7 }> as *const c_void,
            missing::<{ $row * 10 + 8 }> as *const c_void, missing::<{ $row * 10 + 9 }> as *const c_void,
        )*]
    };
}

struct Table([*const c_void; LENGTH]);

// SAFETY: constant addresses of functions.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The table that drivers are given.
pub(crate) fn functions() -> &'static [*const c_void; LENGTH] {
    static TABLE: OnceLock<Table> = OnceLock::new();
    &TABLE
        .get_or_init(|| {
            let mut table: [*const c_void; LENGTH] = rows!(
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
                23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45
            );
            for (index, function) in filled() {
                table[index] = function;
            }
            Table(table)
        })
        .0
}

fn filled() -> [(usize, *const c_void); 39] {
    [
        (31, driver::WdfDeviceWdmGetDeviceObject as _),
        (32, driver::WdfDeviceWdmGetAttachedDevice as _),
        (33, driver::WdfDeviceWdmGetPhysicalDevice as _),
        (111, timer::WdfDpcCreate as _),
        (112, timer::WdfDpcEnqueue as _),
        (113, timer::WdfDpcCancel as _),
        (114, timer::WdfGetParentObject as _),
        (115, timer::WdfDpcWdmGetDpc as _),
        (116, driver::WdfDriverCreate as _),
        (118, driver::WdfDriverWdmGetDriverObject as _),
        (192, memory::WdfMemoryCreate as _),
        (194, memory::WdfMemoryGetBuffer as _),
        (200, driver::WdfDeviceMiniportCreate as _),
        (201, driver::WdfDriverMiniportUnload as _),
        (202, context::WdfObjectGetTypedContextWorker as _),
        (203, context::WdfObjectAllocateContext as _),
        (204, context::WdfObjectContextGetObject as _),
        (205, object::WdfObjectReferenceActual as _),
        (206, object::WdfObjectDereferenceActual as _),
        (207, object::WdfObjectCreate as _),
        (208, object::WdfObjectDelete as _),
        (312, lock::WdfWaitLockCreate as _),
        (313, lock::WdfWaitLockAcquire as _),
        (314, lock::WdfWaitLockRelease as _),
        (315, lock::WdfSpinLockCreate as _),
        (316, lock::WdfSpinLockAcquire as _),
        (317, lock::WdfSpinLockRelease as _),
        (318, timer::WdfTimerCreate as _),
        (319, timer::WdfTimerStart as _),
        (320, timer::WdfTimerStop as _),
        (321, timer::WdfGetParentObject as _),
        (367, WdfVerifierDbgBreakPoint as _),
        (368, WdfVerifierKeBugCheck as _),
        (379, work::WdfWorkItemCreate as _),
        (380, work::WdfWorkItemEnqueue as _),
        (381, timer::WdfGetParentObject as _),
        (382, work::WdfWorkItemFlush as _),
        (310, WdfObjectLock as _),
        (311, WdfObjectLock as _),
    ]
}

/// wdfverifier/nf-wdfverifier-wdfverifierdbgbreakpoint (367).
unsafe extern "system" fn WdfVerifierDbgBreakPoint(_globals: *mut Globals) {
    violation("WdfVerifierDbgBreakPoint called");
}

/// wdfverifier/nf-wdfverifier-wdfverifierkebugcheck (368).
unsafe extern "system" fn WdfVerifierKeBugCheck(
    _globals: *mut Globals,
    code: u32,
    p1: usize,
    p2: usize,
    p3: usize,
    p4: usize,
) {
    // SAFETY: ends the process that stands for the kernel.
    unsafe { ntoskrnl::KeBugCheckEx(code, p1, p2, p3, p4) };
}

/// wdfsync/nf-wdfsync-wdfobjectacquirelock (310, 311): miniport objects have no presentation lock.
unsafe extern "system" fn WdfObjectLock(_globals: *mut Globals, _object: object::Handle) {
    violation("WdfObjectAcquireLock/ReleaseLock: a miniport driver's objects have no presentation lock");
}
