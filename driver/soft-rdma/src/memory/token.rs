//! Memory tokens: an index and a key. Lookup, insert and remove take constant time, under the lock of one shard.
//!
//! Not a [`crate::slot_map::SlotMap`]: a free entry keeps its key, and rests before it is used again.

use core::sync::atomic::{AtomicUsize, Ordering};

use platform::{Arc, Platform, Slice, SpinLock, Weak};

use crate::{Device, Error, MemoryRegion, MemoryWindow, ProtectionDomain, limits};

/// Shards of the table, so that lookups on different processors rarely use the same lock.
const SHARDS: usize = 64;
/// Chunks of one shard. The first has `FIRST_ENTRIES` entries, each further one twice as many as the one before: a
/// shard grows without moving entries, and a slot is found without a search.
const CHUNKS: usize = 11;
/// 64 shards of 16 * (2^11 - 1) entries leave room for every region, window and privileged token.
const FIRST_ENTRIES: usize = 16;
const _: () = assert!(
    SHARDS * (chunk_length(CHUNKS) - FIRST_ENTRIES - 2 * RESTING) >= (limits::MRS + limits::MWS + limits::PDS) as usize
);
const KEY_BITS: u32 = 8;
/// A shard grows before it uses a freed entry again, until it has this many freed entries. So a token comes back only after 64 * 256 others of its
/// shard; for a region that is registered again and again, which takes the shards in turn, after 64 times as many.
const RESTING: usize = 64;

/// What a token names.
pub(crate) enum Target<P: Platform> {
    Region(Weak<MemoryRegion<P>, P>),
    /// Found by any key: while a bind waits, the token of the binding before it is still valid. The window compares the whole token.
    Window(Weak<MemoryWindow<P>, P>),
    Privileged(Weak<ProtectionDomain<P>, P>),
}

/// What a token names, held while a lookup uses it.
pub(crate) enum Found<P: Platform> {
    Region(Arc<MemoryRegion<P>, P>),
    Window(Arc<MemoryWindow<P>, P>),
    Privileged(Arc<ProtectionDomain<P>, P>),
}

impl<P: Platform> Target<P> {
    fn upgrade(&self) -> Option<Found<P>> {
        match self {
            Self::Region(region) => region.upgrade().map(Found::Region),
            Self::Window(window) => window.upgrade().map(Found::Window),
            Self::Privileged(pd) => pd.upgrade().map(Found::Privileged),
        }
    }
}

enum Content<P: Platform> {
    Used(Target<P>),
    /// The next free entry of the shard.
    Free(Option<u32>),
}

struct TokenEntry<P: Platform> {
    /// Changes with every use of the entry, so that a stale token does not name the region that has the entry next.
    key: u8,
    content: Content<P>,
}

type Chunk<P> = Slice<TokenEntry<P>, P>;

/// A part of the table, on cache lines of its own: lookups on other processors write to other shards.
#[repr(align(64))]
struct Shard<P: Platform>(SpinLock<Entries<P>, P>);

struct Entries<P: Platform> {
    chunks: [Chunk<P>; CHUNKS],
    /// Chunks in use.
    used: usize,
    /// The first entry that was never used.
    fresh: Option<u32>,
    /// Entries that a region or a domain has freed.
    freed: Freed,
    /// Entries that a window has freed, for windows only. Binds soon use up all keys: an old token of the window, or of a region that had the entry
    /// before it, could name a region that gets the entry next. In another window's entry, an old token names only a binding with the same token,
    /// and only for the peer of the queue pair that bound it.
    freed_by_windows: Freed,
}

/// Freed entries in the order in which they were freed, linked from first to last.
#[derive(Default)]
struct Freed {
    first: Option<u32>,
    last: Option<u32>,
    length: usize,
}

/// The table of a device.
pub(crate) struct Tokens<P: Platform> {
    shards: Slice<Shard<P>, P>,
    next_shard: AtomicUsize,
}

