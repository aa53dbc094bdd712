//! Whether a device watches each request and completion: by a fault rule, or by a capture. Then the engine carries small sends out one by one.

use core::sync::atomic::{AtomicU32, Ordering};

/// Fault rules for requests, completions and notifications, and captures, in the whole driver or process: those of a device count as one each. The
/// engine reads the number in each round, as the device of a queue pair is some references away.
static WATCHES: AtomicU32 = AtomicU32::new(0);

/// Whether any device watches requests.
#[inline]
pub(crate) fn any() -> bool {
    WATCHES.load(Ordering::Relaxed) > 0
}

/// A device begins to watch requests, or ends it.
pub(crate) fn change(was: bool, is: bool) {
    match (was, is) {
        (false, true) => _ = WATCHES.fetch_add(1, Ordering::Relaxed),
        (true, false) => _ = WATCHES.fetch_sub(1, Ordering::Relaxed),
        _ => {}
    }
}
