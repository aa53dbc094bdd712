//! The memory of a ring. loom finds every use of a slot by both sides at once.

use std::sync::Arc;

use nd_rings::Memory;
use planted_atomics::sync::atomic::AtomicU32;

use crate::Cell;

/// What a side reads from a slot that was written `written` times: the entry's words from `first` on.
type Entry = fn(written: usize, first: usize, words: &mut [u64]);

/// One side's mapping of the memory of a ring.
#[derive(Clone)]
pub struct RingMemory(Arc<Shared>);

struct Shared {
    tail: AtomicU32,
    head: AtomicU32,
    asleep: AtomicU32,
    slots: Vec<Cell>,
    entry: Entry,
}

impl RingMemory {
    /// Each word of an entry says how often its slot was written.
    pub fn new(slots: usize) -> Self {
        Self::of_entries(slots, |written, _first, words| words.fill(written as u64))
    }

    /// The entries that a side reads are made by `entry`.
    pub fn of_entries(slots: usize, entry: Entry) -> Self {
        let [tail, head, asleep] = [0; 3].map(AtomicU32::new);
        let slots = (0..slots).map(|_| Cell::default()).collect();
        Self(Arc::new(Shared { tail, head, asleep, slots, entry }))
    }
}

impl Memory for RingMemory {
    fn tail(&self) -> &AtomicU32 {
        &self.0.tail
    }

    fn head(&self) -> &AtomicU32 {
        &self.0.head
    }

    fn asleep(&self) -> &AtomicU32 {
        &self.0.asleep
    }

    fn capacity(&self) -> u32 {
        self.0.slots.len() as u32
    }

    fn read(&self, slot: u32, first: usize, words: &mut [u64]) {
        (self.0.entry)(self.0.slots[slot as usize].read(), first, words);
    }

    fn write(&self, slot: u32, _first: usize, words: &[u64]) {
        if !words.is_empty() {
            self.0.slots[slot as usize].add_one();
        }
    }

    fn set_state(&self, _state: u32) {}
}
