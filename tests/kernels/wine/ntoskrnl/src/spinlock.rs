//! Spin locks. The lock word holds the identity of its owner, so that recursion and release by another thread are seen.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use windows_sys::Win32::System::Threading::{GetCurrentThreadId, SwitchToThread};

use crate::{
    irql::{self, DISPATCH_LEVEL},
    report::violation,
};

/// Marks a lock word taken through a queue handle: a lock is used either plain or queued, never both at once.
const QUEUED: usize = 1 << 32;

fn me() -> usize {
    // SAFETY: no preconditions.
    unsafe { GetCurrentThreadId() as usize }
}

/// Waits a moment for another thread: the owner may be off the host's processor, so spinning alone could take a time slice.
pub(crate) fn relax(round: u32) {
    if round % 64 < 63 {
        std::hint::spin_loop();
    } else {
        // SAFETY: no preconditions.
        unsafe { SwitchToThread() };
    }
}

fn acquire(lock: &AtomicUsize, kind: usize, function: &str) {
    let owner = me() | kind;
    let mut round = 0;
    while let Err(holder) = lock.compare_exchange_weak(0, owner, Ordering::Acquire, Ordering::Relaxed) {
        if holder & !QUEUED == me() {
            violation(&format!("{function}: spin lock is already held by this thread (deadlock)"));
            break; // A real system would hang here; going on lets the run end and report.
        }
        relax(round);
        round = round.wrapping_add(1);
    }
    irql::spin_lock_taken(true);
}

fn release(lock: &AtomicUsize, kind: usize, function: &str) {
    irql::at_least(DISPATCH_LEVEL, function);
    let holder = lock.load(Ordering::Relaxed);
    if holder == 0 {
        violation(&format!("{function}: spin lock is not held"));
    } else if holder & !QUEUED != me() {
        violation(&format!("{function}: spin lock is held by another thread"));
    } else if holder & QUEUED != kind {
        violation(&format!(
            "{function}: spin lock was taken {} a queue handle",
            if kind == 0 { "with" } else { "without" }
        ));
    }
    irql::spin_lock_taken(false);
    lock.store(0, Ordering::Release);
}

/// Views a `KSPIN_LOCK` as an atomic word.
///
/// # Safety
/// `lock` points to a spin lock in memory that stays valid for the call and that is only accessed through these functions.
unsafe fn word<'a>(lock: *mut usize) -> &'a AtomicUsize {
    // SAFETY: passed on to the caller.
    unsafe { AtomicUsize::from_ptr(lock) }
}

/// wdm/nf-wdm-keinitializespinlock: any IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeInitializeSpinLock(lock: *mut usize) {
    // SAFETY: the caller gives the storage of a KSPIN_LOCK.
    unsafe { word(lock) }.store(0, Ordering::Release);
}

/// wdm/nf-wdm-keacquirespinlockraisetodpc: at most DISPATCH_LEVEL; returns the old IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> u8 {
    const NAME: &str = "KeAcquireSpinLockRaiseToDpc";
    irql::at_most(DISPATCH_LEVEL, NAME);
    let old = irql::raise(DISPATCH_LEVEL);
    // SAFETY: the caller gives an initialised KSPIN_LOCK.
    acquire(unsafe { word(lock) }, 0, NAME);
    old
}

/// wdm/nf-wdm-kereleasespinlock: at DISPATCH_LEVEL; `irql` is the level the acquisition returned.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReleaseSpinLock(lock: *mut usize, irql: u8) {
    // SAFETY: the caller gives a KSPIN_LOCK that it holds.
    release(unsafe { word(lock) }, 0, "KeReleaseSpinLock");
    irql::lower(irql);
}

