//! Deliberate bugs, which the project's own tests have to find. Only a build with the feature `planted-bugs` has them, and runs only the bug that
//! is switched on. Shipped builds are made without the feature.

/// A bug that can be switched on.
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public with the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// NdkArmCq ignores completions that are in the queue already.
    LostWakeUp,
    /// Completions polled together are handed out newest first.
    OutOfOrder,
    /// Range checks take a registration for one byte longer than it is.
    OffByOne,
    /// A failed connect leaks a reference to its queue pair.
    LeakedReference,
    /// The notification of a completion queue is called with the queue's lock held.
    CallbackUnderLock,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// Every binary with the feature contains this string. `cargo xtask` refuses to package a driver that does.
    const MARK: &[u8] = b"SoftNDK with planted bugs";

    static PLANTED: AtomicU8 = AtomicU8::new(u8::MAX);

    /// Switches one bug on and all others off; `None`: all off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u8::MAX, |bug| bug as u8), Ordering::SeqCst);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        // Read here, not in `plant`: a shipped binary never calls `plant`, so the linker would drop the mark.
        core::hint::black_box(MARK);
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Without the feature no bug is ever on.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
