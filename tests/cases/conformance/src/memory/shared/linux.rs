//! One file without a name, which is mapped as a whole.
#![expect(unsafe_code, reason = "maps memory")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap},
};

/// Where it is: far from what Linux maps by itself, where addresses have 39 bits, too.
const START: usize = 1 << 37;
/// More than buffers of a whole run add up to: addresses are not used again. Pages of it exist once they are written.
const LENGTH: usize = 64 << 30;

static ARENA: OnceLock<Arena> = OnceLock::new();

/// The arena of this process's buffers, if they are shared.
pub(crate) fn arena() -> Option<&'static Arena> {
    ARENA.get()
}

/// Memory of a file without a name.
pub(crate) struct Arena {
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
    pub(crate) fn allocate(&self, length: usize) -> Option<NonNull<u8>> {
        let next = |used: usize| used.checked_add(length).filter(|end| *end <= LENGTH);
        let offset = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        // SAFETY: inside the mapping.
        Some(unsafe { self.start.add(offset) })
    }

    /// Gives pages back to the system. False: they are not its own.
    pub(crate) fn free(&self, start: NonNull<u8>, length: usize) -> bool {
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
/// Other memory is at their addresses, or the process has ended.
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

/// Where the other process's buffer is. It is mapped already.
///
/// # Panics
/// It is not in the memory that was [joined](join).
pub(super) fn lend(start: usize, length: usize) -> Option<NonNull<u8>> {
    let end = start.checked_add(length).expect("an end");
    assert!(start >= START && end <= START + LENGTH, "{length} bytes at {start:#x} are not shared");
    NonNull::new(ptr::with_exposed_provenance_mut(start))
}

/// Nothing is to be done for it.
pub(crate) fn give_back(_start: NonNull<u8>) {}
