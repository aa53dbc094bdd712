//! First-in first-out queues of fixed size.

use platform::{OutOfMemory, Platform, Slice};

/// A queue in non-paged pool.
pub struct Queue<T, P: Platform> {
    places: Slice<Option<T>, P>,
    first: usize,
    length: usize,
}

impl<T, P: Platform> Queue<T, P> {
    /// An empty queue with this number of places.
    pub fn new(places: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { places: Slice::from_fn(places, |_| None)?, first: 0, length: 0 })
    }

    /// Whether the queue has no values.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Gives the value back if the queue is full.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let size = self.places.len();
        if self.length >= size {
            return Err(value);
        }
        let end = self.first.wrapping_add(self.length).checked_rem(size).unwrap_or(0);
        match self.places.get_mut(end) {
            Some(place) => *place = Some(value),
            None => return Err(value),
        }
        self.length = self.length.saturating_add(1);
        Ok(())
    }

    /// The oldest value.
    pub fn front(&mut self) -> Option<&mut T> {
        self.places.get_mut(self.first)?.as_mut()
    }

    /// Takes the oldest value.
    pub fn pop(&mut self) -> Option<T> {
        let value = self.places.get_mut(self.first)?.take()?;
        self.first = self.first.wrapping_add(1).checked_rem(self.places.len()).unwrap_or(0);
        self.length = self.length.saturating_sub(1);
        Some(value)
    }
}
