//! A mutex that leaves the thread at PASSIVE_LEVEL: the thread that holds it may call functions that need PASSIVE_LEVEL. A fast mutex
//! would raise the IRQL to APC_LEVEL.
#![expect(unsafe_code, reason = "calls into the kernel, on a kernel object that lives at a fixed address")]

use core::{cell::UnsafeCell, mem::MaybeUninit, ptr::null_mut};

use lock_api::{GuardNoSend, RawMutex};
use wdk_sys::{
    _KWAIT_REASON::Executive,
    _MODE::KernelMode,
    KMUTEX, LARGE_INTEGER, STATUS_SUCCESS,
    ntddk::{KeInitializeMutex, KeReleaseMutex, KeWaitForSingleObject},
};

/// Data that a kernel mutex protects, in a static. [`initialize`] has to be called before any use.
pub(crate) type Mutex<T> = lock_api::Mutex<KernelMutex, T>;

/// A `KMUTEX`.
pub(crate) struct KernelMutex(UnsafeCell<MaybeUninit<KMUTEX>>);

// SAFETY: the object is used only through the kernel's functions, which are safe from any thread.
unsafe impl Sync for KernelMutex {}

/// Initialises a mutex.
///
/// # Safety
/// Called once, before any use; the mutex does not move.
pub(crate) unsafe fn initialize<T>(mutex: &Mutex<T>) {
    // SAFETY: the raw mutex is not unlocked here.
    let raw = unsafe { mutex.raw() };
    // SAFETY: non-paged memory (a driver's data section); it does not move and is not in use, by contract.
    unsafe { KeInitializeMutex(raw.0.get().cast(), 0) };
}

impl KernelMutex {
    fn wait(&self, timeout: *mut LARGE_INTEGER) -> bool {
        // SAFETY: initialised, by contract of `initialize`; the callers are at PASSIVE_LEVEL.
        let status = unsafe { KeWaitForSingleObject(self.0.get().cast(), Executive, KernelMode as i8, 0, timeout) };
        status == STATUS_SUCCESS
    }
}

// SAFETY: a KMUTEX excludes other threads; no code here locks one twice on one thread, which the kernel would allow.
unsafe impl RawMutex for KernelMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for the initial value this way")]
    const INIT: Self = Self(UnsafeCell::new(MaybeUninit::zeroed()));

    /// A thread owns a KMUTEX.
    type GuardMarker = GuardNoSend;

    /// PASSIVE_LEVEL.
    fn lock(&self) {
        // Not alertable and without a timeout: the only outcome is success.
        let _taken = self.wait(null_mut());
    }

    fn try_lock(&self) -> bool {
        let mut now = LARGE_INTEGER::default();
        self.wait(&raw mut now)
    }

    unsafe fn unlock(&self) {
        // SAFETY: owned by this thread, by contract of RawMutex; no wait follows (second argument FALSE).
        let _was_signalled = unsafe { KeReleaseMutex(self.0.get().cast(), 0) };
    }
}
