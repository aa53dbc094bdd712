//! Spin locks and wait locks.

use std::{
    cell::UnsafeCell,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, ntoskrnl, status, violation};

use crate::{
    loader::Globals,
    object::{self, Attributes, Handle, Kind},
};

/// A kernel spin lock and the IRQL from before it was taken.
pub(crate) struct SpinLock {
    lock: UnsafeCell<usize>,
    old_irql: UnsafeCell<u8>,
}

// SAFETY: the word is only used by the kernel's functions, the level only by the lock's holder.
unsafe impl Send for SpinLock {}

/// wdfsync/nf-wdfsync-wdfspinlockcreate (315): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfSpinLockCreate(
    globals: *mut Globals,
    attributes: *const Attributes,
    lock: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfSpinLockCreate");
    // SAFETY: the caller gives null or attributes.
    let attributes = match unsafe { object::check_attributes(attributes) } {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    let kind = Kind::SpinLock(Box::new(SpinLock { lock: UnsafeCell::new(0), old_irql: UnsafeCell::new(0) }));
    // SAFETY: the caller gives its globals and a place for the handle.
    unsafe { lock.write(object::create(kind, attributes, object::parent_or_driver(globals, attributes))) };
    status::SUCCESS
}

/// Where the lock is; it stays there until the object is gone, and a lock that is being used is not deleted.
fn spin_lock(lock: Handle, function: &str) -> Option<(*mut usize, *mut u8)> {
    object::with(lock, function, |object| match &object.kind {
        Kind::SpinLock(lock) => Some((lock.lock.get(), lock.old_irql.get())),
        _ => None,
    })
    .flatten()
}

/// wdfsync/nf-wdfsync-wdfspinlockacquire (316): at most DISPATCH_LEVEL; raises to it.
pub(crate) unsafe extern "system" fn WdfSpinLockAcquire(_globals: *mut Globals, lock: Handle) {
    if let Some((word, old_irql)) = spin_lock(lock, "WdfSpinLockAcquire") {
        // SAFETY: an initialised spin lock.
        let old = unsafe { ntoskrnl::KeAcquireSpinLockRaiseToDpc(word) };
        // SAFETY: this thread holds the lock.
        unsafe { old_irql.write(old) };
    }
}

/// wdfsync/nf-wdfsync-wdfspinlockrelease (317): at DISPATCH_LEVEL, by the holder.
pub(crate) unsafe extern "system" fn WdfSpinLockRelease(_globals: *mut Globals, lock: Handle) {
    if let Some((word, old_irql)) = spin_lock(lock, "WdfSpinLockRelease") {
        // SAFETY: this thread holds the lock, as the caller says.
        let old = unsafe { old_irql.read() };
        // SAFETY: an initialised spin lock.
        unsafe { ntoskrnl::KeReleaseSpinLock(word, old) };
    }
}

/// A lock that is waited for.
pub(crate) struct WaitLock {
    held: Mutex<bool>,
    free: Condvar,
}

/// wdfsync/nf-wdfsync-wdfwaitlockcreate (312): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfWaitLockCreate(
    globals: *mut Globals,
    attributes: *const Attributes,
    lock: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfWaitLockCreate");
    // SAFETY: the caller gives null or attributes.
    let attributes = match unsafe { object::check_attributes(attributes) } {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    let kind = Kind::WaitLock(Arc::new(WaitLock { held: Mutex::new(false), free: Condvar::new() }));
    // SAFETY: the caller gives its globals and a place for the handle.
    unsafe { lock.write(object::create(kind, attributes, object::parent_or_driver(globals, attributes))) };
    status::SUCCESS
}

fn wait_lock(lock: Handle, function: &str) -> Option<Arc<WaitLock>> {
    object::with(lock, function, |object| match &object.kind {
        Kind::WaitLock(lock) => Some(Arc::clone(lock)),
        _ => None,
    })
    .flatten()
}

/// wdfsync/nf-wdfsync-wdfwaitlockacquire (313): PASSIVE_LEVEL, DISPATCH_LEVEL with a timeout of 0; 100 ns, negative relative.
pub(crate) unsafe extern "system" fn WdfWaitLockAcquire(
    _globals: *mut Globals,
    lock: Handle,
    timeout: *const i64,
) -> i32 {
    const STATUS_TIMEOUT: i32 = 0x102;
    // SAFETY: the caller gives null or a timeout.
    let timeout = unsafe { timeout.as_ref() }.copied();
    kernel::at_most(if timeout == Some(0) { DISPATCH_LEVEL } else { PASSIVE_LEVEL }, "WdfWaitLockAcquire");
    let Some(lock) = wait_lock(lock, "WdfWaitLockAcquire") else { return status::INVALID_PARAMETER };
    // Absolute times are not used by anyone here: they count as expired.
    let limit = timeout.map(|t| Instant::now() + Duration::from_nanos(t.min(0).unsigned_abs().saturating_mul(100)));
    let mut held = lock.held.lock().unwrap_or_else(PoisonError::into_inner);
    while *held {
        let Some(limit) = limit else {
            held = lock.free.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let left = limit.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return STATUS_TIMEOUT;
        }
        held = lock.free.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    *held = true;
    status::SUCCESS
}

/// wdfsync/nf-wdfsync-wdfwaitlockrelease (314): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfWaitLockRelease(_globals: *mut Globals, lock: Handle) {
    kernel::at_most(DISPATCH_LEVEL, "WdfWaitLockRelease");
    if let Some(lock) = wait_lock(lock, "WdfWaitLockRelease") {
        if !std::mem::replace(&mut *lock.held.lock().unwrap_or_else(PoisonError::into_inner), false) {
            violation("WdfWaitLockRelease: not held");
        }
        lock.free.notify_one();
    }
}
