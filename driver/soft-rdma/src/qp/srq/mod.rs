//! Shared receive queues. `wait_queue.rs` decides which queue pair gets the next receive.

mod wait_queue;

use platform::{Arc, Charge, Deferred, Dispatch, Notice, Platform, RunDeferred, SpinLock, SpinLockGuard};

use crate::{
    Callback, Close, Error, OnClose, ProtectionDomain, QueuePair, Sge, Status, limits,
    object::counts::{CountedObject, ObjectKind},
    qp::receive_queue::ReceiveQueue,
    qp::request::{CurrentReceive, SgeList},
    qp::srq::wait_queue::WaitQueue,
    qp::{status_of, wake},
    slot_map::SlotMap,
};

/// A shared receive queue.
pub struct SharedReceiveQueue<P: Platform> {
    /// The number of this queue in notices.
    number: u32,
    on_close: OnClose<P>,
    deferred: Deferred<P>,
    notify: Option<Callback<Status>>,
    state: SpinLock<State<P>, P>,
    pd: Arc<ProtectionDomain<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    queue: ReceiveQueue<P>,
    /// The charge of `queue`.
    charge: Charge<P>,
    threshold: u32,
    armed: bool,
    due: bool,
    waiters: WaitQueue<P>,
}

/// A queue pair's slot in the wait queue, until dropped.
pub(crate) struct Attachment<P: Platform> {
    srq: Arc<SharedReceiveQueue<P>, P>,
    number: usize,
}

impl<P: Platform> State<P> {
    fn notify_if_due(&mut self, this: &Arc<SharedReceiveQueue<P>, P>) {
        if self.armed && !self.due && self.queue.len() < self.threshold as usize && this.notify.is_some() {
            // One notification for each arm, so the arm is cleared.
            self.armed = false;
            self.due = true;
            Deferred::schedule(this);
        }
    }
}

impl<P: Platform> SharedReceiveQueue<P> {
    /// Makes a queue. `notify` is called when fewer receives than `threshold` are queued, once for each [`SharedReceiveQueue::modify`] that arms
    /// it. A new queue is not armed, as it is empty. IRQL <= DISPATCH.
    pub fn new(
        pd: &Arc<ProtectionDomain<P>, P>,
        depth: u32,
        sges: u32,
        threshold: u32,
        notify: Option<Callback<Status>>,
    ) -> Result<Arc<Self, P>, Error> {
        if depth == 0 || depth > limits::SRQ_DEPTH || sges > limits::SGES {
            return Err(Error::InvalidParameter);
        }
        let quota = pd.adapter().quota();
        let own = quota.charge(Arc::<Self, P>::POOL_BYTES)?;
        let charge = quota.charge(ReceiveQueue::<P>::pool_bytes(depth, sges))?;
        let queue = ReceiveQueue::new(depth, sges)?;
        let waiters = WaitQueue::new(quota.no_charge());
        let srq = Arc::try_new(Self {
            number: pd.adapter().device().counters().name_shared_queue(),
            on_close: OnClose::new(CountedObject::new(pd.adapter(), ObjectKind::Srq)?),
            deferred: Deferred::default(),
            notify,
            state: SpinLock::<_, P>::new(State { queue, charge, threshold, armed: false, due: false, waiters }),
            pd: pd.clone(),
            _charge: own,
        })?;
        Deferred::initialize(&srq);
        Ok(srq)
    }

    /// Posts a receive. IRQL <= DISPATCH.
    pub fn post(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let result = self.enqueue(context, sges);
        if P::notices_data() {
            self.notice_post(result);
        }
        result
    }

    /// Traces a post, for a platform that asks for it ([`Platform::notices_data`]).
    #[cold]
    #[inline(never)]
    fn notice_post(&self, result: Result<(), Error>) {
        P::notice(&Notice::PostedShared { shared_queue: self.number, status: status_of(result) });
    }

    fn enqueue(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let list = SgeList::copy_of(sges)?;
        let mut state = self.state.lock();
        state.queue.post(context, list.as_slice())?;
        let receives = state.queue.len();
        let granted = state.waiters.grant(receives);
        drop(state);
        wake(granted);
        Ok(())
    }

