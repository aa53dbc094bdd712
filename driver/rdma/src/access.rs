//! What tokens give access to: local ones to a queue pair itself, remote ones to its peer.

use platform::{Arc, Platform};

use crate::{
    Access, Error, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair,
    memory::Memory,
    region::{Invalidation, Range},
    token::Found,
};

impl<P: Platform> ProtectionDomain<P> {
    /// Local access: what an SGE names. A window has no local token.
    pub(crate) fn local(this: &Arc<Self, P>, token: u32, range: Range, right: Access) -> Result<Memory<P>, Error> {
        match this.adapter().device().tokens().find(token).ok_or(Error::AccessViolation)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), this) => MemoryRegion::open(region, range, right),
            Found::Privileged(pd) if Arc::ptr_eq(&pd, this) => {
                Memory::privileged(range.address).ok_or(Error::AccessViolation)
            }
            Found::Region(_) | Found::Privileged(_) | Found::Window(_) => Err(Error::AccessViolation),
        }
    }

    /// Invalidates the fast region that a local token names.
    pub(crate) fn invalidate(this: &Arc<Self, P>, token: u32) -> Result<Invalidation, Error> {
        match this.adapter().device().tokens().find(token).ok_or(Error::InvalidDeviceRequest)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), this) => region.invalidate(),
            Found::Region(_) | Found::Privileged(_) | Found::Window(_) => Err(Error::InvalidDeviceRequest),
        }
    }
}

impl<P: Platform> QueuePair<P> {
    /// Remote access: what the peer of this queue pair names. The privileged token is never usable remotely.
    pub(crate) fn open_for_peer(
        this: &Arc<Self, P>,
        token: u32,
        range: Range,
        right: Access,
    ) -> Result<Memory<P>, Error> {
        match this.pd.adapter().device().tokens().find(token).ok_or(Error::AccessViolation)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), &this.pd) => MemoryRegion::open(region, range, right),
            Found::Window(window) => MemoryWindow::open(window, this, token, range, right),
            Found::Region(_) | Found::Privileged(_) => Err(Error::AccessViolation),
        }
    }

    /// Invalidates what the peer of this queue pair names: a fast region, or a window that this queue pair bound.
    pub(crate) fn invalidate_for_peer(this: &Arc<Self, P>, token: u32) -> Result<Invalidation, Error> {
        match this.pd.adapter().device().tokens().find(token).ok_or(Error::InvalidDeviceRequest)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), &this.pd) && region.remotely_invalidatable() => {
                region.invalidate()
            }
            Found::Window(window) => window.invalidate_remotely(this, token),
            Found::Region(_) | Found::Privileged(_) => Err(Error::InvalidDeviceRequest),
        }
    }
}
