//! Queue pairs: posting and connecting. `engine.rs` carries the requests out, `qp/flush.rs` cancels them.

mod flush;

pub(crate) use flush::After;

use core::mem::offset_of;

use platform::{Arc, CACHE_LINE, Deferred, Platform, Slice, SpinLock, Weak, prefetch};

use crate::{
    Close, Completion, CompletionQueue, Connector, Error, Flags, MemoryWindow, OnClose, OperationKind, Post,
    ProtectionDomain, ReadLimits, Sge, SharedReceiveQueue, Status,
    counts::{Count, Kind},
    cq::Member,
    device::Meter,
    engine::SMALL_SEND_BYTES,
    limits, memory,
    receive_queue::ReceiveQueue,
    request::{Cursor, InitiatorRequest, Operation, Receive, SgeList, total},
    ring::Ring,
    srq::Attachment,
};

/// The sizes of a queue pair's initiator queue.
#[derive(Clone, Copy, Debug)]
pub struct InitiatorSizes {
    /// Requests.
    pub depth: u32,
    /// SGEs per request.
    pub sges: u32,
    /// Bytes of inline data per request.
    pub inline_data: u32,
}

/// Where a queue pair's receives come from.
pub enum ReceiveSource<'a, P: Platform> {
    /// A queue of its own.
    Own {
        /// Requests.
        depth: u32,
        /// SGEs per request.
        sges: u32,
    },
    /// A shared one.
    Shared(&'a Arc<SharedReceiveQueue<P>, P>),
}

/// A queue pair.
///
/// It lies in memory as it stands here. A server has thousands, and finds each outside of the caches: what posts and rows of
/// small sends use is close together, up to `receive` in the state. Who posts and the peer's engine may run on different
/// processors: what is written with every request is more than a cache line away from what both only read.
#[repr(C)]
pub struct QueuePair<P: Platform> {
    on_close: OnClose<P>,
    // Only read.
    shared: Option<Attachment<P>>,
    sizes: InitiatorSizes,
    pub(crate) meter: Meter,
    context: usize,
    pub(crate) pd: Arc<ProtectionDomain<P>, P>,
    pub(crate) receive_cq: Member<P>,
    pub(crate) initiator_cq: Member<P>,
    // Written; the first by this side's processor mostly.
    pub(crate) deferred: Deferred<P>,
    pub(crate) state: SpinLock<State<P>, P>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Never connected.
    Idle,
    /// A connector is connecting it.
    Connecting,
    Connected,
    /// The peer is gone; what is outstanding waits for the consumer to flush, disconnect or close.
    PeerGone,
    /// Disconnected by this side, or by an error. Everything is flushed; there is no way back.
    Dead,
}

/// A request that has ended, and what it was, which is to be dropped without a lock: it may hold the last reference to a region.
pub(crate) type Ended<P> = (InitiatorRequest, Option<Operation<P>>);

/// What changes. In this order in memory: see [`QueuePair`].
#[repr(C)]
pub(crate) struct State<P: Platform> {
    pub(crate) phase: Phase,
    /// The agreed outbound read limit is not 0. More is not needed: reads run one after the other.
    may_read: bool,
    /// The engine works on the oldest request without the lock.
    pub(crate) executing: bool,
    /// The peer's engine accesses our memory without the lock.
    pub(crate) placing: bool,
    flush_receive: bool,
    /// A message was flushed when a part of it was placed: the connection is about to end, and nothing may go on where that
    /// message stopped.
    pub(crate) broken: bool,
    /// The peer's engine waits for a receive, or for this side to be connected.
    pub(crate) sender_waits: bool,
    pub(crate) own_receives: Option<ReceiveQueue<P>>,
    pub(crate) requests: Ring<InitiatorRequest, P>,
    pub(crate) peer: Option<Weak<QueuePair<P>, P>>,
    /// Bytes of the oldest request that are done, and where in its SGEs that is.
    pub(crate) done: u64,
    pub(crate) cursor: Cursor,
    /// How many of the oldest requests a flush has still to cancel.
    flush_requests: usize,
    /// How many of the oldest waiting receives a flush has still to cancel; the one in `receive` comes before them.
    flush_receives: usize,
    /// The receive that the peer's send goes to. Rows only look whether there is one.
    pub(crate) receive: Option<Receive>,
    pub(crate) sges: Slice<Sge, P>,
    operations: Slice<Option<Operation<P>>, P>,
    inline: Slice<u8, P>,
    pub(crate) connector: Option<Weak<Connector<P>, P>>,
}