impl<P: Platform> Tokens<P> {
    /// An empty table.
    pub(crate) fn new() -> Result<Self, Error> {
        let empty = |_| {
            Shard(SpinLock::<_, P>::new(Entries {
                chunks: [const { Slice::empty() }; CHUNKS],
                used: 0,
                fresh: None,
                freed: Freed::default(),
                freed_by_windows: Freed::default(),
            }))
        };
        Ok(Self { shards: Slice::from_fn(SHARDS, empty)?, next_shard: AtomicUsize::new(0) })
    }

    /// What `token` names, if it is valid.
    pub(crate) fn find(&self, token: u32) -> Option<Found<P>> {
        let (shard, slot, key) = split(token)?;
        let mut entries = self.shards.get(shard)?.0.lock();
        let entry = entries.get_mut(slot)?;
        match &entry.content {
            Content::Used(target) if entry.key == key || matches!(target, Target::Window(_)) => target.upgrade(),
            Content::Used(_) | Content::Free(_) => None,
        }
    }

    fn insert(&self, target: Target<P>) -> Result<u32, Error> {
        let start = self.next_shard.fetch_add(1, Ordering::Relaxed);
        let mut target = Some(target);
        for distance in 0..SHARDS {
            let shard = start.wrapping_add(distance) % SHARDS;
            if let Some(token) = self.insert_in(shard, &mut target)? {
                return Ok(token);
            }
        }
        Err(Error::InsufficientResources)
    }

    /// Enters `target` in one shard; `None`: the shard is full.
    fn insert_in(&self, shard: usize, target: &mut Option<Target<P>>) -> Result<Option<u32>, Error> {
        let lock = &self.shards.get(shard).ok_or(Error::InternalError)?.0;
        let for_window = matches!(target, Some(Target::Window(_)));
        let mut spare = Slice::empty();
        let mut no_memory = None;
        loop {
            let mut entries = lock.lock();
            if let Some(slot) = entries.take_free(for_window, no_memory.is_none()) {
                let entry = entries.get_mut(slot as usize).ok_or(Error::InternalError)?;
                entry.content = Content::Used(target.take().ok_or(Error::InternalError)?);
                entry.key = entry.key.wrapping_add(1);
                let key = entry.key;
                return join(shard, slot as usize, key).map(Some);
            }
            if !entries.can_grow() {
                return Ok(None);
            }
            if let Some(error) = no_memory {
                return Err(error);
            }
            entries.grow(&mut spare);
            let (grown, needed) = (entries.fresh.is_some(), entries.used);
            drop(entries);
            // Allocated without the lock, and freed without it if another thread has grown the shard first.
            if !grown {
                match new_chunk(needed) {
                    Ok(chunk) => spare = chunk,
                    Err(error) => no_memory = Some(error),
                }
            }
        }
    }

    fn remove(&self, token: u32) {
        if let Some((shard, slot, key)) = split(token)
            && let Some(shard) = self.shards.get(shard)
        {
            let mut entries = shard.0.lock();
            let old = entries.free(slot, key);
            drop(entries);
            drop(old);
        }
    }
}

impl<P: Platform> Entries<P> {
    fn get_mut(&mut self, slot: usize) -> Option<&mut TokenEntry<P>> {
        let (chunk, index) = position(slot)?;
        self.chunks.get_mut(chunk)?.get_mut(index)
    }

    /// The entries freed by windows, or by regions and domains.
    fn freed(&mut self, by_windows: bool) -> &mut Freed {
        if by_windows { &mut self.freed_by_windows } else { &mut self.freed }
    }

    fn can_grow(&self) -> bool {
        self.used < CHUNKS
    }

    /// Takes a free entry out; `None`: no entry is free, or the shard is to grow first, if it `may_grow`.
    fn take_free(&mut self, for_window: bool, may_grow: bool) -> Option<u32> {
        let may_rest = self.fresh.is_some() || (may_grow && self.can_grow());
        let freed = self.freed(for_window);
        let again = !may_rest || freed.length >= RESTING;
        let slot = if again { freed.first? } else { self.fresh? };
        let Content::Free(next) = self.get_mut(slot as usize)?.content else { return None };
        if again {
            let freed = self.freed(for_window);
            freed.first = next;
            freed.last = freed.last.filter(|_| next.is_some());
            freed.length = freed.length.saturating_sub(1);
        } else {
            self.fresh = next;
        }
        Some(slot)
    }

