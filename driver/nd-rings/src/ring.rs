//! The two ends of a ring.

use crate::atomic::{AtomicU32, Ordering, fence};

/// The memory of a ring. Entries are words of 64 bits; both sides may write any of it at any time.
pub trait Memory {
    /// Entries ever written.
    fn tail(&self) -> &AtomicU32;
    /// Entries ever read.
    fn head(&self) -> &AtomicU32;
    /// The driver waits for the doorbell.
    fn asleep(&self) -> &AtomicU32;
    /// Slots; a power of two.
    fn capacity(&self) -> u32;
    /// Copies words out of a slot, from its `first` word on, as many as it has.
    fn read(&self, slot: u32, first: usize, words: &mut [u64]);
    /// Copies words into a slot, from its `first` word on, as many as it has.
    fn write(&self, slot: u32, first: usize, words: &[u64]);
    /// Sets `State`. The driver's side.
    fn set_state(&self, state: u32);
}

/// The other side's index is not possible: it broke the rules, and the ring is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wild;

/// Why an entry was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// No slot is free.
    Full,
    /// See [`Wild`].
    Wild,
}

/// The distance between two indices, which is at most the capacity.
fn distance(later: u32, earlier: u32, capacity: u32) -> Result<u32, Wild> {
    Some(later.wrapping_sub(earlier)).filter(|&distance| distance <= capacity).ok_or(Wild)
}

/// Sets `asleep` and looks again; true if there still is nothing to do.
fn sleep(memory: &impl Memory, idle: impl Fn() -> Result<bool, Wild>) -> Result<bool, Wild> {
    memory.asleep().store(1, Ordering::Relaxed);
    // Either the other side, which moves its index before it reads `asleep`, sees this store, or its index is seen here.
    fence(Ordering::SeqCst);
    let idle = idle()?;
    if !idle {
        memory.asleep().store(0, Ordering::Relaxed);
    }
    Ok(idle)
}

/// Whether the driver sleeps, after an index was moved.
fn needs_doorbell(memory: &impl Memory) -> bool {
    fence(Ordering::SeqCst);
    memory.asleep().load(Ordering::Relaxed) != 0
}

/// The end of a ring that takes entries out. One at a time may use it.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    /// Entries taken out.
    taken: u32,
    /// Those whose slots were given back.
    head: u32,
}

impl<M: Memory> Reader<M> {
    /// The end of a ring that was used up to where its `Head` is.
    pub fn new(memory: M) -> Self {
        let head = memory.head().load(Ordering::Relaxed);
        Self { memory, taken: head, head }
    }

    /// Entries that wait.
    pub fn waiting(&self) -> Result<u32, Wild> {
        let waiting = distance(self.memory.tail().load(Ordering::Acquire), self.head, self.memory.capacity())?;
        // What was taken out was there.
        waiting.checked_sub(self.taken.wrapping_sub(self.head)).ok_or(Wild)
    }

    /// Copies words of the `index`th waiting entry, from its `first` word on. There must be one: see [`Reader::waiting`].
    pub fn copy(&self, index: u32, first: usize, words: &mut [u64]) {
        self.memory.read(slot(self.taken.wrapping_add(index), self.memory.capacity()), first, words);
    }

    /// Takes the `count` oldest entries out, and keeps their slots: the other side has so many fewer to fill.
    pub fn take(&mut self, count: u32) {
        self.taken = self.taken.wrapping_add(count);
    }

    /// Slots of entries that were taken out, and not given back.
    pub fn kept(&self) -> u32 {
        self.taken.wrapping_sub(self.head)
    }

    /// Keeps as many slots as those of `count` entries that were taken out of another ring.
    pub fn owe(&mut self, count: u32) {
        self.head = self.taken.wrapping_sub(count);
        self.memory.head().store(self.head, Ordering::Release);
    }

    /// Gives `count` slots of entries that were taken out back.
    pub fn give_back(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
        self.memory.head().store(self.head, Ordering::Release);
    }

    /// Takes the `count` oldest entries out and gives their slots back.
    pub fn advance(&mut self, count: u32) {
        self.take(count);
        self.give_back(count);
    }

    /// Goes to sleep if nothing waits: true. The driver's side.
    pub fn sleep(&self) -> Result<bool, Wild> {
        sleep(&self.memory, || Ok(self.waiting()? == 0))
    }

    /// Ends the sleep. The driver's side.
    pub fn wake(&self) {
        self.memory.asleep().store(0, Ordering::Relaxed);
    }

    /// Whether the other side has to be woken, after [`Reader::advance`]. The user's side.
    pub fn needs_doorbell(&self) -> bool {
        needs_doorbell(&self.memory)
    }

    /// The memory of the ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The end of a ring that puts entries in. One at a time may use it.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    tail: u32,
}

impl<M: Memory> Writer<M> {
    /// The end of a ring that was used up to where its `Tail` is.
    pub fn new(memory: M) -> Self {
        let tail = memory.tail().load(Ordering::Relaxed);
        Self { memory, tail }
    }

    /// Goes on with the numbers of another ring.
    pub fn continue_from(&mut self, other: &Self) {
        self.tail = other.tail;
        self.memory.head().store(self.tail, Ordering::Relaxed);
        self.memory.tail().store(self.tail, Ordering::Release);
    }

    /// Entries whose slots the other side has not given back.
    pub fn used(&self) -> Result<u32, Wild> {
        distance(self.tail, self.memory.head().load(Ordering::Acquire), self.memory.capacity())
    }

    /// Slots that are free.
    pub fn room(&self) -> Result<u32, Wild> {
        Ok(self.memory.capacity().saturating_sub(self.used()?))
    }

    /// Adds an entry: `head` and, behind it, `data`.
    pub fn push(&mut self, head: &[u64], data: &[u64]) -> Result<(), Full> {
        let used = self.used().map_err(|Wild| Full::Wild)?;
        if used == self.memory.capacity() {
            return Err(Full::Full);
        }
        let slot = slot(self.tail, self.memory.capacity());
        self.memory.write(slot, 0, head);
        self.memory.write(slot, head.len(), data);
        self.tail = self.tail.wrapping_add(1);
        self.memory.tail().store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Copies the words of an entry that was put in: `distance` 0 is the last one.
    pub fn copy_back(&self, distance: u32, words: &mut [u64]) {
        let index = self.tail.wrapping_sub(distance).wrapping_sub(1);
        self.memory.read(slot(index, self.memory.capacity()), 0, words);
    }

    /// Goes to sleep if the ring is full: true. The driver's side.
    pub fn sleep(&self) -> Result<bool, Wild> {
        sleep(&self.memory, || Ok(self.used()? == self.memory.capacity()))
    }

    /// Ends the sleep. The driver's side.
    pub fn wake(&self) {
        self.memory.asleep().store(0, Ordering::Relaxed);
    }

    /// Whether the other side has to be woken, after [`Writer::push`]. The user's side.
    pub fn needs_doorbell(&self) -> bool {
        needs_doorbell(&self.memory)
    }

    /// The memory of the ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The slot of the entry that an index counts.
fn slot(index: u32, capacity: u32) -> u32 {
    index & capacity.wrapping_sub(1)
}
