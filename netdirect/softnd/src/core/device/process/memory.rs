//! [`ProcessMemory`]: memory of the process that the device may use.
#![expect(unsafe_code, reason = "memory of programs, named by addresses, and a call into kernel32")]

use std::{
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hosted::Mdl;
use nd_ioctl::Pinned;
use ndk_abi::{
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION},
    wdm::MDL,
};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE_READ, PAGE_EXECUTE_READWRITE, PAGE_EXECUTE_WRITECOPY,
    PAGE_GUARD, PAGE_READONLY, PAGE_READWRITE, PAGE_WRITECOPY, VirtualQuery,
};

use crate::core::pages::{self, Pages};

/// A range of the program's memory, described by an MDL. The program may free the memory at any time: a process cannot
/// lock memory against itself.
pub(super) struct ProcessMemory {
    /// The DLL's own pages, if the memory is a ring.
    _pages: Option<Arc<Pages>>,
    mdl: Mdl,
    length: u64,
    total: Arc<AtomicU64>,
}

impl ProcessMemory {
    /// Describes `length` bytes (not 0) at `address`, and adds them to `total`. STATUS_ACCESS_VIOLATION: not all bytes
    /// can be read, or, if `write`, written.
    pub(super) fn describe(address: u64, length: usize, write: bool, total: &Arc<AtomicU64>) -> Result<Self, NTSTATUS> {
        let first = usize::try_from(address).map_err(|_| STATUS_ACCESS_VIOLATION)?;
        let end = first.checked_add(length).ok_or(STATUS_ACCESS_VIOLATION)?;
        let pages = pages::find(first);
        let mut next = first;
        while next < end {
            next = accessible(next, write).ok_or(STATUS_ACCESS_VIOLATION)?;
        }
        let memory = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(first)).ok_or(STATUS_ACCESS_VIOLATION)?;
        // SAFETY: the program has promised to keep the memory while it is registered; pages of a ring are kept by
        // `_pages`.
        let mdl = unsafe { Mdl::lock(memory, length) };
        total.fetch_add(length as u64, Ordering::Relaxed);
        Ok(Self { _pages: pages, mdl, length: length as u64, total: total.clone() })
    }
}

/// The end of the range of pages with the protection of the page at `address`. `None`: that page does not allow the
/// access.
fn accessible(address: usize, write: bool) -> Option<usize> {
    const WRITABLE: u32 = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const READABLE: u32 = WRITABLE | PAGE_READONLY | PAGE_EXECUTE_READ;
    let mut found = MEMORY_BASIC_INFORMATION::default();
    let length = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: any address may be queried; `found` is a local of `length` bytes.
    let known = unsafe { VirtualQuery(ptr::without_provenance(address), &raw mut found, length) } != 0;
    let allowed = if write { WRITABLE } else { READABLE };
    let is_accessible = found.State == MEM_COMMIT && found.Protect & allowed != 0 && found.Protect & PAGE_GUARD == 0;
    (known && is_accessible).then(|| found.BaseAddress.addr().saturating_add(found.RegionSize))
}

impl Drop for ProcessMemory {
    fn drop(&mut self) {
        self.total.fetch_sub(self.length, Ordering::Relaxed);
    }
}

// SAFETY: the MDL lives as long as this.
unsafe impl Pinned for ProcessMemory {
    fn mdl(&self) -> NonNull<MDL> {
        // SAFETY: the first MDL of a chain, so not null.
        unsafe { NonNull::new_unchecked(self.mdl.as_ptr()) }
    }
}
