//! The driver's end of a ring of requests: how requests are read from the ring and posted.
//!
//! The deferred call of the queue serves the ring, and schedules itself again while requests come. When the ring is empty, it waits for the
//! completion of a posted request, and polls the ring then. If no completion is to come, some more runs poll the ring ([`PollBackoff`]);
//! then the ring sleeps until a doorbell.
//!
//! tests/random/loom-models compiles this file too, and explores its interleavings.

use nd_rings::{BadIndex, Memory, Reader};
use ndk_abi::describe::ZeroInit as _;
use ndk_abi::ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NdkOperationTypeReceive};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE};
use ndk_abi::softndk_ring::{SOFTNDK_RING_CONNECTED, SOFTNDK_RING_CONNECTED_WITHOUT_READS, SOFTNDK_RING_ENDED};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES,
    STATUS_SUCCESS,
};
use platform::planted::{self, Bug};
use platform::{Platform, SpinLock, SpinLockGuard};
use zerocopy::IntoBytes as _;

use super::poll_backoff::PollBackoff;
use super::ring_poll::Next;
use crate::atomic::{AtomicBool, Ordering};

/// The most requests that one run of the deferred call reads from a ring.
const BURST: u32 = 64;
/// The most polls of an empty ring in one run: a few microseconds.
const POLLS: u32 = 64;
/// The most times that one call serves a ring to reach its end: the program may go on filling it.
pub(crate) const MAX_SERVES: u32 = 4096;
/// The most bytes behind the head of a request: no adapter takes more SGEs, or more inline data.
pub(crate) const MAX_DATA: usize = 1024;
/// Words of the head of a request.
const HEAD_WORDS: usize = size_of::<SOFTNDK_POST>() / size_of::<u64>();

/// How a ring is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeMode {
    /// The completion of each posted signaled request schedules a run, so an empty ring need not be polled before. False for an SRQ, whose
    /// threshold counts the receives in the queue, not those in the ring, and after the end of the CQ.
    pub(crate) awaits: bool,
    /// An empty ring is polled for some runs ([`PollBackoff`]).
    pub(crate) polls_on: bool,
}

/// The result of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    Taken,
    /// The queue has no room, or takes nothing at the moment: the request stays in the ring.
    NotNow,
    /// The queue takes no more requests: this request and those behind it are cancelled.
    Ended,
    /// The request is wrong: it completes with this status, and the ring ends.
    Refused(NTSTATUS),
}

impl From<NTSTATUS> for Posted {
    /// From the status of a post function, such as NdkSend.
    fn from(status: NTSTATUS) -> Self {
        match status {
            STATUS_SUCCESS => Self::Taken,
            STATUS_NO_MORE_ENTRIES => Self::NotNow,
            STATUS_CONNECTION_INVALID => Self::Ended,
            status => Self::Refused(status),
        }
    }
}

/// The next step of the thread that serves a ring.
pub(crate) enum Step<'a> {
    /// Post the oldest request, with the SGEs or the inline data behind its head; then call [`Serving::posted`].
    Post(&'a SOFTNDK_POST, &'a [u8]),
    /// The queue takes no more: complete the oldest request, unposted, with this status; then call [`Serving::completed_unposted`].
    Complete(SOFTNDK_POST, NTSTATUS),
    /// Stop: this run takes no more requests from the ring.
    End(Served),
}

/// The result of serving a ring.
pub(crate) struct Served {
    pub(crate) next: Next,
    /// The program broke the rules and the ring has ended. A queue pair has to be flushed then, with no lock held: posted requests may have
    /// been deferred for one that does not follow.
    pub(crate) broken: bool,
}

/// A ring of requests, in the memory `M`, which `K` keeps alive.
pub(crate) struct WorkRing<M, K, P: Platform> {
    state: SpinLock<State<M, K>, P>,
    /// The queue takes no more: the requests in the ring complete unposted.
    ended: AtomicBool,
}