impl<P: Platform> QueuePair<P> {
    /// Makes a queue pair. IRQL <= DISPATCH.
    pub fn new(
        pd: &Arc<ProtectionDomain<P>, P>,
        receive_cq: &Arc<CompletionQueue<P>, P>,
        initiator_cq: &Arc<CompletionQueue<P>, P>,
        context: usize,
        sizes: InitiatorSizes,
        receives: ReceiveSource<'_, P>,
    ) -> Result<Arc<Self, P>, Error> {
        if sizes.depth == 0
            || sizes.depth > limits::INITIATOR_QUEUE_DEPTH
            || sizes.sges > limits::SGES
            || sizes.inline_data > limits::INLINE_DATA
        {
            return Err(Error::InvalidParameter);
        }
        let (own_receives, shared) = match receives {
            ReceiveSource::Own { depth, sges } => {
                if depth == 0 || depth > limits::RECEIVE_QUEUE_DEPTH || sges > limits::SGES {
                    return Err(Error::InvalidParameter);
                }
                (Some(ReceiveQueue::new(depth, sges)?), None)
            }
            ReceiveSource::Shared(srq) => (None, Some(SharedReceiveQueue::attach(srq)?)),
        };
        let depth = sizes.depth as usize;
        let slots = |per_request: u32| depth.checked_mul(per_request as usize).ok_or(Error::InvalidParameter);
        let state = State {
            phase: Phase::Idle,
            peer: None,
            connector: None,
            may_read: false,
            requests: Ring::new(depth, InitiatorRequest::default())?,
            operations: Slice::from_fn(depth, |_| None)?,
            sges: Slice::filled(slots(sizes.sges)?, Sge::default())?,
            inline: Slice::filled(slots(sizes.inline_data)?, 0)?,
            done: 0,
            cursor: Cursor::default(),
            executing: false,
            flush_requests: 0,
            own_receives,
            receive: None,
            placing: false,
            flush_receives: 0,
            flush_receive: false,
            broken: false,
            sender_waits: false,
        };
        let queue_pair = Arc::try_new(Self {
            on_close: OnClose::new(Count::new(pd.adapter(), Kind::Qp)?),
            deferred: Deferred::default(),
            state: SpinLock::<_, P>::new(state),
            context,
            sizes,
            meter: pd.adapter().device().counters().meter(),
            shared,
            receive_cq: Member::new(receive_cq)?,
            initiator_cq: Member::new(initiator_cq)?,
            pd: pd.clone(),
        })?;
        Deferred::initialize(&queue_pair);
        for queue in [&queue_pair.receive_cq, &queue_pair.initiator_cq] {
            queue.set(Arc::downgrade(&queue_pair));
        }
        Ok(queue_pair)
    }

    /// Posts an initiator request. An error means that it was not accepted: no completion follows, the queue pair stays
    /// usable, and the requests deferred before it are started. IRQL <= DISPATCH.
    // What is posted is known where this is called: most of it falls away there.
    #[inline(always)]
    pub fn post(
        this: &Arc<Self, P>,
        context: usize,
        sges: &[Sge],
        flags: Flags,
        post: Post<'_, P>,
    ) -> Result<(), Error> {
        if let (Post::Send(None), [sge]) = (&post, sges)
            && let sge = sge.read()
            && this.is_small(sge.length, flags)
        {
            let result = this.enqueue_small(context, sge, flags);
            return if result.is_ok() && flags.contains(Flags::DEFER) { result } else { Self::start(this, result) };
        }
        Self::post_other(this, context, sges, flags, post)
    }

