//! What has no caller to tell.

use std::sync::{Arc, Mutex, PoisonError};

/// Errors in code that cannot return one.
#[derive(Clone, Debug, Default)]
pub struct Complaints(Arc<Mutex<Vec<String>>>);

impl Complaints {
    /// Notes one.
    pub fn note(&self, complaint: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(complaint);
    }

    /// All of them so far; there are none afterwards.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
