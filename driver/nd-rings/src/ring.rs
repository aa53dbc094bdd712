//! The two ends of a ring: [`Reader`] and [`Writer`]. [`crate::Mapped`] is the memory between them.

use crate::atomic::{AtomicU32, Ordering, fence};

/// The memory of a ring. An entry is an array of 64-bit words. Both sides may write any part of the memory at any time.
pub trait Memory {
    /// `Tail`: the entries ever written.
    fn tail(&self) -> &AtomicU32;
    /// `Head`: the entries whose slots were ever given back.
    fn head(&self) -> &AtomicU32;
    /// `Asleep`: not 0 if the driver waits for a doorbell.
    fn asleep(&self) -> &AtomicU32;
    /// Slots; a power of two.
    fn capacity(&self) -> u32;
    /// Copies words out of a slot, from its word `first` on, up to the end of the slot.
    fn read(&self, slot: u32, first: usize, words: &mut [u64]);
    /// Copies words into a slot, from its word `first` on, up to the end of the slot.
    fn write(&self, slot: u32, first: usize, words: &[u64]);
    /// Sets `State`. Driver's side.
    fn set_state(&self, state: u32);
}

/// The other side has stored an impossible index. It has broken the rules, and the ring cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIndex;

/// Why an entry was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// No slot is free.
    Full,
    /// The other side has stored an impossible index.
    BadIndex,
}

/// The distance between two indices. `BadIndex` if it exceeds the capacity.
fn distance(later: u32, earlier: u32, capacity: u32) -> Result<u32, BadIndex> {
    Some(later.wrapping_sub(earlier)).filter(|&distance| distance <= capacity).ok_or(BadIndex)
}

/// Sets `Asleep`, then reads the other side's index again (`idle`). True: there is still nothing to do.
fn sleep(memory: &impl Memory, idle: impl Fn() -> Result<bool, BadIndex>) -> Result<bool, BadIndex> {
    memory.asleep().store(1, Ordering::Relaxed);
    // The other side stores its index before it reads `Asleep`. So either it sees this store, or `idle` sees its index.
    fence(Ordering::SeqCst);
    let idle = idle()?;
    if !idle {
        memory.asleep().store(0, Ordering::Relaxed);
    }
    Ok(idle)
}

/// Whether the driver sleeps. Called after this side has stored its index.
fn needs_doorbell(memory: &impl Memory) -> bool {
    fence(Ordering::SeqCst);
    memory.asleep().load(Ordering::Relaxed) != 0
}

/// The end of a ring that takes entries out. Its owner serialises the calls.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    /// The entries ever taken out.
    taken: u32,
    /// The entries whose slots were given back: the value last stored in `Head`.
    head: u32,
}

impl<M: Memory> Reader<M> {
    /// A reader that continues at the ring's `Head`.
    pub fn new(memory: M) -> Self {
        let head = memory.head().load(Ordering::Relaxed);
        Self { memory, taken: head, head }
    }

    /// The entries that were written and not taken out.
    pub fn waiting(&self) -> Result<u32, BadIndex> {
        let waiting = distance(self.memory.tail().load(Ordering::Acquire), self.head, self.memory.capacity())?;
        // `Tail` cannot be behind entries that were taken out.
        waiting.checked_sub(self.taken.wrapping_sub(self.head)).ok_or(BadIndex)
    }

    /// Copies words of the `index`th waiting entry, from its word `first` on. The entry exists: see
    /// [`Reader::waiting`].
    pub fn copy(&self, index: u32, first: usize, words: &mut [u64]) {
        self.memory.read(slot(self.taken.wrapping_add(index), self.memory.capacity()), first, words);
    }

    /// Takes the `count` oldest entries out and keeps their slots: the writer cannot fill these before
    /// [`Reader::give_back`].
    pub fn take(&mut self, count: u32) {
        self.taken = self.taken.wrapping_add(count);
    }

