//! A fixed-capacity queue.

use platform::{OutOfMemory, Platform, Slice};

use crate::Error;

/// A FIFO queue in numbered slots: other arrays may hold more of an item under the item's slot number. Removing an item does not write its slot:
/// the cache line stays with the processor that fills the slot.
pub(crate) struct Ring<T, P: Platform> {
    slots: Slice<T, P>,
    /// The slot of the oldest item.
    head: usize,
    /// The slot that the next item takes.
    tail: usize,
    length: usize,
}

impl<T: Copy, P: Platform> Ring<T, P> {
    /// An empty queue. `unused` fills the slots that were never used.
    pub(crate) fn new(capacity: usize, unused: T) -> Result<Self, OutOfMemory> {
        Ok(Self { slots: Slice::filled(capacity, unused)?, head: 0, tail: 0, length: 0 })
    }

    /// Bytes of the pool that a queue of `capacity` items takes.
    pub(crate) fn pool_bytes(capacity: usize) -> u64 {
        Slice::<T, P>::pool_bytes(capacity)
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.length >= self.slots.len()
    }

    /// The slot that the next push takes, if there is room.
    pub(crate) fn next_slot(&self) -> usize {
        self.tail
    }

    /// The slot `distance` after `slot`; `distance` is at most the capacity.
    #[inline]
    fn after(&self, slot: usize, distance: usize) -> usize {
        // No division: the sum is below twice the capacity.
        let slot = slot.saturating_add(distance);
        slot.checked_sub(self.slots.len()).unwrap_or(slot)
    }

    /// Appends an item. Error: `QueueFull`.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), Error> {
        if self.is_full() {
            return Err(Error::QueueFull);
        }
        *self.slots.get_mut(self.tail).ok_or(Error::QueueFull)? = item;
        let next = self.tail.wrapping_add(1);
        self.tail = if next < self.slots.len() { next } else { 0 };
        self.length = self.length.wrapping_add(1);
        Ok(())
    }

    /// Appends `items`, `count` in number, as far as there is room; returns how many were appended.
    #[inline]
    pub(crate) fn push_all(&mut self, count: usize, items: impl Iterator<Item = T> + Clone) -> usize {
        let added = count.min(self.slots.len().saturating_sub(self.length));
        let (before, after) = self.slots.split_at_mut_checked(self.tail).unwrap_or_default();
        let straight = added.min(after.len());
        for (place, item) in after.get_mut(..straight).unwrap_or_default().iter_mut().zip(items.clone()) {
            *place = item;
        }
        for (place, item) in before.iter_mut().zip(items.take(added).skip(straight)) {
            *place = item;
        }
        self.tail = self.after(self.tail, added);
        self.length = self.length.wrapping_add(added);
        added
    }

    /// The oldest item and its slot.
    pub(crate) fn front(&self) -> Option<(usize, &T)> {
        self.run().first().map(|item| (self.head, item))
    }

    /// The item with `distance` older ones before it, and its slot.
    pub(crate) fn nth(&self, distance: usize) -> Option<(usize, &T)> {
        if distance >= self.length {
            return None;
        }
        let slot = self.after(self.head, distance);
        self.slots.get(slot).map(|item| (slot, item))
    }

    /// The oldest items, up to the end of the slots. Items that wrapped around to slot 0 are not among them.
    #[inline]
    pub(crate) fn run(&self) -> &[T] {
        let slots = self.slots.get(self.head..).unwrap_or_default();
        slots.get(..self.length).unwrap_or(slots)
    }

    /// Moves the oldest items to `items`, as many as fit, and returns their number.
    #[inline]
    pub(crate) fn pop_all(&mut self, items: &mut [T]) -> usize {
        let count = items.len().min(self.length);
        let straight = copy(items.get_mut(..count).unwrap_or_default(), self.run());
        copy(items.get_mut(straight..count).unwrap_or_default(), &self.slots);
        self.skip(count);
        count
    }

    /// Removes the oldest item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.run().first().copied();
        self.skip(1);
        item
    }

    /// Removes the `count` oldest items.
    pub(crate) fn skip(&mut self, count: usize) {
        let count = count.min(self.length);
        self.head = self.after(self.head, count);
        self.length = self.length.wrapping_sub(count);
    }
}

/// Copies as many items as both slices have, and returns their number.
#[inline]
pub(crate) fn copy<T: Copy>(to: &mut [T], from: &[T]) -> usize {
    let count = to.len().min(from.len());
    if let (Some(to), Some(from)) = (to.get_mut(..count), from.get(..count)) {
        to.copy_from_slice(from);
    }
    count
}
