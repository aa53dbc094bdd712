//! Bugs to be found: what the checks of the tests are checked with. Only builds with the feature `planted-bugs` have them,
//! which no shipped one has, and there only the one that is switched on.

/// A bug that can be switched on.
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public with the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The head of a request in a ring is read once to be checked, and once more to be carried out.
    HeadReadTwice,
    /// A handle names whatever is in its place, of whatever age and file.
    AnyGeneration,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// In every binary that has the feature, and looked for in those that must not.
    const MARK: &[u8] = b"SoftNDK with planted bugs";

    static PLANTED: AtomicU8 = AtomicU8::new(u8::MAX);

    /// Switches a bug on, or all off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u8::MAX, |bug| bug as u8), Ordering::SeqCst);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        // Here, not in `plant`: a shipped binary never calls that, and would be linked without the mark.
        core::hint::black_box(MARK);
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Without the feature there is none.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
