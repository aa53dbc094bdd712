//! The ring that completions are given by, and what was said of them.
//!
//! tests/random/loom-models compiles this file too, and explores it.

use nd_rings::{BadIndex, Memory, PushError, Writer};
use ndk_abi::nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_SOLICITED};
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::NTSTATUS;
use platform::{Platform, SpinLock};

const WORDS: usize = size_of::<SOFTNDK_COMPLETION>() / size_of::<u64>();

/// The ring of a CQ, in the memory `M`, which `K` keeps.
pub(crate) struct CqRing<M, K, P: Platform>(SpinLock<State<M, K>, P>);

struct State<M, K> {
    writer: Writer<M>,
    /// Completions ever put in.
    pushed: u64,
    /// `pushed` when somebody was told last: a completion is told of once.
    notified: u64,
    /// `pushed` when the last solicited one, or the last that failed, had been put in.
    solicited: u64,
    /// Unread completions in the ring before this one, and `pushed` when it was replaced.
    carried: (u32, u64),
    /// Why there will be no more, as [`SOFTNDK_RING`](ndk_abi::softndk_ring::SOFTNDK_RING) has it.
    ended: Option<u32>,
    /// Slots that completions being taken from the CQ will fill.
    reserved: u32,
    /// After the ring, which is in it.
    _keep: K,
}

/// How much there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    For(u32),
    /// None; its user rings the doorbell.
    None,
    /// Its user's index cannot be.
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

    /// Reserves room for up to `most` completions, which cannot be put back once they are taken: see [`CqRing::release`].
    pub(crate) fn reserve(&self, most: u32) -> Room {
        let mut state = self.0.lock();
        let room = state.poll(most);
        state.reserved = if let Room::For(room) = room { room } else { 0 };
        room
    }

    /// Gives up what is reserved still.
    pub(crate) fn release(&self) {
        self.0.lock().reserved = 0;
    }

    /// Puts a completion in, for which there is room.
    pub(crate) fn push_reserved(&self, completion: SOFTNDK_COMPLETION, solicited: bool) {
        let mut state = self.0.lock();
        state.reserved = state.reserved.saturating_sub(1);
        let _there_is_room = state.push(completion, solicited);
    }

    /// Puts a completion in; false: there is no room.
    pub(crate) fn push(&self, completion: SOFTNDK_COMPLETION, solicited: bool) -> bool {
        let mut state = self.0.lock();
        match state.writer.room() {
            Ok(room) if room <= state.reserved => false,
            _ => state.push(completion, solicited),
        }
    }

    /// Tells one pended request of the completions that no request was told of and that the program has not taken. After the end it
    /// tells none: each request gets the status of the end. `claim`, called with the lock held, takes a request that waits for that type
    /// of notification; the completions count as told of only if it finds one.
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

    /// Completions in it that the user has not taken.
    pub(crate) fn unread(&self) -> u32 {
        self.0.lock().writer.used().unwrap_or(0)
    }

    /// Goes on in another ring, an empty one; the user reads what is left in the old one first, which is given back. Not while
    /// anything is reserved.
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

    /// The doorbell has rung.
    pub(crate) fn wake(&self) {
        self.0.lock().writer.wake();
    }

    /// Tells the user that there will be no more, and why.
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
                // There is some now; the next look finds it.
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
            // Nobody can read it; that the queue has ended is found by `reserve`.
            Err(PushError::BadIndex) => return true,
        }
        self.pushed = self.pushed.wrapping_add(1);
        if solicited {
            self.solicited = self.pushed;
        }
        true
    }

    /// Completions that the user has not taken. Those in the ring before this one are among them until something of this one is
    /// taken, as they come first.
    fn unread(&self) -> u64 {
        let unread = u64::from(self.writer.used().unwrap_or(0));
        let (carried, pushed) = self.carried;
        if unread == self.pushed.wrapping_sub(pushed) { unread.saturating_add(carried.into()) } else { unread }
    }
}
