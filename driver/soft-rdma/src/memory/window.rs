//! Memory windows: a bind lets the peer of one queue pair access a part of a region, an invalidation ends that. As a
//! type 2 window of InfiniBand, a window belongs to the queue pair that has bound it.

use platform::{Arc, Charge, Platform, SpinLock, Weak};

use crate::{
    Access, Close, Error, MemoryRegion, OnClose, ProtectionDomain, QueuePair,
    memory::region::{Invalidation, Range, past_end},
    memory::runs::Memory,
    memory::token::{Target, Token},
    object::counts::{CountedObject, ObjectKind},
};

/// A memory window.
pub struct MemoryWindow<P: Platform> {
    on_close: OnClose<P>,
    state: SpinLock<State<P>, P>,
    pd: Arc<ProtectionDomain<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    /// The window's entry in the table of tokens. Each bind takes a new key for it.
    token: Option<Token<P>>,
    /// The token of the latest posted bind; 0 before the first.
    posted: u32,
    binding: Option<Binding<P>>,
    /// A binding that has ended, and that accesses under way still use.
    leaving: Option<Binding<P>>,
    /// Accesses under way through `binding` or `leaving`. A new binding waits until the count is 0.
    accesses: u32,
}

impl<P: Platform> State<P> {
    /// Ends the binding, if there is one, and takes it out, to be dropped without the lock. `Err`: an access through the binding is under way.
    fn take_binding(&mut self) -> Result<Option<Binding<P>>, AccessUnderWay> {
        if self.leaving.is_none() {
            self.leaving = self.binding.take();
        }
        if self.leaving.is_some() && self.accesses > 0 {
            return Err(AccessUnderWay);
        }
        Ok(self.leaving.take())
    }
}

struct AccessUnderWay;

/// A binding. The region counts the binding while `counted` is set, and stays referenced until the binding is dropped.
struct Binding<P: Platform> {
    queue_pair: Weak<QueuePair<P>, P>,
    region: Arc<MemoryRegion<P>, P>,
    bind_range: BindRange,
    token: u32,
    counted: bool,
}

impl<P: Platform> Binding<P> {
    /// Takes the binding out of the region's count.
    fn end(&mut self) {
        if core::mem::take(&mut self.counted) {
            self.region.end_binding();
        }
    }
}

impl<P: Platform> Drop for Binding<P> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the bindings before the close callback runs: the consumer may then deregister the region. The references to the region are dropped after
/// the callback.
impl<P: Platform> Drop for MemoryWindow<P> {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.binding.iter_mut().chain(&mut state.leaving).for_each(Binding::end);
    }
}

/// The part of a region that a window opens, and the peer's rights to it.
#[derive(Clone, Copy, Debug)]
pub struct BindRange {
    /// The address of the first byte, in the region's address range.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The peer's rights: remote ones only.
    pub access: Access,
}

impl BindRange {
    pub(crate) fn range(&self) -> Range {
        Range { address: self.address, length: self.length }
    }

    fn offset_of(&self, range: Range) -> Option<u64> {
        let offset = range.address.checked_sub(self.address)?;
        (offset.checked_add(range.length)? <= self.length).then_some(offset)
    }
}

/// A bind in a queue.
pub(crate) struct Bind<P: Platform> {
    window: Arc<MemoryWindow<P>, P>,
    region: Arc<MemoryRegion<P>, P>,
    bind_range: BindRange,
    /// 0 until the post is accepted.
    token: u32,
}

impl<P: Platform> Clone for Bind<P> {
    fn clone(&self) -> Self {
        let Self { window, region, bind_range, token } = self;
        Self { window: window.clone(), region: region.clone(), bind_range: *bind_range, token: *token }
    }
}

