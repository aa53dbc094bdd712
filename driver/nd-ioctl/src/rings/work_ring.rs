//! Requests that a user puts into a ring: how they are taken out and posted.
//!
//! A ring of requests is served by the deferred call of its queue. It runs again while requests come. When they do not, it waits for a
//! completion of what was posted, after which it polls again; if none is to come, it polls for some more runs
//! ([`PollBackoff`]), and then goes to sleep until a doorbell.
//!
//! tests/random/loom-models compiles this file too, and explores it.

use nd_rings::{BadIndex, Memory, Reader};
use ndk_abi::describe::ZeroInit as _;
use ndk_abi::ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NdkOperationTypeReceive};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE};
use ndk_abi::softndk_ring::{SOFTNDK_RING_CONNECTED, SOFTNDK_RING_CONNECTED_WITHOUT_READS, SOFTNDK_RING_ENDED};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES,
    STATUS_SUCCESS,
};
use platform::{Platform, SpinLock, SpinLockGuard};
use zerocopy::IntoBytes as _;

use super::poll_backoff::PollBackoff;
use super::ring_poll::Next;
use crate::atomic::{AtomicBool, Ordering};
use crate::planted::{self, Bug};

/// Requests of one run of the deferred call.
const BURST: u32 = 64;
/// Polls of an empty ring in one run: a few microseconds.
const POLLS: u32 = 64;
/// Times that a ring is served to get to the end of what is in it: its user may go on filling it.
pub(crate) const MAX_SERVES: u32 = 4096;
/// The bytes behind the head of a request, at most: no adapter takes more SGEs, or more inline data.
pub(crate) const MAX_DATA: usize = 1024;
/// Words of the head of a request.
const HEAD_WORDS: usize = size_of::<SOFTNDK_POST>() / size_of::<u64>();

/// How a ring is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeMode {
    /// Each posted request that is not silent will be reported, and its report has the ring served again. False for an SRQ, whose ring
    /// counts what is in the queue, and if the CQ has ended.
    pub(crate) awaits: bool,
    /// An empty ring is polled for a while ([`PollBackoff`]).
    pub(crate) polls_on: bool,
}

/// What came of a request that was to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    Taken,
    /// Its queue has no room, or takes nothing for a moment: the request stays in the ring.
    NotNow,
    /// Its queue takes no more requests: this one and those behind it are cancelled.
    Ended,
    /// The request is wrong: it completes with this status, and the ring ends.
    Refused(NTSTATUS),
}

impl From<NTSTATUS> for Posted {
    /// What NdkSend, NdkReceive and the others return.
    fn from(status: NTSTATUS) -> Self {
        match status {
            STATUS_SUCCESS => Self::Taken,
            STATUS_NO_MORE_ENTRIES => Self::NotNow,
            STATUS_CONNECTION_INVALID => Self::Ended,
            status => Self::Refused(status),
        }
    }
}

/// What is next for a ring that is served.
pub(crate) enum Step<'a> {
    /// The oldest request is to be posted, with the SGEs or the inline data behind its head; then [`Serving::posted`].
    Post(&'a SOFTNDK_POST, &'a [u8]),
    /// The queue takes no more: the oldest request is to be reported with this status; then [`Serving::completed_unposted`].
    Complete(SOFTNDK_POST, NTSTATUS),
    /// This run takes no more from the ring.
    End(Served),
}

/// What serving a ring came to.
pub(crate) struct Served {
    pub(crate) next: Next,
    /// Its user broke the rules, and the ring has ended: what was posted before is to be flushed, without a lock. Some of it may
    /// have been deferred for what does not come.
    pub(crate) broken: bool,
}

/// A ring of requests, in the memory `M`, which `K` keeps.
pub(crate) struct WorkRing<M, K, P: Platform> {
    state: SpinLock<State<M, K>, P>,
    /// The queue takes no more: what is in the ring is given up.
    ended: AtomicBool,
}

