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

    /// The oldest item and its slot.
    pub(crate) fn front_mut(&mut self) -> Option<(usize, &mut T)> {
        if self.length == 0 {
            return None;
        }
        Some((self.head, self.slots.get_mut(self.head)?.as_mut()?))
    }

    /// The item that `distance` others are ahead of, and its slot.
    #[inline]
    pub(crate) fn get(&self, distance: usize) -> Option<(usize, &T)> {
        if distance >= self.length {
            return None;
        }
        let slot = self.slot(distance)?;
        Some((slot, self.slots.get(slot)?.as_ref()?))
    }

    /// Removes the `count` oldest items, which own nothing: they are not dropped.
    pub(crate) fn forget(&mut self, count: usize) {
        for _ in 0..count.min(self.length) {
            core::mem::forget(self.slots.get_mut(self.head).map(Option::take));
            self.advance();
        }
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
    /// Removes the `count` oldest items without writing to their slots, which whoever filled them on another processor will
    /// fill again.
    pub(crate) fn skip(&mut self, count: usize) {
        let count = count.min(self.length);
        self.head = self.slot(count).unwrap_or(0);
        self.length = self.length.saturating_sub(count);
    }
}
