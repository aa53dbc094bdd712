//! The IRQL of the thread.
#![expect(unsafe_code, reason = "the processor's register of the IRQL")]

use core::arch::asm;

use platform::DISPATCH_LEVEL;

/// Does something at DISPATCH_LEVEL. IRQL <= DISPATCH. A thread in there keeps the processor: an unloading driver that calls
/// KeFlushQueuedDpcs waits for it, as it does for DPCs.
pub(crate) fn at_dispatch(body: impl FnOnce()) {
    let irql = raise();
    body();
    lower(irql);
}

/// `KeGetCurrentIrql`, which is inline on x64: the task priority register.
pub(crate) fn current() -> u8 {
    let irql: u64;
    // SAFETY: reading CR8 has no effect.
    unsafe { asm!("mov {}, cr8", out(reg) irql, options(nomem, nostack, preserves_flags)) };
    irql as u8
}

/// `KeRaiseIrqlToDpcLevel`: returns the IRQL before. Where nothing changes the register is not written: a hypervisor may have to see to that.
pub(crate) fn raise() -> u8 {
    let before = current();
    if before < DISPATCH_LEVEL {
        set(DISPATCH_LEVEL);
    }
    before
}

/// `KeLowerIrql` after [`raise`].
pub(crate) fn lower(before: u8) {
    if before < DISPATCH_LEVEL {
        set(before);
    }
}

/// Both are inline on x64.
fn set(irql: u8) {
    // SAFETY: callers raise and then restore. Memory accesses stay on their side of the change.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(irql), options(nostack, preserves_flags)) };
}