    /// Posts what is not a small send. Apart, so that a small one does not pay for what this needs.
    #[inline(never)]
    fn post_other(
        this: &Arc<Self, P>,
        context: usize,
        sges: &[Sge],
        flags: Flags,
        post: Post<'_, P>,
    ) -> Result<(), Error> {
        let result = this.enqueue_other(context, sges, flags, post);
        if result.is_ok() && flags.contains(Flags::DEFER) { result } else { Self::start(this, result) }
    }

    /// Has what is posted carried out. Not here: what it completes or releases may call other consumers back, and the poster may
    /// hold locks.
    #[inline(never)]
    fn start(this: &Arc<Self, P>, posted: Result<(), Error>) -> Result<(), Error> {
        Deferred::schedule(this);
        posted
    }

    fn enqueue_other(&self, context: usize, sges: &[Sge], flags: Flags, post: Post<'_, P>) -> Result<(), Error> {
        if !post.allowed_flags().contains(flags) {
            return Err(Error::InvalidFlags);
        }
        let inline = flags.contains(Flags::INLINE);
        if !inline && sges.len() > self.sizes.sges as usize {
            return Err(Error::TooManySges);
        }
        let length = total(sges);
        if inline && length > u64::from(self.sizes.inline_data) {
            return Err(Error::InvalidFlags);
        }
        // Of inline requests the list stays where it is: what it names is readable at DISPATCH_LEVEL, so it is not pageable.
        let (one, list);
        let sges = match sges {
            _ if inline => sges,
            // The usual case: not worth a list.
            [sge] => {
                one = [*sge];
                &one
            }
            _ => {
                list = SgeList::copy_of(sges)?;
                list.as_slice()
            }
        };
        if self.has_failed_queue() {
            return Err(Error::ConnectionInvalid);
        }
        let length = u32::try_from(length).ok().filter(|&length| length <= limits::TRANSFER_LENGTH);
        let data = Sge { length: length.ok_or(Error::BufferOverflow)?, ..Sge::default() };
        let request = InitiatorRequest {
            context,
            data,
            flags,
            sges: u16::try_from(sges.len()).unwrap_or_default(),
            small: false,
            _unused: 0,
        };
        // Declared before the lock is taken: a refused one is given up after it, as it may hold the last reference to a region.
        let mut operation = Some(self.stage(post)?);
        self.state.lock().enqueue(&self.sizes, sges, request, &mut operation)
    }

    /// Whether a send without invalidation is one for a row (see `engine/batch.rs`).
    #[inline]
    fn is_small(&self, length: u32, flags: Flags) -> bool {
        length <= SMALL_SEND_BYTES && Flags::SEND.contains(flags) && self.sizes.sges > 0
    }

    /// Posts a small send: the usual case, which needs none of what others do.
    #[inline]
    fn enqueue_small(&self, context: usize, sge: Sge, flags: Flags) -> Result<(), Error> {
        if self.has_failed_queue() {
            return Err(Error::ConnectionInvalid);
        }
        let request = InitiatorRequest { context, data: sge, flags, sges: 1, small: true, _unused: 0 };
        let mut state = self.state.lock();
        state.may_post(OperationKind::Send)?;
        if state.requests.len() == 0 {
            self.prefetch();
        }
        state.requests.push(request)
    }

    fn stage(&self, post: Post<'_, P>) -> Result<Operation<P>, Error> {
        Ok(match post {
            Post::Send(invalidate) => Operation::Send(invalidate),
            Post::Read(remote) => Operation::Read(remote),
            Post::Write(remote) => Operation::Write(remote),
            Post::Invalidate(region) => {
                self.owns(region.pd())?;
                Operation::Invalidate(region.clone())
            }
            Post::InvalidateWindow(window) => {
                self.owns(window.pd())?;
                Operation::InvalidateWindow(window.clone())
            }
            Post::Bind(window, region, part) => Operation::Bind(MemoryWindow::stage(window, &self.pd, region, part)?),
            Post::FastRegister(region, registration) => {
                self.owns(region.pd())?;
                Operation::FastRegister(region.clone(), Some(region.stage(&registration)?))
            }
        })
    }