struct State<M, K> {
    reader: Reader<M>,
    /// Signaled requests that were posted and are not reported yet. With [`ServeMode::awaits`] the ring's requests complete unposted only
    /// after them.
    outstanding: u32,
    /// The oldest request and its status, if it was read and has to complete unposted. It is not read again: the program may have changed
    /// it.
    refused: Option<(SOFTNDK_POST, NTSTATUS)>,
    /// See [`Served::broken`].
    broken: bool,
    /// The queue is freed: the ring is not read.
    closed: bool,
    backoff: PollBackoff,
    /// The bytes of an entry behind the head of a request.
    data_bytes: usize,
    /// Dropped last: it keeps the memory of the ring.
    _keep: K,
}

impl<M: Memory, K, P: Platform> WorkRing<M, K, P> {
    /// A ring with `data_bytes` bytes behind the head of each request.
    pub(crate) fn new(memory: M, data_bytes: usize, keep: K) -> Self {
        let state = State {
            reader: Reader::new(memory),
            outstanding: 0,
            refused: None,
            broken: false,
            closed: false,
            backoff: PollBackoff::default(),
            data_bytes,
            _keep: keep,
        };
        Self { state: SpinLock::<_, P>::new(state), ended: AtomicBool::new(false) }
    }

    /// Continues in `other`, which has room for this ring's outstanding and waiting requests. Returns the number of requests that still
    /// wait in the old ring, which the driver does not read again.
    pub(crate) fn replace(&self, other: Self) -> u32 {
        let mut state = self.state.lock();
        let left = state.reader.waiting().unwrap_or(0);
        let mut other = other.state.into_inner();
        (other.outstanding, other.closed) = (state.outstanding, state.closed);
        other.reader.keep(other.outstanding);
        if self.ended.load(Ordering::Acquire) {
            other.reader.memory().set_state(SOFTNDK_RING_ENDED);
        }
        core::mem::swap(&mut *state, &mut other);
        drop(state);
        // Unlocks the memory of the old ring, with no lock held.
        drop(other);
        left
    }

    /// True: a ring of `depth` entries has room for this ring's outstanding and waiting requests. That remains true if from before this
    /// call on the queue takes none ([`Posted::NotNow`]) and the program adds none.
    pub(crate) fn fits(&self, depth: u32) -> bool {
        let state = self.state.lock();
        state.outstanding.saturating_add(state.reader.waiting().unwrap_or(0)) <= depth
    }

    /// Takes the ring's lock, which is held while its requests are posted: [`Serving::next`].
    pub(crate) fn serve(&self, mode: ServeMode) -> Serving<'_, M, K, P> {
        let state = self.state.lock();
        let data = [0; MAX_DATA / size_of::<u64>()];
        Serving { ring: self, state, mode, taken: 0, polls: 0, stays: false, head: SOFTNDK_POST::ZERO, data }
    }

    /// A signaled request is about to be posted by a control code. Its completion counts as one of the ring's.
    pub(crate) fn count_ioctl_post(&self) {
        let mut state = self.state.lock();
        state.outstanding = state.outstanding.wrapping_add(1);
    }

    /// A signaled request that was posted is about to be reported: frees its slot for another request.
    pub(crate) fn completing(&self) {
        let mut state = self.state.lock();
        // A request by a control code has no slot.
        let slots = state.reader.kept().min(1);
        state.reader.give_back(slots);
    }

    /// The request of [`WorkRing::completing`] is reported: requests that complete unposted may follow it.
    pub(crate) fn completed(&self) {
        let mut state = self.state.lock();
        state.outstanding = state.outstanding.saturating_sub(1);
    }

    /// Sets `Asleep`, unless the completion of an outstanding request will schedule a run. False: a request has come, or the index turned
    /// bad, and the caller has to schedule a run.
    pub(crate) fn sleep(&self, awaits: bool) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.awaits(awaits) {
            return true;
        }
        match state.reader.sleep() {
            Ok(asleep) => asleep,
            Err(BadIndex) => self.end_bad_index(&mut state) == Next::Sleep,
        }
    }

    /// A doorbell has rung: clears `Asleep`.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        // A doorbell is for all rings of a queue pair: this one may be empty.
        if state.reader.waiting() != Ok(0) {
            state.backoff.woken();
        }
        state.reader.wake();
    }

    /// Whether no request waits in the ring: all are posted, or have completed unposted.
    pub(crate) fn is_drained(&self) -> bool {
        self.state.lock().reader.waiting() == Ok(0)
    }

    /// The queue pair is connected: sets `State`, so that the program may post initiator requests; reads only with `reads`.
    pub(crate) fn connected(&self, reads: bool) {
        let state = self.state.lock();
        if !self.ended.load(Ordering::Acquire) {
            let connected = if reads { SOFTNDK_RING_CONNECTED } else { SOFTNDK_RING_CONNECTED_WITHOUT_READS };
            state.reader.memory().set_state(connected);
        }
    }

    /// The queue is freed: the requests in the ring get no completion. `Asleep` is set, so a program that adds a request rings a doorbell,
    /// which is refused.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        self.end_locked(&state);
        state.closed = true;
        state.reader.memory().asleep().store(1, Ordering::Relaxed);
    }

    /// The queue takes no more requests: ends the ring.
    pub(crate) fn end(&self) {
        self.end_locked(&self.state.lock());
    }

    fn end_locked(&self, state: &State<M, K>) {
        state.reader.memory().set_state(SOFTNDK_RING_ENDED);
        self.ended.store(true, Ordering::Release);
    }

    /// The program's index is impossible: the driver cannot tell which entries are requests, and ends the ring.
    fn end_bad_index(&self, state: &mut State<M, K>) -> Next {
        // The ring has ended before: it sleeps.
        if self.ended.load(Ordering::Acquire) {
            return Next::Sleep;
        }
        self.end_broken(state);
        Next::Run
    }

    fn end_broken(&self, state: &mut State<M, K>) {
        self.end_locked(state);
        state.broken = true;
    }
}