    /// The slots of entries that were taken out and not given back.
    pub fn kept(&self) -> u32 {
        self.taken.wrapping_sub(self.head)
    }

    /// Keeps `count` slots, for entries that were taken out of the ring that this one replaces.
    pub fn keep(&mut self, count: u32) {
        self.head = self.taken.wrapping_sub(count);
        self.memory.head().store(self.head, Ordering::Release);
    }

    /// Gives back `count` slots of entries that were taken out.
    pub fn give_back(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
        self.memory.head().store(self.head, Ordering::Release);
    }

    /// Takes the `count` oldest entries out and gives their slots back.
    pub fn advance(&mut self, count: u32) {
        self.take(count);
        self.give_back(count);
    }

    /// Sets `Asleep` if no entry waits, and returns whether it did. Driver's side.
    pub fn sleep(&self) -> Result<bool, BadIndex> {
        sleep(&self.memory, || Ok(self.waiting()? == 0))
    }

    /// Clears `Asleep`. Driver's side.
    pub fn wake(&self) {
        self.memory.asleep().store(0, Ordering::Relaxed);
    }

    /// Whether the driver needs a doorbell. Program's side, after [`Reader::advance`].
    pub fn needs_doorbell(&self) -> bool {
        needs_doorbell(&self.memory)
    }

    /// The memory of the ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The end of a ring that puts entries in. Its owner serialises the calls.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    tail: u32,
}

impl<M: Memory> Writer<M> {
    /// A writer that continues at the ring's `Tail`.
    pub fn new(memory: M) -> Self {
        let tail = memory.tail().load(Ordering::Relaxed);
        Self { memory, tail }
    }

    /// Continues the counts of `other`, the ring that this one replaces.
    pub fn continue_from(&mut self, other: &Self) {
        self.tail = other.tail;
        self.memory.head().store(self.tail, Ordering::Relaxed);
        self.memory.tail().store(self.tail, Ordering::Release);
    }

    /// The entries whose slots the reader has not given back.
    pub fn used(&self) -> Result<u32, BadIndex> {
        distance(self.tail, self.memory.head().load(Ordering::Acquire), self.memory.capacity())
    }

    /// The free slots.
    pub fn room(&self) -> Result<u32, BadIndex> {
        Ok(self.memory.capacity().saturating_sub(self.used()?))
    }

    /// Adds an entry: `head`, then `data`.
    pub fn push(&mut self, head: &[u64], data: &[u64]) -> Result<(), PushError> {
        let used = self.used().map_err(|BadIndex| PushError::BadIndex)?;
        if used == self.memory.capacity() {
            return Err(PushError::Full);
        }
        let slot = slot(self.tail, self.memory.capacity());
        self.memory.write(slot, 0, head);
        self.memory.write(slot, head.len(), data);
        self.tail = self.tail.wrapping_add(1);
        self.memory.tail().store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Copies the words of an entry that was pushed: `distance` 0 is the newest.
    pub fn copy_back(&self, distance: u32, words: &mut [u64]) {
        let index = self.tail.wrapping_sub(distance).wrapping_sub(1);
        self.memory.read(slot(index, self.memory.capacity()), 0, words);
    }

    /// Sets `Asleep` if the ring is full, and returns whether it did. Driver's side.
    pub fn sleep(&self) -> Result<bool, BadIndex> {
        sleep(&self.memory, || Ok(self.used()? == self.memory.capacity()))
    }

    /// Clears `Asleep`. Driver's side.
    pub fn wake(&self) {
        self.memory.asleep().store(0, Ordering::Relaxed);
    }

    /// Whether the driver needs a doorbell. Program's side, after [`Writer::push`].
    pub fn needs_doorbell(&self) -> bool {
        needs_doorbell(&self.memory)
    }

    /// The memory of the ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The slot of entry number `index`.
fn slot(index: u32, capacity: u32) -> u32 {
    index & capacity.wrapping_sub(1)
}