    /// What a request works on is of the queue pair's own domain.
    fn owns(&self, pd: &Arc<ProtectionDomain<P>, P>) -> Result<(), Error> {
        if Arc::ptr_eq(pd, &self.pd) { Ok(()) } else { Err(Error::AccessViolation) }
    }

    /// Posts a receive; allowed before the queue pair is connected. IRQL <= DISPATCH.
    #[inline]
    pub fn post_receive(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        match sges {
            // The usual case: not worth a list.
            [sge] => self.enqueue_receive(context, &[sge.read()]),
            _ => self.enqueue_receive_of_list(context, sges),
        }
    }

    #[inline(never)]
    fn enqueue_receive_of_list(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        self.enqueue_receive(context, SgeList::copy_of(sges)?.as_slice())
    }

    #[inline]
    fn enqueue_receive(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.phase == Phase::Dead || self.receive_cq.has_failed() {
            return Err(Error::ConnectionInvalid);
        }
        let receives = state.own_receives.as_mut().ok_or(Error::InvalidDeviceRequest)?;
        if receives.len() == 0 {
            self.prefetch();
        }
        receives.post(context, sges)?;
        let sender = state.take_waiting_sender();
        drop(state);
        if sender.is_some() {
            wake(sender);
        }
        Ok(())
    }

    /// Has the rest of what rows of small sends use fetched: for the first request of an empty queue. The queue pair may have
    /// been left alone for long then, and what a post does not use by itself is needed only when the row runs.
    #[inline]
    fn prefetch(&self) {
        const { assert!(offset_of!(State<P>, receive) <= 3 * CACHE_LINE, "the state is used beyond") };
        let state = (&raw const self.state).cast::<u8>();
        for offset in [CACHE_LINE, 2 * CACHE_LINE, 3 * CACHE_LINE] {
            prefetch(state.wrapping_add(offset));
        }
        prefetch(&raw const self.deferred);
        prefetch(&raw const self.shared);
        // The counts of its references lie before it.
        prefetch((&raw const *self).wrapping_byte_sub(1));
    }

    fn has_failed_queue(&self) -> bool {
        self.initiator_cq.has_failed() || self.receive_cq.has_failed()
    }

    /// Claims the queue pair for a connector.
    pub(crate) fn reserve(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        if self.has_failed_queue() {
            return Err(Error::InternalError);
        }
        match state.phase {
            Phase::Idle => {
                state.phase = Phase::Connecting;
                Ok(())
            }
            _ => Err(Error::ConnectionActive),
        }
    }

    /// A connection attempt failed: the queue pair is as it was.
    pub(crate) fn unreserve(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Connecting {
            state.phase = Phase::Idle;
        }
    }

    /// The connection is established.
    pub(crate) fn connect(&self, peer: Weak<Self, P>, connector: Weak<Connector<P>, P>, limits: ReadLimits) {
        let mut state = self.state.lock();
        if state.phase != Phase::Connecting {
            return;
        }
        state.phase = Phase::Connected;
        state.peer = Some(peer);
        state.connector = Some(connector);
        state.may_read = limits.outbound > 0;
        let sender = state.take_waiting_sender();
        drop(state);
        wake(sender);
        // It may have failed before there was a connection that `queue_failed` could end.
        if self.has_failed_queue() {
            self.finish(After { fatal: true, quiet: false });
        }
    }

    /// The peer has disconnected. Nothing is flushed: that is the consumer's to do (networkdirect-disconnect-scheme).
    pub(crate) fn peer_gone(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // Connecting: the peer is gone before our own side has become connected.
        if matches!(state.phase, Phase::Connecting | Phase::Connected) {
            state.phase = Phase::PeerGone;
        }
        drop(state);
        // It may have failed while there was a connection still, which is gone before `queue_failed` could end it.
        if this.has_failed_queue() {
            Self::queue_failed(this);
        }
    }

