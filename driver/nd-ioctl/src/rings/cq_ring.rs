//! The driver's end of a ring of completions, and which completions pended requests were notified of.
//!
//! With rings an operation takes a program 0.000 control codes, without them 1.03 to 2.9 (docs/performance.md). [`CqRing::replace`] changes the
//! size of a ring in use: a ring of the largest depth would lock 2 MiB for each CQ (docs/decisions.md).
//!
//! tests/random/loom-models compiles this file too, and explores its interleavings.

use nd_rings::{BadIndex, Memory, PushError, Writer};
use ndk_abi::nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_SOLICITED};
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::NTSTATUS;
use platform::{Platform, SpinLock};

const WORDS: usize = size_of::<SOFTNDK_COMPLETION>() / size_of::<u64>();

/// The ring of a CQ, in the memory `M`, which `K` keeps alive.
pub(crate) struct CqRing<M, K, P: Platform>(SpinLock<State<M, K>, P>);

struct State<M, K> {
    writer: Writer<M>,
    /// The completions ever written, into this ring and the rings that it replaced.
    pushed: u64,
    /// `pushed` at the last notification: a completion completes pended requests once.
    notified: u64,
    /// `pushed` after the last solicited or failed completion.
    solicited: u64,
    /// The unread completions in the ring that this one replaced, and `pushed` at the replacement.
    carried: (u32, u64),
    /// The status that the CQ failed with, if it has failed: the ring's `State` ([`SOFTNDK_RING`](ndk_abi::softndk_ring::SOFTNDK_RING)).
    ended: Option<u32>,
    /// Slots for completions that a thread is polling from the CQ.
    reserved: u32,
    /// Dropped last: it keeps the memory of the ring.
    _keep: K,
}

/// The room in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    For(u32),
    /// No room. `Asleep` is set: the program rings a doorbell when it has read completions.
    None,
    /// The program's index is impossible.
    BadIndex,
}

impl<M: Memory, K, P: Platform> CqRing<M, K, P> {
    pub(crate) fn new(memory: M, keep: K) -> Self {
        let state = State {
            writer: Writer::new(memory),
            pushed: 0,
            notified: 0,
            solicited: 0,
            carried: (0, 0),
            ended: None,
            reserved: 0,
            _keep: keep,
        };
        Self(SpinLock::<_, P>::new(state))
    }

    /// Reserves room for up to `most` completions, as completions cannot go back into the CQ once they are polled. [`CqRing::release`] ends
    /// the reservation.
    pub(crate) fn reserve(&self, most: u32) -> Room {
        let mut state = self.0.lock();
        let room = state.poll(most);
        state.reserved = if let Room::For(room) = room { room } else { 0 };
        room
    }

    /// Releases the slots that are still reserved.
    pub(crate) fn release(&self) {
        self.0.lock().reserved = 0;
    }

    /// Writes a completion into a reserved slot.
    pub(crate) fn push_reserved(&self, completion: SOFTNDK_COMPLETION, solicited: bool) {
        let mut state = self.0.lock();
        state.reserved = state.reserved.saturating_sub(1);
        let _there_is_room = state.push(completion, solicited);
    }

    /// Writes a completion into the ring. False: there is no room beside the reserved slots.
    pub(crate) fn push(&self, completion: SOFTNDK_COMPLETION, solicited: bool) -> bool {
        let mut state = self.0.lock();
        match state.writer.room() {
            Ok(room) if room <= state.reserved => false,
            _ => state.push(completion, solicited),
        }
    }

    /// Claims one pended request for the completions that no request was notified of and that the program has not read. `claim`, called
    /// with the lock held, takes a request that waits for that type of notification; the completions count as notified only if it returns
    /// one. `None` after the failure of the CQ: each request completes with the status of the failure.
    pub(crate) fn notify<T>(&self, claim: impl Fn(u32) -> Option<T>) -> Option<T> {
        let mut state = self.0.lock();
        let old = state.notified.max(state.pushed.saturating_sub(state.unread()));
        if state.pushed <= old || state.ended.is_some() {
            return None;
        }
        let solicited = || if state.solicited > old { claim(ND_CQ_NOTIFY_SOLICITED) } else { None };
        let told = claim(ND_CQ_NOTIFY_ANY).or_else(solicited)?;
        state.notified = state.pushed;
        Some(told)
    }

    /// The completions in this ring that the program has not read.
    pub(crate) fn unread(&self) -> u32 {
        self.0.lock().writer.used().unwrap_or(0)
    }

    /// Continues in `other`, an empty ring, and returns the old ring, whose rest the program reads first. Not called while slots are
    /// reserved.
    pub(crate) fn replace(&self, other: Self) -> Self {
        let mut state = self.0.lock();
        state.carried = (u32::try_from(state.unread()).unwrap_or(u32::MAX), state.pushed);
        let mut other = other.0.into_inner();
        if let Some(status) = state.ended {
            other.writer.memory().set_state(status);
        }
        core::mem::swap(&mut state.writer, &mut other.writer);
        core::mem::swap(&mut state._keep, &mut other._keep);
        Self(SpinLock::<_, P>::new(other))
    }

    /// A doorbell has rung: clears `Asleep`.
    pub(crate) fn wake(&self) {
        self.0.lock().writer.wake();
    }

    /// The CQ has failed with `status`: sets `State`.
    pub(crate) fn end(&self, status: NTSTATUS) {
        let mut state = self.0.lock();
        state.ended = Some(status.to_u32());
        state.writer.memory().set_state(status.to_u32());
    }
}

impl<M: Memory, K> State<M, K> {
    fn poll(&self, most: u32) -> Room {
        match self.writer.room() {
            Ok(0) => match self.writer.sleep() {
                Ok(true) => Room::None,
                // The program has freed at least one slot in between; the next call finds out how many.
                Ok(false) => Room::For(most.min(1)),
                Err(BadIndex) => Room::BadIndex,
            },
            Ok(room) => Room::For(room.min(most)),
            Err(BadIndex) => Room::BadIndex,
        }
    }

    fn push(&mut self, completion: SOFTNDK_COMPLETION, solicited: bool) -> bool {
        let words: [u64; WORDS] = zerocopy::transmute!(completion);
        match self.writer.push(&words, &[]) {
            Ok(()) => {}
            Err(PushError::Full) => return false,
            // The completion is dropped. The next `reserve` returns `Room::BadIndex`, if the index is still impossible.
            Err(PushError::BadIndex) => return true,
        }
        self.pushed = self.pushed.wrapping_add(1);
        if solicited {
            self.solicited = self.pushed;
        }
        true
    }

    /// The completions that the program has not read. Those in the replaced ring are included until the program reads one from this ring,
    /// as it reads the replaced ring first.
    fn unread(&self) -> u64 {
        let unread = u64::from(self.writer.used().unwrap_or(0));
        let (carried, pushed) = self.carried;
        if unread == self.pushed.wrapping_sub(pushed) { unread.saturating_add(carried.into()) } else { unread }
    }
}
