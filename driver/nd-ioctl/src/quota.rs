//! What a process takes: the pages that it has locked, and non-paged pool. Neither counts against a quota of Windows.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES};
use ndk_abi::wdm::{MDL, PAGE_SIZE};
use platform::{Arc, Charge, OutOfMemory, Passive, PoolQuota};

use crate::{Host, Ref};

/// What locking `length` bytes at `address` takes: whole pages, also those that it has few bytes of. `None`: there is no such range.
#[must_use]
pub fn locked_bytes(address: u64, length: usize) -> Option<u64> {
    const PAGE: u64 = PAGE_SIZE as u64;
    address.wrapping_rem(PAGE).checked_add(length as u64)?.checked_next_multiple_of(PAGE)
}

/// What the MDLs of locked memory take of the pool: a number for each page, and a head for each GiB.
const fn mdl_bytes(locked: u64) -> u64 {
    // With what the pool keeps for an allocation.
    const HEAD: u64 = size_of::<MDL>() as u64 + 32;
    let numbers = locked.div_ceil(PAGE_SIZE as u64).saturating_mul(size_of::<u64>() as u64);
    (locked >> 30).saturating_add(1).saturating_mul(HEAD).saturating_add(numbers)
}

// Of one GiB: two heads, and a number for each of 262,144 pages.
const _: () = assert!(mdl_bytes(1 << 30) == 2 * (48 + 32) + (2 << 20), "an MDL is 48 bytes, and a page frame number 8");

/// What one process takes, all of its files together.
pub(crate) struct Quota<H: Host> {
    /// Bytes that are locked, or about to be.
    locked: AtomicU64,
    pub(crate) pool: PoolQuota<H::Platform>,
    /// For itself.
    _charge: Charge<H::Platform>,
}

impl<H: Host> Quota<H> {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let pool = PoolQuota::new(H::MAX_POOL_BYTES)?;
        let charge = pool.charge(Arc::<Self, H::Platform>::POOL_BYTES)?;
        Ok(Self { locked: AtomicU64::new(0), pool, _charge: charge })
    }

    /// Takes what an object of ours, and what its callbacks need, take of the pool. What is made for it by the provider of the NDK
    /// adapter counts there, against this quota too.
    pub(crate) fn charge<T, C>(&self) -> Result<Charge<H::Platform>, NTSTATUS> {
        self.charge_bytes(Arc::<T, H::Platform>::POOL_BYTES.saturating_add(Arc::<C, H::Platform>::POOL_BYTES))
    }

    /// STATUS_INSUFFICIENT_RESOURCES: the process would have more than [`Host::MAX_POOL_BYTES`].
    pub(crate) fn charge_bytes(&self, bytes: u64) -> Result<Charge<H::Platform>, NTSTATUS> {
        self.pool.charge(bytes).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
    }
}

/// Locked memory of the user, counted until it is unlocked.
pub(crate) struct Locked<H: Host> {
    /// Before what it is counted by.
    pinned: H::Pinned,
    _share: Share<H>,
    /// For its MDLs.
    _charge: Charge<H::Platform>,
}

struct Share<H: Host> {
    quota: Ref<Quota<H>, H>,
    bytes: u64,
}

impl<H: Host> Share<H> {
    /// One process never takes more than half of what all may have.
    fn take(quota: &Ref<Quota<H>, H>, bytes: u64) -> Result<Self, NTSTATUS> {
        let limit = H::MAX_PINNED_BYTES >> 1;
        let grown = |locked: u64| locked.checked_add(bytes).filter(|sum| *sum <= limit);
        let taken = quota.locked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        taken.map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { quota: quota.clone(), bytes })
    }
}

impl<H: Host> Drop for Share<H> {
    fn drop(&mut self) {
        self.quota.locked.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<H: Host> Locked<H> {
    /// [`Host::pin`], within what the process may have: else STATUS_INSUFFICIENT_RESOURCES, before anything is locked.
    pub(crate) fn new(
        host: &H,
        quota: &Ref<Quota<H>, H>,
        request: &H::Request,
        address: u64,
        length: usize,
        write: bool,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let bytes = locked_bytes(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        let share = Share::take(quota, bytes)?;
        let charge = quota.charge_bytes(mdl_bytes(bytes))?;
        let pinned = host.pin(request, address, length, write, passive)?;
        Ok(Self { pinned, _share: share, _charge: charge })
    }
}

impl<H: Host> Deref for Locked<H> {
    type Target = H::Pinned;

    fn deref(&self) -> &H::Pinned {
        &self.pinned
    }
}
