//! The provider's objects, which both versions of the interfaces use. Errors are NTSTATUS of the driver or of these
//! modules. The interfaces return them unchanged, except STATUS_INVALID_PARAMETER_4 of a read or write in version 2,
//! whose flags are the sixth parameter. `device` chooses and opens the control device.

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

/// Locks a mutex. A panic ends the process, so no mutex is ever poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
