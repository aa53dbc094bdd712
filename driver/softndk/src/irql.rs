//! The IRQL of the current thread.
#![expect(unsafe_code, reason = "the processor's register of the IRQL")]

use core::arch::asm;

use platform::DISPATCH_LEVEL;

/// Calls `body` at DISPATCH_LEVEL. IRQL <= DISPATCH. The thread keeps its processor until `body` returns, so KeFlushQueuedDpcs, which the
/// unload calls, waits for `body` as for a DPC.
pub(crate) fn at_dispatch(body: impl FnOnce()) {
    let irql = raise();
    body();
    // SAFETY: raised above; `body` has released its locks.
    unsafe { lower(irql) };
}

/// `KeGetCurrentIrql`, which is inline on x64: reads the task priority register.
pub(crate) fn current() -> u8 {
    let irql: u64;
    // SAFETY: reading CR8 has no effect.
    unsafe { asm!("mov {}, cr8", out(reg) irql, options(nomem, nostack, preserves_flags)) };
    irql as u8
}

/// `KeRaiseIrqlToDpcLevel`: returns the previous IRQL. Does not write the register if the IRQL is high enough, as a write may exit to a
/// hypervisor.
pub(crate) fn raise() -> u8 {
    let before = current();
    if before < DISPATCH_LEVEL {
        set(DISPATCH_LEVEL);
    }
    before
}

/// `KeLowerIrql` after [`raise`].
///
/// # Safety
/// [`raise`] returned `before` on this thread, which holds no lock that it has taken since.
pub(crate) unsafe fn lower(before: u8) {
    if before < DISPATCH_LEVEL {
        set(before);
    }
}

/// Writes the task priority register, as KeRaiseIrqlToDpcLevel and KeLowerIrql do, which are inline on x64.
fn set(irql: u8) {
    // SAFETY: `raise` only raises the IRQL, and `lower` restores it. The compiler moves no memory access across this.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(irql), options(nostack, preserves_flags)) };
}
