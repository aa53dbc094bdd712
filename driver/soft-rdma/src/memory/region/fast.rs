//! Fast registration: a region is initialised once, then registered and invalidated by requests.

use platform::{Arc, Platform};

use super::{Access, Mapping, MemoryRegion, State};
use crate::{
    Error, limits,
    memory::token::{Target, Token},
};

/// A fast registration to be posted.
pub struct FastRegistration<'a> {
    /// Logical addresses of the pages.
    pub(crate) pages: &'a [u64],
    /// Where the region begins in the first page.
    pub first_byte_offset: u32,
    /// Bytes.
    pub length: u64,
    /// The address of the first byte, for work requests.
    pub base: u64,
    /// The rights.
    pub access: Access,
}

/// The result of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    Done,
    /// An access is under way on another processor: the engine tries again in another run.
    Busy,
}

impl<P: Platform> MemoryRegion<P> {
    /// Prepares a fast region for up to `pages` pages. May be called again while nothing is registered. IRQL <= DISPATCH.
    pub fn initialize_fast(this: &Arc<Self, P>, pages: u32, remote_access: bool) -> Result<(), Error> {
        if !this.fast {
            return Err(Error::InvalidDeviceRequest);
        }
        if pages > limits::FAST_REGISTER_PAGES {
            return Err(Error::ImplementationLimit);
        }
        let pages = pages as usize;
        let quota = this.pd.adapter().quota();
        let mut spares = [Some(Mapping::spare(quota, pages)?), Some(Mapping::spare(quota, pages)?)];
        let mut token = Some(Token::new(this.pd.adapter().device(), Target::Region(Arc::downgrade(this)))?);
        let mut state = this.state.lock();
        if state.mapping.is_some() || state.leaving.is_some() {
            drop(state);
            return Err(Error::InvalidDeviceRequest);
        }
        core::mem::swap(&mut state.spares, &mut spares);
        state.pages = pages;
        state.remote_access = remote_access;
        // Consumers may keep the token: it is the same for all fast registrations of the region.
        if state.token.is_none() {
            core::mem::swap(&mut state.token, &mut token);
        }
        drop(state);
        drop((spares, token));
        Ok(())
    }

    /// Fills a spare mapping for a fast registration that is being posted.
    pub(crate) fn stage(&self, request: &FastRegistration<'_>) -> Result<Arc<Mapping<P>, P>, Error> {
        let room = (request.pages.len() as u64).checked_mul(limits::PAGE_SIZE).ok_or(Error::InvalidParameter)?;
        let first_byte_offset = u64::from(request.first_byte_offset);
        if first_byte_offset >= limits::PAGE_SIZE
            || request.length == 0
            || request.length > room.saturating_sub(first_byte_offset)
            || request.base.checked_rem(limits::PAGE_SIZE) != Some(first_byte_offset)
            || request.base.checked_add(request.length).is_none()
        {
            return Err(Error::InvalidParameter);
        }
        let mut state = self.state.lock();
        if !self.fast || state.token.is_none() {
            return Err(Error::InvalidDeviceRequest);
        }
        if !state.remote_access && request.access.intersects(Access::REMOTE_READ | Access::REMOTE_WRITE) {
            return Err(Error::AccessViolation);
        }
        let unused = |spare: &mut Option<Arc<Mapping<P>, P>>| spare.as_mut().is_some_and(|m| Arc::get_mut(m).is_some());
        let place = state.spares.iter_mut().find_map(|spare| unused(spare).then_some(spare));
        let spare = place.and_then(Option::take);
        let pages = state.pages;
        drop(state);
        // Without a spare, the post allocates: more registrations and invalidations are queued than the region has spares for.
        let mut spare = spare.map_or_else(|| Mapping::spare(self.pd.adapter().quota(), pages), Ok)?;
        // Without the lock: the consumer's array may be pageable at PASSIVE_LEVEL.
        let filled = match Arc::get_mut(&mut spare) {
            Some(mapping) => request.fill(&mut mapping.runs).map(|()| {
                mapping.base = request.base;
                mapping.length = request.length;
                mapping.access = request.access;
            }),
            None => Err(Error::InternalError),
        };
        match filled {
            Ok(()) => Ok(spare),
            Err(error) => {
                self.unstage(spare);
                Err(error)
            }
        }
    }

    /// Takes back the mapping of a request that did not run.
    pub(crate) fn unstage(&self, mapping: Arc<Mapping<P>, P>) {
        let surplus = self.state.lock().keep_spare(mapping);
        drop(surplus);
    }

    /// Carries out a fast registration. An error if the region is registered, as on InfiniBand.
    pub(crate) fn install(&self, mapping: Arc<Mapping<P>, P>) -> Result<(), Error> {
        let mut state = self.state.lock();
        // With a new mapping beside one that is leaving, an invalidation could end the wrong one.
        if state.mapping.is_some() || state.leaving.is_some() {
            let surplus = state.keep_spare(mapping);
            drop(state);
            drop(surplus);
            return Err(Error::InvalidDeviceRequest);
        }
        state.mapping = Some(mapping);
        Ok(())
    }

    /// Ends a fast registration. `Done`: no access is under way to it. An error while a window is bound to the region, as on InfiniBand.
    pub(crate) fn invalidate(&self) -> Result<Invalidation, Error> {
        if !self.fast {
            return Err(Error::InvalidDeviceRequest);
        }
        let mut state = self.state.lock();
        if state.bindings > 0 {
            return Err(Error::InvalidDeviceRequest);
        }
        if state.leaving.is_none() {
            state.leaving = state.mapping.take();
        }
        let leaving = state.leaving.as_mut().ok_or(Error::InvalidDeviceRequest)?;
        if Arc::get_mut(leaving).is_none() {
            return Ok(Invalidation::Busy);
        }
        let ended = state.leaving.take();
        let surplus = ended.and_then(|mapping| state.keep_spare(mapping));
        drop(state);
        drop(surplus);
        Ok(Invalidation::Done)
    }

    /// Whether the peer may invalidate the region: a fast region with remote access, which is registered or being invalidated.
    pub(crate) fn remotely_invalidatable(&self) -> bool {
        let state = self.state.lock();
        self.fast && state.remote_access && (state.mapping.is_some() || state.leaving.is_some())
    }
}

impl<P: Platform> State<P> {
    /// Keeps a mapping as a spare. Returns the mapping, to be freed without the lock, if there are two spares or the region was initialised for
    /// another number of pages.
    fn keep_spare(&mut self, mapping: Arc<Mapping<P>, P>) -> Option<Arc<Mapping<P>, P>> {
        match self.spares.iter_mut().find(|spare| spare.is_none()) {
            Some(place) if mapping.room == self.pages => place.replace(mapping),
            _ => Some(mapping),
        }
    }
}
