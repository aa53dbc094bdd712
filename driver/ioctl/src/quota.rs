//! Locked memory, counted by process: locked pages count against no quota of Windows.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES};
use ndk_abi::wdm::PAGE_SIZE;
use platform::Passive;

use crate::file::Space;
use crate::{Host, Ref};

/// What locking `length` bytes at `address` takes: whole pages, also those that it has few bytes of. `None`: there is no such range.
#[must_use]
pub fn locked_bytes(address: u64, length: usize) -> Option<u64> {
    const PAGE: u64 = PAGE_SIZE as u64;
    address.wrapping_rem(PAGE).checked_add(length as u64)?.checked_next_multiple_of(PAGE)
}

/// What one process has locked, or is about to.
#[derive(Default)]
pub(crate) struct Quota {
    bytes: AtomicU64,
}

/// Locked memory of the user, counted until it is unlocked.
pub(crate) struct Locked<H: Host> {
    /// Before what it is counted by.
    pinned: H::Pinned,
    _share: Share<H>,
}

struct Share<H: Host> {
    quota: Ref<Quota, H>,
    bytes: u64,
}

impl<H: Host> Share<H> {
    /// One process never takes more than half of what all may have.
    fn take(quota: &Ref<Quota, H>, bytes: u64) -> Result<Self, NTSTATUS> {
        let limit = H::MAX_PINNED_BYTES >> 1;
        let grown = |locked: u64| locked.checked_add(bytes).filter(|sum| *sum <= limit);
        let taken = quota.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        taken.map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { quota: quota.clone(), bytes })
    }
}

impl<H: Host> Drop for Share<H> {
    fn drop(&mut self) {
        self.quota.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<H: Host> Locked<H> {
    /// [`Host::pin`], within what the process may have: else STATUS_INSUFFICIENT_RESOURCES, before anything is locked.
    pub(crate) fn new(
        space: &Space<H>,
        request: &H::Request,
        address: u64,
        length: usize,
        write: bool,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let bytes = locked_bytes(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        let share = Share::take(&space.quota, bytes)?;
        let pinned = space.device.host.pin(request, address, length, write, passive)?;
        Ok(Self { pinned, _share: share })
    }
}

impl<H: Host> Deref for Locked<H> {
    type Target = H::Pinned;

    fn deref(&self) -> &H::Pinned {
        &self.pinned
    }
}
