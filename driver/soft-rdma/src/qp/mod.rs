//! Queue pairs: creation, connection, completions. `post.rs` takes requests, `engine` carries them out, `flush.rs`
//! cancels them; `state.rs` has what the lock protects.

pub(crate) mod engine;
mod flush;
mod post;
pub(crate) mod receive_queue;
pub(crate) mod request;
pub(crate) mod srq;
mod state;

pub(crate) use flush::Report;
pub(crate) use state::{EndedRequest, LockedQp, PeerQp, PointState, QpState};

use core::sync::atomic::AtomicU32;

use platform::{Arc, Charge, Deferred, Notice, Platform, SpinLock, Timer, Weak};

use crate::{
    Close, Completion, CompletionQueue, Connector, Error, Flags, OnClose, OperationKind, ProtectionDomain, ReadLimits,
    SharedReceiveQueue, Status,
    counters::ShardIndex,
    cq::CqUser,
    limits,
    object::counts::{CountedObject, ObjectKind},
    qp::receive_queue::ReceiveQueue,
    qp::request::{CurrentReceive, Operation},
    qp::srq::Attachment,
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

/// The receive queue of a queue pair.
pub enum ReceiveSource<'a, P: Platform> {
    /// A queue of its own.
    Own {
        /// Requests.
        depth: u32,
        /// SGEs per request.
        sges: u32,
    },
    /// A shared receive queue.
    Shared(&'a Arc<SharedReceiveQueue<P>, P>),
}

/// A queue pair.
///
/// The fields are in memory in this order. A server has thousands of queue pairs, most of them in no cache: so what posts and batches of small
/// sends use is close together, up to `receive` in the state. A thread that posts and the peer's engine may run on different processors: so fields
/// that both only read are more than a cache line away from fields that each request writes.
#[repr(C)]
pub struct QueuePair<P: Platform> {
    on_close: OnClose<P>,
    // Only read:
    shared: Option<Attachment<P>>,
    sizes: InitiatorSizes,
    /// The number of this queue pair in notices; unique until a device has made 2^32 queue pairs.
    pub(crate) number: u32,
    pub(crate) counter_shard: ShardIndex,
    context: usize,
    pub(crate) pd: Arc<ProtectionDomain<P>, P>,
    pub(crate) receive_cq: CqUser<P>,
    pub(crate) initiator_cq: CqUser<P>,
    // Written; `deferred` mostly by the processors of this side:
    pub(crate) deferred: Deferred<P>,
    pub(crate) state: SpinLock<LockedQp<P>, P>,
    // For sends that wait for a receive:
    pub(crate) timer: Timer<P>,
    /// Seconds that a send waits for a receive; 0: without limit.
    pub(crate) send_timeout: u32,
    /// The seconds that a fault rule has set for the connection instead; 0: none has.
    rule_timeout: AtomicU32,
    _charge: Charge<P>,
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
        let own = Arc::<Self, P>::POOL_BYTES.saturating_add(LockedQp::<P>::pool_bytes(&sizes));
        let mut charge = pd.adapter().quota().charge(own)?;
        let (receive_queue, shared) = match receives {
            ReceiveSource::Own { depth, sges } => {
                if depth == 0 || depth > limits::RECEIVE_QUEUE_DEPTH || sges > limits::SGES {
                    return Err(Error::InvalidParameter);
                }
                charge.add(ReceiveQueue::<P>::pool_bytes(depth, sges))?;
                (Some(ReceiveQueue::new(depth, sges)?), None)
            }
            ReceiveSource::Shared(srq) => (None, Some(SharedReceiveQueue::attach(srq)?)),
        };
        let state = LockedQp::new(&sizes, receive_queue)?;
        let (number, counter_shard) = pd.adapter().device().counters().name_queue_pair();
        let queue_pair = Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(pd.adapter(), ObjectKind::Qp)?),
            deferred: Deferred::default(),
            state: SpinLock::<_, P>::new(state),
            context,
            sizes,
            number,
            counter_shard,
            shared,
            receive_cq: CqUser::new(receive_cq)?,
            initiator_cq: CqUser::new(initiator_cq)?,
            pd: pd.clone(),
            timer: Timer::default(),
            send_timeout: pd.adapter().send_timeout(),
            rule_timeout: AtomicU32::new(0),
            _charge: charge,
        })?;
        Deferred::initialize(&queue_pair);
        Timer::initialize(&queue_pair);
        for queue in [&queue_pair.receive_cq, &queue_pair.initiator_cq] {
            queue.set(Arc::downgrade(&queue_pair));
        }
        Ok(queue_pair)
    }

    fn has_failed_queue(&self) -> bool {
        self.initiator_cq.has_failed() || self.receive_cq.has_failed()
    }

    /// Claims the queue pair for a connect or accept.
    pub(crate) fn reserve(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        if self.has_failed_queue() {
            return Err(Error::InternalError);
        }
        match state.qp_state {
            QpState::Idle => {
                state.qp_state = QpState::Connecting;
                Ok(())
            }
            _ => Err(Error::ConnectionActive),
        }
    }

    /// Undoes [`Self::reserve`]: the attempt failed, and the queue pair is as before it. The caller holds no lock.
    pub(crate) fn unreserve(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if state.qp_state == QpState::Connecting {
            state.qp_state = QpState::Idle;
        }
        drop(state);
        // A completion queue may have failed during the attempt: `queue_failed` then leaves the queue pair to this function.
        if this.has_failed_queue() {
            Self::queue_failed(this);
        }
    }

    /// The connection is established. The caller holds no lock.
    pub(crate) fn connect(this: &Arc<Self, P>, peer: PeerQp<P>, connector: Weak<Connector<P>, P>, limits: ReadLimits) {
        let mut state = this.state.lock();
        if state.qp_state != QpState::Connecting {
            return;
        }
        state.qp_state = QpState::Connected;
        let remote = matches!(peer, PeerQp::Remote(..));
        // An earlier wire, whose connection was not established, may have set it.
        state.confirms &= remote;
        state.peer = Some(peer);
        state.connector = Some(connector);
        state.may_read = limits.outbound > 0;
        let sender = state.take_waiting_sender();
        drop(state);
        wake(sender);
        if remote {
            // The peer may have sent already.
            Deferred::schedule(this);
        }
        // A completion queue may have failed before there was a connection for `queue_failed` to end.
        if this.has_failed_queue() {
            this.report_to_connector(Report { fatal: true, quiesced: false });
        }
    }

    /// The peer has disconnected. Nothing is flushed: the consumer does that (networkdirect-disconnect-scheme).
    pub(crate) fn peer_gone(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // Connecting: the peer is gone before this side is connected.
        if matches!(state.qp_state, QpState::Connecting | QpState::Connected) {
            state.qp_state = QpState::PeerGone;
        }
        drop(state);
        if let Some(shared) = &this.shared {
            // The peer sends nothing more: this side leaves the line of the shared receive queue.
            shared.leave_line();
        }
        // A completion queue may have failed just before, when the connector was no longer connected: then `queue_failed` ended nothing.
        if this.has_failed_queue() {
            Self::queue_failed(this);
        }
    }

    /// Takes the next receive for a send of `sender`; without one, notes that `sender` waits.
    pub(crate) fn next_receive(&self, state: &mut LockedQp<P>, sender: &Arc<Self, P>) -> Option<CurrentReceive> {
        match &self.shared {
            Some(shared) => shared.pop_or_wait(sender),
            None => {
                let receive = state.receive_queue.as_mut().and_then(ReceiveQueue::pop);
                state.sender_waits = receive.is_none();
                // A flush under way has still to cancel its oldest receives, and this receive is one of them.
                state.flush_receive |= state.flush_receives > 0;
                state.receives_taken(1);
                receive
            }
        }
    }

    /// A successful completion without flags or bytes.
    pub(crate) fn succeeded(&self, kind: OperationKind, request_context: usize) -> Completion {
        Completion {
            status: Ok(()),
            bytes: 0,
            qp_context: self.context,
            request_context,
            kind,
            invalidated_token: 0,
            solicited: false,
            silent: false,
        }
    }

    /// Adds the completion of an initiator request to its completion queue, unless the request is silent and succeeded.
    pub(crate) fn complete_request(&self, ended: &EndedRequest<P>, status: Status) -> Result<(), Error> {
        let (request, operation) = ended;
        let silent = request.flags.contains(Flags::SILENT_SUCCESS);
        if status.is_ok() && silent {
            return Ok(());
        }
        let kind = operation.as_ref().map_or(OperationKind::Send, Operation::kind);
        self.notice_failure(kind, status);
        let succeeded = self.succeeded(kind, request.context);
        let completion = Completion { status, solicited: status.is_err(), silent, ..succeeded };
        if P::notices_data() {
            self.notice_completed(kind, 1, 0, status);
        }
        CompletionQueue::push(&self.initiator_cq, completion)
    }

    /// Adds the completion of a receive to its completion queue.
    pub(crate) fn complete_receive(
        &self,
        receive: &CurrentReceive,
        status: Status,
        bytes: u32,
        invalidated: Option<u32>,
        solicited: bool,
    ) -> Result<(), Error> {
        let kind = if invalidated.is_some() { OperationKind::ReceiveAndInvalidate } else { OperationKind::Receive };
        self.notice_failure(kind, status);
        if P::notices_data() {
            self.notice_completed(kind, 1, bytes, status);
        }
        let completion = Completion {
            status,
            bytes,
            invalidated_token: invalidated.unwrap_or(0),
            solicited: solicited || status.is_err(),
            ..self.succeeded(kind, receive.context)
        };
        CompletionQueue::push(&self.receive_cq, completion)
    }

    /// Traces completions, for a platform that asks for it ([`Platform::notices_data`]).
    #[cold]
    #[inline(never)]
    pub(crate) fn notice_completed(&self, kind: OperationKind, count: u32, bytes: u32, status: Status) {
        let (queue_pair, operation, status) = (self.number, kind as u16, status_of(status));
        P::notice(&Notice::Completed { queue_pair, operation, count, bytes, status });
    }

    fn notice_failure(&self, kind: OperationKind, status: Status) {
        if let Err(error) = status
            && error != Error::Canceled
        {
            let (operation, status) = (kind as u16, error as u32);
            P::notice(&Notice::RequestFailed { queue_pair: self.number, operation, status });
        }
    }

    /// Whether the queue pair takes its receives from a shared queue.
    pub(crate) fn shares_receives(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn sizes(&self) -> &InitiatorSizes {
        &self.sizes
    }
}

/// Converts a status for a notice: the NTSTATUS, 0 for success.
pub(crate) fn status_of(status: Status) -> u32 {
    status.map_or_else(|error| error as u32, |()| 0)
}

/// Schedules the engine of a queue pair. If this function holds the last reference, the run drops it, not this thread: a close callback must not
/// run within a post, whose caller may hold locks.
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
        // The connector of a connected queue pair ends the connection; this close only drops a reference (object lifetime requirements).
        let connected = matches!(this.state.lock().qp_state, QpState::Connected | QpState::PeerGone);
        if !connected {
            Self::flush(this);
        }
    }
}
