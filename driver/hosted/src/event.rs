//! Notification events.

use std::sync::{Condvar, Mutex, PoisonError};

/// The storage of a notification event.
#[derive(Default)]
pub struct Event {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub(crate) fn initialize(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    pub(crate) fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self) {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(is_set, |is_set| !*is_set));
    }
}
