//! A fixed-capacity queue.

use platform::{OutOfMemory, Platform, Slice};

/// First in, first out, in slots that are numbered so that other arrays can run alongside.
pub(crate) struct Ring<T, P: Platform> {
    slots: Slice<Option<T>, P>,
    head: usize,
    length: usize,
}

impl<T, P: Platform> Ring<T, P> {
    pub(crate) fn new(capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { slots: Slice::from_fn(capacity, |_| None)?, head: 0, length: 0 })
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

    /// The slot that the next push takes; `None` when full.
    pub(crate) fn next_slot(&self) -> Option<usize> {
        if self.length >= self.slots.len() {
            return None;
        }
        self.slot(self.length)
    }

    #[inline]
    fn slot(&self, distance: usize) -> Option<usize> {
        // Both are below the capacity: no division.
        let slot = self.head.checked_add(distance)?;
        Some(slot.checked_sub(self.slots.len()).unwrap_or(slot))
    }

    /// Appends; gives the item back when full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        let Some(slot) = self.next_slot() else { return Err(item) };
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(item),
            None => return Err(item),
        }
        self.length = self.length.saturating_add(1);
        Ok(())
    }

    /// The oldest item and its slot.
    pub(crate) fn front(&self) -> Option<(usize, &T)> {
        if self.length == 0 {
            return None;
        }
        Some((self.head, self.slots.get(self.head)?.as_ref()?))
    }

    /// The slot of the oldest item, and the items from there on, up to the last slot: those after it are the next run.
    #[inline]
    pub(crate) fn run(&self) -> (usize, &[Option<T>]) {
        let slots = self.slots.get(self.head..).unwrap_or_default();
        (self.head, slots.get(..self.length).unwrap_or(slots))
    }

    fn advance(&mut self) {
        self.head = self.slot(1).unwrap_or(0);
        self.length = self.length.saturating_sub(1);
    }

    /// Removes the oldest item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.length == 0 {
            return None;
        }
        let item = self.slots.get_mut(self.head)?.take();
        self.advance();
        item
    }
}

impl<T: Copy, P: Platform> Ring<T, P> {
    /// Copies the oldest items; how many.
    #[inline]
    pub(crate) fn copy_oldest(&self, items: &mut [Option<T>]) -> usize {
        let count = items.len().min(self.length);
        let before_end = self.slots.get(self.head..).unwrap_or_default();
        let (first, second) = items.get_mut(..count).unwrap_or_default().split_at_mut(count.min(before_end.len()));
        first.iter_mut().zip(before_end).for_each(|(item, slot)| *item = *slot);
        second.iter_mut().zip(self.slots.iter()).for_each(|(item, slot)| *item = *slot);
        count
    }

    /// Removes the `count` oldest items without writing to their slots, which whoever filled them on another processor will
    /// fill again.
    pub(crate) fn skip(&mut self, count: usize) {
        let count = count.min(self.length);
        self.head = self.slot(count).unwrap_or(0);
        self.length = self.length.saturating_sub(count);
    }
}
