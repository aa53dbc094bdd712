//! What keeps the DLL loaded.

use std::sync::atomic::{AtomicUsize, Ordering};

static HOLDS: AtomicUsize = AtomicUsize::new(0);

/// A reason to stay loaded. The last field of each object, so that it goes when all of that is gone.
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

/// A reason without an object: IClassFactory::LockServer.
pub(crate) fn add() {
    HOLDS.fetch_add(1, Ordering::Relaxed);
}

/// Takes back an [`add`].
pub(crate) fn remove() {
    HOLDS.fetch_sub(1, Ordering::Release);
}

pub(crate) fn is_held() -> bool {
    HOLDS.load(Ordering::Acquire) != 0
}