    /// Makes a slot for a queue pair. IRQL <= DISPATCH.
    pub(crate) fn attach(this: &Arc<Self, P>) -> Result<Attachment<P>, Error> {
        let mut chunk = None;
        loop {
            let joined = this.state.lock().waiters.join(&mut chunk);
            match joined {
                Ok(number) => return Ok(Attachment { srq: this.clone(), number }),
                Err(slots) => chunk = Some(SlotMap::chunk(slots, this.pd.adapter().quota())?),
            }
        }
    }

    /// Changes the depth (0: keeps it) and the threshold. A threshold above 0 arms the notification, which is due at once if fewer receives are
    /// queued; 0 keeps threshold and arm (NDK_FN_MODIFY_SRQ). IRQL <= DISPATCH.
    pub fn modify(this: &Arc<Self, P>, depth: u32, threshold: u32) -> Result<(), Error> {
        if depth > limits::SRQ_DEPTH {
            return Err(Error::InvalidParameter);
        }
        let sges = this.state.lock().queue.sges_per_request();
        let make = || {
            // The old and the new queue both count until the old one is freed.
            let charge = this.pd.adapter().quota().charge(ReceiveQueue::<P>::pool_bytes(depth, sges))?;
            Ok::<_, Error>((ReceiveQueue::new(depth, sges)?, charge))
        };
        let mut queue = if depth == 0 { None } else { Some(make()?) };
        let mut state = this.state.lock();
        let mut result = Ok(());
        if let Some((queue, charge)) = &mut queue {
            if state.queue.len() > queue.capacity() {
                result = Err(Error::BufferOverflow);
            } else {
                result = state.queue.move_to(queue);
                core::mem::swap(&mut state.queue, queue);
                core::mem::swap(&mut state.charge, charge);
            }
        }
        if result.is_ok() && threshold > 0 {
            state.threshold = threshold;
            state.armed = true;
            state.notify_if_due(this);
        }
        drop(state);
        // The old queue is freed here, without the lock.
        drop(queue);
        result
    }
}

impl<P: Platform> Attachment<P> {
    /// Takes a receive, or puts the queue pair in line. `sender` is scheduled when its turn comes. A queue pair's lock may be held.
    pub(crate) fn pop_or_wait(&self, sender: &Arc<QueuePair<P>, P>) -> Option<CurrentReceive> {
        let mut state = self.srq.state.lock();
        let receives = state.queue.len();
        let receive = if state.waiters.may_take(self.number, receives) { state.queue.pop() } else { None };
        if receive.is_some() {
            let _not_the_last = state.waiters.leave_line(self.number);
            state.notify_if_due(&self.srq);
        } else {
            state.waiters.stand_in_line(self.number, Arc::downgrade(sender));
        }
        receive
    }

    /// The peer has nothing left to send: the queue pair leaves the line, or its turn ends. The caller holds no lock.
    pub(crate) fn leave_line(&self) {
        let mut state = self.srq.state.lock();
        let sender = state.waiters.leave_line(self.number);
        self.pass_on(state);
        drop(sender);
    }

    /// Grants the next queue pair in line a receive, if there is one that was kept for this queue pair.
    fn pass_on(&self, mut state: SpinLockGuard<'_, State<P>, P>) {
        let receives = state.queue.len();
        let granted = state.waiters.grant(receives);
        drop(state);
        wake(granted);
    }
}

impl<P: Platform> Drop for Attachment<P> {
    fn drop(&mut self) {
        let mut state = self.srq.state.lock();
        let sender = state.waiters.leave(self.number);
        self.pass_on(state);
        drop(sender);
    }
}

impl<P: Platform> RunDeferred<P> for SharedReceiveQueue<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>) {
        let due = core::mem::take(&mut this.state.lock().due);
        if due && let Some(notify) = this.notify {
            notify.call_at_dispatch(dispatch, Ok(()));
        }
    }
}

impl<P: Platform> Close<P> for SharedReceiveQueue<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.armed = false;
        state.due = false;
    }
}
