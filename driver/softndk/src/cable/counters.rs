//! Counts of the cable's frames and datagrams since the adapter was started, and its last error.

use core::sync::atomic::{AtomicU64, Ordering};

use ndk_abi::status::NTSTATUS;
use platform::{OutOfMemory, Slice, SpinLock};
use vxlan::{drops::Drops, vtep::Dropped};

use super::seconds;
use crate::platform::Windows;

/// A count to which several threads add.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a frame or a datagram goes no further.
#[derive(Clone, Copy)]
pub(super) enum Lost {
    /// The tunnel end refuses it.
    Invalid(Dropped),
    /// No list or slot is free.
    NoRoom,
    /// Its data could not be mapped.
    NotMapped,
    /// The packet filter does not ask for it.
    NotWanted,
    /// The adapter is paused.
    Paused,
    /// There is no socket, and no other end of a patch cable.
    LinkDown,
}

/// What one direction has lost, by reason.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) invalid: Drops,
    pub(super) no_room: Count,
    pub(super) not_mapped: Count,
    pub(super) not_wanted: Count,
    pub(super) paused: Count,
    pub(super) link_down: Count,
    /// Winsock Kernel did not send it.
    pub(super) not_sent: Count,
}

impl Losses {
    pub(super) fn count(&self, why: Lost) {
        self.add(why, 1);
    }

    /// Counts frames that are lost for one reason.
    pub(super) fn add(&self, why: Lost, frames: u64) {
        let count = match why {
            Lost::Invalid(why) => return self.invalid.count(why),
            Lost::NoRoom => &self.no_room,
            Lost::NotMapped => &self.not_mapped,
            Lost::NotWanted => &self.not_wanted,
            Lost::Paused => &self.paused,
            Lost::LinkDown => &self.link_down,
        };
        count.add(frames);
    }
}

/// Datagrams to and from a peer.
#[derive(Default)]
pub(super) struct PeerCounts {
    pub(super) sent: Count,
    pub(super) received: Count,
}

/// An error, and when it was.
#[derive(Clone, Copy)]
pub(super) struct LastError {
    /// SOFTNDK_CABLE_ERROR_*.
    pub(super) kind: u32,
    pub(super) status: NTSTATUS,
    /// By [`seconds`].
    pub(super) when: u32,
}

/// Received segments that became one (OID_TCP_RSC_STATISTICS).
#[derive(Default)]
pub(super) struct Coalesced {
    pub(super) packets: Count,
    /// Bytes of payload.
    pub(super) octets: Count,
    /// Units.
    pub(super) events: Count,
    /// TCP segments that were indicated by themselves, or began a unit, for another reason than the length of a packet.
    pub(super) aborts: Count,
}

pub(super) struct Counters {
    /// By the peers' places in the list.
    pub(super) peers: Slice<PeerCounts, Windows>,
    /// Frames that were queued for a peer.
    pub(super) frames_out: Count,
    /// Frames that NDIS got, each segment of a unit counted.
    pub(super) frames_in: Count,
    pub(super) lost_out: Losses,
    pub(super) lost_in: Losses,
    pub(super) coalesced: Coalesced,
    error: SpinLock<Option<LastError>, Windows>,
}

impl Counters {
    pub(super) fn new(peers: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            peers: Slice::from_fn(peers, |_| PeerCounts::default())?,
            frames_out: Count::default(),
            frames_in: Count::default(),
            lost_out: Losses::default(),
            lost_in: Losses::default(),
            coalesced: Coalesced::default(),
            error: SpinLock::<_, Windows>::new(None),
        })
    }

    /// Remembers an error. `kind`: SOFTNDK_CABLE_ERROR_*.
    pub(super) fn failed(&self, kind: u32, status: NTSTATUS) {
        *self.error.lock() = Some(LastError { kind, status, when: seconds() });
    }

    pub(super) fn last_error(&self) -> Option<LastError> {
        *self.error.lock()
    }
}
