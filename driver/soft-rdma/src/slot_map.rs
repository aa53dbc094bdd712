//! Values under numbers that stay the same while a value is in the map. Insert, remove and lookup take constant time.

use platform::{Charge, OutOfMemory, Platform, PoolQuota, Slice};

/// Places in the first chunk; each chunk has twice as many as the one before.
const FIRST: usize = 4;
const CHUNKS: usize = 16;
/// The most values that a map can hold.
pub(crate) const CAPACITY: usize = FIRST * ((1 << CHUNKS) - 1);

/// A map that grows by whole chunks. The caller allocates a chunk without its lock, and adds it by [`SlotMap::grow`] with it.
pub(crate) struct SlotMap<T, P: Platform> {
    chunks: [Slice<Place<T>, P>; CHUNKS],
    /// Chunks in use.
    used: usize,
    free: Option<usize>,
    charge: Charge<P>,
}

enum Place<T> {
    /// The number of the next free place.
    Free(Option<usize>),
    Taken(T),
}

/// A chunk that is not yet part of a map.
pub(crate) struct Chunk<T, P: Platform>(Slice<Place<T>, P>, Charge<P>);

/// The number of the first place of a chunk: the places of all chunks before it.
fn base(chunk: usize) -> usize {
    let chunks = u32::try_from(chunk).ok().and_then(|chunk| 1usize.checked_shl(chunk)).unwrap_or(0);
    chunks.saturating_sub(1).saturating_mul(FIRST)
}

/// The chunk of a number, and the index in that chunk.
fn position(number: usize) -> Option<(usize, usize)> {
    let chunk = (number / FIRST).checked_add(1)?.checked_ilog2()? as usize;
    Some((chunk, number.checked_sub(base(chunk))?))
}

impl<T, P: Platform> SlotMap<T, P> {
    /// An empty map. The charge of each chunk is added to `charge`.
    pub(crate) fn new(charge: Charge<P>) -> Self {
        Self { chunks: [const { Slice::empty() }; CHUNKS], used: 0, free: None, charge }
    }

    /// The number of places; the number of each value is below it.
    pub(crate) fn places(&self) -> usize {
        base(self.used)
    }

    /// Whether a free place is left.
    pub(crate) fn has_room(&self) -> bool {
        self.free.is_some()
    }

    /// Allocates the chunk that follows `places` places, and charges it to `quota`. The caller holds no lock.
    pub(crate) fn chunk(places: usize, quota: &PoolQuota<P>) -> Result<Chunk<T, P>, OutOfMemory> {
        let length = places.saturating_add(FIRST);
        let charge = quota.charge(Slice::<Place<T>, P>::pool_bytes(length))?;
        let next = |index: usize| Some(places.saturating_add(index).saturating_add(1));
        Ok(Chunk(Slice::from_fn(length, |index| Place::Free(next(index)))?, charge))
    }

    /// Adds a chunk. Gives it back if another thread has added one since the caller read [`SlotMap::places`].
    pub(crate) fn grow(&mut self, chunk: Chunk<T, P>) -> Option<Chunk<T, P>> {
        let first = self.places();
        let Chunk(mut places, charge) = chunk;
        let fits = places.len() == first.saturating_add(FIRST);
        let (true, Some(room), Some(last)) = (fits, self.chunks.get_mut(self.used), places.last_mut()) else {
            return Some(Chunk(places, charge));
        };
        *last = Place::Free(self.free);
        *room = places;
        self.charge.absorb(charge);
        self.used = self.used.saturating_add(1);
        self.free = Some(first);
        None
    }

    fn place(&mut self, number: usize) -> Option<&mut Place<T>> {
        let (chunk, index) = position(number)?;
        self.chunks.get_mut(chunk)?.get_mut(index)
    }

    /// Adds a value, and gives its number; gives the value back if no place is free.
    pub(crate) fn insert(&mut self, value: T) -> Result<usize, T> {
        let Some(number) = self.free else { return Err(value) };
        let Some(place) = self.place(number) else { return Err(value) };
        if let Place::Free(next) = core::mem::replace(place, Place::Taken(value)) {
            self.free = next;
        }
        Ok(number)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let (chunk, index) = position(number)?;
        match self.chunks.get(chunk)?.get(index)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.place(number)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    /// Takes the value with this number out of the map.
    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let free = self.free;
        let place = self.place(number)?;
        match core::mem::replace(place, Place::Free(free)) {
            Place::Taken(value) => {
                self.free = Some(number);
                Some(value)
            }
            was_free @ Place::Free(_) => {
                *place = was_free;
                None
            }
        }
    }
}
