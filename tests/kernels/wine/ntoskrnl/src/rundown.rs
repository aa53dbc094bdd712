//! Rundown protection: bit 0 of the reference word says that rundown has begun, the bits above count the holders.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicUsize, Ordering},
};

use windows_sys::Win32::System::Threading::{INFINITE, WaitOnAddress, WakeByAddressAll};

use crate::{
    irql::{self, APC_LEVEL, DISPATCH_LEVEL},
    report::{self, violation},
};

const ACTIVE: usize = 1;
const HOLDER: usize = 2;

/// Views an `EX_RUNDOWN_REF` as an atomic word.
///
/// # Safety
/// `reference` points to rundown protection that stays valid for the call and is only accessed through these functions.
unsafe fn word<'a>(reference: *mut usize) -> &'a AtomicUsize {
    // SAFETY: passed on to the caller.
    unsafe { AtomicUsize::from_ptr(reference) }
}

fn acquire(word: &AtomicUsize, count: usize) -> bool {
    word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |v| (v & ACTIVE == 0).then(|| v + HOLDER * count)).is_ok()
}

fn release(word: &AtomicUsize, count: usize) {
    let released = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |v| v.checked_sub(HOLDER * count));
    match released {
        // Woken by address: the word itself may already be gone, since the waiter may free it at once.
        Ok(before) if before == HOLDER * count + ACTIVE => {
            // SAFETY: the address is compared, not dereferenced.
            unsafe { WakeByAddressAll(word.as_ptr().cast_const().cast()) };
        }
        Ok(_) => {}
        Err(_) => violation("ExReleaseRundownProtection: not acquired"),
    }
}

fn wait(word: &AtomicUsize) {
    let mut value = word.fetch_or(ACTIVE, Ordering::AcqRel) | ACTIVE;
    while value != ACTIVE {
        // SAFETY: both addresses are valid words of the size given.
        unsafe { WaitOnAddress(word.as_ptr().cast(), (&raw const value).cast(), size_of::<usize>(), INFINITE) };
        value = word.load(Ordering::Acquire);
    }
}

/// wdm/nf-wdm-exinitializerundownprotection: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExInitializeRundownProtection(reference: *mut usize) {
    irql::at_most(APC_LEVEL, "ExInitializeRundownProtection");
    // SAFETY: the caller gives the storage of an EX_RUNDOWN_REF.
    unsafe { word(reference) }.store(0, Ordering::Release);
}

/// wdm/nf-wdm-exreinitializerundownprotection: at most APC_LEVEL, after rundown has completed.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReInitializeRundownProtection(reference: *mut usize) {
    irql::at_most(APC_LEVEL, "ExReInitializeRundownProtection");
    // SAFETY: the caller gives an EX_RUNDOWN_REF.
    if unsafe { word(reference) }.swap(0, Ordering::AcqRel) != ACTIVE {
        violation("ExReInitializeRundownProtection: rundown has not completed");
    }
}

/// wdm/nf-wdm-exacquirerundownprotection: at most DISPATCH_LEVEL; FALSE once rundown has begun.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquireRundownProtection(reference: *mut usize) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExAcquireRundownProtection");
    // SAFETY: the caller gives an EX_RUNDOWN_REF.
    acquire(unsafe { word(reference) }, 1).into()
}

/// wdm/nf-wdm-exacquirerundownprotectionex: as `ExAcquireRundownProtection`, `count` times at once.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquireRundownProtectionEx(reference: *mut usize, count: u32) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExAcquireRundownProtectionEx");
    // SAFETY: the caller gives an EX_RUNDOWN_REF.
    acquire(unsafe { word(reference) }, count as usize).into()
}

/// wdm/nf-wdm-exreleaserundownprotection: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleaseRundownProtection(reference: *mut usize) {
    irql::at_most(DISPATCH_LEVEL, "ExReleaseRundownProtection");
    // SAFETY: the caller gives an EX_RUNDOWN_REF that it holds.
    release(unsafe { word(reference) }, 1);
}

