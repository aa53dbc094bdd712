//! Buffers of the consumer.
#![expect(unsafe_code, reason = "memory shared with the driver by address")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
};

use hosted::Mdl;
use ndk_abi::{
    ndkpi::{NDK_SGE, NDK_SGE_ADDRESS},
    wdm::PAGE_SIZE,
};

use crate::ndk::{Mr, Pd};

/// Page-aligned, zeroed memory.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: bytes, copied in and out by address.
unsafe impl Send for Memory {}
// SAFETY: as above; what is written at the same time as it is read may be torn, as with a card.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A message of 64 bytes.
pub type Message = [u64; 8];

impl Memory {
    /// `size` bytes, which are touched, so that no page fault is measured.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size.max(1), PAGE_SIZE).unwrap_or_else(|_| panic!("{size} bytes"));
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        // SAFETY: the whole allocation.
        unsafe { start.as_ptr().write_bytes(1, layout.size()) };
        Self { start, layout }
    }

    /// The address of a byte.
    #[must_use]
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.layout.size());
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Writes message `index`.
    #[inline]
    pub fn write(&self, index: usize, message: Message) {
        // SAFETY: in bounds and aligned: the callers count messages; others may read it, as the type says.
        unsafe { self.at(index * size_of::<Message>()).cast::<Message>().write_volatile(message) };
    }

    /// Reads message `index`.
    #[must_use]
    #[inline]
    pub fn read(&self, index: usize) -> Message {
        // SAFETY: as above.
        unsafe { self.at(index * size_of::<Message>()).cast::<Message>().read_volatile() }
    }

    /// Describes all of it; must go before it does.
    #[must_use]
    pub fn mdl(&self) -> Mdl {
        // SAFETY: the callers drop the MDL, and the regions over it, before the memory.
        unsafe { Mdl::lock(self.start, self.layout.size()) }
    }

    /// What the device is compared with: `length` bytes from `from`'s start to `offset`.
    #[inline]
    pub fn copy_from(&self, offset: usize, from: &Self, length: usize) {
        // SAFETY: in bounds on both sides, which are different allocations.
        unsafe { std::ptr::copy_nonoverlapping(from.at(0), self.at(offset), length) };
    }
}

/// Registered memory.
#[derive(Debug)]
pub struct Buffer {
    // Closed first.
    _mr: Mr,
    _mdl: Mdl,
    /// The memory.
    pub memory: Memory,
    /// Its token, for local and remote use.
    pub token: u32,
}

impl Buffer {
    /// `size` bytes with all rights.
    #[must_use]
    pub fn new(pd: &Pd, size: usize) -> Self {
        let memory = Memory::new(size);
        let mdl = memory.mdl();
        let mr = pd.mr();
        let token = mr.register(&mdl, size);
        Self { _mr: mr, _mdl: mdl, memory, token }
    }

    /// The address of a byte, as work requests name it.
    #[must_use]
    #[inline]
    pub fn address(&self, offset: usize) -> u64 {
        self.memory.at(offset).addr() as u64
    }

    /// An SGE.
    #[must_use]
    #[inline]
    pub fn sge(&self, offset: usize, length: usize) -> NDK_SGE {
        let u = NDK_SGE_ADDRESS::from_virtual(self.memory.at(offset).cast());
        NDK_SGE { u, Length: length as u32, MemoryRegionToken: self.token }
    }

    /// The SGE of message `index`.
    #[must_use]
    #[inline]
    pub fn message(&self, index: usize) -> NDK_SGE {
        self.sge(index * size_of::<Message>(), size_of::<Message>())
    }
}
