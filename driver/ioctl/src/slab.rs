//! Slots behind untrusted 64-bit identifiers.
//!
//! An identifier is an index and a generation. Generations come from one counter for all slabs, so an identifier that
//! was removed, or that belongs to another file, names nothing. Memory grows by chunks and goes with the slab: neither
//! insertion nor removal moves an element, and both take constant time.

use core::sync::atomic::{AtomicU32, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::{Platform, Slice};

use crate::planted::{self, Bug};

static NEXT_GENERATION: AtomicU32 = AtomicU32::new(1);

/// At most `CHUNKS` chunks of `CHUNK` slots.
pub(crate) struct Slab<T, P: Platform, const CHUNK: u32, const CHUNKS: usize> {
    /// Empty where nothing is allocated yet.
    chunks: [Slice<Slot<T>, P>; CHUNKS],
    /// Chunks with memory: the first ones.
    allocated: u32,
    /// Head of the list of free slots.
    free: Option<u32>,
}

struct Slot<T> {
    generation: u32,
    content: Content<T>,
}

enum Content<T> {
    Free { next: Option<u32> },
    Reserved,
    Full(T),
}

impl<T, P: Platform, const CHUNK: u32, const CHUNKS: usize> Slab<T, P, CHUNK, CHUNKS> {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { Slice::empty() }; CHUNKS], allocated: 0, free: None }
    }

    /// Takes a free slot, for [`Slab::fill`] or [`Slab::remove`]. May allocate.
    pub(crate) fn reserve(&mut self) -> Result<u64, NTSTATUS> {
        if self.free.is_none() {
            self.grow()?;
        }
        let index = self.free.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let slot = self.slot(index).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let Content::Free { next } = slot.content else { return Err(STATUS_INSUFFICIENT_RESOURCES) };
        // Generation 0 is never given out: no identifier is 0.
        let generation = match NEXT_GENERATION.fetch_add(1, Ordering::Relaxed) {
            0 => NEXT_GENERATION.fetch_add(1, Ordering::Relaxed),
            generation => generation,
        };
        slot.content = Content::Reserved;
        slot.generation = generation;
        self.free = next;
        Ok(u64::from(generation) << 32 | u64::from(index))
    }

    /// Puts a value into a reserved slot.
    pub(crate) fn fill(&mut self, id: u64, value: T) {
        if let Some(slot) = self.find(id) {
            slot.content = Content::Full(value);
        }
    }

    pub(crate) fn get(&mut self, id: u64) -> Option<&mut T> {
        match &mut self.find(id)?.content {
            Content::Full(value) => Some(value),
            _ => None,
        }
    }

    /// The first value that `wanted` accepts.
    pub(crate) fn first(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let values =
            self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut()).filter_map(|slot| match &mut slot.content {
                Content::Full(value) => Some(value),
                _ => None,
            });
        values.into_iter().find(|value| wanted(value))
    }

    /// Frees a slot. `None`: there is no such slot, or it was reserved only.
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let free = self.free;
        let slot = self.find(id)?;
        slot.generation = 0;
        let content = core::mem::replace(&mut slot.content, Content::Free { next: free });
        self.free = Some(index_of(id));
        match content {
            Content::Full(value) => Some(value),
            _ => None,
        }
    }

    /// What is in the slot of this index. `None`: there is no such slot, nor one behind it.
    pub(crate) fn at(&mut self, index: u32) -> Option<Option<&mut T>> {
        Some(match &mut self.slot(index)?.content {
            Content::Full(value) => Some(value),
            _ => None,
        })
    }

    /// Removes the first value from slot `cursor` on that `wanted` accepts, and moves the cursor past it.
    pub(crate) fn remove_next(&mut self, cursor: &mut u32, wanted: impl Fn(&T) -> bool) -> Option<T> {
        while let Some(slot) = self.slot(*cursor) {
            let id = u64::from(slot.generation) << 32 | u64::from(*cursor);
            *cursor = cursor.saturating_add(1);
            if matches!(&slot.content, Content::Full(value) if wanted(value)) {
                return self.remove(id);
            }
        }
        None
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot<T>> {
        let chunk = usize::try_from(index.checked_div(CHUNK)?).ok()?;
        let position = usize::try_from(index.checked_rem(CHUNK)?).ok()?;
        self.chunks.get_mut(chunk)?.get_mut(position)
    }

    fn find(&mut self, id: u64) -> Option<&mut Slot<T>> {
        let generation = generation_of(id);
        let any = planted::is(Bug::AnyGeneration);
        self.slot(index_of(id)).filter(|slot| generation != 0 && (slot.generation == generation || any))
    }

    fn grow(&mut self) -> Result<(), NTSTATUS> {
        let first = self.allocated.saturating_mul(CHUNK);
        let place = usize::try_from(self.allocated).ok().and_then(|chunk| self.chunks.get_mut(chunk));
        let place = place.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let slot = |position: usize| {
            let next = u32::try_from(position).ok().and_then(|position| position.checked_add(1));
            let next = next.filter(|next| *next < CHUNK).and_then(|next| first.checked_add(next));
            Slot { generation: 0, content: Content::Free { next } }
        };
        *place = Slice::from_fn(CHUNK as usize, slot).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        self.allocated = self.allocated.saturating_add(1);
        self.free = Some(first);
        Ok(())
    }
}

