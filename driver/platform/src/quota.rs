//! Quotas of non-paged pool, and the charges against them.

use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{Arc, OutOfMemory, Platform, Slice, arc::Inner};

/// Bytes that Windows keeps before each pool allocation (`POOL_HEADER`), and to whose multiples it rounds sizes up.
const HEADER: u64 = 16;

/// The limit of non-paged pool of one user, such as a process. Clones share one limit.
pub struct PoolQuota<P: Platform>(Option<Arc<Pool, P>>);

struct Pool {
    limit: u64,
    taken: AtomicU64,
}

/// Bytes taken from a quota; the drop gives them back. A charge is stored in the object, or beside the memory, that
/// takes the bytes.
pub struct Charge<P: Platform> {
    quota: PoolQuota<P>,
    bytes: u64,
}

impl<P: Platform> PoolQuota<P> {
    /// No limit, for users in the kernel.
    pub const UNLIMITED: Self = Self(None);

    /// A quota of `limit` bytes, of which the quota's own memory is charged at once. IRQL <= DISPATCH.
    pub fn new(limit: u64) -> Result<Self, OutOfMemory> {
        let own = Arc::<Pool, P>::POOL_BYTES;
        Ok(Self(Some(Arc::try_new(Pool { limit, taken: AtomicU64::new(own) })?)))
    }

    /// Charges `bytes`; called before the memory is allocated. `OutOfMemory`: fewer are left. IRQL: any.
    pub fn charge(&self, bytes: u64) -> Result<Charge<P>, OutOfMemory> {
        let mut charge = self.no_charge();
        charge.add(bytes)?;
        Ok(charge)
    }

    /// A charge of 0 bytes, to which [`Charge::add`] adds.
    pub fn no_charge(&self) -> Charge<P> {
        Charge { quota: self.clone(), bytes: 0 }
    }

    /// The bytes that are charged now; 0 if there is no limit.
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
    /// Charges `bytes` more. `OutOfMemory`: nothing was charged. IRQL: any.
    pub fn add(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let all = self.bytes.checked_add(bytes).ok_or(OutOfMemory)?;
        if let Some(pool) = &self.quota.0 {
            let grown = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= pool.limit);
            pool.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(|_| OutOfMemory)?;
        }
        self.bytes = all;
        Ok(())
    }

    /// Moves the bytes of `other` into this charge. `other` is a charge of the same quota.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(core::mem::take(&mut other.bytes));
    }

    /// The quota that is charged.
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
    /// Bytes of pool that one `Arc` with its object takes.
    pub const POOL_BYTES: u64 = pool_bytes(Layout::new::<Inner<T>>().size() as u64);
}

impl<T, P: Platform> Slice<T, P> {
    /// Bytes of pool that a slice of `length` elements takes; `u64::MAX` if the size overflows.
    pub fn pool_bytes(length: usize) -> u64 {
        Layout::array::<T>(length).map_or(u64::MAX, |layout| pool_bytes(layout.size() as u64))
    }
}

/// Bytes of pool that an allocation of `size` bytes takes.
const fn pool_bytes(size: u64) -> u64 {
    if size == 0 { 0 } else { size.saturating_add(2 * HEADER - 1) & !(HEADER - 1) }
}