    /// Takes the next receive, or remembers that `sender` waits for one.
    pub(crate) fn next_receive(&self, state: &mut State<P>, sender: &Arc<Self, P>) -> Option<Receive> {
        match &self.shared {
            Some(shared) => shared.pop_or_wait(sender),
            None => {
                let receive = state.own_receives.as_mut().and_then(ReceiveQueue::pop);
                state.sender_waits = receive.is_none();
                // One of those that a flush under way has still to cancel: it comes first.
                state.flush_receive |= state.flush_receives > 0;
                state.receives_taken(1);
                receive
            }
        }
    }

    /// A completion without anything special.
    pub(crate) fn succeeded(&self, kind: OperationKind, request_context: usize) -> Completion {
        Completion {
            status: Ok(()),
            bytes: 0,
            qp_context: self.context,
            request_context,
            kind,
            invalidated_token: 0,
            solicited: false,
        }
    }

    /// Reports a finished initiator request; silent success is not reported.
    pub(crate) fn complete_request(&self, ended: &Ended<P>, status: Status) -> Result<(), Error> {
        let (request, operation) = ended;
        if status.is_ok() && request.flags.contains(Flags::SILENT_SUCCESS) {
            return Ok(());
        }
        let kind = operation.as_ref().map_or(OperationKind::Send, Operation::kind);
        let succeeded = self.succeeded(kind, request.context);
        let completion = Completion { status, solicited: status.is_err(), ..succeeded };
        CompletionQueue::push(&self.initiator_cq, completion)
    }

    /// Reports a finished receive.
    pub(crate) fn complete_receive(
        &self,
        receive: &Receive,
        status: Status,
        bytes: u32,
        invalidated: Option<u32>,
        solicited: bool,
    ) -> Result<(), Error> {
        let kind = if invalidated.is_some() { OperationKind::ReceiveAndInvalidate } else { OperationKind::Receive };
        let completion = Completion {
            status,
            bytes,
            invalidated_token: invalidated.unwrap_or(0),
            solicited: solicited || status.is_err(),
            ..self.succeeded(kind, receive.context)
        };
        CompletionQueue::push(&self.receive_cq, completion)
    }
}

impl<P: Platform> State<P> {
    /// Whether a request of this kind is allowed now, and has room.
    #[inline]
    fn may_post(&self, kind: OperationKind) -> Result<(), Error> {
        if self.phase != Phase::Connected {
            return Err(Error::ConnectionInvalid);
        }
        if kind == OperationKind::Read && !self.may_read {
            return Err(Error::InvalidDeviceRequest);
        }
        if self.requests.is_full() { Err(Error::QueueFull) } else { Ok(()) }
    }

    fn enqueue(
        &mut self,
        sizes: &InitiatorSizes,
        sges: &[Sge],
        request: InitiatorRequest,
        operation: &mut Option<Operation<P>>,
    ) -> Result<(), Error> {
        self.may_post(operation.as_ref().map_or(OperationKind::Send, Operation::kind))?;
        let slot = self.requests.next_slot();
        let stored = if request.flags.contains(Flags::INLINE) {
            self.store_inline(slot, sizes, sges, request.data.length)
        } else {
            self.store_sges(slot, sizes, sges)
        };
        stored.ok_or(Error::AccessViolation)?;
        if let Some(Operation::Bind(bind)) = operation {
            bind.announce();
        }
        // The place is empty: `finish_oldest` took what was there.
        core::mem::swap(self.operations.get_mut(slot).ok_or(Error::InternalError)?, operation);
        self.requests.push(request)
    }

    fn store_sges(&mut self, slot: usize, sizes: &InitiatorSizes, sges: &[Sge]) -> Option<()> {
        let first = slot.checked_mul(sizes.sges as usize)?;
        let places = self.sges.get_mut(first..first.checked_add(sges.len())?)?;
        // Mostly one: not worth the call of a copy.
        places.iter_mut().zip(sges).for_each(|(place, sge)| *place = *sge);
        Some(())
    }

    /// `None`, too, if the list does not have `length` bytes any more: it is the consumer's, who may write to it meanwhile.
    fn store_inline(&mut self, slot: usize, sizes: &InitiatorSizes, sges: &[Sge], length: u32) -> Option<()> {
        let first = slot.checked_mul(sizes.inline_data as usize)?;
        let mut free = self.inline.get_mut(first..first.checked_add(length as usize)?)?;
        for Sge { address, length, .. } in sges.iter().copied().filter(|sge| sge.length > 0) {
            let (place, rest) = free.split_at_mut_checked(length as usize)?;
            memory::read_inline(place, address).ok()?;
            free = rest;
        }
        free.is_empty().then_some(())
    }

