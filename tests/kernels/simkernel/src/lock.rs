//! Spin locks.
#![expect(unsafe_code, reason = "lock_api::RawMutex is an unsafe trait")]

use std::{
    panic::Location,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use platform::DISPATCH_LEVEL;

use crate::{held::held_locks, irql, ledger, order, schedule, violation::Breach, waiters, watchdog};

/// A spin lock that checks its use. An all-zero one is free.
pub struct RawSpinLock(AtomicBool);

impl RawSpinLock {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Spins: the other processors are threads, of which the machine may have fewer, so the time slice is given up.
    fn spin(&self) {
        if schedule::is_active() {
            let _waiting = waiters::enter("spin lock", self.address());
            while !self.try_acquire() {
                schedule::block("contended lock", self.address());
            }
            return;
        }
        for _ in 0..1000 {
            thread::yield_now();
            if !self.0.load(Ordering::Relaxed) && self.try_acquire() {
                return;
            }
        }
        let _waiting = waiters::enter("spin lock", self.address());
        while !self.try_acquire() {
            watchdog::panic_if_stalled();
            thread::yield_now();
        }
    }
}

// SAFETY: the flag is set by one thread at a time, with acquire and release ordering.
unsafe impl lock_api::RawMutex for RawSpinLock {
    const INIT: Self = Self(AtomicBool::new(false));

    /// The holder's thread has the IRQL to go back to.
    type GuardMarker = lock_api::GuardNoSend;

    /// # Panics
    /// On recursion: there is no way on.
    #[track_caller]
    fn lock(&self) {
        irql::require("taking a spin lock", DISPATCH_LEVEL);
        if held_locks().contains(&self.address()) {
            ledger::breach(Breach::LockRecursion(self.address()));
            panic!("spin lock taken twice by one thread, now at {}", Location::caller());
        }
        order::check(self.address());
        schedule::occasion("lock", self.address());
        let before = irql::raise_to_dispatch();
        if !self.try_acquire() {
            self.spin();
        }
        irql::push_held(self.address(), before);
    }

    #[track_caller]
    fn try_lock(&self) -> bool {
        irql::require("taking a spin lock", DISPATCH_LEVEL);
        schedule::occasion("try lock", self.address());
        let before = irql::raise_to_dispatch();
        let taken = self.try_acquire();
        if taken {
            irql::push_held(self.address(), before);
        } else {
            irql::lower_to(before);
        }
        taken
    }

    unsafe fn unlock(&self) {
        let before = irql::pop_held(self.address());
        let address = self.address();
        self.0.store(false, Ordering::Release);
        irql::lower_to(before);
        schedule::wake(address);
        schedule::occasion("unlock", address);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: `lock` and `try_lock` raise, and `unlock` lowers. What breaks that, releasing in another order, is a breach.
unsafe impl platform::RawSpinLock for RawSpinLock {}
