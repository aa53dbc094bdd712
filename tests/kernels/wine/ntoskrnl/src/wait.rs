//! Waits and events: Wine's, with the IRQL checked.

use std::ffi::c_void;

use crate::{
    base::{self, status},
    irql::{self, APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL},
    mutex,
    report::violation,
};

base::wine! {
    fn KeWaitForSingleObject(object: *mut c_void, reason: i32, mode: i8, alertable: u8, timeout: *const i64) -> i32;
    fn KeWaitForMultipleObjects(
        count: u32,
        objects: *mut *mut c_void,
        kind: i32,
        reason: i32,
        mode: i8,
        alertable: u8,
        timeout: *const i64,
        blocks: *mut c_void,
    ) -> i32;
    fn KeDelayExecutionThread(mode: i8, alertable: u8, interval: *const i64) -> i32;
    fn KeSetEvent(event: *mut c_void, increment: i32, wait: u8) -> i32;
    fn KeResetEvent(event: *mut c_void) -> i32;
    fn KeClearEvent(event: *mut c_void);
    fn KeReleaseSemaphore(semaphore: *mut c_void, increment: i32, adjustment: i32, wait: u8) -> i32;
    fn PsTerminateSystemThread(status: i32) -> i32;
}

/// Whether a wait with this timeout is forbidden here, having reported it. At DISPATCH_LEVEL only a poll is allowed.
unsafe fn forbidden(timeout: *const i64, function: &str) -> bool {
    // SAFETY: the caller gives null or a timeout.
    if !timeout.is_null() && unsafe { *timeout } == 0 {
        irql::at_most(DISPATCH_LEVEL, function);
    } else {
        irql::at_most(APC_LEVEL, function);
    }
    // A thread that waits while it holds a processor could stop everything: such a wait fails instead.
    // SAFETY: as above.
    irql::current() >= DISPATCH_LEVEL && (timeout.is_null() || unsafe { *timeout } != 0)
}

mod export {
    use super::*;

    /// wdm/nf-wdm-kewaitforsingleobject: at most APC_LEVEL, DISPATCH_LEVEL with a timeout of zero.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeWaitForSingleObject(
        object: *mut c_void,
        reason: i32,
        mode: i8,
        alertable: u8,
        timeout: *const i64,
    ) -> i32 {
        // SAFETY: the caller gives null or a timeout.
        if unsafe { forbidden(timeout, "KeWaitForSingleObject") } {
            return status::UNSUCCESSFUL;
        }
        // SAFETY: the caller gives a dispatcher object, and null or a timeout.
        unsafe {
            if mutex::is_mutex(object) {
                return mutex::wait(object, timeout.as_ref().copied());
            }
        }
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeWaitForSingleObject(object, reason, mode, alertable, timeout) }
    }

    /// wdm/nf-wdm-kewaitforsingleobject: another name of it.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeWaitForMutexObject(
        object: *mut c_void,
        reason: i32,
        mode: i8,
        alertable: u8,
        timeout: *const i64,
    ) -> i32 {
        // SAFETY: the caller keeps the contract.
        unsafe { KeWaitForSingleObject(object, reason, mode, alertable, timeout) }
    }

    /// wdm/nf-wdm-kewaitformultipleobjects: as `KeWaitForSingleObject`.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeWaitForMultipleObjects(
        count: u32,
        objects: *mut *mut c_void,
        kind: i32,
        reason: i32,
        mode: i8,
        alertable: u8,
        timeout: *const i64,
        blocks: *mut c_void,
    ) -> i32 {
        for index in 0..count as usize {
            // SAFETY: the caller gives that many dispatcher objects.
            if unsafe { mutex::is_mutex(*objects.add(index)) } {
                violation("KeWaitForMultipleObjects: waiting for a mutex together with other objects is not simulated");
                return status::UNSUCCESSFUL;
            }
        }
        // SAFETY: the caller gives null or a timeout.
        if unsafe { forbidden(timeout, "KeWaitForMultipleObjects") } {
            return status::UNSUCCESSFUL;
        }
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeWaitForMultipleObjects(count, objects, kind, reason, mode, alertable, timeout, blocks) }
    }

    /// wdm/nf-wdm-kedelayexecutionthread: at most APC_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeDelayExecutionThread(mode: i8, alertable: u8, interval: *const i64) -> i32 {
        irql::at_most(APC_LEVEL, "KeDelayExecutionThread");
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeDelayExecutionThread(mode, alertable, interval) }
    }

    /// wdm/nf-wdm-kesetevent: at most DISPATCH_LEVEL, with `wait` APC_LEVEL; returns the previous state.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeSetEvent(event: *mut c_void, increment: i32, wait: u8) -> i32 {
        irql::at_most(if wait == 0 { DISPATCH_LEVEL } else { APC_LEVEL }, "KeSetEvent");
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeSetEvent(event, increment, wait) }
    }

    /// wdm/nf-wdm-keresetevent: at most DISPATCH_LEVEL; returns the previous state.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeResetEvent(event: *mut c_void) -> i32 {
        irql::at_most(DISPATCH_LEVEL, "KeResetEvent");
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeResetEvent(event) }
    }

    /// wdm/nf-wdm-keclearevent: at most DISPATCH_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeClearEvent(event: *mut c_void) {
        irql::at_most(DISPATCH_LEVEL, "KeClearEvent");
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeClearEvent(event) };
    }

    /// wdm/nf-wdm-kereleasesemaphore: at most DISPATCH_LEVEL, with `wait` APC_LEVEL; returns the previous count.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeReleaseSemaphore(
        semaphore: *mut c_void,
        increment: i32,
        adjustment: i32,
        wait: u8,
    ) -> i32 {
        irql::at_most(if wait == 0 { DISPATCH_LEVEL } else { APC_LEVEL }, "KeReleaseSemaphore");
        // SAFETY: the caller keeps the contract.
        unsafe { super::KeReleaseSemaphore(semaphore, increment, adjustment, wait) }
    }

    /// wdm/nf-wdm-psterminatesystemthread: PASSIVE_LEVEL; does not return.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn PsTerminateSystemThread(status: i32) -> i32 {
        irql::at_most(PASSIVE_LEVEL, "PsTerminateSystemThread");
        irql::set(PASSIVE_LEVEL, false);
        // SAFETY: the caller keeps the contract.
        unsafe { super::PsTerminateSystemThread(status) }
    }
}
