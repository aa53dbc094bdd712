//! Requests that a user puts into a ring: how they are taken out and posted.
//!
//! A ring of requests is served by the deferred call of its queue. It runs again while requests come. When they do not, it waits for a
//! completion of what was posted, after which it polls again; if none is to come, it polls for some more runs
//! ([`PollBackoff`]), and then goes to sleep until a doorbell.
//!
//! tests/random/loom-models compiles this file once more, and explores it.

use nd_rings::{Memory, Reader, Wild};
use ndk_abi::ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NdkOperationTypeReceive};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE};
use ndk_abi::softndk_ring::{SOFTNDK_RING_CONNECTED, SOFTNDK_RING_CONNECTED_WITHOUT_READS, SOFTNDK_RING_ENDED};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES,
    STATUS_SUCCESS,
};
use platform::{Platform, SpinLock};
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
    /// What is posted will be reported, and has the ring looked at again. Not so for a queue that tells how much is in it, or whose
    /// CQ has ended.
    pub(crate) awaits: bool,
    /// An empty ring is polled for a while ([`PollBackoff`]).
    pub(crate) polls_on: bool,
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
        other.reader.owe(other.outstanding);
        if self.ended.load(Ordering::Acquire) {
            other.reader.memory().set_state(SOFTNDK_RING_ENDED);
        }
        core::mem::swap(&mut *state, &mut other);
        drop(state);
        // Unlocked without the lock.
        drop(other);
        left
    }

    /// Whether there is room for what it has, posted or not, in one for `depth` requests. It stays so if `post` refuses all from
    /// before this on, with STATUS_NO_MORE_ENTRIES, and its user puts none in.
    pub(crate) fn fits(&self, depth: u32) -> bool {
        let state = self.state.lock();
        state.outstanding.saturating_add(state.reader.waiting().unwrap_or(0)) <= depth
    }

    /// Takes requests out, as far as there are any and not too many, and gives each to `post`. When the queue has ended each is
    /// given to `give_up` instead, with the status to report; false: not now.
    pub(crate) fn serve(
        &self,
        mode: ServeMode,
        mut post: impl FnMut(&SOFTNDK_POST, &[u8]) -> NTSTATUS,
        give_up: impl Fn(&SOFTNDK_POST, NTSTATUS) -> bool,
    ) -> Served {
        let mut state = self.state.lock();
        let next = self.serve_locked(&mut state, mode, &mut post, &give_up);
        Served { next, broken: core::mem::take(&mut state.broken) }
    }

    fn serve_locked(
        &self,
        state: &mut State<M, K>,
        mode: ServeMode,
        post: &mut impl FnMut(&SOFTNDK_POST, &[u8]) -> NTSTATUS,
        give_up: &impl Fn(&SOFTNDK_POST, NTSTATUS) -> bool,
    ) -> Next {
        if state.closed {
            return Next::Sleep;
        }
        let mut polls = 0u32;
        for taken in 0..BURST {
            let waiting = loop {
                match state.reader.waiting() {
                    Ok(0) if !mode.polls_on || state.awaits(mode.awaits) => return Next::Sleep,
                    Ok(0) if taken > 0 => return Next::Run,
                    Ok(0) if state.backoff.is_spent() => return Next::Sleep,
                    Ok(0) if polls < POLLS => polls = polls.wrapping_add(1),
                    Ok(0) => return if state.backoff.idle() { Next::Run } else { Next::Sleep },
                    Ok(waiting) => break waiting,
                    Err(Wild) => return self.end_wild(state),
                }
                core::hint::spin_loop();
            };
            state.backoff.busy();
            let served = if self.ended.load(Ordering::Acquire) {
                if state.awaits(mode.awaits) {
                    // What was posted before comes first.
                    return Next::Sleep;
                }
                Self::give_up_oldest(state, give_up)
            } else {
                let more = waiting > 1 && taken.wrapping_add(1) < BURST;
                self.post_oldest(state, more, post)
            };
            if !served {
                return Next::Wait;
            }
        }
        Next::Run
    }

    /// Posts the oldest request, after which there may be `more`; false: it stays.
    fn post_oldest(
        &self,
        state: &mut State<M, K>,
        more: bool,
        post: &mut impl FnMut(&SOFTNDK_POST, &[u8]) -> NTSTATUS,
    ) -> bool {
        let head = state.head();
        let mut data = [0u64; MAX_DATA / size_of::<u64>()];
        let status = match state.data(&head, &mut data) {
            Some(data) => {
                let head = if planted::is(Bug::HeadReadTwice) { state.head() } else { head };
                // Counted before: it may be reported as soon as it is posted.
                let reports = head.Flags & NDK_OP_FLAG_SILENT_SUCCESS == 0;
                state.outstanding = state.outstanding.wrapping_add(u32::from(reports));
                let head = SOFTNDK_POST { Flags: deferred(&head, more), ..head };
                let status = post(&head, data);
                if status != STATUS_SUCCESS && reports {
                    state.outstanding = state.outstanding.saturating_sub(1);
                }
                if status == STATUS_SUCCESS {
                    state.reader.take(1);
                    state.reader.give_back(u32::from(!reports));
                }
                status
            }
            None => STATUS_INVALID_PARAMETER,
        };
        match status {
            STATUS_SUCCESS => {}
            STATUS_NO_MORE_ENTRIES => return false,
            STATUS_CONNECTION_INVALID => {
                state.refused = Some((head, STATUS_CANCELLED));
                self.end_locked(state);
            }
            refused => {
                state.refused = Some((head, refused));
                self.end_broken(state);
            }
        }
        true
    }

    /// Gives the oldest request up; false: it stays.
    fn give_up_oldest(state: &mut State<M, K>, give_up: &impl Fn(&SOFTNDK_POST, NTSTATUS) -> bool) -> bool {
        let (head, status) = state.refused.take().unwrap_or_else(|| (state.head(), STATUS_CANCELLED));
        let given_up = give_up(&head, status);
        if given_up {
            state.reader.advance(1);
        } else {
            state.refused = Some((head, status));
        }
        given_up
    }

    /// Posts a request that did not come by the ring: it is reported among those that did. `poll` has the ring polled.
    pub(crate) fn post_beside<R, E>(
        &self,
        reports: bool,
        post: impl FnOnce() -> Result<R, E>,
        poll: impl FnOnce(),
    ) -> Result<R, E> {
        let count = |state: &mut State<M, K>| state.outstanding = state.outstanding.wrapping_add(u32::from(reports));
        // Before: it may be reported as soon as it is posted.
        count(&mut self.state.lock());
        let posted = post();
        if posted.is_err() && reports {
            self.reported();
            // Who has seen it counted awaits its completion.
            poll();
        }
        posted
    }

    /// A request that was posted, and not to succeed silently, is about to be reported: there is room for another one.
    pub(crate) fn reports(&self) {
        let mut state = self.state.lock();
        // One that did not come by the ring has no slot.
        let slots = state.reader.kept().min(1);
        state.reader.give_back(slots);
    }

    /// It has been reported: what is given up may follow it.
    pub(crate) fn reported(&self) {
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
            Err(Wild) => self.end_wild(&mut state) == Next::Sleep,
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

    /// The queue is gone, and nobody waits for what is in the ring. Who puts more in finds it asleep, and the doorbell refused.
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

    /// The user's index cannot be: the ring is of no more use, and nobody knows what is in it.
    fn end_wild(&self, state: &mut State<M, K>) -> Next {
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

    /// A copy of the SGEs or the inline data of the oldest request; `None`: they do not fit into an entry.
    fn data<'a>(&self, head: &SOFTNDK_POST, words: &'a mut [u64]) -> Option<&'a [u8]> {
        let length = data_length(head).filter(|&length| length <= self.data_bytes)?;
        let words = words.get_mut(..length.div_ceil(size_of::<u64>()))?;
        self.reader.copy(0, HEAD_WORDS, words);
        words.as_bytes().get(..length)
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
