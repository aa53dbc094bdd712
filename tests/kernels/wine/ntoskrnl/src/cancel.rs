//! Cancellation by the one who made an IRP.

use crate::{
    irp::{Irp, export, set_cancel_routine},
    irql::{self, DISPATCH_LEVEL},
    report::violation,
};

/// DRIVER_CANCEL.
type CancelRoutine = unsafe extern "system" fn(*mut u8, *mut Irp);

/// wdm/nf-wdm-iocancelirp: at most DISPATCH_LEVEL. The routine is called with the cancel lock held, which it releases. TRUE: there
/// was one.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCancelIrp(irp: *mut Irp) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "IoCancelIrp");
    let mut before = 0;
    // SAFETY: a place for the level; released below, or by the routine.
    unsafe { export::IoAcquireCancelSpinLock(&mut before) };
    // SAFETY: the caller gives an IRP of its own; others read these fields with the lock held, or as single bytes.
    unsafe {
        (&raw mut (*irp).cancel).write_volatile(1);
        (*irp).cancel_irql = before;
    }
    let routine = set_cancel_routine(irp, 0);
    if routine == 0 {
        // SAFETY: acquired above.
        unsafe { export::IoReleaseCancelSpinLock(before) };
        return 0;
    }
    // SAFETY: set as its cancel routine by the driver that has the IRP.
    let routine = unsafe { std::mem::transmute::<usize, CancelRoutine>(routine) };
    // SAFETY: as documented.
    unsafe { routine(std::ptr::null_mut(), irp) };
    let after = irql::current();
    if after != before {
        violation(&format!("a cancel routine was called with the level {before} to restore and returned at {after}"));
        irql::set(before, false);
    }
    1
}
