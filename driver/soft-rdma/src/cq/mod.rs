//! Completion queues: a ring, an arm, and one notification at a time. `moderation.rs` delays notifications, `faults.rs` has the
//! fault rules, `user.rs` the queue pairs.

pub(crate) mod completion;
mod faults;
mod moderation;
mod user;

pub(crate) use user::CqUser;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use platform::{
    Arc, CachePadded, Charge, Deferred, Dispatch, Notice, Platform, RunDeferred, Sockets as _, SpinLock, Timer,
    planted::{self, Bug},
};

use crate::{
    Adapter, Callback, Close, Completion, Counter, Error, OnClose, Status,
    cq::{faults::NotifyPoint, moderation::Moderation, user::Users},
    limits,
    object::counts::{CountedObject, ObjectKind},
    ring::Ring,
    slot_map::SlotMap,
    watch,
};

/// Completions that a poll takes in one hold of the lock.
const POLL_BATCH: usize = 16;

/// What an armed queue waits for: NDK_CQ_NOTIFY_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// A failure of the queue itself.
    Errors,
    /// The next completion that is solicited or has failed.
    Solicited,
    /// The next completion.
    Any,
}

/// A completion queue.
pub struct CompletionQueue<P: Platform> {
    on_close: OnClose<P>,
    deferred: Deferred<P>,
    timer: Timer<P>,
    state: CachePadded<SpinLock<State<P>, P>>,
    /// Completions in the ring. Read without the lock, so that polls of an empty queue do not take it.
    waiting: CachePadded<AtomicUsize>,
    /// `State::failed` is set. Read without the lock, by posts.
    dead: AtomicBool,
    notify: Callback<Status>,
    adapter: Arc<Adapter<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    ring: Ring<Completion, P>,
    /// The charge of `ring`.
    charge: Charge<P>,
    armed: Option<Arm>,
    /// A notification is due, and the deferred call delivers it.
    due: bool,
    /// Completions ever queued.
    queued: u64,
    /// Completions ever taken.
    taken: u64,
    /// The value of `queued` after the last solicited completion.
    solicited: u64,
    /// The value of `queued` after the last failed completion.
    error: u64,
    /// The value of `queued` at the last notification: earlier completions do not satisfy a new arm.
    notified: u64,
    /// Why the queue is dead: `BufferOverflow` after an overrun.
    failed: Option<Error>,
    /// A notification has reported the failure.
    failure_notified: bool,
    users: Users<P>,
    /// The next slot of `users` whose queue pair the failure has to end.
    ending: Option<usize>,
    moderation: Moderation,
    /// While the timer that ends the delay of a notification runs: the delay that it was started with, in microseconds.
    delayed: Option<u32>,
    notify_point: NotifyPoint,
}

impl<P: Platform> State<P> {
    /// Notes the last solicited and the last failed one of `completions`, which follow `queued_before` others.
    fn note_solicited(&mut self, queued_before: u64, completions: impl Iterator<Item = Completion>) {
        let mut queued = queued_before;
        for completion in completions {
            queued = queued.wrapping_add(1);
            if completion.solicited {
                self.solicited = queued;
                if completion.status.is_err() {
                    self.error = queued;
                }
            }
        }
    }

    /// Whether `arm` is satisfied: by a completion that came after the last notification and is still in the ring, or by a failure of the queue
    /// that no notification has reported.
    fn satisfies(&self, arm: Arm) -> bool {
        if self.failed.is_some() {
            return !self.failure_notified;
        }
        let old = self.notified.max(self.taken);
        match arm {
            Arm::Errors => false,
            Arm::Solicited => self.solicited > old,
            Arm::Any => self.queued > old,
        }
    }

    /// Whether the arm is satisfied, and no notification is due yet.
    fn is_satisfied(&self) -> bool {
        !self.due && self.armed.is_some_and(|arm| self.satisfies(arm))
    }

