//! Memory regions and windows.
#![expect(unsafe_code, reason = "calls through COM interfaces, and into kernel32")]

use std::{ops::Range, ptr, time::Duration};

use nd_com::v2::{IND2MemoryRegion, IND2MemoryWindow, ND2_SGE};
use windows_sys::Win32::System::Memory::{PAGE_NOACCESS, PAGE_READONLY, VirtualProtect};

use super::{Adapter, Request, Signal, ask, begin};
use crate::{
    error::Result,
    memory::{Memory, PAGE_SIZE},
};

/// What a peer is told of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) token: u32,
}

/// IND2MemoryRegion, and its memory. The object is dropped first.
pub(crate) struct Mr {
    pub(crate) com: IND2MemoryRegion,
    pub(super) patience: Duration,
    memory: Memory,
}

impl Mr {
    /// A region that nothing is registered with yet, and memory for it.
    pub(crate) fn new(adapter: &Adapter, length: usize) -> Result<Self> {
        Ok(Self { com: adapter.region()?, patience: adapter.patience(), memory: Memory::new(length) })
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Makes a page of the memory read-only, or without `reads`, inaccessible.
    pub(crate) fn protect(&self, page: usize, reads: bool) {
        let (address, mut before) = (self.memory.address(page * PAGE_SIZE) as usize, 0);
        let access = if reads { PAGE_READONLY } else { PAGE_NOACCESS };
        // SAFETY: a page of our own, which no reference covers; a local.
        let done = unsafe { VirtualProtect(ptr::with_exposed_provenance(address), PAGE_SIZE, access, &raw mut before) };
        assert!(done != 0, "VirtualProtect");
    }

    /// Registers all of the memory.
    pub(crate) fn register(&self, flags: u32) -> Result<()> {
        self.register_range(self.memory.address(0), self.memory.length(), flags)?.finish()
    }

    pub(crate) fn register_range(&self, address: u64, length: usize, flags: u32) -> Result<Request> {
        let buffer = ptr::without_provenance(address as usize);
        begin!(Signal::Event, self.patience, IND2MemoryRegion::Register, self.com, buffer, length, flags)
    }

    pub(crate) fn deregister(&self) -> Result<()> {
        self.begin_deregister()?.finish()
    }

    pub(crate) fn begin_deregister(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, IND2MemoryRegion::Deregister, self.com)
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        ask!(IND2Overlapped::CancelOverlappedRequests, self.com)
    }

    pub(crate) fn local_token(&self) -> u32 {
        // SAFETY: the interface is held.
        unsafe { self.com.GetLocalToken() }
    }

    pub(crate) fn remote_token(&self) -> u32 {
        // SAFETY: the interface is held.
        unsafe { self.com.GetRemoteToken() }
    }

    /// An entry for bytes of the region.
    pub(crate) fn sge(&self, range: Range<usize>) -> ND2_SGE {
        ND2_SGE {
            Buffer: ptr::without_provenance_mut(self.memory.address(range.start) as usize),
            BufferLength: range.len() as u32,
            MemoryRegionToken: self.local_token(),
        }
    }

    /// What a peer is told of the region from `offset` on.
    pub(crate) fn remote(&self, offset: usize) -> Remote {
        Remote { address: self.memory.address(offset), token: self.remote_token() }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // "Must precede Release"; refused where nothing is registered.
        drop(self.deregister());
    }
}

/// IND2MemoryWindow.
pub(crate) struct Mw {
    pub(crate) com: IND2MemoryWindow,
}

impl Mw {
    pub(crate) fn new(adapter: &Adapter) -> Result<Self> {
        Ok(Self { com: adapter.window()? })
    }

    pub(crate) fn remote_token(&self) -> u32 {
        // SAFETY: the interface is held.
        unsafe { self.com.GetRemoteToken() }
    }
}
