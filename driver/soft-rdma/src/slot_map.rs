//! Values under numbers that stay the same while a value is in the map. Insert, remove and lookup take constant time.
//!
//! `memory::token` grows by chunks too, and shares only the few lines that find a number's chunk: a slot here is used again at once and has no key,
//! an entry there rests first.

use platform::{Charge, OutOfMemory, Platform, PoolQuota, Slice};

/// Slots in the first chunk; each chunk has twice as many as the one before.
const FIRST_SLOTS: usize = 4;
const CHUNKS: usize = 16;
/// The most values that a map can hold.
pub(crate) const CAPACITY: usize = FIRST_SLOTS * ((1 << CHUNKS) - 1);

/// A map that grows by whole chunks. The caller allocates a chunk while it does not hold the map's lock, then adds the chunk under the lock by
/// [`SlotMap::grow`].
pub(crate) struct SlotMap<T, P: Platform> {
    chunks: [Slice<Slot<T>, P>; CHUNKS],
    /// Chunks in use.
    used: usize,
    free: Option<usize>,
    charge: Charge<P>,
}

enum Slot<T> {
    /// The number of the next free slot.
    Free(Option<usize>),
    Taken(T),
}

/// A chunk that is not yet part of a map.
pub(crate) struct Chunk<T, P: Platform>(Slice<Slot<T>, P>, Charge<P>);

/// The number of the first slot of a chunk: the slots of all chunks before it.
fn base(chunk: usize) -> usize {
    let chunks = u32::try_from(chunk).ok().and_then(|chunk| 1usize.checked_shl(chunk)).unwrap_or(0);
    chunks.saturating_sub(1).saturating_mul(FIRST_SLOTS)
}

/// The chunk of a number, and the index in that chunk.
fn position(number: usize) -> Option<(usize, usize)> {
    let chunk = (number / FIRST_SLOTS).checked_add(1)?.checked_ilog2()? as usize;
    Some((chunk, number.checked_sub(base(chunk))?))
}

impl<T, P: Platform> SlotMap<T, P> {
    /// An empty map. The charge of each chunk is added to `charge`.
    pub(crate) fn new(charge: Charge<P>) -> Self {
        Self { chunks: [const { Slice::empty() }; CHUNKS], used: 0, free: None, charge }
    }

    /// The number of slots; the number of each value is below it.
    pub(crate) fn slots(&self) -> usize {
        base(self.used)
    }

    /// Whether a free slot is left.
    pub(crate) fn has_room(&self) -> bool {
        self.free.is_some()
    }

    /// Allocates the chunk that follows `slots` slots, and charges it to `quota`. The caller holds no lock.
    pub(crate) fn chunk(slots: usize, quota: &PoolQuota<P>) -> Result<Chunk<T, P>, OutOfMemory> {
        let length = slots.saturating_add(FIRST_SLOTS);
        let charge = quota.charge(Slice::<Slot<T>, P>::pool_bytes(length))?;
        let next = |index: usize| Some(slots.saturating_add(index).saturating_add(1));
        Ok(Chunk(Slice::from_fn(length, |index| Slot::Free(next(index)))?, charge))
    }

    /// Adds a chunk. Returns `chunk` if another thread has added a chunk since the caller read [`SlotMap::slots`].
    pub(crate) fn grow(&mut self, chunk: Chunk<T, P>) -> Option<Chunk<T, P>> {
        let first = self.slots();
        let Chunk(mut slots, charge) = chunk;
        let fits = slots.len() == first.saturating_add(FIRST_SLOTS);
        let (true, Some(room), Some(last)) = (fits, self.chunks.get_mut(self.used), slots.last_mut()) else {
            return Some(Chunk(slots, charge));
        };
        *last = Slot::Free(self.free);
        *room = slots;
        self.charge.absorb(charge);
        self.used = self.used.saturating_add(1);
        self.free = Some(first);
        None
    }

    fn slot(&mut self, number: usize) -> Option<&mut Slot<T>> {
        let (chunk, index) = position(number)?;
        self.chunks.get_mut(chunk)?.get_mut(index)
    }

    /// Adds a value, and returns its number; returns the value if no slot is free.
    pub(crate) fn insert(&mut self, value: T) -> Result<usize, T> {
        let Some(number) = self.free else { return Err(value) };
        let Some(slot) = self.slot(number) else { return Err(value) };
        if let Slot::Free(next) = core::mem::replace(slot, Slot::Taken(value)) {
            self.free = next;
        }
        Ok(number)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let (chunk, index) = position(number)?;
        match self.chunks.get(chunk)?.get(index)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.slot(number)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// Takes the value with this number out of the map.
    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let free = self.free;
        let slot = self.slot(number)?;
        match core::mem::replace(slot, Slot::Free(free)) {
            Slot::Taken(value) => {
                self.free = Some(number);
                Some(value)
            }
            was_free @ Slot::Free(_) => {
                *slot = was_free;
                None
            }
        }
    }
}