    /// Schedules the deferred call to deliver a notification.
    fn notify(&mut self, this: &Arc<CompletionQueue<P>, P>) {
        self.end_delay(this);
        // One notification for each arm, so the arm is cleared.
        self.armed = None;
        self.notify_point = NotifyPoint::Before;
        self.due = true;
        Deferred::schedule(this);
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Makes a queue for `depth` completions. `notify` is called once for each satisfied arm, at DISPATCH_LEVEL, and
    /// never twice at the same time. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>, depth: u32, notify: Callback<Status>) -> Result<Arc<Self, P>, Error> {
        if depth == 0 || depth > limits::CQ_DEPTH {
            return Err(Error::InvalidParameter);
        }
        let quota = adapter.quota();
        let own = quota.charge(Arc::<Self, P>::POOL_BYTES)?;
        let charge = quota.charge(Ring::<Completion, P>::pool_bytes(depth as usize))?;
        let state = State {
            ring: Ring::new(depth as usize, Completion::UNUSED)?,
            charge,
            armed: None,
            due: false,
            queued: 0,
            taken: 0,
            solicited: 0,
            error: 0,
            notified: 0,
            failed: None,
            failure_notified: false,
            users: SlotMap::new(quota.no_charge()),
            ending: None,
            moderation: Moderation::NONE,
            delayed: None,
            notify_point: NotifyPoint::Before,
        };
        let cq = Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(adapter, ObjectKind::Cq)?),
            deferred: Deferred::default(),
            timer: Timer::default(),
            state: CachePadded::new(SpinLock::<_, P>::new(state)),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            dead: AtomicBool::new(false),
            notify,
            adapter: adapter.clone(),
            _charge: own,
        })?;
        Deferred::initialize(&cq);
        Timer::initialize(&cq);
        Ok(cq)
    }

    /// Adds a completion. Error: the queue is dead, or this completion has overrun it. Locks of queue pairs and SRQs may be held.
    pub(crate) fn push(this: &Arc<Self, P>, completion: Completion) -> Result<(), Error> {
        if watch::any() && this.pass_complete() {
            let mut state = this.state.lock();
            if state.failed.is_none() {
                Self::fail(this, &mut state, Error::BufferOverflow);
            }
            return Err(Error::BufferOverflow);
        }
        let added = Self::push_all(this, 1, completion.solicited, core::iter::once(completion));
        if added > 0 { Ok(()) } else { Err(Error::BufferOverflow) }
    }

    /// Adds `completions`, `count` in number, which have passed their point for fault rules, if a rule is for it. Returns how many the queue had room
    /// for. `solicited`: some completions may be solicited.
    #[inline]
    pub(crate) fn push_all(
        this: &Arc<Self, P>,
        count: usize,
        solicited: bool,
        completions: impl Iterator<Item = Completion> + Clone,
    ) -> usize {
        let mut state = this.state.lock();
        if state.failed.is_some() {
            return 0;
        }
        let added = state.ring.push_all(count, completions.clone());
        let queued_before = state.queued;
        state.queued = queued_before.wrapping_add(added as u64);
        if solicited {
            state.note_solicited(queued_before, completions);
        }
        if added < count {
            Self::fail(this, &mut state, Error::BufferOverflow);
        }
        this.waiting.store(state.ring.len(), Ordering::Release);
        Self::notify_if_due(this, &mut state);
        added
    }

    /// Arms the queue for one notification. A queue that is armed already keeps the wider arm (the merge table of the NDKPI completion handling
    /// requirements). IRQL <= DISPATCH.
    pub fn arm(this: &Arc<Self, P>, arm: Arm) {
        let mut state = this.state.lock();
        state.armed = Some(state.armed.map_or(arm, |armed| armed.max(arm)));
        if planted::is(Bug::LostWakeUp) {
            return;
        }
        Self::notify_if_due(this, &mut state);
        drop(state);
        P::Sockets::must_watch();
    }

    /// The queue fails: it and every queue pair on it are dead (NDK_FN_CQ_NOTIFICATION_CALLBACK). The failure satisfies any arm.
    fn fail(this: &Arc<Self, P>, state: &mut State<P>, error: Error) {
        state.failed = Some(error);
        state.ending = Some(0);
        this.dead.store(true, Ordering::Relaxed);
        this.adapter.device().counters().count(Counter::CqErrors);
        let depth = u32::try_from(state.ring.capacity()).unwrap_or(u32::MAX);
        P::notice(&Notice::CompletionQueueFailed { depth, status: error as u32 });
        Self::notify_if_due(this, state);
        Deferred::schedule(this);
    }

    fn notify_if_due(this: &Arc<Self, P>, state: &mut State<P>) {
        if state.is_satisfied() && !state.delay_notification(this) {
            state.notify(this);
        }
    }

    /// Takes up to `results` completions, oldest first, hands each to `take`, and returns their number. IRQL <= DISPATCH.
    ///
    /// `take` runs without the lock, as the consumer's array may be pageable at PASSIVE_LEVEL. Completions stay in
    /// order, as consumers do not poll a queue from two threads at once (NDKPI completion handling requirements).
    ///
    /// If the queue is empty, a poll at PASSIVE_LEVEL in a process may call callbacks: see [`platform::Sockets::poll_hint`].
    pub fn poll(&self, results: usize, mut take: impl FnMut(usize, &Completion)) -> usize {
        if self.waiting.load(Ordering::Acquire) == 0 {
            P::Sockets::poll_hint();
        }
        let mut taken = 0usize;
        while taken < results && self.waiting.load(Ordering::Acquire) > 0 {
            let mut batch = [Completion::UNUSED; POLL_BATCH];
            let mut state = self.state.lock();
            let wanted = POLL_BATCH.min(results.saturating_sub(taken));
            let found = state.ring.pop_all(batch.get_mut(..wanted).unwrap_or_default());
            state.taken = state.taken.wrapping_add(found as u64);
            self.waiting.store(state.ring.len(), Ordering::Release);
            drop(state);
            if planted::is(Bug::OutOfOrder) {
                batch.get_mut(..found).unwrap_or_default().reverse();
            }
            // Not an iterator over the array by value: that copies all of it.
            for completion in batch.iter().take(found) {
                take(taken, completion);
                taken = taken.wrapping_add(1);
            }
        }
        taken
    }

    /// Whether the queue's adapter was opened on behalf of a process.
    pub fn serves_process(&self) -> bool {
        self.adapter.process().is_some()
    }

    /// Whether the ring has completions.
    pub(crate) fn has_results(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether the queue is dead.
    pub(crate) fn has_failed(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Changes the depth; completions may be added and polled at the same time, and none is lost. `BufferOverflow`, and the old depth, if
    /// more completions are queued. IRQL <= DISPATCH; the lock is held while the completions move, for a time linear in their number.
    pub fn resize(this: &Arc<Self, P>, depth: u32) -> Result<(), Error> {
        if depth == 0 || depth > limits::CQ_DEPTH {
            return Err(Error::InvalidParameter);
        }
        // The old and the new ring both count until the old one is freed.
        let mut charge = this.adapter.quota().charge(Ring::<Completion, P>::pool_bytes(depth as usize))?;
        let mut ring = Ring::new(depth as usize, Completion::UNUSED)?;
        let mut state = this.state.lock();
        if state.ring.len() > ring.capacity() {
            drop(state);
            return Err(Error::BufferOverflow);
        }
        while let Some(completion) = state.ring.pop() {
            if ring.push(completion).is_err() {
                Self::fail(this, &mut state, Error::InternalError);
                break;
            }
        }
        core::mem::swap(&mut state.ring, &mut ring);
        core::mem::swap(&mut state.charge, &mut charge);
        // The new ring may be full, and then moderation does not delay a notification.
        Self::notify_if_due(this, &mut state);
        drop(state);
        // The old ring is freed here, without the lock.
        drop(ring);
        Ok(())
    }
}

impl<P: Platform> RunDeferred<P> for CompletionQueue<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>) {
        Self::deliver(this, dispatch);
        Self::end_users(this);
    }
}

impl<P: Platform> CompletionQueue<P> {
    /// Delivers the notification that is due.
    fn deliver(this: &Arc<Self, P>, dispatch: &Dispatch<'_>) {
        let mut state = this.state.lock();
        if !core::mem::take(&mut state.due) {
            return;
        }
        state.notified = state.queued;
        let status = match state.failed {
            Some(error) => {
                state.failure_notified = true;
                Err(error)
            }
            None => Ok(()),
        };
        if planted::is(Bug::CallbackUnderLock) {
            this.notify.call_at_dispatch(dispatch, status);
            return;
        }
        drop(state);
        this.notify.call_at_dispatch(dispatch, status);
    }
}

impl<P: Platform> Close<P> for CompletionQueue<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        // A notification that is due and that the deferred call has not taken yet is not delivered.
        let mut state = this.state.lock();
        state.armed = None;
        state.due = false;
        state.end_delay(this);
    }
}
