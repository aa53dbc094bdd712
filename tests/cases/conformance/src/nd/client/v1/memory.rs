//! Registered memory and memory windows.

use std::{cell::Cell, ffi::c_void, ops::Range, ptr, rc::Rc};

use nd_com::v1::{ND_MR_HANDLE, ND_MW_DESCRIPTOR, ND_SGE};
use windows_core::IUnknown;

use super::{Adapter, Request};
use crate::{error::Result, memory::Memory};

/// What a peer is told of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) base: u64,
    pub(crate) length: u64,
    pub(crate) token: u32,
}

impl From<ND_MW_DESCRIPTOR> for Descriptor {
    fn from(descriptor: ND_MW_DESCRIPTOR) -> Self {
        let ND_MW_DESCRIPTOR { Base, Length, Token } = descriptor;
        Self { base: u64::from_be(Base), length: u64::from_be(Length), token: u32::from_be(Token) }
    }
}

impl From<Descriptor> for ND_MW_DESCRIPTOR {
    fn from(descriptor: Descriptor) -> Self {
        Self { Base: descriptor.base.to_be(), Length: descriptor.length.to_be(), Token: descriptor.token.to_be() }
    }
}

/// Memory, and its handle while it is registered.
pub(crate) struct Mr {
    adapter: Adapter,
    /// Where RegisterMemory puts the handle; not freed, as it may do that late.
    place: &'static Cell<ND_MR_HANDLE>,
    registered: Cell<bool>,
    memory: Rc<Memory>,
}

impl Mr {
    /// Memory that is not registered yet.
    pub(crate) fn new(adapter: &Adapter, length: usize) -> Self {
        let place = Box::leak(Box::new(Cell::new(ptr::null_mut())));
        Self { adapter: adapter.clone(), place, registered: Cell::new(false), memory: Rc::new(Memory::new(length)) }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn handle(&self) -> ND_MR_HANDLE {
        self.place.get()
    }

    /// The memory again, not registered.
    pub(crate) fn again(&self) -> Self {
        let place = Box::leak(Box::new(Cell::new(ptr::null_mut())));
        Self { adapter: self.adapter.clone(), place, registered: Cell::new(false), memory: self.memory.clone() }
    }

    /// Where RegisterMemory is to put the handle.
    pub(super) fn place(&self) -> *mut ND_MR_HANDLE {
        self.place.as_ptr()
    }

    /// Registers all of the memory.
    pub(crate) fn register(&self) -> Result<()> {
        self.register_part(0..self.memory.length())
    }

    /// Registers a part of the memory, for which it then stands.
    pub(crate) fn register_part(&self, part: Range<usize>) -> Result<()> {
        self.begin_register(self.memory.address(part.start), part.len())?.finish()?;
        self.registered.set(true);
        Ok(())
    }

    /// Asks for the registration of any range; nothing is deregistered by itself after that.
    pub(crate) fn begin_register(&self, address: u64, length: usize) -> Result<Request> {
        self.adapter.register(address, length, self.place())
    }

    /// Asks for a registration without a place for the handle.
    pub(crate) fn begin_register_nowhere(&self, address: u64, length: usize) -> Result<Request> {
        self.adapter.register(address, length, ptr::null_mut())
    }

    /// Registers and deregisters, so often, all of it with one OVERLAPPED whose own status alone is looked at.
    pub(crate) fn register_unasked(&self, rounds: usize) -> Result<()> {
        let mut request = self.begin_register(self.memory.address(0), 4096)?;
        for _ in 1..rounds {
            self.adapter.deregister_by(&mut request, self)?;
            self.adapter.register_by(&mut request, self)?;
        }
        self.adapter.deregister_by(&mut request, self)?;
        request.finish()
    }

    pub(crate) fn deregister(&self) -> Result<()> {
        self.adapter.deregister(self.handle())?.finish()?;
        self.registered.set(false);
        Ok(())
    }

    /// Leaves it registered: the memory, which must outlive the adapter then.
    pub(crate) fn forget(self) -> Rc<Memory> {
        self.registered.set(false);
        self.memory.clone()
    }

    /// An entry for bytes of the memory.
    pub(crate) fn sge(&self, range: Range<usize>) -> ND_SGE {
        ND_SGE {
            pAddr: ptr::without_provenance_mut::<c_void>(self.memory.address(range.start) as usize),
            Length: range.len(),
            hMr: self.handle(),
        }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if self.registered.get() {
            // Refused under a window.
            drop(self.deregister());
        }
    }
}

/// INDMemoryWindow, which has no methods but IUnknown's.
pub(crate) struct Mw {
    pub(crate) com: IUnknown,
}

impl Mw {
    /// The completion that may report an invalidation by the peer has `context`.
    pub(crate) fn new(adapter: &Adapter, context: usize) -> Result<Self> {
        Ok(Self { com: adapter.window(context)? })
    }

    /// A window whose invalidation is not reported.
    pub(crate) fn silent(adapter: &Adapter) -> Result<Self> {
        Ok(Self { com: adapter.silent_window()? })
    }
}
