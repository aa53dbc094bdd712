//! Push locks, fast mutexes and critical regions.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use windows_sys::Win32::System::Threading::{INFINITE, WaitOnAddress};

use crate::{
    base,
    irql::{self, APC_LEVEL},
    report::violation,
    rundown::wake,
};

base::wine! {
    fn ExAcquireFastMutex(mutex: *mut u8);
    fn ExReleaseFastMutex(mutex: *mut u8);
}

thread_local! {
    static CRITICAL_REGIONS: Cell<u32> = const { Cell::new(0) };
}

/// ntddk/nf-ntddk-keentercriticalregion: at most APC_LEVEL. Counted only: there are no APCs to keep out.
#[unsafe(no_mangle)]
extern "system" fn KeEnterCriticalRegion() {
    irql::at_most(APC_LEVEL, "KeEnterCriticalRegion");
    CRITICAL_REGIONS.with(|n| n.set(n.get() + 1));
}

/// ntddk/nf-ntddk-keleavecriticalregion: at most APC_LEVEL, on the thread that entered.
#[unsafe(no_mangle)]
extern "system" fn KeLeaveCriticalRegion() {
    irql::at_most(APC_LEVEL, "KeLeaveCriticalRegion");
    match CRITICAL_REGIONS.get().checked_sub(1) {
        Some(left) => CRITICAL_REGIONS.set(left),
        None => violation("KeLeaveCriticalRegion: the thread is in none"),
    }
}

/// ntddk/nf-ntddk-keareapcsdisabled: whether the thread is in a critical region.
#[unsafe(no_mangle)]
extern "system" fn KeAreApcsDisabled() -> u8 {
    u8::from(CRITICAL_REGIONS.get() != 0)
}

/// Bit of a push lock's word that says a writer holds it; the bits above count readers.
const EXCLUSIVE: usize = 1;
const READER: usize = 2;

fn check(function: &str) {
    irql::at_most(APC_LEVEL, function);
    if irql::current() < APC_LEVEL && CRITICAL_REGIONS.get() == 0 {
        violation(&format!("{function}: not in a critical region"));
    }
}

/// Changes the word as `step` says, waiting for as long as it says None.
fn acquire(lock: *mut usize, step: impl Fn(usize) -> Option<usize>) {
    // SAFETY: the callers give a push lock, only accessed through these functions.
    let word = unsafe { AtomicUsize::from_ptr(lock) };
    while let Err(value) = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, &step) {
        // SAFETY: both addresses are valid words of the size given.
        unsafe { WaitOnAddress(lock.cast(), (&raw const value).cast(), size_of::<usize>(), INFINITE) };
    }
}

fn release(lock: *mut usize, function: &str, step: impl Fn(usize) -> Option<usize>) {
    check(function);
    // SAFETY: as in `acquire`.
    let word = unsafe { AtomicUsize::from_ptr(lock) };
    match word.fetch_update(Ordering::Release, Ordering::Relaxed, step) {
        Ok(_) => wake(lock.cast()),
        Err(_) => violation(&format!("{function}: the lock is not held so")),
    }
}

/// wdm/nf-wdm-exinitializepushlock: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExInitializePushLock(lock: *mut usize) {
    // SAFETY: the caller gives the storage of an EX_PUSH_LOCK.
    unsafe { lock.write(0) };
}

/// wdm/nf-wdm-exacquirepushlockexclusive (the macro's function): at most APC_LEVEL, in a critical region.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquirePushLockExclusiveEx(lock: *mut usize, _flags: u32) {
    check("ExAcquirePushLockExclusive");
    acquire(lock, |v| (v == 0).then_some(EXCLUSIVE));
}

/// wdm/nf-wdm-exacquirepushlockshared (the macro's function): at most APC_LEVEL, in a critical region.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquirePushLockSharedEx(lock: *mut usize, _flags: u32) {
    check("ExAcquirePushLockShared");
    acquire(lock, |v| (v & EXCLUSIVE == 0).then_some(v + READER));
}

/// wdm/nf-wdm-exreleasepushlockexclusive (the macro's function): at most APC_LEVEL, in a critical region.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleasePushLockExclusiveEx(lock: *mut usize, _flags: u32) {
    release(lock, "ExReleasePushLockExclusive", |v| (v == EXCLUSIVE).then_some(0));
}

/// wdm/nf-wdm-exreleasepushlockshared (the macro's function): at most APC_LEVEL, in a critical region.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleasePushLockSharedEx(lock: *mut usize, _flags: u32) {
    release(lock, "ExReleasePushLockShared", |v| (v & EXCLUSIVE == 0).then(|| v.checked_sub(READER)).flatten());
}

/// Offset of `OldIrql` in a FAST_MUTEX (wdm.h, 0x38 bytes).
const FAST_MUTEX_OLD_IRQL: usize = 0x30;

mod export {
    use super::*;

    /// wdm/nf-wdm-exacquirefastmutex: at most APC_LEVEL; raises to APC_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn ExAcquireFastMutex(mutex: *mut u8) {
        irql::at_most(APC_LEVEL, "ExAcquireFastMutex");
        let old = irql::raise(APC_LEVEL);
        // SAFETY: the caller gives an initialised FAST_MUTEX.
        unsafe { super::ExAcquireFastMutex(mutex) };
        // SAFETY: the field lies in the FAST_MUTEX, which this thread holds now.
        unsafe { mutex.add(FAST_MUTEX_OLD_IRQL).cast::<u32>().write(old.into()) };
    }

    /// wdm/nf-wdm-exreleasefastmutex: at APC_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn ExReleaseFastMutex(mutex: *mut u8) {
        if irql::current() != APC_LEVEL {
            violation("ExReleaseFastMutex: not at APC_LEVEL");
        }
        // SAFETY: the caller gives a FAST_MUTEX that it holds.
        let old = unsafe { mutex.add(FAST_MUTEX_OLD_IRQL).cast::<u32>().read() };
        // SAFETY: as above.
        unsafe { super::ExReleaseFastMutex(mutex) };
        irql::lower(old as u8);
    }
}
