//! Memory regions, registered from an MDL or by fast registration, and the checks of each access. `fast.rs` has the fast ones.

mod fast;

pub use fast::FastRegistration;
pub(crate) use fast::Invalidation;

use core::ptr::NonNull;

use fault_rules::Point;
use platform::{
    Addresses, Arc, Charge, Platform, PoolQuota, SpinLock,
    planted::{self, Bug},
};

use crate::{
    Callback, Close, Error, OnClose, Outcome, ProtectionDomain, Runs, Status, limits,
    memory::runs::Memory,
    memory::token::{Target, Token},
    memory::window::{BindRange, WindowAccess},
    object::counts::{CountedObject, ObjectKind},
};

bitflags::bitflags! {
    /// What a registration allows besides reading through the local token.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Receives and reads may place data here.
        const LOCAL_WRITE = 1;
        /// The peer may read.
        const REMOTE_READ = 2;
        /// The peer may write.
        const REMOTE_WRITE = 4;
    }
}

/// A registration: a range of the consumer's addresses, and the memory behind it. It exists until its last access is over.
pub struct Mapping<P: Platform> {
    /// Reports the end of a deregistration that had to wait. The first field, so that it reports before the other fields are dropped.
    on_end: OnEnd<P>,
    base: u64,
    length: u64,
    access: Access,
    runs: Runs<P>,
    /// Pages that a fast registration may fill the mapping with, at most.
    room: usize,
    _charge: Charge<P>,
}

#[derive(Default)]
struct OnEnd<P: Platform>(SpinLock<Option<Callback<Status>>, P>);

impl<P: Platform> Drop for OnEnd<P> {
    fn drop(&mut self) {
        if let Some(done) = self.0.get_mut().take() {
            done.call(Ok(()));
        }
    }
}

impl<P: Platform> Mapping<P> {
    fn new(
        base: u64,
        length: u64,
        access: Access,
        runs: Runs<P>,
        room: usize,
        charge: Charge<P>,
    ) -> Result<Arc<Self, P>, Error> {
        let on_end = OnEnd(SpinLock::<_, P>::new(None));
        Ok(Arc::try_new(Self { on_end, base, length, access, runs, room, _charge: charge })?)
    }

    /// Charges a mapping with this number of runs.
    fn charge(quota: &PoolQuota<P>, runs: usize) -> Result<Charge<P>, Error> {
        Ok(quota.charge(Arc::<Self, P>::POOL_BYTES.saturating_add(Runs::<P>::pool_bytes(runs)))?)
    }

    /// A mapping that a fast registration of up to `pages` pages can fill.
    fn spare(quota: &PoolQuota<P>, pages: usize) -> Result<Arc<Self, P>, Error> {
        let charge = Self::charge(quota, pages)?;
        Self::new(0, 0, Access::empty(), Runs::with_capacity(pages)?, pages, charge)
    }

    pub(crate) fn runs(&self) -> &Runs<P> {
        &self.runs
    }

    /// The contiguous part of the registration around byte `offset`: the consumer's address of its first byte, its
    /// system address, and its bytes.
    pub(crate) fn contiguous(&self, offset: u64) -> Option<(u64, NonNull<u8>, u64)> {
        let (first, start, length) = self.runs.run(offset)?;
        // The last run may be longer than the registration.
        let length = length.min(self.length.checked_sub(first)?);
        Some((self.base.checked_add(first)?, start, length))
    }

    /// The offset of `range` in the registration; `None` if it is not inside.
    fn offset_of(&self, range: Range) -> Option<u64> {
        let offset = range.address.checked_sub(self.base)?;
        let end = offset.checked_add(range.length)?;
        let last = self.length.saturating_add(u64::from(planted::is(Bug::OffByOne)));
        (end <= last).then_some(offset)
    }
}

