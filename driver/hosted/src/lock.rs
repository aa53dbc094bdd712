//! Spin locks: test, and test-and-set.
#![expect(unsafe_code, reason = "lock_api::RawMutex is an unsafe trait")]

use std::{
    cell::Cell,
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::processor;

/// How often a lock is looked at before the time slice is given up. A processor that holds a spin lock runs; a thread that
/// holds one may have been descheduled.
const SPINS: u32 = 200;

/// A spin lock. An all-zero one is free.
pub struct RawSpinLock {
    taken: AtomicBool,
    /// The IRQL to go back to: the holder's.
    before: Cell<u8>,
}

// SAFETY: the cell is used by the holder only, and the flag orders one holder with the next.
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

    /// The holder's thread has the IRQL to go back to.
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

// SAFETY: `processor::raise` and `processor::lower` do that.
unsafe impl platform::RawSpinLock for RawSpinLock {}
