//! Memory that another process writes, at the worst moment: each word of an entry is changed as soon as it has been read. For the
//! tests that look for a second read of the same word. Only builds with the feature `changing-memory` have it, which no shipped
//! one has.

use core::sync::atomic::{AtomicU64, Ordering};

/// In every binary that has the feature, and looked for in those that must not.
const MARK: &[u8] = b"SoftNDK with planted bugs";

static BITS: AtomicU64 = AtomicU64::new(0);

/// From now on these bits of each word are flipped once it has been read, in all rings of the process; 0: no more.
pub fn change_what_is_read(bits: u64) {
    BITS.store(bits, Ordering::SeqCst);
}

/// Reads a word of an entry.
pub(crate) fn read(place: &AtomicU64) -> u64 {
    // Here: a shipped binary never calls the other, and would be linked without the mark.
    core::hint::black_box(MARK);
    let word = place.load(Ordering::Relaxed);
    let bits = BITS.load(Ordering::Relaxed);
    if bits != 0 {
        place.store(word ^ bits, Ordering::Relaxed);
    }
    word
}