impl<P: Platform> MemoryWindow<P> {
    /// Makes a window that is not bound. IRQL <= DISPATCH.
    pub fn new(pd: &Arc<ProtectionDomain<P>, P>) -> Result<Arc<Self, P>, Error> {
        let state = State { token: None, posted: 0, binding: None, leaving: None, accesses: 0 };
        let charge = pd.adapter().quota().charge(Arc::<Self, P>::POOL_BYTES)?;
        let window = Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(pd.adapter(), ObjectKind::Mw)?),
            state: SpinLock::<_, P>::new(state),
            pd: pd.clone(),
            _charge: charge,
        })?;
        let token = Token::new(pd.adapter().device(), Target::Window(Arc::downgrade(&window)))?;
        window.state.lock().token = Some(token);
        Ok(window)
    }

    /// The remote token of the latest posted bind; 0 before the first. IRQL <= DISPATCH.
    pub fn token(&self) -> u32 {
        self.state.lock().posted
    }

    pub(crate) fn pd(&self) -> &Arc<ProtectionDomain<P>, P> {
        &self.pd
    }

    /// Checks a bind that a queue pair of `pd` is posting.
    pub(crate) fn stage(
        this: &Arc<Self, P>,
        pd: &Arc<ProtectionDomain<P>, P>,
        region: &Arc<MemoryRegion<P>, P>,
        bind_range: BindRange,
    ) -> Result<Bind<P>, Error> {
        if bind_range.length == 0 || bind_range.address.checked_add(bind_range.length).is_none() {
            return Err(Error::InvalidParameter);
        }
        if !Arc::ptr_eq(&this.pd, pd) || !Arc::ptr_eq(region.pd(), pd) {
            return Err(Error::AccessViolation);
        }
        region.may_bind(bind_range)?;
        Ok(Bind { window: this.clone(), region: region.clone(), bind_range, token: 0 })
    }

    /// Ends the binding. `Done`: no access is under way through it.
    pub(crate) fn invalidate(&self) -> Result<Invalidation, Error> {
        self.end_binding(|_| true).ok_or(Error::InvalidDeviceRequest)
    }

    /// Ends the binding that `token` names, if `queue_pair` has bound it. The peer of `queue_pair` asks for that.
    pub(crate) fn invalidate_remotely(
        &self,
        queue_pair: &Arc<QueuePair<P>, P>,
        token: u32,
    ) -> Result<Invalidation, Error> {
        self.end_binding(|binding| binding.names(queue_pair, token)).ok_or(Error::InvalidDeviceRequest)
    }

    /// Ends the binding if `is_meant` accepts it: another thread may have bound the window anew. `None`: `is_meant` accepts no binding.
    fn end_binding(&self, is_meant: impl Fn(&Binding<P>) -> bool) -> Option<Invalidation> {
        let mut state = self.state.lock();
        if !state.binding.iter().chain(&state.leaving).any(is_meant) {
            return None;
        }
        let Ok(ended) = state.take_binding() else { return Some(Invalidation::Busy) };
        drop(state);
        drop(ended);
        Some(Invalidation::Done)
    }

    /// Whether `token` is valid for the peer of `queue_pair`; `None`: `token` is not the token of the present binding.
    pub(crate) fn is_bound_for(&self, queue_pair: &Arc<QueuePair<P>, P>, token: u32) -> Option<bool> {
        let state = self.state.lock();
        let binding = state.binding.as_ref().filter(|binding| binding.token == token)?;
        Some(binding.names(queue_pair, token))
    }

    /// Whether the binding that `token` names gives this right.
    pub(crate) fn allows(&self, token: u32, right: Access) -> bool {
        let state = self.state.lock();
        let binding = state.binding.as_ref().filter(|binding| binding.token == token);
        binding.is_some_and(|binding| binding.bind_range.access.contains(right))
    }

    /// Opens memory for the peer of `queue_pair`.
    pub(crate) fn open(
        this: Arc<Self, P>,
        queue_pair: &Arc<QueuePair<P>, P>,
        token: u32,
        range: Range,
        right: Access,
    ) -> Result<Memory<P>, Error> {
        let mut state = this.state.lock();
        let binding = state.binding.as_ref().filter(|binding| binding.names(queue_pair, token));
        let found = binding.map(|binding| (binding.region.clone(), binding.bind_range));
        if found.is_some() {
            state.accesses = state.accesses.saturating_add(1);
        }
        drop(state);
        let (region, bind_range) = found.ok_or(Error::AccessViolation)?;
        let through = WindowAccess(this);
        if !bind_range.access.contains(right) {
            return Err(Error::AccessViolation);
        }
        bind_range.offset_of(range).ok_or(past_end(right))?;
        MemoryRegion::open_through(region, range, through)
    }
}

impl<P: Platform> Binding<P> {
    fn names(&self, queue_pair: &Arc<QueuePair<P>, P>, token: u32) -> bool {
        self.token == token && self.queue_pair.refers_to(queue_pair)
    }
}

impl<P: Platform> Bind<P> {
    /// The post is accepted: takes a key for the bind. From here on [`MemoryWindow::token`] returns the new token.
    pub(crate) fn announce(&mut self) {
        let mut state = self.window.state.lock();
        self.token = state.token.as_mut().map_or(0, Token::renew);
        state.posted = self.token;
    }

    /// Carries the bind out. A bound window is invalidated first, also if the bind then fails. `Busy`: an access through the earlier binding is
    /// under way.
    pub(crate) fn run(&self, queue_pair: &Arc<QueuePair<P>, P>) -> Result<Invalidation, Error> {
        let binding = self.region.begin_binding(self.bind_range).map(|()| Binding {
            queue_pair: Arc::downgrade(queue_pair),
            region: self.region.clone(),
            bind_range: self.bind_range,
            token: self.token,
            counted: true,
        });
        // Declared after `binding`: a binding that is not used is dropped without the lock.
        let mut state = self.window.state.lock();
        let Ok(ended) = state.take_binding() else { return Ok(Invalidation::Busy) };
        let bound = binding.map(|binding| state.binding = Some(binding));
        drop(state);
        drop(ended);
        bound.map(|()| Invalidation::Done)
    }
}

/// An access through a window. An invalidation waits until the access is dropped.
pub(crate) struct WindowAccess<P: Platform>(Arc<MemoryWindow<P>, P>);

impl<P: Platform> Drop for WindowAccess<P> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.accesses = state.accesses.saturating_sub(1);
    }
}

impl<P: Platform> Close<P> for MemoryWindow<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    /// Ends the binding at once. The reference to the region stays until the window is dropped: the region's close completes after the window's.
    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if state.leaving.is_none() {
            state.leaving = state.binding.take();
        }
    }
}