/// wdm/nf-wdm-keacquirespinlockatdpclevel: at DISPATCH_LEVEL or above.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeAcquireSpinLockAtDpcLevel(lock: *mut usize) {
    const NAME: &str = "KeAcquireSpinLockAtDpcLevel";
    irql::at_least(DISPATCH_LEVEL, NAME);
    // SAFETY: the caller gives an initialised KSPIN_LOCK.
    acquire(unsafe { word(lock) }, 0, NAME);
}

/// wdm/nf-wdm-kereleasespinlockfromdpclevel: at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReleaseSpinLockFromDpcLevel(lock: *mut usize) {
    // SAFETY: the caller gives a KSPIN_LOCK that it holds.
    release(unsafe { word(lock) }, 0, "KeReleaseSpinLockFromDpcLevel");
}

/// wdm/nf-wdm-ketrytoacquirespinlockatdpclevel: at DISPATCH_LEVEL or above; FALSE if the lock is held.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeTryToAcquireSpinLockAtDpcLevel(lock: *mut usize) -> u8 {
    irql::at_least(DISPATCH_LEVEL, "KeTryToAcquireSpinLockAtDpcLevel");
    // SAFETY: the caller gives an initialised KSPIN_LOCK.
    let taken = unsafe { word(lock) }.compare_exchange(0, me(), Ordering::Acquire, Ordering::Relaxed).is_ok();
    if taken {
        irql::spin_lock_taken(true);
    }
    taken.into()
}

/// `KLOCK_QUEUE_HANDLE` (wdm.h): the queue link, the lock, and the IRQL before it was taken.
#[repr(C)]
struct QueueHandle {
    next: usize,
    lock: *mut usize,
    old_irql: u8,
}

const _: () = assert!(size_of::<QueueHandle>() == 0x18);

/// Takes `lock` through `handle`, which remembers the lock and `old_irql` for the release.
///
/// # Safety
/// `lock` is an initialised KSPIN_LOCK, `handle` the storage of a KLOCK_QUEUE_HANDLE.
unsafe fn acquire_queued(lock: *mut usize, handle: *mut QueueHandle, old_irql: u8, function: &str) {
    // SAFETY: passed on to the caller.
    acquire(unsafe { word(lock) }, QUEUED, function);
    // SAFETY: passed on to the caller.
    unsafe { handle.write(QueueHandle { next: 0, lock, old_irql }) };
}

/// Releases the lock that `handle` remembers and returns the level from before it was taken.
///
/// # Safety
/// `handle` was filled by one of the acquire functions.
unsafe fn release_queued(handle: *mut QueueHandle, function: &str) -> u8 {
    // SAFETY: passed on to the caller.
    let QueueHandle { lock, old_irql, .. } = unsafe { handle.read() };
    // SAFETY: the lock outlives its being held.
    release(unsafe { word(lock) }, QUEUED, function);
    old_irql
}

/// wdm/nf-wdm-keacquireinstackqueuedspinlock: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeAcquireInStackQueuedSpinLock(lock: *mut usize, handle: *mut QueueHandle) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLock";
    irql::at_most(DISPATCH_LEVEL, NAME);
    let old = irql::raise(DISPATCH_LEVEL);
    // SAFETY: the caller gives a lock and the storage of a handle.
    unsafe { acquire_queued(lock, handle, old, NAME) };
}

/// wdm/nf-wdm-kereleaseinstackqueuedspinlock: at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReleaseInStackQueuedSpinLock(handle: *mut QueueHandle) {
    // SAFETY: the caller gives the handle of the acquisition.
    let old = unsafe { release_queued(handle, "KeReleaseInStackQueuedSpinLock") };
    irql::lower(old);
}

/// wdm/nf-wdm-keacquireinstackqueuedspinlockatdpclevel: at DISPATCH_LEVEL or above.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeAcquireInStackQueuedSpinLockAtDpcLevel(lock: *mut usize, handle: *mut QueueHandle) {
    const NAME: &str = "KeAcquireInStackQueuedSpinLockAtDpcLevel";
    irql::at_least(DISPATCH_LEVEL, NAME);
    // SAFETY: the caller gives a lock and the storage of a handle.
    unsafe { acquire_queued(lock, handle, DISPATCH_LEVEL, NAME) };
}

