//! Checks of memory tokens: local tokens for the queue pair itself, remote tokens for its peer.

use platform::{Arc, Platform};

use crate::{
    Access, Error, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair,
    memory::region::{Invalidation, Range},
    memory::runs::Memory,
    memory::token::Found,
};

impl<P: Platform> ProtectionDomain<P> {
    /// Local access: opens the memory that an SGE names. A window has no local token.
    pub(crate) fn local(this: &Arc<Self, P>, token: u32, range: Range, right: Access) -> Result<Memory<P>, Error> {
        match this.adapter().device().tokens().find(token).ok_or(Error::AccessViolation)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), this) => MemoryRegion::open(region, token, range, right),
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
    /// Remote access: opens the memory that the peer of this queue pair names. The privileged token is never valid remotely.
    pub(crate) fn open_for_peer(
        this: &Arc<Self, P>,
        token: u32,
        range: Range,
        right: Access,
    ) -> Result<Memory<P>, Error> {
        match this.pd.adapter().device().tokens().find(token).ok_or(Error::AccessViolation)? {
            Found::Region(region) if Arc::ptr_eq(region.pd(), &this.pd) => {
                MemoryRegion::open(region, token, range, right)
            }
            Found::Window(window) => MemoryWindow::open(window, this, token, range, right),
            Found::Region(_) | Found::Privileged(_) => Err(Error::AccessViolation),
        }
    }

    /// Why [`QueuePair::open_for_peer`] refuses, by the first check of the RFCs that fails: a write is checked by DDP,
    /// which knows no rights, and a read by RDMAP.
    pub(crate) fn remote_access_error(
        this: &Arc<Self, P>,
        token: u32,
        range: Range,
        right: Access,
    ) -> RemoteAccessError {
        match Self::is_for_peer(this, token) {
            None => return RemoteAccessError::Token,
            Some(false) => return RemoteAccessError::Stream,
            Some(true) => {}
        }
        if right == Access::REMOTE_READ && !Self::is_allowed(this, token, right) {
            return RemoteAccessError::Right;
        }
        if range.address.checked_add(range.length).is_none() {
            return RemoteAccessError::Wrap;
        }
        let any = Access::empty();
        if Self::open_for_peer(this, token, range, any).is_err() {
            RemoteAccessError::Bounds
        } else {
            RemoteAccessError::Right
        }
    }

    /// Whether `token` is for the peer of this queue pair; `None`: `token` names nothing now.
    fn is_for_peer(this: &Arc<Self, P>, token: u32) -> Option<bool> {
        match this.pd.adapter().device().tokens().find(token)? {
            Found::Region(region) => region.is_valid(token).then(|| Arc::ptr_eq(region.pd(), &this.pd)),
            Found::Window(window) => window.is_bound_for(this, token),
            Found::Privileged(_) => Some(false),
        }
    }

    /// Whether `token` gives the peer this right, whatever the range.
    fn is_allowed(this: &Arc<Self, P>, token: u32, right: Access) -> bool {
        match this.pd.adapter().device().tokens().find(token) {
            Some(Found::Region(region)) => region.allows(token, right),
            Some(Found::Window(window)) => window.allows(token, right),
            Some(Found::Privileged(_)) | None => false,
        }
    }

    /// Why [`QueuePair::invalidate_for_peer`] fails. True: the token is not for this queue pair; false: the token cannot be invalidated.
    pub(crate) fn is_anothers(this: &Arc<Self, P>, token: u32) -> bool {
        Self::is_for_peer(this, token) == Some(false)
    }

    /// Invalidates the memory whose token the peer of this queue pair sent: a fast region, or a window that this queue pair has bound.
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

/// Why an access of the peer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteAccessError {
    /// The token names nothing.
    Token,
    /// The token is not for this queue pair.
    Stream,
    /// The end of the range exceeds 64 bits.
    Wrap,
    /// The range is not inside what the token names.
    Bounds,
    /// The token does not give the right.
    Right,
}
