//! A short list of shared objects. It grows, which may fail.

use platform::{Arc, OutOfMemory, Slice};

use crate::platform::Windows;

/// The number of places of a list that gets its first object.
const FIRST_LENGTH: usize = 8;

/// Shared objects in no order. Not for hot paths: each operation is linear in the number of places.
pub(crate) struct Registry<T>(Slice<Option<Arc<T, Windows>>, Windows>);

impl<T> Registry<T> {
    /// An empty list, without places.
    pub(crate) const fn new() -> Self {
        Self(Slice::empty())
    }

    /// Adds an object.
    pub(crate) fn insert(&mut self, object: Arc<T, Windows>) -> Result<(), OutOfMemory> {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(object);
            return Ok(());
        }
        let mut object = Some(object);
        let length = self.0.len().checked_mul(2).ok_or(OutOfMemory)?.max(FIRST_LENGTH);
        let old = &mut self.0;
        let grown = Slice::from_fn(length, |index| match old.get_mut(index) {
            Some(place) => place.take(),
            None => object.take(),
        })?;
        self.0 = grown;
        Ok(())
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, object: &Arc<T, Windows>) {
        for place in self.0.iter_mut() {
            if place.as_ref().is_some_and(|held| Arc::ptr_eq(held, object)) {
                *place = None;
            }
        }
    }

    /// The objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T, Windows>> {
        self.0.iter().flatten()
    }

    /// Frees all places, if the list has no object.
    pub(crate) fn shrink(&mut self) {
        if self.iter().next().is_none() {
            self.0 = Slice::empty();
        }
    }
}