/// A ring while its requests are posted. Holds its lock.
pub(crate) struct Serving<'a, M, K, P: Platform> {
    ring: &'a WorkRing<M, K, P>,
    state: SpinLockGuard<'a, State<M, K>, P>,
    mode: ServeMode,
    /// Requests read in this run, at most [`BURST`].
    taken: u32,
    /// Polls of the empty ring in this run, at most [`POLLS`].
    polls: u32,
    /// The oldest request stays in the ring: [`Posted::NotNow`], or the ring of completions had no room.
    stays: bool,
    /// The driver's copy of the oldest request.
    head: SOFTNDK_POST,
    data: [u64; MAX_DATA / size_of::<u64>()],
}

impl<M: Memory, K, P: Platform> Serving<'_, M, K, P> {
    /// The step for the oldest request, or [`Step::End`] if the ring is empty or the run has to stop.
    pub(crate) fn next(&mut self) -> Step<'_> {
        let (more, length) = loop {
            let waiting = match self.waiting() {
                Ok(waiting) => waiting,
                Err(next) => return Step::End(self.end(next)),
            };
            self.taken = self.taken.wrapping_add(1);
            self.state.backoff.busy();
            if self.ring.ended.load(Ordering::Acquire) {
                if self.state.awaits(self.mode.awaits) {
                    // Posted requests are reported first.
                    return Step::End(self.end(Next::Sleep));
                }
                let refused = self.state.refused.take();
                let (head, status) = refused.unwrap_or_else(|| (self.state.head(), STATUS_CANCELLED));
                self.state.refused = Some((head, status));
                return Step::Complete(head, status);
            }
            self.head = self.state.head();
            match self.state.data(&self.head, &mut self.data) {
                Some(length) => break (waiting > 1 && self.taken < BURST, length),
                None => self.refuse(STATUS_INVALID_PARAMETER),
            }
        };
        if planted::is(Bug::HeadReadTwice) {
            self.head = self.state.head();
        }
        self.head.Flags = deferred(&self.head, more);
        // `posted` takes the count back if the queue does not take the request. Until this run releases the lock, `completing` waits for it.
        self.state.outstanding = self.state.outstanding.wrapping_add(u32::from(self.is_signaled()));
        Step::Post(&self.head, self.data.as_bytes().get(..length).unwrap_or_default())
    }

    /// The result of the post of [`Step::Post`].
    pub(crate) fn posted(&mut self, posted: Posted) {
        let signaled = u32::from(self.is_signaled());
        if posted == Posted::Taken {
            self.state.reader.take(1);
            // A signaled request keeps its slot until it is reported.
            self.state.reader.give_back(1u32.saturating_sub(signaled));
            return;
        }
        self.state.outstanding = self.state.outstanding.saturating_sub(signaled);
        match posted {
            Posted::Taken | Posted::NotNow => self.stays = true,
            Posted::Ended => {
                self.state.refused = Some((self.head, STATUS_CANCELLED));
                self.ring.end_locked(&self.state);
            }
            Posted::Refused(status) => self.refuse(status),
        }
    }

    /// `reported`: whether the request of [`Step::Complete`] was reported; false if the ring of completions has no room.
    pub(crate) fn completed_unposted(&mut self, reported: bool) {
        if reported {
            self.state.refused = None;
            self.state.reader.advance(1);
        } else {
            self.stays = true;
        }
    }

    /// Ends the run, even if requests wait.
    pub(crate) fn end(&mut self, next: Next) -> Served {
        Served { next, broken: core::mem::take(&mut self.state.broken) }
    }

    /// The number of waiting requests, at least 1; `Err`: the run takes no more requests.
    fn waiting(&mut self) -> Result<u32, Next> {
        if self.state.closed {
            return Err(Next::Sleep);
        }
        if self.stays {
            return Err(Next::Wait);
        }
        if self.taken >= BURST {
            return Err(Next::Run);
        }
        loop {
            match self.state.reader.waiting() {
                Ok(0) if !self.mode.polls_on || self.state.awaits(self.mode.awaits) => return Err(Next::Sleep),
                Ok(0) if self.taken > 0 => return Err(Next::Run),
                Ok(0) if self.state.backoff.is_spent() => return Err(Next::Sleep),
                Ok(0) if self.polls < POLLS => self.polls = self.polls.wrapping_add(1),
                Ok(0) => return Err(if self.state.backoff.idle() { Next::Run } else { Next::Sleep }),
                Ok(waiting) => return Ok(waiting),
                Err(BadIndex) => return Err(self.ring.end_bad_index(&mut self.state)),
            }
            core::hint::spin_loop();
        }
    }

    /// Whether the request completes also if it succeeds.
    fn is_signaled(&self) -> bool {
        self.head.Flags & NDK_OP_FLAG_SILENT_SUCCESS == 0
    }

    fn refuse(&mut self, status: NTSTATUS) {
        self.state.refused = Some((self.head, status));
        self.ring.end_broken(&mut self.state);
    }
}

