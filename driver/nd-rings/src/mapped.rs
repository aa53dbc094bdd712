//! [`Mapped`]: a ring in memory that is mapped into this address space.
#![expect(unsafe_code, reason = "memory that another process writes is reached by raw pointers, and as atomics only")]

use core::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use ndk_abi::softndk_ring::{SOFTNDK_RING, SOFTNDK_RING_ALIGNMENT, SOFTNDK_RING_VERSION};

use crate::ring::Memory;

/// The fixed properties of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// SOFTNDK_RING_COMPLETIONS, _INITIATOR or _RECEIVE.
    pub kind: u32,
    /// Bytes of an entry; a multiple of SOFTNDK_RING_ALIGNMENT.
    pub entry_size: u32,
    /// Slots; a power of two.
    pub capacity: u32,
}

impl Geometry {
    /// A ring for at least `depth` entries. `None`: too many.
    #[must_use]
    pub fn for_depth(kind: u32, entry_size: u32, depth: u32) -> Option<Self> {
        Some(Self { kind, entry_size, capacity: depth.max(1).checked_next_power_of_two()? })
    }

    /// Bytes of the whole ring. `None`: too many.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let entries = (self.capacity as usize).checked_mul(self.entry_size as usize)?;
        entries.checked_add(size_of::<SOFTNDK_RING>())
    }
}

/// The memory is too small or not aligned for a ring, or the head of the ring has wrong values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// A ring in mapped memory. The memory outlives this value.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    capacity: u32,
    /// 64-bit words of an entry.
    words: usize,
}

// SAFETY: an address; the memory behind it is used through atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as for Send.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Initialises a ring in zeroed memory. Program's side.
    ///
    /// # Safety
    /// `geometry.bytes()` bytes at `base`, on a multiple of 64 bytes, are readable and writable as long as the result
    /// lives; only rings and the driver use them.
    #[must_use]
    pub unsafe fn create(base: NonNull<u8>, geometry: Geometry, context: u64) -> Self {
        let ring = Self { base, capacity: geometry.capacity, words: words_of(geometry.entry_size) };
        let context_offset = offset_of!(SOFTNDK_RING, Context);
        for (offset, value) in [
            (offset_of!(SOFTNDK_RING, Version), SOFTNDK_RING_VERSION),
            (offset_of!(SOFTNDK_RING, EntrySize), geometry.entry_size),
            (offset_of!(SOFTNDK_RING, Capacity), geometry.capacity),
            (offset_of!(SOFTNDK_RING, Kind), geometry.kind),
            (context_offset, (context & u64::from(u32::MAX)) as u32),
            (context_offset.wrapping_add(size_of::<u32>()), (context >> 32) as u32),
        ] {
            ring.word(offset).store(value, Ordering::Relaxed);
        }
        ring
    }

    /// Checks the head of a ring that a program has passed: `length` bytes, of this kind and size of entries, with at
    /// least `depth` slots. Returns the ring and its `Context`. Driver's side.
    ///
    /// # Safety
    /// `length` bytes at `base` are readable and writable as long as the result lives.
    pub unsafe fn open(
        base: NonNull<u8>,
        length: usize,
        kind: u32,
        entry_size: u32,
        depth: u32,
    ) -> Result<(Self, u64), Invalid> {
        if length < size_of::<SOFTNDK_RING>() || !base.cast::<Line>().is_aligned() {
            return Err(Invalid);
        }
        let mut ring = Self { base, capacity: 0, words: words_of(entry_size) };
        let field = |offset: usize| ring.word(offset).load(Ordering::Relaxed);
        let geometry = Geometry {
            kind: field(offset_of!(SOFTNDK_RING, Kind)),
            entry_size: field(offset_of!(SOFTNDK_RING, EntrySize)),
            capacity: field(offset_of!(SOFTNDK_RING, Capacity)),
        };
        let context_offset = offset_of!(SOFTNDK_RING, Context);
        let high = u64::from(field(context_offset.wrapping_add(size_of::<u32>())));
        let context = high << 32 | u64::from(field(context_offset));
        let fits = geometry.bytes().is_some_and(|bytes| bytes <= length);
        let as_asked = field(offset_of!(SOFTNDK_RING, Version)) == SOFTNDK_RING_VERSION
            && geometry.kind == kind
            && geometry.entry_size == entry_size
            && entry_size.is_multiple_of(SOFTNDK_RING_ALIGNMENT)
            && geometry.capacity.is_power_of_two()
            && geometry.capacity >= depth;
        if !fits || !as_asked {
            return Err(Invalid);
        }
        ring.capacity = geometry.capacity;
        Ok((ring, context))
    }

    /// `State`.
    pub fn state(&self) -> u32 {
        self.word(offset_of!(SOFTNDK_RING, State)).load(Ordering::Acquire)
    }

    /// A field of the head; `offset` is the offset of a field of [`SOFTNDK_RING`].
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: inside of the head, by contract of `create` and `open`.
        let field = unsafe { self.base.add(offset) };
        // SAFETY: aligned, as the head is, and mapped as long as self; all sides use it as an atomic.
        unsafe { AtomicU32::from_ptr(field.cast().as_ptr()) }
    }

    /// A word of an entry; `None` past the end of the entry.
    fn entry_word(&self, slot: u32, word: usize) -> Option<&AtomicU64> {
        let index = (slot as usize).checked_mul(self.words)?.checked_add(word)?;
        let offset = index.checked_mul(size_of::<u64>())?.checked_add(size_of::<SOFTNDK_RING>())?;
        if word >= self.words || slot >= self.capacity {
            return None;
        }
        // SAFETY: the slot and the word were just checked, so this is inside of the ring's bytes, which are there by
        // contract of `create`, or by the checks of `open`.
        let place = unsafe { self.base.add(offset) };
        // SAFETY: aligned, as `base` and `offset` are multiples of 8; mapped as long as self; all sides use it as an
        // atomic.
        Some(unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) })
    }
}

#[cfg(feature = "changing-memory")]
use crate::changing::read;

/// Reads a word of an entry.
#[cfg(not(feature = "changing-memory"))]
fn read(place: &AtomicU64) -> u64 {
    place.load(Ordering::Relaxed)
}

/// The number of 64-bit words in `bytes`.
fn words_of(bytes: u32) -> usize {
    (bytes >> 3) as usize
}

/// A cache line.
#[repr(align(64))]
struct Line;

impl Memory for Mapped {
    fn tail(&self) -> &AtomicU32 {
        self.word(offset_of!(SOFTNDK_RING, Tail))
    }

    fn head(&self) -> &AtomicU32 {
        self.word(offset_of!(SOFTNDK_RING, Head))
    }

    fn asleep(&self) -> &AtomicU32 {
        self.word(offset_of!(SOFTNDK_RING, Asleep))
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn read(&self, slot: u32, first: usize, words: &mut [u64]) {
        for (distance, word) in words.iter_mut().enumerate() {
            let Some(place) = self.entry_word(slot, first.wrapping_add(distance)) else { break };
            *word = read(place);
        }
    }

    fn write(&self, slot: u32, first: usize, words: &[u64]) {
        for (distance, word) in words.iter().enumerate() {
            let Some(place) = self.entry_word(slot, first.wrapping_add(distance)) else { break };
            place.store(*word, Ordering::Relaxed);
        }
    }

    fn set_state(&self, state: u32) {
        self.word(offset_of!(SOFTNDK_RING, State)).store(state, Ordering::Release);
    }
}
