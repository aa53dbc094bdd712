//! Planted bugs, which the tests' checks have to find. Only builds with the feature `planted-bugs` contain them, and no shipped build does;
//! at most one bug is switched on at a time. They are listed here, below the crates that have them, so that these share one switch.

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of soft-rdma: NdkArmCq ignores completions that are in the queue already.
    LostWakeUp,
    /// Of soft-rdma: completions polled together are handed out newest first.
    OutOfOrder,
    /// Of soft-rdma: range checks take a registration for one byte longer than it is.
    OffByOne,
    /// Of soft-rdma: a failed connect leaks a reference to its queue pair.
    LeakedReference,
    /// Of soft-rdma: the notification of a completion queue is called with the queue's lock held.
    CallbackUnderLock,
    /// Of nd-ioctl: the head of a request in a ring is read twice: for the check, and for the post.
    HeadReadTwice,
    /// Of nd-ioctl: a handle names any object in its slot, of any generation and any file.
    AnyGeneration,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// Every binary with the feature contains this mark. `cargo xtask` refuses to package a driver that does.
    const MARK: &[u8] = b"SoftNDK with planted bugs";

    static PLANTED: AtomicU8 = AtomicU8::new(u8::MAX);

    /// Switches one bug on and all others off; `None`: all off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u8::MAX, |bug| bug as u8), Ordering::SeqCst);
    }

    /// Whether a bug is switched on.
    pub fn is(bug: Bug) -> bool {
        // Used here and not in `plant`: a shipped binary never calls that function, and the linker would drop the mark.
        core::hint::black_box(MARK);
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::{is, plant};

/// Without the feature no bug is ever on.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}