/// A memory region.
pub struct MemoryRegion<P: Platform> {
    on_close: OnClose<P>,
    fast: bool,
    state: SpinLock<State<P>, P>,
    pd: Arc<ProtectionDomain<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    /// Present while a plain region is registered, and in a fast region since it was initialised.
    token: Option<Token<P>>,
    mapping: Option<Arc<Mapping<P>, P>>,
    /// An invalidated mapping that accesses under way still use.
    leaving: Option<Arc<Mapping<P>, P>>,
    /// Fast registration only: mappings to fill. Two, so that the next registration can be posted behind the
    /// invalidation of the present one without an allocation.
    spares: [Option<Arc<Mapping<P>, P>>; 2],
    /// Pages that a spare has room for.
    pages: usize,
    remote_access: bool,
    /// Memory windows bound to the region. While any is bound, the registration stays.
    bindings: u32,
}

impl<P: Platform> MemoryRegion<P> {
    /// Makes a region without a registration, either plain or `fast`. IRQL <= DISPATCH.
    pub fn new(pd: &Arc<ProtectionDomain<P>, P>, fast: bool) -> Result<Arc<Self, P>, Error> {
        let charge = pd.adapter().quota().charge(Arc::<Self, P>::POOL_BYTES)?;
        let state = State {
            token: None,
            mapping: None,
            leaving: None,
            spares: [None, None],
            pages: 0,
            remote_access: false,
            bindings: 0,
        };
        Ok(Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(pd.adapter(), ObjectKind::Mr)?),
            fast,
            state: SpinLock::<_, P>::new(state),
            pd: pd.clone(),
            _charge: charge,
        })?)
    }

    /// Registers the first `length` bytes of `runs` as the addresses from `base` on. Only for a plain region that is not
    /// registered. IRQL <= DISPATCH.
    pub fn register(this: &Arc<Self, P>, base: u64, length: u64, access: Access, runs: Runs<P>) -> Result<(), Error> {
        if this.fast || length == 0 || length > limits::REGISTRATION_SIZE || runs.length() < length {
            return Err(Error::InvalidParameter);
        }
        base.checked_add(length).ok_or(Error::InvalidParameter)?;
        this.pd.adapter().pass_point(Point::Register, Addresses::default(), Some(length))?;
        let charge = Mapping::charge(this.pd.adapter().quota(), runs.len())?;
        let mapping = Mapping::new(base, length, access, runs, 0, charge)?;
        // A new token each time: a token of an earlier registration must not give access to this one.
        let token = Token::new(this.pd.adapter().device(), Target::Region(Arc::downgrade(this)))?;
        let mut state = this.state.lock();
        if state.mapping.is_some() {
            drop(state);
            return Err(Error::InvalidDeviceRequest);
        }
        state.mapping = Some(mapping);
        let old = state.token.replace(token);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Ends a registration. If accesses are under way, the last one to end calls `done`. `DeviceBusy` while a window is
    /// bound to the region, as in user-mode ND. IRQL <= DISPATCH.
    pub fn deregister(&self, done: Callback<Status>) -> Result<Outcome, Error> {
        if self.fast {
            return Err(Error::InvalidDeviceRequest);
        }
        let mut state = self.state.lock();
        if state.bindings > 0 {
            return Err(Error::DeviceBusy);
        }
        let mapping = state.mapping.take();
        let token = state.token.take();
        drop(state);
        drop(token);
        let mapping = mapping.ok_or(Error::InvalidDeviceRequest)?;
        *mapping.on_end.0.lock() = Some(done);
        match Arc::into_inner(mapping) {
            Some(mapping) => {
                let _inline = mapping.on_end.0.lock().take();
                Ok(Outcome::Done)
            }
            None => Ok(Outcome::Pending),
        }
    }

    /// The token, for local and remote use; 0 if the region has none. IRQL <= DISPATCH.
    pub fn token(&self) -> u32 {
        self.state.lock().token.as_ref().map_or(0, Token::value)
    }

    /// Checks a bind that is being posted. A request queued before it may register a fast region: so that region's
    /// registration is checked when the bind runs.
    pub(crate) fn may_bind(&self, bind_range: BindRange) -> Result<(), Error> {
        let state = self.state.lock();
        if state.token.is_none() {
            return Err(Error::InvalidDeviceRequest);
        }
        if self.fast {
            return if state.remote_access || bind_range.access.is_empty() {
                Ok(())
            } else {
                Err(Error::AccessViolation)
            };
        }
        state.check_bind(bind_range)
    }

    /// Counts a binding, after its checks.
    pub(crate) fn begin_binding(&self, bind_range: BindRange) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check_bind(bind_range)?;
        state.bindings = state.bindings.checked_add(1).ok_or(Error::InsufficientResources)?;
        Ok(())
    }

    pub(crate) fn end_binding(&self) {
        let mut state = self.state.lock();
        state.bindings = state.bindings.saturating_sub(1);
    }

    /// Opens memory by the region's own token.
    pub(crate) fn open(this: Arc<Self, P>, token: u32, range: Range, right: Access) -> Result<Memory<P>, Error> {
        let mapping = this.state.lock().named(token).cloned().ok_or(Error::AccessViolation)?;
        if !mapping.access.contains(right) {
            return Err(Error::AccessViolation);
        }
        let offset = mapping.offset_of(range).ok_or(past_end(right))?;
        Ok(Memory::Region { mapping, offset, _region: this, _window: None })
    }

    /// Opens memory through a window. The window's rights count; the bind has checked the region's.
    pub(crate) fn open_through(this: Arc<Self, P>, range: Range, window: WindowAccess<P>) -> Result<Memory<P>, Error> {
        let mapping = this.state.lock().mapping.clone().ok_or(Error::AccessViolation)?;
        let offset = mapping.offset_of(range).ok_or(Error::AccessViolation)?;
        Ok(Memory::Region { mapping, offset, _region: this, _window: Some(window) })
    }

    /// Whether `token` is the region's token and gives access now.
    pub(crate) fn is_valid(&self, token: u32) -> bool {
        self.state.lock().named(token).is_some()
    }

    /// Whether `token` gives access with this right now.
    pub(crate) fn allows(&self, token: u32, right: Access) -> bool {
        self.state.lock().named(token).is_some_and(|mapping| mapping.access.contains(right))
    }

    pub(crate) fn pd(&self) -> &Arc<ProtectionDomain<P>, P> {
        &self.pd
    }
}

