//! Critical regions: the thread cannot be suspended, as that takes a normal kernel APC.
//!
//! A program's thread in this driver holds references. The end of its process and the halt of the adapter wait until these are released: a
//! program that suspended the thread here could make both wait forever.
#![expect(unsafe_code, reason = "calls into the kernel that have to be paired on one thread")]

use core::marker::PhantomData;

use wdk_sys::ntddk::{KeEnterCriticalRegion, KeLeaveCriticalRegion};

/// The current thread is in a critical region until this is dropped.
pub(crate) struct CriticalRegion(PhantomData<*mut ()>);

impl CriticalRegion {
    /// Called and dropped at IRQL <= APC_LEVEL (ddi: nf-ntddk-keentercriticalregion).
    pub(crate) fn enter() -> Self {
        // SAFETY: the IRQL by contract; the drop leaves the region on this thread, as the type is not Send.
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
