//! A mutex for PASSIVE_LEVEL that leaves the IRQL alone: what it guards may call functions that want PASSIVE_LEVEL,
//! which rules out fast mutexes (they raise to APC_LEVEL).
#![expect(unsafe_code, reason = "calls into the kernel, on a kernel object that lives at a fixed address")]

use core::{cell::UnsafeCell, mem::MaybeUninit, ptr::null_mut};

use lock_api::{GuardNoSend, RawMutex};
use wdk_sys::{
    _KWAIT_REASON::Executive,
    _MODE::KernelMode,
    KMUTEX, LARGE_INTEGER, STATUS_SUCCESS,
    ntddk::{KeInitializeMutex, KeReleaseMutex, KeWaitForSingleObject},
};

/// Data behind a kernel mutex, in a static. [`initialize`] comes first.
pub(crate) type Mutex<T> = lock_api::Mutex<KernelMutex, T>;

/// A `KMUTEX`.
pub(crate) struct KernelMutex(UnsafeCell<MaybeUninit<KMUTEX>>);

// SAFETY: the object is used only through the kernel's functions, which are safe from any thread.
unsafe impl Sync for KernelMutex {}

/// Makes a mutex usable.
///
/// # Safety
/// Before any use, once, in memory that stays where it is.
pub(crate) unsafe fn initialize<T>(mutex: &Mutex<T>) {
    // SAFETY: the raw mutex is not unlocked here.
    let raw = unsafe { mutex.raw() };
    // SAFETY: non-paged (a driver's data section), fixed, unused: by contract.
    unsafe { KeInitializeMutex(raw.0.get().cast(), 0) };
}

impl KernelMutex {
    fn wait(&self, timeout: *mut LARGE_INTEGER) -> bool {
        // SAFETY: initialised, by contract of `initialize`; callers are at PASSIVE_LEVEL.
        let status = unsafe { KeWaitForSingleObject(self.0.get().cast(), Executive, KernelMode as i8, 0, timeout) };
        status == STATUS_SUCCESS
    }
}

// SAFETY: a KMUTEX excludes; no code here takes one twice, which the kernel would allow.
unsafe impl RawMutex for KernelMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for the initial value this way")]
    const INIT: Self = Self(UnsafeCell::new(MaybeUninit::zeroed()));

    /// The owner is a thread.
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
