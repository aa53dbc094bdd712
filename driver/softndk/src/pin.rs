//! Locked user memory.
#![expect(unsafe_code, reason = "MDLs are structures of the memory manager, used by pointer")]

use core::{
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicU64, Ordering},
};

use ndk_abi::{
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
    wdm::MDL,
};
use platform::Passive;
use wdk_sys::{
    _LOCK_OPERATION::{IoModifyAccess, IoReadAccess},
    _MODE::UserMode,
    ntddk::{IoAllocateMdl, IoFreeMdl, MmUnlockPages},
};

use crate::platform::map;

/// The most bytes that one MDL describes: a round number below the limit of IoAllocateMdl, of almost 4 GiB.
const MDL_BYTES: usize = 1 << 30;

unsafe extern "C" {
    /// MmProbeAndLockPages. A structured exception becomes a status (seh.c).
    fn softndk_probe_and_lock_pages(mdl: *mut MDL, access_mode: i32, operation: i32) -> i32;
}

/// The most bytes that the driver locks, in whole pages: two regions of the greatest size. One process may lock half of that. Windows
/// charges locked pages to no quota of their process, so without a limit a program could lock all memory.
pub(crate) const MAX_PINNED_BYTES: u64 = 8 << 30;

/// Bytes that the driver has locked, or is about to lock.
static PINNED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that the driver has locked, or is about to lock.
pub(crate) fn pinned_bytes() -> u64 {
    PINNED_BYTES.load(Ordering::Relaxed)
}

/// Bytes of [`MAX_PINNED_BYTES`] that are reserved, until the drop.
struct Reservation(u64);

impl Reservation {
    fn new(bytes: u64) -> Result<Self, NTSTATUS> {
        let grown = |pinned: u64| pinned.checked_add(bytes).filter(|sum| *sum <= MAX_PINNED_BYTES);
        let reserved = PINNED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        reserved.map(|_| Self(bytes)).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        PINNED_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A range of user memory, as a chain of MDLs with locked pages. The drop unlocks them, at <= DISPATCH_LEVEL.
pub(crate) struct PinnedMemory {
    first: *mut MDL,
    /// Dropped after the pages are unlocked.
    _reservation: Reservation,
}

// SAFETY: locked MDLs may be used and freed from any thread.
unsafe impl Send for PinnedMemory {}
// SAFETY: as for Send; nothing changes after `lock`.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Locks `length` bytes (not 0) at `address` of the current process, for reading or for reading and writing.
    /// STATUS_INSUFFICIENT_RESOURCES: no memory, or the driver would lock more than [`MAX_PINNED_BYTES`].
    pub(crate) fn lock(address: u64, length: usize, write: bool, _passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let operation = if write { IoModifyAccess } else { IoReadAccess };
        let end = address.checked_add(length as u64).ok_or(STATUS_ACCESS_VIOLATION)?;
        // If a piece fails, the drop unlocks the pieces before it.
        let bytes = nd_ioctl::locked_bytes(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        let mut pinned = Self { first: null_mut(), _reservation: Reservation::new(bytes)? };
        let mut place = &raw mut pinned.first;
        let mut next = address;
        while next < end {
            let length = end.saturating_sub(next).min(MDL_BYTES as u64) as u32;
            // SAFETY: describes the range only; no IRP is involved.
            let mdl = unsafe { IoAllocateMdl(next as *mut _, length, 0, 0, null_mut()) }.cast::<MDL>();
            if mdl.is_null() {
                return Err(STATUS_INSUFFICIENT_RESOURCES);
            }
            // SAFETY: a new MDL; PASSIVE_LEVEL, in the process whose memory it describes.
            let status = NTSTATUS(unsafe { softndk_probe_and_lock_pages(mdl, UserMode, operation) });
            if status != STATUS_SUCCESS {
                // SAFETY: allocated above, not locked.
                unsafe { IoFreeMdl(mdl.cast()) };
                return Err(status);
            }
            // SAFETY: the end of the chain: `first`, or the link of the previous MDL, which is not freed before the drop.
            unsafe { place.write(mdl) };
            // Memory locked for reading only is mapped here, not writable: `mdl_system_address` would map it writable.
            // SAFETY: just locked.
            if !write && unsafe { map(mdl, false) }.is_none() {
                return Err(STATUS_INSUFFICIENT_RESOURCES);
            }
            // SAFETY: the MDL just linked.
            place = unsafe { &raw mut (*mdl).Next };
            next = next.saturating_add(u64::from(length));
        }
        Ok(pinned)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let mut mdl = self.first;
        // SAFETY: the chain holds MDLs that `lock` has allocated and locked, and that are out of use.
        while let Some(header) = unsafe { mdl.as_ref() } {
            let next = header.Next;
            // SAFETY: locked by `lock`. MmUnlockPages also removes the system mapping.
            unsafe { MmUnlockPages(mdl.cast()) };
            // SAFETY: allocated by `lock`, unlocked, freed once.
            unsafe { IoFreeMdl(mdl.cast()) };
            mdl = next;
        }
    }
}

// SAFETY: `lock` makes the chain. It does not change, and its pages stay locked, until the drop.
unsafe impl nd_ioctl::Pinned for PinnedMemory {
    fn mdl(&self) -> NonNull<MDL> {
        // SAFETY: the length is not 0, so `lock` has made at least one MDL.
        unsafe { NonNull::new_unchecked(self.first) }
    }
}
