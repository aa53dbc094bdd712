//! Buffers that the device reads and writes by itself while a test runs.
//!
//! They are touched through raw pointers only: the device is another thread (or another process) that may write at any
//! time, so there is never a Rust reference to the bytes.
#![expect(unsafe_code, reason = "memory shared with a device is beyond the reach of references")]

use std::{
    collections::BTreeMap,
    ops::Range,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// Bytes in a page of the machines Windows runs NDK on.
pub const PAGE_SIZE: usize = 4096;

#[cfg(any(target_os = "linux", windows))]
pub mod shared;

/// All buffers of the process: what a device in it takes for user memory.
static LIVE: Mutex<Live> = Mutex::new(Live { regions: BTreeMap::new(), changes: 0 });

struct Live {
    /// By address.
    regions: BTreeMap<usize, Weak<Region>>,
    /// The number of changes to the set of regions.
    changes: u64,
}

/// A zeroed buffer of whole pages, page-aligned, that the device can pin. On Windows it comes from `VirtualAlloc`.
#[derive(Debug)]
pub struct Memory(Arc<Region>);

/// The pages of a buffer. A pin holds a reference, as locked pages outlive the address space of their process.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    length: usize,
    /// Another process frees it.
    borrowed: bool,
}

// SAFETY: a Region owns its pages; every access is a copy through a raw pointer.
unsafe impl Send for Region {}
// SAFETY: as for Send; concurrent copies race on bytes, as with a device, but never on a reference.
unsafe impl Sync for Region {}

impl Memory {
    /// At least `length` bytes, rounded up to whole pages; at least one page.
    ///
    /// # Panics
    /// When the machine has no memory left.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let length = length.max(1).next_multiple_of(PAGE_SIZE);
        let start = pages::allocate(length).expect("memory for a test buffer");
        Self(Region::new(start, length, false))
    }

    /// The address of byte `offset`, as the device is told it.
    #[must_use]
    pub fn address(&self, offset: usize) -> u64 {
        self.0.start.addr().get() as u64 + offset as u64
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// The length in bytes: whole pages.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: checked to lie inside the allocation.
        let target = unsafe { self.0.start.add(offset) };
        // SAFETY: `bytes.len()` bytes from `target` on are inside the allocation, which no reference covers.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// A copy of the bytes of `range`.
    ///
    /// # Panics
    /// When the range does not lie inside.
    #[must_use]
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.check(range.start, range.len());
        // SAFETY: checked to lie inside the allocation.
        let source = unsafe { self.0.start.add(range.start) };
        // SAFETY: the range is inside the allocation; `bytes` is its own allocation of the same length.
        unsafe { source.copy_to_nonoverlapping(NonNull::from(bytes.as_mut_slice()).cast(), range.len()) };
        bytes
    }

    fn check(&self, offset: usize, length: usize) {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.0.length), "outside of the test buffer");
    }
}

impl Live {
    fn change(&mut self) -> &mut BTreeMap<usize, Weak<Region>> {
        self.changes += 1;
        &mut self.regions
    }
}

impl Region {
    fn new(start: NonNull<u8>, length: usize, borrowed: bool) -> Arc<Self> {
        let region = Arc::new(Self { start, length, borrowed });
        live().change().insert(start.addr().get(), Arc::downgrade(&region));
        region
    }

    /// The buffer that `length` bytes at `address` lie in, and a pointer to them.
    pub(crate) fn find(address: u64, length: usize) -> Option<(Arc<Self>, NonNull<u8>)> {
        let address = usize::try_from(address).ok()?;
        let (_, region) =
            live().regions.range(..=address).next_back().map(|(start, region)| (*start, region.clone()))?;
        let region = region.upgrade()?;
        let offset = address - region.start.addr().get();
        if offset.checked_add(length)? > region.length {
            return None;
        }
        // SAFETY: checked to lie inside the allocation.
        let bytes = unsafe { region.start.add(offset) };
        Some((region, bytes))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        live().change().remove(&self.start.addr().get());
        #[cfg(any(target_os = "linux", windows))]
        if self.borrowed {
            return shared::give_back(self.start);
        }
        pages::free(self.start, self.length);
    }
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(windows))]
mod pages {
    use std::{
        alloc::{Layout, alloc_zeroed, dealloc},
        ptr::NonNull,
    };

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, super::PAGE_SIZE).expect("a page-aligned layout")
    }

    pub(super) fn allocate(length: usize) -> Option<NonNull<u8>> {
        #[cfg(target_os = "linux")]
        if let Some(arena) = super::shared::arena() {
            return arena.allocate(length);
        }
        // SAFETY: the length is at least one page.
        NonNull::new(unsafe { alloc_zeroed(layout(length)) })
    }

    pub(super) fn free(start: NonNull<u8>, length: usize) {
        #[cfg(target_os = "linux")]
        if let Some(arena) = super::shared::arena()
            && arena.free(start, length)
        {
            return;
        }
        // SAFETY: `start` came from `allocate(length)` and is given up here.
        unsafe { dealloc(start.as_ptr(), layout(length)) };
    }
}

#[cfg(windows)]
mod pages {
    use std::ptr::{self, NonNull};

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
    };

    pub(super) fn allocate(length: usize) -> Option<NonNull<u8>> {
        if let Some(arena) = super::shared::arena() {
            return arena.allocate(length);
        }
        // SAFETY: asks for fresh pages anywhere; touches nothing that exists.
        NonNull::new(unsafe { VirtualAlloc(ptr::null(), length, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) }.cast())
    }

    pub(super) fn free(start: NonNull<u8>, _length: usize) {
        if super::shared::arena().is_some_and(|arena| arena.free(start)) {
            return;
        }
        // SAFETY: `start` is the base of a reservation made by `allocate`, given up here.
        unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let memory = Memory::new(PAGE_SIZE + 1);
        assert_eq!(memory.length(), 2 * PAGE_SIZE);
        assert_eq!(memory.address(0) % PAGE_SIZE as u64, 0);
        memory.write(PAGE_SIZE - 1, b"abc");
        assert_eq!(memory.read(PAGE_SIZE - 2..PAGE_SIZE + 3), b"\0abc\0");
    }

    #[test]
    fn buffers_are_found_by_address_while_they_live() {
        let memory = Memory::new(2 * PAGE_SIZE);
        let length = memory.length();
        assert!(Region::find(memory.address(0), length).is_some());
        assert!(Region::find(memory.address(0), length + 1).is_none());
        assert!(Region::find(memory.address(length - 1), 1).is_some());
        assert!(Region::find(memory.address(length), 1).is_none());
        assert!(Region::find(memory.address(1), usize::MAX).is_none());
        let (pinned, _) = Region::find(memory.address(PAGE_SIZE), 1).unwrap();
        let address = memory.address(0);
        drop(memory);
        assert!(Region::find(address, 1).is_some());
        drop(pinned);
        assert!(Region::find(address, 1).is_none());
    }

    #[test]
    #[should_panic(expected = "outside of the test buffer")]
    fn nothing_is_written_outside() {
        Memory::new(1).write(PAGE_SIZE - 1, b"ab");
    }
}
