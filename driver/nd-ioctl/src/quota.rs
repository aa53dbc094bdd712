//! The memory that a process takes: locked pages and non-paged pool. Neither counts against a quota of Windows.

use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES};
use ndk_abi::wdm::{MDL, PAGE_SIZE};
use platform::{Arc, Charge, OutOfMemory, Passive, PoolQuota};

use crate::{Host, Ref};

/// The bytes that are locked for `length` bytes at `address`: whole pages, including the partly used first and last ones. `None`: too many.
#[must_use]
pub fn locked_bytes(address: u64, length: usize) -> Option<u64> {
    const PAGE: u64 = PAGE_SIZE as u64;
    address.wrapping_rem(PAGE).checked_add(length as u64)?.checked_next_multiple_of(PAGE)
}

/// The pool bytes of the MDLs of locked memory: a page frame number for each page, and a head for each GiB.
const fn mdl_bytes(locked: u64) -> u64 {
    // The MDL, and the pool's overhead of its allocation.
    const HEAD: u64 = size_of::<MDL>() as u64 + 32;
    let numbers = locked.div_ceil(PAGE_SIZE as u64).saturating_mul(size_of::<u64>() as u64);
    (locked >> 30).saturating_add(1).saturating_mul(HEAD).saturating_add(numbers)
}

// For one GiB: two heads, and a number for each of 262,144 pages.
const _: () = assert!(mdl_bytes(1 << 30) == 2 * (48 + 32) + (2 << 20), "an MDL is 48 bytes, and a page frame number 8");

/// The provider contexts of one process, an eighth of all that there are.
pub(crate) const MAX_CONTEXTS: u32 = 1024;

/// The memory that one process takes, over all its files.
pub(crate) struct Quota<H: Host> {
    /// Bytes that are locked, or about to be.
    locked: AtomicU64,
    pub(crate) pool: PoolQuota<H::Platform>,
    /// Provider contexts.
    contexts: AtomicU32,
    /// Charges the quota's own memory.
    _charge: Charge<H::Platform>,
}

impl<H: Host> Quota<H> {
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let pool = PoolQuota::new(H::MAX_POOL_BYTES)?;
        let charge = pool.charge(Arc::<Self, H::Platform>::POOL_BYTES)?;
        Ok(Self { locked: AtomicU64::new(0), pool, contexts: AtomicU32::new(0), _charge: charge })
    }

    /// Charges the pool bytes of a `T`, an object of this crate, and of a `C`, the context of its callbacks. The provider charges its
    /// objects of the NDK adapter to this quota itself.
    pub(crate) fn charge<T, C>(&self) -> Result<Charge<H::Platform>, NTSTATUS> {
        self.charge_bytes(Arc::<T, H::Platform>::POOL_BYTES.saturating_add(Arc::<C, H::Platform>::POOL_BYTES))
    }

    /// STATUS_INSUFFICIENT_RESOURCES: the process would take more than [`Host::MAX_POOL_BYTES`].
    pub(crate) fn charge_bytes(&self, bytes: u64) -> Result<Charge<H::Platform>, NTSTATUS> {
        self.pool.charge(bytes).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
    }
}

/// A provider context, counted until it is dropped.
pub(crate) struct ContextShare<H: Host>(Ref<Quota<H>, H>);

impl<H: Host> ContextShare<H> {
    /// STATUS_INSUFFICIENT_RESOURCES: the process would have more than [`MAX_CONTEXTS`].
    pub(crate) fn take(quota: &Ref<Quota<H>, H>) -> Result<Self, NTSTATUS> {
        let grown = |contexts: u32| contexts.checked_add(1).filter(|sum| *sum <= MAX_CONTEXTS);
        let taken = quota.contexts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        taken.map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self(quota.clone()))
    }
}

impl<H: Host> Drop for ContextShare<H> {
    fn drop(&mut self) {
        self.0.contexts.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Locked user memory, counted until it is unlocked.
pub(crate) struct Locked<H: Host> {
    /// Dropped first: the pages are counted until they are unlocked.
    pinned: H::Pinned,
    _share: Share<H>,
    /// Charges the MDLs.
    _charge: Charge<H::Platform>,
}

struct Share<H: Host> {
    quota: Ref<Quota<H>, H>,
    bytes: u64,
}

impl<H: Host> Share<H> {
    /// Counts `bytes`. STATUS_INSUFFICIENT_RESOURCES: the process would lock more than half of [`Host::MAX_PINNED_BYTES`].
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
    /// [`Host::pin`], after the limits of the process are checked: STATUS_INSUFFICIENT_RESOURCES, with nothing locked, if they are
    /// exceeded.
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
