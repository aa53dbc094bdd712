//! Buffers that two processes have at equal addresses. To a device in one process, the buffers of the other are user memory too.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{Region, live};

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(super) use system::{arena, give_back};
pub use system::{join, share};

/// The number of changes to another process's buffers, and the buffers after them.
static BORROWED: Mutex<(u64, BTreeMap<usize, Arc<Region>>)> = Mutex::new((0, BTreeMap::new()));

/// The buffers of this process: the number of changes so far, and the start and length of each.
pub fn buffers() -> (u64, Vec<(usize, usize)>) {
    let (changes, regions): (_, Vec<_>) = {
        let live = live();
        (live.changes, live.regions.values().filter_map(Weak::upgrade).collect())
    };
    // Without the lock, which the drop of a region takes.
    (changes, regions.iter().map(|region| (region.start.addr().get(), region.length)).collect())
}

/// These are the buffers of the other process now, unless it was told of later ones already. What a device has locked of earlier ones
/// it keeps.
///
/// # Panics
/// The buffers do not belong to the [joined](join) process, or other memory is at their addresses.
pub fn borrow((changes, buffers): (u64, Vec<(usize, usize)>)) {
    let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
    if changes < borrowed.0 {
        return;
    }
    borrowed.0 = changes;
    let mut earlier = std::mem::take(&mut borrowed.1);
    for (start, length) in buffers {
        let region = earlier.remove(&start);
        let region = region.or_else(|| Some(Region::new(system::lend(start, length)?, length, true)));
        // Otherwise the other process has freed it already.
        if let Some(region) = region {
            borrowed.1.insert(start, region);
        }
    }
}
