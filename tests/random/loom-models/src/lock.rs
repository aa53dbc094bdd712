//! Spin locks.
#![expect(unsafe_code, reason = "lock_api::RawMutex is an unsafe trait; the guard lives beside its mutex")]

use std::cell::{OnceCell, UnsafeCell};

use loom::sync::{Mutex, MutexGuard};

/// A spin lock. The mutex is made when it is first used: loom's cannot be made at compile time, and most of a device's locks
/// have no part in a model.
pub struct RawSpinLock {
    /// Declared first: dropped before the mutex.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    mutex: OnceCell<Box<Mutex<()>>>,
}

// SAFETY: loom runs one thread at a time, and switches only inside of its own operations; `guard` belongs to the holder.
unsafe impl Send for RawSpinLock {}
// SAFETY: as above.
unsafe impl Sync for RawSpinLock {}

impl RawSpinLock {
    fn mutex(&self) -> &'static Mutex<()> {
        let mutex: *const Mutex<()> = &**self.mutex.get_or_init(|| Box::new(Mutex::new(())));
        // SAFETY: boxed, so it does not move; the guard, the only one to keep it, does not outlive self.
        unsafe { &*mutex }
    }

    fn keep(&self, guard: MutexGuard<'static, ()>) {
        // SAFETY: the caller holds the lock.
        let place = unsafe { &mut *self.guard.get() };
        *place = Some(guard);
    }
}

// SAFETY: the mutex excludes.
unsafe impl lock_api::RawMutex for RawSpinLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "that is how lock_api makes locks")]
    const INIT: Self = Self { guard: UnsafeCell::new(None), mutex: OnceCell::new() };

    type GuardMarker = lock_api::GuardNoSend;

    #[track_caller]
    fn lock(&self) {
        let Ok(guard) = self.mutex().lock() else { unreachable!("loom's mutexes are never poisoned") };
        self.keep(guard);
    }

    fn try_lock(&self) -> bool {
        self.mutex().try_lock().is_ok_and(|guard| {
            self.keep(guard);
            true
        })
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        let place = unsafe { &mut *self.guard.get() };
        let guard = place.take();
        // Others may run, and take the lock, inside of this.
        drop(guard);
    }
}

// SAFETY: there are no levels here, and nothing in a model depends on them.
unsafe impl platform::RawSpinLock for RawSpinLock {}
