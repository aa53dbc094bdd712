//! [`Mdl`]: memory of the process as MDLs in the layout of wdm.h.
#![expect(unsafe_code, reason = "C structures that the driver reads")]

use std::ptr::{NonNull, null_mut, without_provenance_mut};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_WRITE_OPERATION, PAGE_SIZE};

/// The most bytes of one MDL of a chain: ByteCount has 32 bits, and the next MDL has to begin on a page boundary.
const MOST: usize = 1 << 31;

/// A chain of MDLs. No page frame numbers follow the headers: a process cannot use them.
#[derive(Debug)]
pub struct Mdl(Box<[MDL]>);

// SAFETY: the headers are read, not written, and the memory is used by the driver's rules.
unsafe impl Send for Mdl {}
// SAFETY: as for Send.
unsafe impl Sync for Mdl {}

impl Mdl {
    /// Describes memory of the process, which is mapped at its address already.
    ///
    /// # Safety
    /// The `length` bytes at `memory` live as long as the MDL, and may be read and written by the driver.
    #[must_use]
    pub unsafe fn lock(memory: NonNull<u8>, length: usize) -> Self {
        let (start, offset) = (memory.addr().get(), memory.addr().get() % PAGE_SIZE);
        let count = (offset + length).div_ceil(MOST).max(1);
        let part = |index| {
            let begin = if index == 0 { 0 } else { index * MOST - offset };
            let end = length.min((index + 1) * MOST - offset);
            let byte_offset = (start + begin) % PAGE_SIZE;
            MDL {
                Next: null_mut(),
                Size: size_of::<MDL>() as u16,
                MdlFlags: MDL_PAGES_LOCKED | MDL_WRITE_OPERATION | MDL_MAPPED_TO_SYSTEM_VA,
                Process: null_mut(),
                MappedSystemVa: memory.as_ptr().wrapping_add(begin).cast(),
                StartVa: without_provenance_mut(start + begin - byte_offset),
                ByteCount: (end - begin) as u32,
                ByteOffset: byte_offset as u32,
            }
        };
        let mut chain: Box<[_]> = (0..count).map(part).collect();
        let first = chain.as_mut_ptr();
        for (index, link) in chain.iter_mut().enumerate().take(count - 1) {
            link.Next = first.wrapping_add(index + 1);
        }
        Self(chain)
    }

    /// The first MDL of the chain, for the driver.
    #[must_use]
    pub fn as_ptr(&self) -> *mut MDL {
        self.0.as_ptr().cast_mut()
    }
}
