//! Kernel mutexes. Wine's can lose a waiter when two threads meet at one; these are words that threads wait on.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use windows_sys::Win32::System::Threading::{GetCurrentThreadId, INFINITE, WaitOnAddress, WakeByAddressAll};

use crate::{
    irql::{self, APC_LEVEL, DISPATCH_LEVEL},
    report::violation,
};

/// `KMUTEX` (wdm.h), 0x38 bytes.
#[repr(C)]
struct Kmutex {
    kind: u8,
    reserved: [u8; 3],
    /// 1: free. 0 and below: taken, 1 minus that often.
    state: AtomicI32,
    wait_list: [usize; 2],
    /// The kernel's link of a thread's mutexes; here it says that the mutex was initialised by this module.
    mark: [usize; 2],
    owner: AtomicUsize,
    abandoned: u8,
    apc_disable: u8,
}

const _: () = assert!(size_of::<Kmutex>() == 0x38);

const MUTANT_OBJECT: u8 = 2;
const MARK: [usize; 2] = [0x534F_4654, 0x4E44_4B4D];
const STATUS_SUCCESS: i32 = 0;
const STATUS_TIMEOUT: i32 = 0x102;

fn me() -> usize {
    // SAFETY: no preconditions.
    unsafe { GetCurrentThreadId() as usize }
}

/// Whether a dispatcher object is a mutex of this module.
///
/// # Safety
/// `object` is a dispatcher object.
pub(crate) unsafe fn is_mutex(object: *const c_void) -> bool {
    let mutex = object.cast::<Kmutex>();
    // SAFETY: every dispatcher object begins with its type; the rest of a mutex is read only if it is one.
    unsafe { (*mutex).kind == MUTANT_OBJECT && (*mutex).mark == MARK }
}

/// Takes a mutex; STATUS_TIMEOUT if that does not succeed in time. A timeout in 100 ns: negative is relative, 0 does not wait.
///
/// # Safety
/// `object` is a mutex of this module.
pub(crate) unsafe fn wait(object: *mut c_void, timeout: Option<i64>) -> i32 {
    // SAFETY: passed on to the caller.
    let mutex = unsafe { &*object.cast::<Kmutex>() };
    if mutex.owner.load(Ordering::Acquire) == me() {
        mutex.state.fetch_sub(1, Ordering::Relaxed);
        return STATUS_SUCCESS;
    }
    // Absolute times count as over: no driver here uses them.
    let limit = timeout.map(|t| Instant::now() + Duration::from_nanos(t.min(0).unsigned_abs().saturating_mul(100)));
    loop {
        let Err(state) = mutex.state.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed) else {
            mutex.owner.store(me(), Ordering::Release);
            return STATUS_SUCCESS;
        };
        let milliseconds = match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
            None => INFINITE,
            Some(Duration::ZERO) => return STATUS_TIMEOUT,
            Some(left) => u32::try_from(left.as_millis() + 1).unwrap_or(INFINITE - 1),
        };
        // SAFETY: both addresses are valid words of the size given.
        unsafe {
            WaitOnAddress(mutex.state.as_ptr().cast(), (&raw const state).cast(), size_of::<i32>(), milliseconds)
        };
    }
}

/// wdm/nf-wdm-keinitializemutex: at most DISPATCH_LEVEL; the level has no meaning.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeInitializeMutex(mutex: *mut Kmutex, _level: u32) {
    irql::at_most(DISPATCH_LEVEL, "KeInitializeMutex");
    let object = Kmutex {
        kind: MUTANT_OBJECT,
        reserved: [0; 3],
        state: AtomicI32::new(1),
        wait_list: [0; 2],
        mark: MARK,
        owner: AtomicUsize::new(0),
        abandoned: 0,
        apc_disable: 1,
    };
    // SAFETY: the caller gives the storage of a KMUTEX.
    unsafe { mutex.write(object) };
}

/// wdm/nf-wdm-kereleasemutex: at most DISPATCH_LEVEL, with `wait` APC_LEVEL; by the owner. Returns 0 if the mutex is free now.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReleaseMutex(mutex: *mut Kmutex, wait: u8) -> i32 {
    irql::at_most(if wait == 0 { DISPATCH_LEVEL } else { APC_LEVEL }, "KeReleaseMutex");
    // SAFETY: the caller gives an initialised KMUTEX.
    let object = unsafe { &*mutex };
    if object.owner.load(Ordering::Acquire) != me() {
        violation("KeReleaseMutex: the thread does not own the mutex");
        return 0;
    }
    let state = object.state.load(Ordering::Relaxed);
    if state == 0 {
        object.owner.store(0, Ordering::Release);
    }
    object.state.store(state + 1, Ordering::Release);
    // SAFETY: the address is compared, not dereferenced: the memory may be gone once another thread has the mutex.
    unsafe { WakeByAddressAll(mutex.cast_const().cast::<u8>().wrapping_add(4).cast()) };
    state
}

/// wdm/nf-wdm-kereadstatemutex: at most DISPATCH_LEVEL; 1 if it is free.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReadStateMutex(mutex: *const Kmutex) -> i32 {
    irql::at_most(DISPATCH_LEVEL, "KeReadStateMutex");
    // SAFETY: the caller gives an initialised KMUTEX.
    unsafe { &*mutex }.state.load(Ordering::Acquire)
}
