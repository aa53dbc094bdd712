//! Locked memory, counted by process: locked pages count against no quota of Windows.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::Passive;

use crate::file::Space;
use crate::{Host, Ref};

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
        let share = Share::take(&space.quota, length as u64)?;
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
