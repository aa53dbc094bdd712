//! A test aid: changes each word of an entry right after the word was read, as a hostile program may. Tests find with
//! it code that reads a word twice. Only builds with the feature `changing-memory` have it, and no shipped build does.

use core::sync::atomic::{AtomicU64, Ordering};

/// Every binary with the feature contains this mark; a check makes sure that shipped binaries do not.
const MARK: &[u8] = b"SoftNDK with planted bugs";

static BITS: AtomicU64 = AtomicU64::new(0);

/// Sets the bits that are flipped in a word after each read, in all rings of the process; 0: none.
pub fn change_what_is_read(bits: u64) {
    BITS.store(bits, Ordering::SeqCst);
}

/// Reads a word of an entry.
pub(crate) fn read(place: &AtomicU64) -> u64 {
    // Used here and not in `change_what_is_read`: a shipped binary never calls that function, and the linker would drop
    // the mark.
    core::hint::black_box(MARK);
    let word = place.load(Ordering::Relaxed);
    let bits = BITS.load(Ordering::Relaxed);
    if bits != 0 {
        place.store(word ^ bits, Ordering::Relaxed);
    }
    word
}
