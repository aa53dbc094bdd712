//! Prefetching is a hint.

use core::ptr::{dangling, null, without_provenance};

use platform::prefetch;

/// Also one that nothing is mapped at: it is not read.
#[test]
fn any_address_will_do() {
    let memory = 7u64;
    prefetch(&raw const memory);
    prefetch(dangling::<u64>());
    prefetch(null::<u64>());
    prefetch(without_provenance::<u64>(usize::MAX));
}