    /// The SGEs of the request in `slot`.
    pub(crate) fn sges_of<'a>(
        &'a self,
        slot: usize,
        request: &'a InitiatorRequest,
        per_request: u32,
    ) -> Option<&'a [Sge]> {
        if request.small {
            return Some(core::slice::from_ref(&request.data));
        }
        let first = slot.checked_mul(per_request as usize)?;
        self.sges.get(first..first.checked_add(usize::from(request.sges))?)
    }

    /// The inline bytes of the request in `slot`.
    pub(crate) fn inline_of(&self, slot: usize, length: u32, per_request: u32) -> Option<&[u8]> {
        let first = slot.checked_mul(per_request as usize)?;
        self.inline.get(first..first.checked_add(length as usize)?)
    }

    /// Whether data may move, in either direction.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Connected && !self.broken
    }

    /// Claims this side for an access by the peer's engine; false: not connected (yet, or any more).
    pub(crate) fn begin_placing(&mut self) -> bool {
        self.placing = self.is_open();
        self.sender_waits |= self.phase == Phase::Connecting;
        self.placing
    }

    /// The `count` oldest receives were taken from the queue pair's own queue.
    pub(crate) fn receives_taken(&mut self, count: usize) {
        // A flush under way counts the oldest ones; these were among them.
        self.flush_receives = self.flush_receives.saturating_sub(count);
    }

    /// What the request in `slot` does.
    pub(crate) fn operation_mut(&mut self, slot: usize) -> Option<&mut Operation<P>> {
        self.operations.get_mut(slot)?.as_mut()
    }

    /// Removes the `count` oldest requests, small sends that have ended.
    pub(crate) fn sends_done(&mut self, count: usize) {
        self.restart();
        self.flush_requests = self.flush_requests.saturating_sub(count);
        self.requests.skip(count);
    }

    /// Removes the oldest request, which has ended.
    pub(crate) fn finish_oldest(&mut self) -> Option<Ended<P>> {
        self.restart();
        self.flush_requests = self.flush_requests.saturating_sub(1);
        let (slot, &request) = self.requests.front()?;
        let operation = self.operations.get_mut(slot).and_then(Option::take);
        self.requests.skip(1);
        Some((request, operation))
    }

    /// The next request starts from its first byte.
    pub(crate) fn restart(&mut self) {
        self.done = 0;
        self.cursor = Cursor::default();
    }

    /// The peer, if its engine waits for something that has just come.
    fn take_waiting_sender(&mut self) -> Option<Weak<QueuePair<P>, P>> {
        // Without a peer the flag stays: `connect` looks at it again. Mostly nobody waits, and the count of references, which
        // the peer's processor writes too, is left alone.
        let peer = self.peer.as_ref().filter(|_| self.sender_waits)?.clone();
        self.sender_waits = false;
        Some(peer)
    }
}

impl<P: Platform> QueuePair<P> {
    /// Whether its receives come from a shared queue.
    pub(crate) fn shares_receives(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn sizes(&self) -> &InitiatorSizes {
        &self.sizes
    }
}

/// Has the engine of a queue pair run soon. If the queue pair is closed meanwhile, it does not end here: a post must not call
/// anybody back, as the poster may hold locks.
pub(crate) fn wake<P: Platform>(queue_pair: Option<Weak<QueuePair<P>, P>>) {
    if let Some(queue_pair) = queue_pair.as_ref().and_then(Weak::upgrade) {
        Deferred::schedule_and_release(queue_pair);
    }
}

impl<P: Platform> Close<P> for QueuePair<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        // A connected queue pair is only dereferenced: its connector ends the connection (object lifetime requirements).
        let connected = matches!(this.state.lock().phase, Phase::Connected | Phase::PeerGone);
        if !connected {
            Self::flush(this);
        }
    }
}
