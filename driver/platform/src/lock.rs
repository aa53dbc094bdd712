//! Locks own their data.

use crate::Platform;

/// A spin lock around its data. Holding it means running at `DISPATCH_LEVEL`. Order: `docs/contexts.md`.
pub type SpinLock<T, P> = lock_api::Mutex<<P as Platform>::RawSpinLock, T>;

/// The data of a locked [`SpinLock`]; dropping it restores the IRQL. Guards are released in reverse order of taking.
pub type SpinLockGuard<'a, T, P> = lock_api::MutexGuard<'a, <P as Platform>::RawSpinLock, T>;
