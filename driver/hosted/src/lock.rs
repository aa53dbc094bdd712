//! A spin lock: test, then test-and-set.
#![expect(unsafe_code, reason = "lock_api::RawMutex is an unsafe trait")]

use std::{
    cell::Cell,
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::processor;

/// The number of tests of a taken lock before the thread yields its time slice, as the holder may be descheduled.
const SPINS: u32 = 200;

/// A spin lock. All-zero bytes are a free lock.
pub struct RawSpinLock {
    taken: AtomicBool,
    /// The IRQL of the holder before it took the lock.
    before: Cell<u8>,
}

// SAFETY: only the holder uses the cell, and the flag orders one holder before the next.
unsafe impl Sync for RawSpinLock {}

impl RawSpinLock {
    fn try_acquire(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    #[cold]
    fn spin(&self) {
        let mut spins = 0;
        loop {
            while self.taken.load(Ordering::Relaxed) {
                spins += 1;
                if spins % SPINS == 0 { thread::yield_now() } else { hint::spin_loop() }
            }
            if self.try_acquire() {
                return;
            }
        }
    }
}

// SAFETY: the flag is set by one thread at a time, with acquire and release ordering.
unsafe impl lock_api::RawMutex for RawSpinLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for the initial value this way")]
    const INIT: Self = Self { taken: AtomicBool::new(false), before: Cell::new(0) };

    /// The thread that has locked also unlocks, as the IRQL belongs to the thread.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        let before = processor::raise();
        if !self.try_acquire() {
            self.spin();
        }
        self.before.set(before);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let before = processor::raise();
        let taken = self.try_acquire();
        if taken {
            self.before.set(before);
        } else {
            processor::lower(before);
        }
        taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        let before = self.before.get();
        self.taken.store(false, Ordering::Release);
        processor::lower(before);
    }

    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}

// SAFETY: `lock` and `try_lock` raise the IRQL by `processor::raise`, `unlock` restores it by `processor::lower`.
unsafe impl platform::RawSpinLock for RawSpinLock {}
