//! Memory to send and to receive into.

use core::ptr::null_mut;

use ndk_abi::{wdm::MDL, wsk::WSK_BUF};

use crate::{
    checks::{NON_PAGED, TAG},
    imports::*,
};

/// Pool, described by a chain of two MDLs.
pub(crate) struct Bytes {
    pub(crate) memory: *mut u8,
    first: *mut MDL,
    second: *mut MDL,
}

pub(crate) const LENGTH: usize = 3 * 4096;
const FIRST: usize = 5000;

impl Bytes {
    pub(crate) unsafe fn new() -> Self {
        let none = null_mut();
        // SAFETY: descriptors of the parts of one block.
        unsafe {
            let memory = ExAllocatePool2(NON_PAGED, LENGTH, TAG);
            let first = IoAllocateMdl(memory.cast(), FIRST as u32, 0, 0, none);
            let second = IoAllocateMdl(memory.add(FIRST).cast(), (LENGTH - FIRST) as u32, 0, 0, none);
            MmBuildMdlForNonPagedPool(first);
            MmBuildMdlForNonPagedPool(second);
            (*first).Next = second;
            Self { memory, first, second }
        }
    }

    pub(crate) fn part(&self, offset: usize, length: usize) -> WSK_BUF {
        WSK_BUF { Mdl: self.first, Offset: offset as u32, Length: length }
    }

    pub(crate) unsafe fn free(self) {
        // SAFETY: allocated by `new`.
        unsafe {
            IoFreeMdl(self.first);
            IoFreeMdl(self.second);
            ExFreePoolWithTag(self.memory, TAG);
        }
    }
}

/// More bytes than Linux takes for a peer that receives nothing.
const MUCH: usize = 16 << 20;

/// So much pool, described by one MDL.
pub(super) struct Much {
    memory: *mut u8,
    mdl: *mut MDL,
}

impl Much {
    pub(super) unsafe fn new() -> Self {
        // SAFETY: a descriptor of one block.
        unsafe {
            let memory = ExAllocatePool2(NON_PAGED, MUCH, TAG);
            let mdl = IoAllocateMdl(memory.cast(), MUCH as u32, 0, 0, null_mut());
            MmBuildMdlForNonPagedPool(mdl);
            Self { memory, mdl }
        }
    }

    pub(super) fn all(&self) -> WSK_BUF {
        WSK_BUF { Mdl: self.mdl, Offset: 0, Length: MUCH }
    }

    pub(super) unsafe fn free(self) {
        // SAFETY: allocated by `new`.
        unsafe {
            IoFreeMdl(self.mdl);
            ExFreePoolWithTag(self.memory, TAG);
        }
    }
}