struct State<M, K> {
    reader: Reader<M>,
    /// Requests that were posted, and report even if they succeed. They come before what is given up here.
    outstanding: u32,
    /// The oldest request, if it was looked at and is not to be posted, and what to report it with. It is not read again: its user
    /// may have changed it.
    refused: Option<(SOFTNDK_POST, NTSTATUS)>,
    /// See [`Served::broken`].
    broken: bool,
    /// Nothing is looked at any more.
    closed: bool,
    backoff: PollBackoff,
    /// Bytes of an entry behind the head of a request.
    data_bytes: usize,
    /// After the ring, which is in it.
    _keep: K,
}

impl<M: Memory, K, P: Platform> WorkRing<M, K, P> {
    /// A ring with so many bytes behind the head of each request.
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

    /// Goes on in another ring, in which there is room for what this one has; gives how many are left in the old one, which is not
    /// looked at any more.
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
        // Unlocked without the lock.
        drop(other);
        left
    }

    /// Whether there is room for what it has, posted or not, in one for `depth` requests. It stays so if the queue takes none
    /// ([`Posted::NotNow`]) from before this on, and its user puts none in.
    pub(crate) fn fits(&self, depth: u32) -> bool {
        let state = self.state.lock();
        state.outstanding.saturating_add(state.reader.waiting().unwrap_or(0)) <= depth
    }

    /// Takes the ring's lock, under which its requests are posted: [`Serving::next`].
    pub(crate) fn serve(&self, mode: ServeMode) -> Serving<'_, M, K, P> {
        let state = self.state.lock();
        let data = [0; MAX_DATA / size_of::<u64>()];
        Serving { ring: self, state, mode, taken: 0, polls: 0, stays: false, head: SOFTNDK_POST::ZERO, data }
    }

    /// A request that does not come by the ring is about to be posted, and will be reported among those that do.
    pub(crate) fn count_ioctl_post(&self) {
        let mut state = self.state.lock();
        state.outstanding = state.outstanding.wrapping_add(1);
    }

    /// A request that was posted, and not to succeed silently, is about to be reported: there is room for another one.
    pub(crate) fn completing(&self) {
        let mut state = self.state.lock();
        // One that did not come by the ring has no slot.
        let slots = state.reader.kept().min(1);
        state.reader.give_back(slots);
    }

    /// It has been reported: what is given up may follow it.
    pub(crate) fn completed(&self) {
        let mut state = self.state.lock();
        state.outstanding = state.outstanding.saturating_sub(1);
    }

    /// Lets the ring sleep until a doorbell, or awaits a completion, of which the caller will be told; false: something has come.
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

    /// The doorbell has rung.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        // The doorbell is that of all rings of a queue pair.
        if state.reader.waiting() != Ok(0) {
            state.backoff.woken();
        }
        state.reader.wake();
    }

    /// Whether all that was in it is posted, or given up.
    pub(crate) fn is_drained(&self) -> bool {
        self.state.lock().reader.waiting() == Ok(0)
    }

    /// Tells the user that requests are taken now.
    pub(crate) fn connected(&self, reads: bool) {
        let state = self.state.lock();
        if !self.ended.load(Ordering::Acquire) {
            let connected = if reads { SOFTNDK_RING_CONNECTED } else { SOFTNDK_RING_CONNECTED_WITHOUT_READS };
            state.reader.memory().set_state(connected);
        }
    }

    /// The queue is gone, and no completion follows for what is in the ring. A program that puts more in finds the ring asleep, and its
    /// doorbell is refused.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        self.end_locked(&state);
        state.closed = true;
        state.reader.memory().asleep().store(1, Ordering::Relaxed);
    }

    /// The queue takes no more requests.
    pub(crate) fn end(&self) {
        self.end_locked(&self.state.lock());
    }

    fn end_locked(&self, state: &State<M, K>) {
        state.reader.memory().set_state(SOFTNDK_RING_ENDED);
        self.ended.store(true, Ordering::Release);
    }

    /// The user's index cannot be: the driver cannot tell which entries are requests, and uses the ring no longer.
    fn end_bad_index(&self, state: &mut State<M, K>) -> Next {
        // Once: it stays so.
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

/// A ring while its requests are posted, under its lock.
pub(crate) struct Serving<'a, M, K, P: Platform> {
    ring: &'a WorkRing<M, K, P>,
    state: SpinLockGuard<'a, State<M, K>, P>,
    mode: ServeMode,
    /// Requests of this run, at most [`BURST`].
    taken: u32,
    /// Polls of the empty ring in this run, at most [`POLLS`].
    polls: u32,
    /// The oldest request was not taken.
    stays: bool,
    /// The driver's copy of the oldest request.
    head: SOFTNDK_POST,
    data: [u64; MAX_DATA / size_of::<u64>()],
}