/// wdm/nf-wdm-exreleaserundownprotectionex: as `ExReleaseRundownProtection`, `count` times at once.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleaseRundownProtectionEx(reference: *mut usize, count: u32) {
    irql::at_most(DISPATCH_LEVEL, "ExReleaseRundownProtectionEx");
    // SAFETY: the caller gives an EX_RUNDOWN_REF that it holds.
    release(unsafe { word(reference) }, count as usize);
}

/// wdm/nf-wdm-exwaitforrundownprotectionrelease: at most APC_LEVEL; waits for ever for all holders.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExWaitForRundownProtectionRelease(reference: *mut usize) {
    irql::at_most(APC_LEVEL, "ExWaitForRundownProtectionRelease");
    // SAFETY: the caller gives an EX_RUNDOWN_REF.
    wait(unsafe { word(reference) });
}

/// wdm/nf-wdm-exrundowncompleted: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExRundownCompleted(reference: *mut usize) {
    irql::at_most(APC_LEVEL, "ExRundownCompleted");
    // SAFETY: the caller gives an EX_RUNDOWN_REF.
    unsafe { word(reference) }.store(ACTIVE, Ordering::Release);
}

/// Kind of object in the report.
const CACHE_AWARE: &str = "cache-aware rundown reference";

/// wdm/nf-wdm-exallocatecacheawarerundownprotection: at most APC_LEVEL. One word for all processors here.
#[unsafe(no_mangle)]
extern "system" fn ExAllocateCacheAwareRundownProtection(_pool: i32, _tag: u32) -> *mut usize {
    irql::at_most(APC_LEVEL, "ExAllocateCacheAwareRundownProtection");
    report::object(CACHE_AWARE, 1);
    Box::into_raw(Box::new(0))
}

/// wdm/nf-wdm-exfreecacheawarerundownprotection: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExFreeCacheAwareRundownProtection(reference: *mut usize) {
    irql::at_most(APC_LEVEL, "ExFreeCacheAwareRundownProtection");
    report::object(CACHE_AWARE, -1);
    // SAFETY: the caller gives what ExAllocateCacheAwareRundownProtection returned, once.
    drop(unsafe { Box::from_raw(reference) });
}

/// wdm/nf-wdm-exacquirerundownprotectioncacheaware: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAcquireRundownProtectionCacheAware(reference: *mut usize) -> u8 {
    // SAFETY: as ExAcquireRundownProtection.
    unsafe { ExAcquireRundownProtection(reference) }
}

/// wdm/nf-wdm-exreleaserundownprotectioncacheaware: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReleaseRundownProtectionCacheAware(reference: *mut usize) {
    // SAFETY: as ExReleaseRundownProtection.
    unsafe { ExReleaseRundownProtection(reference) };
}

/// wdm/nf-wdm-exwaitforrundownprotectionreleasecacheaware: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExWaitForRundownProtectionReleaseCacheAware(reference: *mut usize) {
    // SAFETY: as ExWaitForRundownProtectionRelease.
    unsafe { ExWaitForRundownProtectionRelease(reference) };
}

/// wdm/nf-wdm-exrundowncompletedcacheaware: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExRundownCompletedCacheAware(reference: *mut usize) {
    // SAFETY: as ExRundownCompleted.
    unsafe { ExRundownCompleted(reference) };
}

/// wdm/nf-wdm-exreinitializerundownprotectioncacheaware: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExReInitializeRundownProtectionCacheAware(reference: *mut usize) {
    // SAFETY: as ExReInitializeRundownProtection.
    unsafe { ExReInitializeRundownProtection(reference) };
}

/// Wakes all threads that wait for a change of the word at `address`.
pub(crate) fn wake(address: *const c_void) {
    // SAFETY: the address is compared, not dereferenced.
    unsafe { WakeByAddressAll(address) };
}
