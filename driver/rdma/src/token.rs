//! Memory tokens: an index and a key. Lookup takes constant time and one shard's lock.

use core::sync::atomic::{AtomicUsize, Ordering};

use platform::{Arc, Platform, Slice, SpinLock, Weak};

use crate::{Device, Error, MemoryRegion, MemoryWindow, ProtectionDomain, limits};

/// Shards of the table, so that lookups of different regions rarely meet.
const SHARDS: usize = 64;
/// Entries of one shard when it is full: 64 * 4096 leaves room for every region, window and privileged token.
const SHARD_ENTRIES: usize = 4096;
const _: () = assert!(SHARDS * SHARD_ENTRIES >= (limits::MRS + limits::MWS + limits::PDS) as usize);
const FIRST_ENTRIES: usize = 16;
const KEY_BITS: u32 = 8;

/// What a token stands for.
pub(crate) enum Target<P: Platform> {
    Region(Weak<MemoryRegion<P>, P>),
    /// Whatever the key: while a bind waits the token of the binding before it is still good. The window compares the whole.
    Window(Weak<MemoryWindow<P>, P>),
    Privileged(Weak<ProtectionDomain<P>, P>),
}

impl<P: Platform> Clone for Target<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Region(region) => Self::Region(region.clone()),
            Self::Window(window) => Self::Window(window.clone()),
            Self::Privileged(pd) => Self::Privileged(pd.clone()),
        }
    }
}

struct Entry<P: Platform> {
    /// Changes with every use of the entry, so that a stale token does not name the next region.
    key: u8,
    target: Option<Target<P>>,
}

/// The table of a device.
pub(crate) struct Tokens<P: Platform> {
    shards: [SpinLock<Slice<Entry<P>, P>, P>; SHARDS],
    next_shard: AtomicUsize,
}

impl<P: Platform> Default for Tokens<P> {
    fn default() -> Self {
        Self { shards: [const { SpinLock::<_, P>::new(Slice::empty()) }; SHARDS], next_shard: AtomicUsize::new(0) }
    }
}

impl<P: Platform> Tokens<P> {
    /// What `token` stands for, if it is valid.
    pub(crate) fn find(&self, token: u32) -> Option<Target<P>> {
        let (shard, slot, key) = split(token)?;
        let entries = self.shards.get(shard)?.lock();
        let entry = entries.get(slot)?;
        let target = entry.target.as_ref().filter(|target| entry.key == key || matches!(target, Target::Window(_)));
        target.cloned()
    }

    /// Gives the entry of `token`, which its owner has, a new key: the new token. Allocates nothing.
    pub(crate) fn renew(&self, token: u32) -> Option<u32> {
        let (shard, slot, _) = split(token)?;
        let mut entries = self.shards.get(shard)?.lock();
        let entry = entries.get_mut(slot)?;
        entry.key = entry.key.wrapping_add(1);
        join(shard, slot, entry.key).ok()
    }

    fn insert(&self, target: Target<P>) -> Result<u32, Error> {
        let start = self.next_shard.fetch_add(1, Ordering::Relaxed);
        for distance in 0..SHARDS {
            let shard = start.wrapping_add(distance) % SHARDS;
            if let Some(token) = self.insert_in(shard, &target)? {
                return Ok(token);
            }
        }
        Err(Error::InsufficientResources)
    }

    fn insert_in(&self, shard: usize, target: &Target<P>) -> Result<Option<u32>, Error> {
        let lock = self.shards.get(shard).ok_or(Error::InternalError)?;
        let mut larger = Slice::empty();
        loop {
            let mut entries = lock.lock();
            if let Some((slot, entry)) = entries.iter_mut().enumerate().find(|(_, entry)| entry.target.is_none()) {
                entry.key = entry.key.wrapping_add(1);
                entry.target = Some(target.clone());
                return join(shard, slot, entry.key).map(Some);
            }
            let length = entries.len();
            if larger.len() > length {
                for (new, old) in larger.iter_mut().zip(entries.iter_mut()) {
                    core::mem::swap(new, old);
                }
                core::mem::swap(&mut *entries, &mut larger);
                continue;
            }
            drop(entries);
            let length = length.saturating_mul(2).clamp(FIRST_ENTRIES, SHARD_ENTRIES);
            if larger.len() >= length {
                return Ok(None);
            }
            larger = Slice::from_fn(length, |_| Entry { key: 0, target: None })?;
        }
    }

    fn remove(&self, token: u32) {
        if let Some((shard, slot, _)) = split(token)
            && let Some(lock) = self.shards.get(shard)
        {
            let mut entries = lock.lock();
            let target = entries.get_mut(slot).and_then(|entry| entry.target.take());
            drop(entries);
            drop(target);
        }
    }
}

/// A token in use; freed when dropped.
pub(crate) struct Token<P: Platform> {
    value: u32,
    device: Arc<Device<P>, P>,
}

impl<P: Platform> Token<P> {
    pub(crate) fn new(device: &Arc<Device<P>, P>, target: Target<P>) -> Result<Self, Error> {
        Ok(Self { value: device.tokens().insert(target)?, device: device.clone() })
    }

    pub(crate) fn value(&self) -> u32 {
        self.value
    }
}

impl<P: Platform> Drop for Token<P> {
    fn drop(&mut self) {
        self.device.tokens().remove(self.value);
    }
}

/// Shard, slot and key of a token. The index counts from 1, so that 0 is never a token.
fn split(token: u32) -> Option<(usize, usize, u8)> {
    let index = (token >> KEY_BITS).checked_sub(1)? as usize;
    let key = u8::try_from(token & 0xFF).ok()?;
    Some((index % SHARDS, index / SHARDS, key))
}

fn join(shard: usize, slot: usize, key: u8) -> Result<u32, Error> {
    let index =
        slot.checked_mul(SHARDS).and_then(|first| first.checked_add(shard)).and_then(|index| index.checked_add(1));
    let index = index.and_then(|index| u32::try_from(index).ok()).and_then(|index| index.checked_mul(1 << KEY_BITS));
    index.map(|index| index | u32::from(key)).ok_or(Error::InternalError)
}
