//! Non-paged pool that is counted against what its user may have.

use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{Arc, OutOfMemory, Platform, Slice, arc::Inner};

/// What the pool keeps before each allocation of Windows (`POOL_HEADER`), and what sizes are rounded up to.
const HEADER: u64 = 16;

/// What one user, such as a process, may take of the non-paged pool. Clones are the same quota.
pub struct PoolQuota<P: Platform>(Option<Arc<Pool, P>>);

struct Pool {
    limit: u64,
    taken: AtomicU64,
}

/// Bytes of a quota, which are given back when this is dropped: kept in the object, or beside the memory, that they are for.
pub struct Charge<P: Platform> {
    quota: PoolQuota<P>,
    bytes: u64,
}

impl<P: Platform> PoolQuota<P> {
    /// No limit, for users in the kernel.
    pub const UNLIMITED: Self = Self(None);

    /// At most `limit` bytes. What the quota itself takes counts. IRQL <= DISPATCH.
    pub fn new(limit: u64) -> Result<Self, OutOfMemory> {
        let own = Arc::<Pool, P>::POOL_BYTES;
        Ok(Self(Some(Arc::try_new(Pool { limit, taken: AtomicU64::new(own) })?)))
    }

    /// Takes `bytes`, before the memory is allocated. `OutOfMemory`: they are more than is left. IRQL: any.
    pub fn charge(&self, bytes: u64) -> Result<Charge<P>, OutOfMemory> {
        let mut charge = self.no_charge();
        charge.add(bytes)?;
        Ok(charge)
    }

    /// A charge of nothing, to which more is added.
    pub fn no_charge(&self) -> Charge<P> {
        Charge { quota: self.clone(), bytes: 0 }
    }

    /// Bytes that are taken now; 0 without a limit.
    pub fn taken(&self) -> u64 {
        self.0.as_ref().map_or(0, |pool| pool.taken.load(Ordering::Relaxed))
    }
}

impl<P: Platform> Clone for PoolQuota<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Platform> Charge<P> {
    /// Takes `bytes` more. `OutOfMemory`: nothing was taken. IRQL: any.
    pub fn add(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let all = self.bytes.checked_add(bytes).ok_or(OutOfMemory)?;
        if let Some(pool) = &self.quota.0 {
            let grown = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= pool.limit);
            pool.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|_| OutOfMemory)?;
        }
        self.bytes = all;
        Ok(())
    }

    /// Takes over what `other` has, of the same quota.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(core::mem::take(&mut other.bytes));
    }

    /// The quota that it is of.
    pub fn quota(&self) -> &PoolQuota<P> {
        &self.quota
    }
}

impl<P: Platform> Drop for Charge<P> {
    fn drop(&mut self) {
        if let Some(pool) = &self.quota.0 {
            pool.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl<T, P: Platform> Arc<T, P> {
    /// What an object takes of the pool.
    pub const POOL_BYTES: u64 = pool_bytes(Layout::new::<Inner<T>>().size() as u64);
}

impl<T, P: Platform> Slice<T, P> {
    /// What a slice of `length` takes of the pool; `u64::MAX` if there can be none so long.
    pub fn pool_bytes(length: usize) -> u64 {
        Layout::array::<T>(length).map_or(u64::MAX, |layout| pool_bytes(layout.size() as u64))
    }
}

/// What an allocation of `size` bytes takes of the pool.
const fn pool_bytes(size: u64) -> u64 {
    if size == 0 { 0 } else { size.saturating_add(2 * HEADER - 1) & !(HEADER - 1) }
}
