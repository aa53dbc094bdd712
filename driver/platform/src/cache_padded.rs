//! [`CachePadded`]: keeps data that one processor writes off the cache lines of data that other processors read.

use core::ops::{Deref, DerefMut};

use crate::CACHE_LINE;

/// Words of a cache line.
const LINE: usize = CACHE_LINE / size_of::<u64>();

/// A value with no other data on its cache lines. Padded on both sides, because pool memory is not aligned to cache
/// lines.
#[repr(C)]
pub struct CachePadded<T> {
    _before: [u64; LINE],
    value: T,
    _after: [u64; LINE],
}

const _: () =
    assert!(size_of::<CachePadded<u64>>() == 2 * CACHE_LINE + size_of::<u64>(), "a line before, and one behind");

impl<T> CachePadded<T> {
    /// Pads `value`.
    pub const fn new(value: T) -> Self {
        Self { _before: [0; LINE], value, _after: [0; LINE] }
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
