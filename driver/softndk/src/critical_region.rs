//! Critical regions: the thread can't be suspended, as that takes a normal kernel APC.
//!
//! A thread of the user in here holds references that others wait for: at the end of its process, or of the adapter. Who may
//! suspend it could make them wait for ever.
#![expect(unsafe_code, reason = "calls into the kernel that have to be paired on one thread")]

use core::marker::PhantomData;

use wdk_sys::ntddk::{KeEnterCriticalRegion, KeLeaveCriticalRegion};

/// The current thread is in a critical region until this is dropped.
pub(crate) struct CriticalRegion(PhantomData<*mut ()>);

impl CriticalRegion {
    /// IRQL <= APC_LEVEL, where it also has to be dropped (ddi: nf-ntddk-keentercriticalregion).
    pub(crate) fn enter() -> Self {
        // SAFETY: the IRQL, by contract; left by the drop, on this thread, as the type is not Send.
        unsafe { KeEnterCriticalRegion() };
        Self(PhantomData)
    }
}

impl Drop for CriticalRegion {
    fn drop(&mut self) {
        // SAFETY: entered by `enter` on this thread.
        unsafe { KeLeaveCriticalRegion() };
    }
}