impl<M: Memory, K> State<M, K> {
    /// Whether the completion of an outstanding request will schedule a run. A request that is put into the ring before that has to wait
    /// for the outstanding requests anyway. `awaits`: [`ServeMode::awaits`].
    fn awaits(&self, awaits: bool) -> bool {
        awaits && self.outstanding > 0
    }

    /// A copy of the head of the oldest request.
    fn head(&self) -> SOFTNDK_POST {
        let mut words = [0u64; HEAD_WORDS];
        self.reader.copy(0, 0, &mut words);
        zerocopy::transmute!(words)
    }

    /// Copies the SGEs or the inline data of the oldest request and returns their size. `None`: they do not fit into an entry.
    fn data(&self, head: &SOFTNDK_POST, words: &mut [u64]) -> Option<usize> {
        let length = data_length(head).filter(|&length| length <= self.data_bytes)?;
        self.reader.copy(0, HEAD_WORDS, words.get_mut(..length.div_ceil(size_of::<u64>()))?);
        Some(length)
    }
}

/// The flags of a request. NDK_OP_FLAG_DEFER is set on an initiator request that `more` requests of this run follow, and cleared on all
/// others: the program cannot know which requests a run takes.
fn deferred(head: &SOFTNDK_POST, more: bool) -> u32 {
    let flags = head.Flags & !NDK_OP_FLAG_DEFER;
    let is_receive = NDK_OPERATION_TYPE(head.Operation.cast_signed()) == NdkOperationTypeReceive;
    if more && !is_receive { flags | NDK_OP_FLAG_DEFER } else { flags }
}

/// The bytes behind the head of a request. `None`: the size overflows.
pub(crate) fn data_length(head: &SOFTNDK_POST) -> Option<usize> {
    let sges = (head.SgeCount as usize).checked_mul(size_of::<SOFTNDK_SGE>())?;
    sges.checked_add(head.InlineLength as usize)
}