/// wdm/nf-wdm-kereleaseinstackqueuedspinlockfromdpclevel: at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeReleaseInStackQueuedSpinLockFromDpcLevel(handle: *mut QueueHandle) {
    // SAFETY: the caller gives the handle of the acquisition.
    unsafe { release_queued(handle, "KeReleaseInStackQueuedSpinLockFromDpcLevel") };
}

/// Bit of an `EX_SPIN_LOCK` that says a writer holds it; the bits below count readers.
const EXCLUSIVE: i32 = i32::MIN;

/// Views an `EX_SPIN_LOCK` as an atomic word.
///
/// # Safety
/// `lock` points to a reader/writer spin lock that stays valid for the call and is only accessed through these functions.
unsafe fn rw_word<'a>(lock: *mut i32) -> &'a AtomicI32 {
    // SAFETY: passed on to the caller.
    unsafe { AtomicI32::from_ptr(lock) }
}

fn acquire_shared(lock: &AtomicI32) {
    let mut round = 0;
    while lock.fetch_update(Ordering::Acquire, Ordering::Relaxed, |v| (v >= 0).then_some(v + 1)).is_err() {
        relax(round);
        round = round.wrapping_add(1);
    }
    irql::spin_lock_taken(true);
}

fn acquire_exclusive(lock: &AtomicI32) {
    let mut round = 0;
    while lock.compare_exchange_weak(0, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_err() {
        relax(round);
        round = round.wrapping_add(1);
    }
    irql::spin_lock_taken(true);
}

fn release_shared(lock: &AtomicI32, function: &str) {
    irql::at_least(DISPATCH_LEVEL, function);
    if lock.fetch_update(Ordering::Release, Ordering::Relaxed, |v| (v > 0).then_some(v - 1)).is_err() {
        violation(&format!("{function}: the lock is not held shared"));
    }
    irql::spin_lock_taken(false);
}

fn release_exclusive(lock: &AtomicI32, function: &str) {
    irql::at_least(DISPATCH_LEVEL, function);
    if lock.compare_exchange(EXCLUSIVE, 0, Ordering::Release, Ordering::Relaxed).is_err() {
        violation(&format!("{function}: the lock is not held exclusive"));
    }
    irql::spin_lock_taken(false);
}

/// wdm/nf-wdm-exacquirespinlockshared: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquireSpinLockShared(lock: *mut i32) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExAcquireSpinLockShared");
    let old = irql::raise(DISPATCH_LEVEL);
    // SAFETY: the caller gives an initialised EX_SPIN_LOCK.
    acquire_shared(unsafe { rw_word(lock) });
    old
}

/// wdm/nf-wdm-exacquirespinlockexclusive: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquireSpinLockExclusive(lock: *mut i32) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExAcquireSpinLockExclusive");
    let old = irql::raise(DISPATCH_LEVEL);
    // SAFETY: the caller gives an initialised EX_SPIN_LOCK.
    acquire_exclusive(unsafe { rw_word(lock) });
    old
}

/// wdm/nf-wdm-exreleasespinlockshared: at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleaseSpinLockShared(lock: *mut i32, irql: u8) {
    // SAFETY: the caller gives an EX_SPIN_LOCK that it holds.
    release_shared(unsafe { rw_word(lock) }, "ExReleaseSpinLockShared");
    irql::lower(irql);
}

/// wdm/nf-wdm-exreleasespinlockexclusive: at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleaseSpinLockExclusive(lock: *mut i32, irql: u8) {
    // SAFETY: the caller gives an EX_SPIN_LOCK that it holds.
    release_exclusive(unsafe { rw_word(lock) }, "ExReleaseSpinLockExclusive");
    irql::lower(irql);
}