impl<M: Memory, K, P: Platform> Serving<'_, M, K, P> {
    /// What to do with the oldest request, if there is one and this run has not had enough.
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
                    // What was posted before comes first.
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
        // Counted before: it may be reported as soon as it is posted.
        self.state.outstanding = self.state.outstanding.wrapping_add(u32::from(self.is_signaled()));
        Step::Post(&self.head, self.data.as_bytes().get(..length).unwrap_or_default())
    }

    /// What came of the request to post.
    pub(crate) fn posted(&mut self, posted: Posted) {
        let signaled = u32::from(self.is_signaled());
        if posted == Posted::Taken {
            self.state.reader.take(1);
            // One that reports keeps its slot until then.
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

    /// Whether the request to give up has been reported; false: not now.
    pub(crate) fn completed_unposted(&mut self, reported: bool) {
        if reported {
            self.state.refused = None;
            self.state.reader.advance(1);
        } else {
            self.stays = true;
        }
    }

    /// Nothing more in this run, though there may be requests.
    pub(crate) fn end(&mut self, next: Next) -> Served {
        Served { next, broken: core::mem::take(&mut self.state.broken) }
    }

    /// How many requests wait, at least one; or what there is to do if none does.
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

    /// Whether the request completes even if it succeeds.
    fn is_signaled(&self) -> bool {
        self.head.Flags & NDK_OP_FLAG_SILENT_SUCCESS == 0
    }

    fn refuse(&mut self, status: NTSTATUS) {
        self.state.refused = Some((self.head, status));
        self.ring.end_broken(&mut self.state);
    }
}

impl<M: Memory, K> State<M, K> {
    /// Whether there will be a completion, which has the ring looked at: what comes meanwhile has to wait for what is posted anyway.
    /// `awaits`: see [`ServeMode::awaits`].
    fn awaits(&self, awaits: bool) -> bool {
        awaits && self.outstanding > 0
    }

    /// A copy of the head of the oldest request.
    fn head(&self) -> SOFTNDK_POST {
        let mut words = [0u64; HEAD_WORDS];
        self.reader.copy(0, 0, &mut words);
        zerocopy::transmute!(words)
    }

    /// Copies the SGEs or the inline data of the oldest request; the number of bytes. `None`: they do not fit into an entry.
    fn data(&self, head: &SOFTNDK_POST, words: &mut [u64]) -> Option<usize> {
        let length = data_length(head).filter(|&length| length <= self.data_bytes)?;
        self.reader.copy(0, HEAD_WORDS, words.get_mut(..length.div_ceil(size_of::<u64>()))?);
        Some(length)
    }
}

/// The flags of a request: those that more requests follow are deferred, whatever their user says, who cannot know.
fn deferred(head: &SOFTNDK_POST, more: bool) -> u32 {
    let flags = head.Flags & !NDK_OP_FLAG_DEFER;
    let is_receive = NDK_OPERATION_TYPE(head.Operation.cast_signed()) == NdkOperationTypeReceive;
    if more && !is_receive { flags | NDK_OP_FLAG_DEFER } else { flags }
}

/// Bytes behind the head of a request. `None`: no adapter takes so many.
pub(crate) fn data_length(head: &SOFTNDK_POST) -> Option<usize> {
    let sges = (head.SgeCount as usize).checked_mul(size_of::<SOFTNDK_SGE>())?;
    sges.checked_add(head.InlineLength as usize)
}
