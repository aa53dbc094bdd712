//! Planted bugs, which the tests' checks have to find. Only builds with the feature `planted-bugs` contain them, and no shipped build does;
//! at most one bug is switched on at a time.

/// A bug that can be switched on.
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public with the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The head of a request in a ring is read twice: for the check, and for the post.
    HeadReadTwice,
    /// A handle names any object in its slot, of any generation and any file.
    AnyGeneration,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// Every binary with the feature contains this mark; a check makes sure that shipped binaries do not.
    const MARK: &[u8] = b"SoftNDK with planted bugs";

    static PLANTED: AtomicU8 = AtomicU8::new(u8::MAX);

    /// Switches one bug on, or all off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u8::MAX, |bug| bug as u8), Ordering::SeqCst);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        // Used here and not in `plant`: a shipped binary never calls that function, and the linker would drop the mark.
        core::hint::black_box(MARK);
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Without the feature no bug is planted.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
