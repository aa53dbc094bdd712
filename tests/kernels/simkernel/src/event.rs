//! Notification events.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use platform::DISPATCH_LEVEL;

use crate::{irql, ledger, lock_table, schedule, violation::Breach, waiters, watchdog};

/// One for all events: an event is nothing but its state, which may be freed as soon as a wait for it is over.
static TABLE: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();

const CLEAR: u8 = 1;
const SIGNALLED: u8 = 2;

/// The storage of a notification event; all-zero is uninitialised.
#[derive(Default)]
pub struct Event(AtomicU8);

impl Event {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn initialize(&self) {
        if waiters::waited_for_in(&(self.address()..self.address() + size_of::<Self>())).is_some() {
            ledger::breach(Breach::InitializedInUse(self.address()));
        }
        self.0.store(CLEAR, Ordering::Release);
    }

    /// Whether it was initialised; a breach if not.
    fn usable(&self) -> bool {
        let usable = self.0.load(Ordering::Acquire) != 0;
        if !usable {
            ledger::breach(Breach::Uninitialized(self.address()));
        }
        usable
    }

    pub(crate) fn set(&self) {
        irql::require("setting an event", DISPATCH_LEVEL);
        if self.usable() {
            let address = self.address();
            schedule::occasion("set event", address);
            {
                let _table = lock_table(&TABLE);
                self.0.store(SIGNALLED, Ordering::Release);
                CHANGED.notify_all();
            }
            schedule::progress();
            schedule::wake(address);
        }
    }

    pub(crate) fn wait(&self) {
        irql::require("waiting", irql::WAIT_LIMIT);
        if !self.usable() {
            return;
        }
        let _waiting = waiters::enter("event", self.address());
        while schedule::is_active() && self.0.load(Ordering::Acquire) != SIGNALLED {
            schedule::block("event", self.address());
        }
        let mut table = lock_table(&TABLE);
        while self.0.load(Ordering::Acquire) != SIGNALLED {
            // The time is for the watchdog, which panics the stalled.
            table = CHANGED.wait_timeout(table, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
            watchdog::panic_if_stalled();
        }
    }
}
