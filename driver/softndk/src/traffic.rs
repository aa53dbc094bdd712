//! The counts of an adapter's Ethernet frames, and whether the adapter is paused.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Set while the adapter is paused; the bits below count the sends in progress.
const PAUSED: u32 = 1 << 31;

/// A number of frames, and the bytes in them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
}

/// The frames that were sent, by destination, and the frames that could not be sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) directed: Count,
    pub(crate) multicast: Count,
    pub(crate) broadcast: Count,
    /// Frames that were too short or too long.
    pub(crate) errors: u64,
    /// Frames whose data could not be mapped.
    pub(crate) discards: u64,
}

impl Sent {
    /// All frames that were sent.
    pub(crate) fn frames(&self) -> u64 {
        let Self { directed, multicast, broadcast, .. } = self;
        directed.frames.wrapping_add(multicast.frames).wrapping_add(broadcast.frames)
    }
}

/// A [`Count`] to which several threads add.
struct Counter {
    frames: AtomicU64,
    octets: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { frames: AtomicU64::new(0), octets: AtomicU64::new(0) }
    }

    fn read(&self) -> Count {
        Count { frames: self.frames.load(Ordering::Relaxed), octets: self.octets.load(Ordering::Relaxed) }
    }

    fn add(&self, more: Count) {
        self.frames.fetch_add(more.frames, Ordering::Relaxed);
        self.octets.fetch_add(more.octets, Ordering::Relaxed);
    }
}

/// Whether the adapter is paused, and the counts of its frames.
pub(crate) struct Traffic {
    state: AtomicU32,
    directed: Counter,
    multicast: Counter,
    broadcast: Counter,
    errors: AtomicU64,
    discards: AtomicU64,
}

impl Traffic {
    /// No frames; an adapter starts paused.
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(PAUSED),
            directed: Counter::new(),
            multicast: Counter::new(),
            broadcast: Counter::new(),
            errors: AtomicU64::new(0),
            discards: AtomicU64::new(0),
        }
    }

    /// The counts so far.
    pub(crate) fn sent(&self) -> Sent {
        Sent {
            directed: self.directed.read(),
            multicast: self.multicast.read(),
            broadcast: self.broadcast.read(),
            errors: self.errors.load(Ordering::Relaxed),
            discards: self.discards.load(Ordering::Relaxed),
        }
    }

    /// Begins a send. `false`: the adapter is paused.
    pub(crate) fn begin_send(&self) -> bool {
        let enter = |state: u32| if state & PAUSED == 0 { state.checked_add(1) } else { None };
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Ends a send. `true`: it was the last one, and a pause waits for it.
    pub(crate) fn end_send(&self) -> bool {
        self.state.fetch_sub(1, Ordering::Release) == PAUSED + 1
    }

    /// Pauses: no more sends begin. `true`: none is in progress.
    pub(crate) fn pause(&self) -> bool {
        self.state.fetch_or(PAUSED, Ordering::AcqRel) == 0
    }

    pub(crate) fn restart(&self) {
        self.state.fetch_and(!PAUSED, Ordering::Release);
    }

    pub(crate) fn count(&self, more: &Sent) {
        self.directed.add(more.directed);
        self.multicast.add(more.multicast);
        self.broadcast.add(more.broadcast);
        self.errors.fetch_add(more.errors, Ordering::Relaxed);
        self.discards.fetch_add(more.discards, Ordering::Relaxed);
    }
}
