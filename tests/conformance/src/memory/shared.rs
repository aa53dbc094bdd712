//! Buffers that two processes have at the same addresses. To a device in one of them those of the other are user memory, too.
#![expect(unsafe_code, reason = "maps memory")]

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    ptr::{self, NonNull},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap},
};

use super::{Region, live};

/// Where it is: far from what Linux maps by itself, where addresses have 39 bits, too.
const START: usize = 1 << 37;
/// More than buffers of a whole run add up to: addresses are not used again. Pages of it exist once they are written.
const LENGTH: usize = 64 << 30;

static ARENA: OnceLock<Arena> = OnceLock::new();

/// The buffers of another process, as of so many changes of its own.
static BORROWED: Mutex<(u64, BTreeMap<usize, Arc<Region>>)> = Mutex::new((0, BTreeMap::new()));

/// What the buffers of this process come from, if they are shared.
pub(super) fn arena() -> Option<&'static Arena> {
    ARENA.get()
}

/// Memory of a file without a name.
pub(super) struct Arena {
    file: OwnedFd,
    start: NonNull<u8>,
    used: AtomicUsize,
}

// SAFETY: it gives each of its pages away once.
unsafe impl Send for Arena {}
// SAFETY: as for Send.
unsafe impl Sync for Arena {}

impl Arena {
    /// Zeroed pages. `None`: there are no more.
    pub(super) fn allocate(&self, length: usize) -> Option<NonNull<u8>> {
        let next = |used: usize| used.checked_add(length).filter(|end| *end <= LENGTH);
        let offset = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        // SAFETY: inside the mapping.
        Some(unsafe { self.start.add(offset) })
    }

    /// Gives pages back to the system. False: they are not its own.
    pub(super) fn free(&self, start: NonNull<u8>, length: usize) -> bool {
        let Some(offset) = start.addr().get().checked_sub(START).filter(|offset| *offset < LENGTH) else {
            return false;
        };
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, hole, offset as u64, length as u64).expect("to free shared pages");
        true
    }
}

/// Shares the buffers that this process makes from now on. Gives the path at which another one finds them while this one lives.
///
/// # Errors
/// There is something else at their addresses, or no memory.
///
/// # Panics
/// They are shared already.
pub fn share() -> io::Result<String> {
    let file = memfd_create("buffers", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, LENGTH as u64)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let arena = Arena { start: map(&file)?, file, used: AtomicUsize::new(0) };
    assert!(ARENA.set(arena).is_ok(), "shared twice");
    Ok(path)
}

/// Maps the buffers of the process that gave `path`.
///
/// # Errors
/// There is something else at their addresses, or that process is gone.
pub fn join(path: &str) -> io::Result<()> {
    map(&File::options().read(true).write(true).open(path)?.into()).map(drop)
}

fn map(file: &OwnedFd) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE | MapFlags::NORESERVE;
    // SAFETY: nothing that is mapped is replaced, and it is never unmapped.
    let start = unsafe { mmap(ptr::without_provenance_mut(START), LENGTH, protection, flags, file, 0) }?;
    NonNull::new(start.cast())
        .filter(|start| start.addr().get() == START)
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// The buffers of this process: how often they became others, and where each begins, with its length.
pub fn buffers() -> (u64, Vec<(usize, usize)>) {
    let (changes, regions): (_, Vec<_>) = {
        let live = live();
        (live.changes, live.regions.values().filter_map(Weak::upgrade).collect())
    };
    // Without the lock, which a region takes that goes here.
    (changes, regions.iter().map(|region| (region.start.addr().get(), region.length)).collect())
}

/// These are the buffers of the other process now, unless it was told of later ones already. What a device has locked of earlier ones
/// it keeps.
///
/// # Panics
/// They are not in the memory that was [joined](join).
pub fn borrow((changes, buffers): (u64, Vec<(usize, usize)>)) {
    let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
    if changes < borrowed.0 {
        return;
    }
    borrowed.0 = changes;
    let mut earlier = std::mem::take(&mut borrowed.1);
    for (start, length) in buffers {
        let end = start.checked_add(length).expect("an end");
        assert!(start >= START && end <= START + LENGTH, "{length} bytes at {start:#x} are not shared");
        let region = earlier.remove(&start).unwrap_or_else(|| {
            let start = NonNull::new(ptr::with_exposed_provenance_mut(start)).expect("not null");
            Region::new(start, length, true)
        });
        borrowed.1.insert(start, region);
    }
}