fn index_of(id: u64) -> u32 {
    (id & u64::from(u32::MAX)) as u32
}

fn generation_of(id: u64) -> u32 {
    (id >> 32) as u32
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::arithmetic_side_effects, reason = "a test may panic")]
mod tests {
    use ndk_abi::status::STATUS_INSUFFICIENT_RESOURCES;
    use simkernel::{SimKernel, boot};

    use super::Slab;

    type Small = Slab<u32, SimKernel, 4, 2>;

    fn insert(slab: &mut Small, value: u32) -> u64 {
        let id = slab.reserve().expect("room");
        slab.fill(id, value);
        id
    }

    #[test]
    fn an_identifier_dies_with_its_value() {
        let _session = boot();
        let (mut slab, mut other) = (Small::new(), Small::new());
        let first = insert(&mut slab, 1);
        assert_eq!(slab.get(first), Some(&mut 1));
        assert_eq!(slab.remove(first), Some(1));
        let second = insert(&mut slab, 2);
        assert_eq!(first & 0xFFFF_FFFF, second & 0xFFFF_FFFF, "the slot is used again");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        slab.fill(first, 3);
        assert_eq!(slab.get(second), Some(&mut 2));
        let foreign = insert(&mut other, 4);
        assert_eq!(slab.get(foreign), None);
        assert_eq!(slab.get(0), None);
        assert_eq!(slab.get(u64::MAX), None);
    }

    #[test]
    fn a_reserved_slot_has_no_value_yet() {
        let _session = boot();
        let mut slab = Small::new();
        let id = slab.reserve().expect("room");
        assert_eq!(slab.get(id), None);
        assert_eq!(slab.remove(id), None);
        slab.fill(id, 1);
        assert_eq!(slab.get(id), None, "given back");
    }

    #[test]
    fn it_grows_to_its_limit_and_gives_out_each_slot_once() {
        let _session = boot();
        let mut slab = Small::new();
        let ids: [u64; 8] = core::array::from_fn(|value| insert(&mut slab, value as u32));
        assert_eq!(slab.reserve(), Err(STATUS_INSUFFICIENT_RESOURCES));
        for (value, id) in ids.into_iter().enumerate() {
            assert_eq!(slab.get(id), Some(&mut (value as u32)));
        }
        let mut cursor = 0;
        let mut odd = 0;
        while let Some(value) = slab.remove_next(&mut cursor, |value| value % 2 == 1) {
            assert_eq!(value, odd * 2 + 1);
            odd += 1;
        }
        assert_eq!(odd, 4);
        for value in 0..4 {
            insert(&mut slab, value);
        }
        assert!(slab.reserve().is_err());
    }

    #[test]
    fn without_memory_it_stays_as_it_was() {
        let session = boot();
        let mut slab = Small::new();
        let fault = session.fail_allocation(1);
        assert_eq!(slab.reserve(), Err(STATUS_INSUFFICIENT_RESOURCES));
        assert!(fault.happened());
        drop(fault);
        assert!(slab.reserve().is_ok());
    }
}
