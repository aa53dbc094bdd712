//! Spin locks, which own the data that they protect.

use crate::Platform;

/// A spin lock and its data. The holder runs at `DISPATCH_LEVEL`. Lock order: `docs/contexts.md`.
pub type SpinLock<T, P> = lock_api::Mutex<<P as Platform>::RawSpinLock, T>;

/// The data of a locked [`SpinLock`]; dropping the guard unlocks and restores the IRQL. A thread drops its guards in
/// reverse order of locking.
pub type SpinLockGuard<'a, T, P> = lock_api::MutexGuard<'a, <P as Platform>::RawSpinLock, T>;