    /// Frees an entry, with the last `key` it had; returns its content.
    fn free(&mut self, slot: usize, key: u8) -> Option<Content<P>> {
        let number = u32::try_from(slot).ok()?;
        let entry = self.get_mut(slot)?;
        entry.key = key;
        let old = core::mem::replace(&mut entry.content, Content::Free(None));
        let by_window = matches!(old, Content::Used(Target::Window(_)));
        let freed = self.freed(by_window);
        freed.length = freed.length.saturating_add(1);
        match freed.last.replace(number) {
            None => freed.first = Some(number),
            Some(last) => self.get_mut(last as usize)?.content = Content::Free(Some(number)),
        }
        Some(old)
    }

    /// Makes `spare` the next chunk, if it has that chunk's length.
    fn grow(&mut self, spare: &mut Chunk<P>) {
        if spare.len() == chunk_length(self.used)
            && let Some(room) = self.chunks.get_mut(self.used)
        {
            core::mem::swap(room, spare);
            self.fresh = first_slot(self.used);
            self.used = self.used.saturating_add(1);
        }
    }
}

const fn chunk_length(chunk: usize) -> usize {
    FIRST_ENTRIES << chunk
}

/// The slot of a chunk's first entry: the number of entries in the chunks before it.
fn first_slot(chunk: usize) -> Option<u32> {
    u32::try_from(chunk_length(chunk).checked_sub(FIRST_ENTRIES)?).ok()
}

/// The chunk of a slot, and the index in it.
fn position(slot: usize) -> Option<(usize, usize)> {
    let number = slot.checked_add(FIRST_ENTRIES)?;
    let chunk = number.ilog2().checked_sub(FIRST_ENTRIES.ilog2())? as usize;
    Some((chunk, number.checked_sub(chunk_length(chunk))?))
}

/// A chunk of free entries, each linked to the next: at most half a MiB, initialised in far less than 100 microseconds.
fn new_chunk<P: Platform>(chunk: usize) -> Result<Chunk<P>, Error> {
    let length = chunk_length(chunk);
    let first = first_slot(chunk).ok_or(Error::InternalError)?;
    let entry = |index: usize| {
        let next = index.checked_add(1).filter(|&next| next < length).and_then(|next| u32::try_from(next).ok());
        TokenEntry { key: 0, content: Content::Free(next.and_then(|next| next.checked_add(first))) }
    };
    Ok(Slice::from_fn(length, entry)?)
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

    /// Takes the next key, and returns the new token. The table gets a window's last key when the token is freed, so this takes no lock of the table.
    pub(crate) fn renew(&mut self) -> u32 {
        let [key, index @ ..] = self.value.to_le_bytes();
        let [second, third, fourth] = index;
        self.value = u32::from_le_bytes([key.wrapping_add(1), second, third, fourth]);
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

// The build for loom has no simulated kernel.
#[cfg(all(test, not(loom)))]
#[expect(clippy::unwrap_used, reason = "a panic fails the test")]
mod tests {
    use simkernel::{SimKernel, boot};

    use super::*;
    use crate::Adapter;

    /// A full shard says so, and each shard has as many slots as its chunks.
    #[test]
    fn a_shard_is_full_when_all_its_chunks_are() {
        let _kernel = boot();
        let device = Device::<SimKernel>::new().unwrap();
        let pd = ProtectionDomain::new(&Adapter::open(&device, (2, 1)).unwrap()).unwrap();
        let window = MemoryWindow::new(&pd).unwrap();
        let tokens = Tokens::new().unwrap();
        let insert = || tokens.insert_in(0, &mut Some(Target::Window(Arc::downgrade(&window)))).unwrap();
        let slots = core::iter::from_fn(insert).count();
        assert_eq!(slots, FIRST_ENTRIES * ((1 << CHUNKS) - 1));
        assert_eq!(insert(), None);
    }
}
