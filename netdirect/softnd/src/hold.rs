//! Counts the objects and locks that keep the DLL loaded, for DllCanUnloadNow.

use std::sync::atomic::{AtomicUsize, Ordering};

static HOLDS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the DLL loaded. The last field of each object, so that it is dropped after the others.
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn new() -> Self {
        add();
        Self(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        remove();
    }
}

/// Keeps the DLL loaded without an object: IClassFactory::LockServer.
pub(crate) fn add() {
    HOLDS.fetch_add(1, Ordering::Relaxed);
}

/// Undoes an [`add`].
pub(crate) fn remove() {
    HOLDS.fetch_sub(1, Ordering::Release);
}

pub(crate) fn is_held() -> bool {
    HOLDS.load(Ordering::Acquire) != 0
}
