//! The adapter's Ethernet frames: whether the adapter is paused, the frames that are with it or with NDIS, and the counts.
#![expect(unsafe_code, reason = "a call into NDIS")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ndk_abi::ndis::NDIS_HANDLE;

use crate::ndis::{self, Handle};

/// Set while the adapter is paused; the bits below count the sends in progress, the lists that wait for slots of the cable, and the received frames
/// that NDIS has not returned.
const PAUSED: u32 = 1 << 31;

/// To whom a frame is addressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directed,
    Multicast,
    Broadcast,
}

impl Kind {
    pub(crate) fn of(destination: [u8; 6]) -> Self {
        match destination {
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => Self::Broadcast,
            [first, ..] if first & 1 != 0 => Self::Multicast,
            _ => Self::Directed,
        }
    }
}

/// A number of frames, and the bytes in them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
}

/// The frames of one direction, by destination, and the frames that went no further.
#[derive(Clone, Copy, Default)]
pub(crate) struct Frames {
    pub(crate) directed: Count,
    pub(crate) multicast: Count,
    pub(crate) broadcast: Count,
    /// Frames that were too short, too long or malformed.
    pub(crate) errors: u64,
    /// Frames for which there was no buffer, or no network.
    pub(crate) discards: u64,
}

impl Frames {
    /// All frames that were sent or received.
    pub(crate) fn frames(&self) -> u64 {
        let Self { directed, multicast, broadcast, .. } = self;
        directed.frames.wrapping_add(multicast.frames).wrapping_add(broadcast.frames)
    }

    /// The bytes of all frames that were sent or received.
    pub(crate) fn octets(&self) -> u64 {
        let Self { directed, multicast, broadcast, .. } = self;
        directed.octets.wrapping_add(multicast.octets).wrapping_add(broadcast.octets)
    }

    /// Counts frames of `octets` bytes in all.
    pub(crate) fn count(&mut self, kind: Kind, frames: u64, octets: u64) {
        let count = match kind {
            Kind::Directed => &mut self.directed,
            Kind::Multicast => &mut self.multicast,
            Kind::Broadcast => &mut self.broadcast,
        };
        count.frames = count.frames.wrapping_add(frames);
        count.octets = count.octets.wrapping_add(octets);
    }
}

/// A [`Count`] to which several threads add.
#[derive(Default)]
struct Counter {
    frames: AtomicU64,
    octets: AtomicU64,
}

impl Counter {
    fn read(&self) -> Count {
        Count { frames: self.frames.load(Ordering::Relaxed), octets: self.octets.load(Ordering::Relaxed) }
    }

    fn add(&self, more: Count) {
        self.frames.fetch_add(more.frames, Ordering::Relaxed);
        self.octets.fetch_add(more.octets, Ordering::Relaxed);
    }
}

/// [`Frames`] to which several threads add.
#[derive(Default)]
pub(crate) struct Counters {
    directed: Counter,
    multicast: Counter,
    broadcast: Counter,
    errors: AtomicU64,
    discards: AtomicU64,
}

impl Counters {
    /// The counts so far.
    pub(crate) fn read(&self) -> Frames {
        Frames {
            directed: self.directed.read(),
            multicast: self.multicast.read(),
            broadcast: self.broadcast.read(),
            errors: self.errors.load(Ordering::Relaxed),
            discards: self.discards.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn add(&self, more: &Frames) {
        self.directed.add(more.directed);
        self.multicast.add(more.multicast);
        self.broadcast.add(more.broadcast);
        self.errors.fetch_add(more.errors, Ordering::Relaxed);
        self.discards.fetch_add(more.discards, Ordering::Relaxed);
    }
}

/// Whether the adapter is paused, and the counts of its frames.
pub(crate) struct Traffic {
    miniport: Handle,
    state: AtomicU32,
    pub(crate) sent: Counters,
    pub(crate) received: Counters,
    /// OID_GEN_CURRENT_PACKET_FILTER.
    pub(crate) packet_filter: AtomicU32,
}

impl Traffic {
    /// No frames; an adapter starts paused.
    pub(crate) fn new(miniport: NDIS_HANDLE) -> Self {
        Self {
            miniport: Handle(miniport),
            state: AtomicU32::new(PAUSED),
            sent: Counters::default(),
            received: Counters::default(),
            packet_filter: AtomicU32::new(0),
        }
    }

    /// Begins a send, or the reception of `frames` frames. `false`: the adapter is paused.
    pub(crate) fn begin(&self, frames: u32) -> bool {
        let enter = |state: u32| if state & PAUSED == 0 { state.checked_add(frames) } else { None };
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Begins something while what `begin` began goes on: a pause that has come since waits for both.
    pub(crate) fn hold(&self) {
        self.state.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends what `begin` began, in part or whole. The last end completes a pause that waits. IRQL <= DISPATCH.
    pub(crate) fn end(&self, frames: u32) {
        if frames != 0 && self.state.fetch_sub(frames, Ordering::AcqRel) == PAUSED.wrapping_add(frames) {
            // SAFETY: MiniportPause returns STATUS_PENDING, and only one thread sees the count reach 0 after that.
            unsafe { ndis::NdisMPauseComplete(self.miniport.0) };
        }
    }

    /// Pauses: `begin` refuses from now on. `true`: nothing is in progress.
    pub(crate) fn pause(&self) -> bool {
        self.state.fetch_or(PAUSED, Ordering::AcqRel) == 0
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PAUSED != 0
    }

    pub(crate) fn restart(&self) {
        self.state.fetch_and(!PAUSED, Ordering::Release);
    }
}
