//! Where a thread waits for what callbacks tell.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Result, ensure};

/// The peer answers long before. A message without a receive is held for some of it.
const PATIENCE: Duration = Duration::from_secs(15);

/// A value that callbacks change.
#[derive(Default)]
pub(crate) struct Bell<T> {
    value: Mutex<T>,
    rung: Condvar,
}

impl<T> Bell<T> {
    /// Changes the value, and wakes who waits.
    pub(crate) fn ring<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let changed = change(&mut self.lock());
        self.rung.notify_all();
        changed
    }

    /// Waits until `ready` finds what it wants; fails if that takes too long.
    pub(crate) fn wait<R>(&self, what: &str, mut ready: impl FnMut(&mut T) -> Option<R>) -> Result<R> {
        let mut found = None;
        let wanted = |value: &mut T| {
            found = ready(value);
            found.is_none()
        };
        let waited = self.rung.wait_timeout_while(self.lock(), PATIENCE, wanted);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        ensure!(found.is_some(), "{what}: nothing for {} s", PATIENCE.as_secs());
        found.ok_or_else(|| unreachable!())
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
