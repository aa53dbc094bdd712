//! Slots behind untrusted 64-bit identifiers.
//!
//! An identifier is an index and a generation. Generations come from one counter for all slabs, so the identifier of a removed value, or of
//! another provider context's value, names nothing. Memory grows by chunks, which blocks of pointers lead to, and is freed with the slab:
//! insertion and removal move no element, and take constant time.
//!
//! Not the slot map of `soft-rdma`, a crate that this one does not use: its numbers have no generation, and its chunks are too long to search under a
//! lock ([`Slab::remove_next`]).

use core::sync::atomic::{AtomicU32, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::planted::{self, Bug};
use platform::{Charge, OutOfMemory, Platform, Slice};

static NEXT_GENERATION: AtomicU32 = AtomicU32::new(1);

/// The number of chunks of a block.
const BLOCK: usize = 128;

/// Chunks; empty ones have no memory yet.
type Block<T, P> = Slice<Slice<Slot<T>, P>, P>;

/// A slab of at most `CHUNKS` chunks of `CHUNK` slots.
pub(crate) struct Slab<T, P: Platform, const CHUNK: u32, const CHUNKS: usize> {
    /// Blocks; empty ones have no memory yet. Not an array: a slab is built on the stack and moved into its owner.
    blocks: Slice<Block<T, P>, P>,
    /// The number of chunks with memory: the first ones.
    allocated: usize,
    /// Head of the list of free slots.
    free: Option<u32>,
    /// Charges the memory.
    charge: Charge<P>,
    /// Counts accesses to slots.
    #[cfg(test)]
    pub(crate) looks: u64,
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
    /// An empty slab, whose memory is added to `charge`.
    pub(crate) fn new(charge: Charge<P>) -> Self {
        Self {
            blocks: Slice::empty(),
            allocated: 0,
            free: None,
            charge,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Reserves a free slot, for [`Slab::fill`] or [`Slab::remove`]. May allocate.
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
        let chunks = self.blocks.iter_mut().flat_map(|block| block.iter_mut());
        let mut values = chunks.flat_map(|chunk| chunk.iter_mut()).filter_map(|slot| match &mut slot.content {
            Content::Full(value) => Some(value),
            _ => None,
        });
        values.find(|value| wanted(value))
    }

    /// Frees a slot and returns its value. `None`: no slot has this identifier, or the slot was only reserved.
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

    /// The value in the slot with this index; `Some(None)`: the slot has no value; `None`: this index and all above it have no slot.
    pub(crate) fn at(&mut self, index: u32) -> Option<Option<&mut T>> {
        Some(match &mut self.slot(index)?.content {
            Content::Full(value) => Some(value),
            _ => None,
        })
    }

    /// Removes the first value that `wanted` accepts among the next `CHUNK` slots from `cursor` on, and moves the cursor past the slots
    /// that were searched. `Some(None)`: `wanted` accepts none of them; `None`: there are no slots from the cursor on.
    pub(crate) fn remove_next(&mut self, cursor: &mut u32, wanted: impl Fn(&T) -> bool) -> Option<Option<T>> {
        self.slot(*cursor)?;
        for _ in 0..CHUNK {
            let Some(slot) = self.slot(*cursor) else { break };
            let id = u64::from(slot.generation) << 32 | u64::from(*cursor);
            *cursor = cursor.saturating_add(1);
            if matches!(&slot.content, Content::Full(value) if wanted(value)) {
                return Some(self.remove(id));
            }
        }
        Some(None)
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot<T>> {
        #[cfg(test)]
        {
            self.looks = self.looks.wrapping_add(1);
        }
        let chunk = usize::try_from(index.checked_div(CHUNK)?).ok()?;
        let position = usize::try_from(index.checked_rem(CHUNK)?).ok()?;
        self.blocks.get_mut(chunk / BLOCK)?.get_mut(chunk % BLOCK)?.get_mut(position)
    }

    fn find(&mut self, id: u64) -> Option<&mut Slot<T>> {
        let generation = generation_of(id);
        let any = planted::is(Bug::AnyGeneration);
        self.slot(index_of(id)).filter(|slot| generation != 0 && (slot.generation == generation || any))
    }

    fn grow(&mut self) -> Result<(), NTSTATUS> {
        let chunk = Some(self.allocated).filter(|&chunk| chunk < CHUNKS).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let first = u32::try_from(chunk).ok().and_then(|chunk| chunk.checked_mul(CHUNK));
        let first = first.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let Self { blocks, charge, .. } = self;
        let slot = |position: usize| {
            let next = u32::try_from(position).ok().and_then(|position| position.checked_add(1));
            let next = next.filter(|next| *next < CHUNK).and_then(|next| first.checked_add(next));
            Slot { generation: 0, content: Content::Free { next } }
        };
        let mut allocate = || {
            if blocks.is_empty() {
                *blocks = charged(charge, CHUNKS.div_ceil(BLOCK), |_| Slice::empty())?;
            }
            let block = blocks.get_mut(chunk / BLOCK).ok_or(OutOfMemory)?;
            if block.is_empty() {
                *block = charged(charge, BLOCK, |_| Slice::empty())?;
            }
            let place = block.get_mut(chunk % BLOCK).ok_or(OutOfMemory)?;
            *place = charged(charge, CHUNK as usize, slot)?;
            Ok(())
        };
        allocate().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        self.allocated = self.allocated.saturating_add(1);
        self.free = Some(first);
        Ok(())
    }
}

/// Allocates a slice and adds its bytes to `charge`.
fn charged<T, P: Platform>(
    charge: &mut Charge<P>,
    length: usize,
    make: impl FnMut(usize) -> T,
) -> Result<Slice<T, P>, OutOfMemory> {
    let own = charge.quota().charge(Slice::<T, P>::pool_bytes(length))?;
    let slice = Slice::from_fn(length, make)?;
    charge.absorb(own);
    Ok(slice)
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
    use platform::PoolQuota;
    use simkernel::{SimKernel, boot};

    use super::{BLOCK, Slab};

    type Small = Slab<u32, SimKernel, 4, 2>;

    fn insert(slab: &mut Small, value: u32) -> u64 {
        let id = slab.reserve().expect("room");
        slab.fill(id, value);
        id
    }

    #[test]
    fn an_identifier_dies_with_its_value() {
        let _session = boot();
        let (mut slab, mut other) =
            (Small::new(PoolQuota::UNLIMITED.no_charge()), Small::new(PoolQuota::UNLIMITED.no_charge()));
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
        let mut slab = Small::new(PoolQuota::UNLIMITED.no_charge());
        let id = slab.reserve().expect("room");
        assert_eq!(slab.get(id), None);
        assert_eq!(slab.remove(id), None);
        slab.fill(id, 1);
        assert_eq!(slab.get(id), None, "given back");
    }

    #[test]
    fn it_grows_to_its_limit_and_gives_out_each_slot_once() {
        let _session = boot();
        let mut slab = Small::new(PoolQuota::UNLIMITED.no_charge());
        let ids: [u64; 8] = core::array::from_fn(|value| insert(&mut slab, value as u32));
        assert_eq!(slab.reserve(), Err(STATUS_INSUFFICIENT_RESOURCES));
        for (value, id) in ids.into_iter().enumerate() {
            assert_eq!(slab.get(id), Some(&mut (value as u32)));
        }
        let mut cursor = 0;
        let mut odd = 0;
        while let Some(value) = slab.remove_next(&mut cursor, |value| value % 2 == 1) {
            assert!(value.is_none_or(|value| value == odd * 2 + 1));
            odd += u32::from(value.is_some());
        }
        assert_eq!(odd, 4);
        for value in 0..4 {
            insert(&mut slab, value);
        }
        assert!(slab.reserve().is_err());
    }

    #[test]
    fn it_goes_on_behind_its_first_block() {
        let _session = boot();
        let mut slab = Slab::<u32, SimKernel, 4, { 2 * BLOCK }>::new(PoolQuota::UNLIMITED.no_charge());
        let ids: [u64; 8 * BLOCK] = core::array::from_fn(|_| slab.reserve().expect("room for all"));
        assert_eq!(slab.reserve(), Err(STATUS_INSUFFICIENT_RESOURCES));
        for (value, id) in ids.iter().enumerate() {
            slab.fill(*id, value as u32);
        }
        assert!(ids.iter().enumerate().all(|(value, id)| slab.get(*id) == Some(&mut (value as u32))));
        let (mut cursor, mut looks) = (0, 0);
        let last = loop {
            looks += 1;
            match slab.remove_next(&mut cursor, |value| *value as usize == 8 * BLOCK - 1) {
                Some(None) => {}
                found => break found,
            }
        };
        assert_eq!((last, looks), (Some(Some(8 * BLOCK as u32 - 1)), 2 * BLOCK), "a look is at one chunk");
        assert_eq!(slab.remove_next(&mut cursor, |_| true), None);
    }

    #[test]
    fn without_memory_it_stays_as_it_was() {
        let session = boot();
        // The allocations of the blocks, of a block and of a chunk.
        for allocation in 1..=3 {
            let mut slab = Small::new(PoolQuota::UNLIMITED.no_charge());
            let fault = session.fail_allocation(allocation);
            assert_eq!(slab.reserve(), Err(STATUS_INSUFFICIENT_RESOURCES));
            assert!(fault.happened());
            assert!(slab.reserve().is_ok());
        }
    }
}