/// The error of an access with `right` beyond the end of what its token names.
pub(crate) fn past_end(right: Access) -> Error {
    if right == Access::REMOTE_READ { Error::RemoteResources } else { Error::AccessViolation }
}

impl<P: Platform> State<P> {
    /// The mapping, if `token` is the region's: since the lookup the region may have been registered anew.
    fn named(&self, token: u32) -> Option<&Arc<Mapping<P>, P>> {
        let own = self.token.as_ref().map(Token::value);
        self.mapping.as_ref().filter(|_| own == Some(token))
    }

    /// NDK_FN_BIND: remote write needs a region with local write; remote read needs no right of the region.
    fn check_bind(&self, bind_range: BindRange) -> Result<(), Error> {
        let mapping = self.mapping.as_ref().ok_or(Error::InvalidDeviceRequest)?;
        let may_write = mapping.access.contains(Access::LOCAL_WRITE);
        let allowed = may_write || !bind_range.access.contains(Access::REMOTE_WRITE);
        let inside = mapping.offset_of(bind_range.range()).is_some();
        if allowed && inside { Ok(()) } else { Err(Error::AccessViolation) }
    }
}

impl<P: Platform> Close<P> for MemoryRegion<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // While windows are bound, the region stays registered for them: they remain usable (object lifetime requirements).
        let mapping = if state.bindings > 0 { None } else { state.mapping.take() };
        let token = state.token.take();
        drop(state);
        drop((mapping, token));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) length: u64,
}
