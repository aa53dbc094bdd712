//! What tokens give access to: local ones to a queue pair itself, remote ones to its peer.

use platform::{Arc, Platform};

use crate::{
    Access, Error, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair,
    memory::Memory,
    region::{Invalidation, Range},
    token::Target,
};

impl<P: Platform> ProtectionDomain<P> {
    /// Local access: what an SGE names. A window has no local token.
    pub(crate) fn local(this: &Arc<Self, P>, token: u32, range: Range, right: Access) -> Result<Memory<P>, Error> {
        match this.adapter().device().tokens().find(token).ok_or(Error::AccessViolation)? {
            Target::Region(region) => {
                let region = region.upgrade().filter(|region| Arc::ptr_eq(region.pd(), this));
                MemoryRegion::open(region.ok_or(Error::AccessViolation)?, range, right)
            }
            Target::Privileged(pd) if pd.refers_to(this) => {
                Memory::privileged(range.address).ok_or(Error::AccessViolation)
            }
            Target::Privileged(_) | Target::Window(_) => Err(Error::AccessViolation),
        }
    }

    /// Invalidates the fast region that a local token names.
    pub(crate) fn invalidate(this: &Arc<Self, P>, token: u32) -> Result<Invalidation, Error> {
        match this.adapter().device().tokens().find(token).ok_or(Error::InvalidDeviceRequest)? {
            Target::Region(region) => {
                let region = region.upgrade().filter(|region| Arc::ptr_eq(region.pd(), this));
                region.ok_or(Error::InvalidDeviceRequest)?.invalidate()
            }
            Target::Privileged(_) | Target::Window(_) => Err(Error::InvalidDeviceRequest),
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
            Target::Region(region) => {
                let region = region.upgrade().filter(|region| Arc::ptr_eq(region.pd(), &this.pd));
                MemoryRegion::open(region.ok_or(Error::AccessViolation)?, range, right)
            }
            Target::Window(window) => {
                let window = window.upgrade().ok_or(Error::AccessViolation)?;
                MemoryWindow::open(window, this, token, range, right)
            }
            Target::Privileged(_) => Err(Error::AccessViolation),
        }
    }

    /// Invalidates what the peer of this queue pair names: a fast region, or a window that this queue pair bound.
    pub(crate) fn invalidate_for_peer(this: &Arc<Self, P>, token: u32) -> Result<Invalidation, Error> {
        match this.pd.adapter().device().tokens().find(token).ok_or(Error::InvalidDeviceRequest)? {
            Target::Region(region) => {
                let region = region.upgrade().filter(|region| Arc::ptr_eq(region.pd(), &this.pd));
                let region = region.filter(|region| region.remotely_invalidatable());
                region.ok_or(Error::InvalidDeviceRequest)?.invalidate()
            }
            Target::Window(window) => {
                window.upgrade().ok_or(Error::InvalidDeviceRequest)?.invalidate_remotely(this, token)
            }
            Target::Privileged(_) => Err(Error::InvalidDeviceRequest),
        }
    }
}
