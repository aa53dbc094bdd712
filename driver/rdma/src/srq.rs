//! Shared receive queues.

use platform::{Arc, Deferred, Platform, RunDeferred, Slice, SpinLock, Weak};

use crate::{
    Callback, Close, Error, OnClose, ProtectionDomain, QueuePair, Sge, Status,
    counts::{Count, Kind},
    limits,
    receive_queue::ReceiveQueue,
    request::{Receive, SgeList},
};

/// Room for queue pairs that the first one makes.
const FIRST_TAKERS: usize = 4;

/// A shared receive queue.
pub struct SharedReceiveQueue<P: Platform> {
    on_close: OnClose<P>,
    deferred: Deferred<P>,
    notify: Option<Callback<Status>>,
    state: SpinLock<State<P>, P>,
    _count: Count<P>,
    _pd: Arc<ProtectionDomain<P>, P>,
}

struct State<P: Platform> {
    queue: ReceiveQueue<P>,
    threshold: u32,
    armed: bool,
    due: bool,
    /// One for each queue pair that takes its receives here.
    takers: Slice<Taker<P>, P>,
    /// How many takers have a sender that waits.
    waiting: usize,
}

/// A queue pair on this queue.
struct Taker<P: Platform> {
    attached: bool,
    /// The peer, when its send waits for a receive.
    sender: Option<Weak<QueuePair<P>, P>>,
}

/// A queue pair's place among the takers, given back when dropped.
pub(crate) struct Attachment<P: Platform> {
    srq: Arc<SharedReceiveQueue<P>, P>,
    index: usize,
}

impl<P: Platform> State<P> {
    fn notify_if_due(&mut self, this: &Arc<SharedReceiveQueue<P>, P>) {
        if self.armed && !self.due && self.queue.len() < self.threshold as usize && this.notify.is_some() {
            // One notification for each arm: the arm is cleared first.
            self.armed = false;
            self.due = true;
            Deferred::schedule(this);
        }
    }
}

impl<P: Platform> SharedReceiveQueue<P> {
    /// Makes a queue. `notify` is called when the number of waiting receives falls below `threshold`, once for each
    /// [`SharedReceiveQueue::modify`] that arms it; a new queue is not armed, as it is empty. IRQL <= DISPATCH.
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
        let queue = ReceiveQueue::new(depth, sges)?;
        let srq = Arc::try_new(Self {
            on_close: OnClose::default(),
            deferred: Deferred::default(),
            notify,
            state: SpinLock::<_, P>::new(State {
                queue,
                threshold,
                armed: false,
                due: false,
                takers: Slice::empty(),
                waiting: 0,
            }),
            _count: Count::new(pd.adapter(), Kind::Srq)?,
            _pd: pd.clone(),
        })?;
        Deferred::initialize(&srq);
        Ok(srq)
    }

    /// Posts a receive. IRQL <= DISPATCH.
    pub fn post(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let list = SgeList::copy_of(sges)?;
        let mut state = self.state.lock();
        state.queue.post(context, list.as_slice())?;
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.wake_senders();
        }
        Ok(())
    }

    /// Lets every sender that waits try again; who finds no receive waits again. One at a time: dropping the last reference
    /// to a queue pair takes the lock.
    fn wake_senders(&self) {
        let mut index = 0;
        loop {
            let mut state = self.state.lock();
            if state.waiting == 0 {
                return;
            }
            let Some(taker) = state.takers.get_mut(index) else { return };
            let sender = taker.sender.take();
            if sender.is_some() {
                state.waiting = state.waiting.saturating_sub(1);
            }
            drop(state);
            if let Some(sender) = sender.as_ref().and_then(Weak::upgrade) {
                Deferred::schedule(&sender);
            }
            index = index.saturating_add(1);
        }
    }

    /// Makes room for a queue pair. IRQL <= DISPATCH.
    pub(crate) fn attach(this: &Arc<Self, P>) -> Result<Attachment<P>, Error> {
        let mut larger = Slice::empty();
        loop {
            let mut state = this.state.lock();
            if let Some((index, taker)) = state.takers.iter_mut().enumerate().find(|(_, taker)| !taker.attached) {
                taker.attached = true;
                drop(state);
                return Ok(Attachment { srq: this.clone(), index });
            }
            let length = state.takers.len();
            if larger.len() > length {
                for (new, old) in larger.iter_mut().zip(state.takers.iter_mut()) {
                    core::mem::swap(new, old);
                }
                core::mem::swap(&mut state.takers, &mut larger);
                continue;
            }
            drop(state);
            let length = length.saturating_mul(2).max(FIRST_TAKERS);
            larger = Slice::from_fn(length, |_| Taker { attached: false, sender: None })?;
        }
    }

    /// Changes the depth (0: keep) and the threshold. A threshold above 0 arms the notification, which is due at once if the
    /// queue is below it already; 0 keeps threshold and arm (NDK_FN_MODIFY_SRQ). IRQL <= DISPATCH.
    pub fn modify(this: &Arc<Self, P>, depth: u32, threshold: u32) -> Result<(), Error> {
        if depth > limits::SRQ_DEPTH {
            return Err(Error::InvalidParameter);
        }
        let sges = this.state.lock().queue.sges_per_request();
        let mut queue = if depth == 0 { None } else { Some(ReceiveQueue::new(depth, sges)?) };
        let mut state = this.state.lock();
        let mut result = Ok(());
        if let Some(queue) = &mut queue {
            if state.queue.len() > queue.capacity() {
                result = Err(Error::BufferOverflow);
            } else {
                result = state.queue.move_to(queue);
                core::mem::swap(&mut state.queue, queue);
            }
        }
        if result.is_ok() && threshold > 0 {
            state.threshold = threshold;
            state.armed = true;
            state.notify_if_due(this);
        }
        drop(state);
        // The old queue is freed here, after the lock.
        drop(queue);
        result
    }
}

impl<P: Platform> Attachment<P> {
    /// Takes a receive, or remembers that `sender` waits for one. Callable with a queue pair's lock held.
    pub(crate) fn pop_or_wait(&self, sender: &Arc<QueuePair<P>, P>) -> Option<Receive> {
        let mut state = self.srq.state.lock();
        let receive = state.queue.pop();
        if receive.is_some() {
            state.notify_if_due(&self.srq);
        } else if let Some(taker) = state.takers.get_mut(self.index)
            && taker.sender.replace(Arc::downgrade(sender)).is_none()
        {
            state.waiting = state.waiting.saturating_add(1);
        }
        receive
    }
}

impl<P: Platform> Drop for Attachment<P> {
    fn drop(&mut self) {
        let mut state = self.srq.state.lock();
        let mut sender = None;
        if let Some(taker) = state.takers.get_mut(self.index) {
            taker.attached = false;
            sender = taker.sender.take();
        }
        if sender.is_some() {
            state.waiting = state.waiting.saturating_sub(1);
        }
        drop(state);
        drop(sender);
    }
}

impl<P: Platform> RunDeferred<P> for SharedReceiveQueue<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>) {
        let due = core::mem::take(&mut this.state.lock().due);
        if due && let Some(notify) = this.notify {
            notify.call(Ok(()));
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
