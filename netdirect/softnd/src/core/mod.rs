//! What a provider does, whichever version of the interfaces shows it. Errors are the driver's NTSTATUS, which the interfaces
//! return as they are.

pub(crate) mod adapter;
pub(crate) mod affinity;
pub(crate) mod completion_queue;
pub(crate) mod connector;
pub(crate) mod device;
pub(crate) mod handle;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod object;
pub(crate) mod overlapped;
pub(crate) mod pages;
pub(crate) mod queue_pair;
pub(crate) mod ring;
pub(crate) mod shared_receive_queue;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A thread that panics takes the process with it, so that nothing is ever poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
