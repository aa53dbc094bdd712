//! A consumer's memory.
#![expect(unsafe_code, reason = "memory shared with the driver by address")]

use std::{
    alloc::Layout,
    ptr::NonNull,
    sync::{Arc, atomic::AtomicU8},
};

use ndk_abi::wdm::PAGE_SIZE;

use crate::{ledger::Purpose, mdl::Mdl, pool};

/// Page-aligned, zeroed memory of a consumer, like `VirtualAlloc`'s. Clones share it.
///
/// The driver reads and writes it whenever it was asked to; what this type copies then is torn, as on hardware.
#[derive(Clone, Debug)]
pub struct Pages(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: bytes, only copied in and out.
unsafe impl Send for Memory {}
// SAFETY: as for Send.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        pool::free(self.start, self.layout);
    }
}

impl Pages {
    /// `count` pages.
    ///
    /// # Panics
    /// If there is no memory, or `count` is 0.
    #[must_use]
    #[track_caller]
    pub fn new(count: usize) -> Self {
        assert_ne!(count, 0, "no pages");
        let layout = count.checked_mul(PAGE_SIZE).and_then(|size| Layout::from_size_align(size, PAGE_SIZE).ok());
        let Some(layout) = layout else { panic!("no memory for {count} pages") };
        let Some(start) = pool::allocate(layout, Purpose::Pages) else {
            panic!("no memory for {count} pages");
        };
        Self(Arc::new(Memory { start, layout }))
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.layout.size()
    }

    /// The system address of the byte at `offset`.
    ///
    /// # Panics
    /// If it is out of bounds.
    #[must_use]
    pub fn address(&self, offset: usize) -> NonNull<u8> {
        self.range(offset, 0)
    }

    /// The address of `length` bytes at `offset`, which are in bounds.
    fn range(&self, offset: usize, length: usize) -> NonNull<u8> {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.size()), "{length} bytes at {offset} of {}", self.size());
        // SAFETY: offset is at most the size.
        unsafe { self.0.start.add(offset) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let place = self.range(offset, bytes.len());
        // SAFETY: in bounds, and not in `bytes`, as no reference to the memory's bytes is ever given out.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// A copy of `length` bytes at `offset`.
    ///
    /// # Panics
    /// If it is out of bounds.
    #[must_use]
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let place = self.range(offset, length);
        // SAFETY: in bounds on both sides, which do not overlap.
        unsafe { place.copy_to_nonoverlapping(NonNull::from(bytes.as_mut_slice()).cast(), length) };
        bytes
    }

    /// The byte at `offset`, to wait for it to change.
    ///
    /// # Panics
    /// If it is out of bounds.
    #[must_use]
    pub fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: in bounds; the memory lives as long as self.
        unsafe { AtomicU8::from_ptr(self.range(offset, 1).as_ptr()) }
    }

    /// Locks `length` bytes at `offset` for reading and writing, and describes them by an MDL. Its virtual address, an
    /// index only, is `index_base + offset`, where `index_base` (page-aligned) is free to choose.
    ///
    /// # Panics
    /// If it is out of bounds.
    #[must_use]
    pub fn mdl(&self, offset: usize, length: usize, index_base: u64) -> Mdl {
        assert!(index_base.is_multiple_of(PAGE_SIZE as u64), "the index of the first page is not a page's");
        let memory = self.range(offset, length);
        Mdl::new(memory, length, index_base.wrapping_add(offset as u64), Some(self.clone()))
    }
}
