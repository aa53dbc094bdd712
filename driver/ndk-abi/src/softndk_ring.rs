//! Rings: queues in a program's memory, which the driver locks, so that posts and polls need no control code.
//! `driver/nd-rings` implements both ends.
//!
//! A ring is a [`SOFTNDK_RING`] followed by `Capacity` entries of `EntrySize` bytes, and starts on a multiple of 64
//! bytes. A create or modify request passes it as an [`ND_MAP_MEMORY`](crate::nd_ioctl::ND_MAP_MEMORY) with
//! NdModifyAccess:
//!
//! | request | mappings |
//! |---|---|
//! | CQ_CREATE, CQ_MODIFY | 1: completions |
//! | QP_CREATE | 2: initiator requests, receives |
//! | QP_CREATE_WITH_SRQ | 1: initiator requests |
//! | SRQ_CREATE, SRQ_MODIFY | 1: receives |
//!
//! The ring of an SRQ_MODIFY continues the counts of the ring that it replaces. `Information` of its mapping's result
//! is the number of requests that the driver has not read from the old ring: the newest requests. The program's side
//! copies these requests to the new ring.
//!
//! An object that was created without a mapping has no ring: the program uses
//! [`IOCTL_SOFTNDK_POST`](crate::softndk_ioctl::IOCTL_SOFTNDK_POST),
//! [`IOCTL_SOFTNDK_SRQ_POST`](crate::softndk_ioctl::IOCTL_SOFTNDK_SRQ_POST) and
//! [`IOCTL_SOFTNDK_POLL`](crate::softndk_ioctl::IOCTL_SOFTNDK_POLL) instead.
//!
//! `Tail` counts the entries ever written, `Head` the entries whose slots the reader has given back, both modulo 2^32;
//! entry n lies in slot n % `Capacity`. The writer of a ring fills an entry, then stores `Tail` with release ordering;
//! the reader copies an entry, then stores `Head` with release ordering. The program's side writes requests, the driver
//! writes completions. The program's side sets the fields before `Tail` before it passes the ring; the driver reads
//! these fields once, when it gets the ring.
//!
//! In a ring of requests the driver does not advance `Head` when it reads a request, but when a request is reported,
//! which may have come by control code;
//! for a request that is silent on success, when the queue pair has accepted the request. So the depth of a queue
//! limits `Tail` - `Head`.
//!
//! Before the driver waits for a doorbell of a ring, it sets `Asleep`, then reads the other side's index again: `Tail`
//! of a ring of requests, `Head` of a full ring of completions. After the program's side has stored that index it reads
//! `Asleep`, with a sequentially consistent fence in between, and, if `Asleep` is not 0, sends
//! [`IOCTL_SOFTNDK_DOORBELL`](crate::softndk_ioctl::IOCTL_SOFTNDK_DOORBELL).
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

c_consts! { SOFTNDK_RING_NUMBERS: u32;
    /// [`SOFTNDK_RING::Version`].
    SOFTNDK_RING_VERSION = 1;
    /// [`SOFTNDK_RING::Kind`]: the driver writes [`SOFTNDK_COMPLETION`]s.
    SOFTNDK_RING_COMPLETIONS = 1;
    /// [`SOFTNDK_RING::Kind`]: the program's side writes initiator requests,
    /// [`SOFTNDK_POST`](crate::softndk_ioctl::SOFTNDK_POST) with its SGEs or inline data.
    SOFTNDK_RING_INITIATOR = 2;
    /// [`SOFTNDK_RING::Kind`]: the program's side writes receives, as
    /// [`SOFTNDK_POST`](crate::softndk_ioctl::SOFTNDK_POST) with SGEs.
    SOFTNDK_RING_RECEIVE = 3;
    /// [`SOFTNDK_RING::EntrySize`] is a multiple of this number.
    SOFTNDK_RING_ALIGNMENT = 0x20;
    /// [`SOFTNDK_RING::State`] of a ring of initiator requests: the queue pair is connected, and the driver posts the
    /// requests.
    SOFTNDK_RING_CONNECTED = 1;
    /// [`SOFTNDK_RING::State`] of a ring of requests: the driver posts no more requests of the ring and cancels the
    /// requests in it, because the connection has ended or the program's side broke the rules. Requests of an SRQ are
    /// cancelled without a completion.
    SOFTNDK_RING_ENDED = 2;
    /// [`SOFTNDK_RING::State`] of a ring of initiator requests: as SOFTNDK_RING_CONNECTED, but reads are refused.
    SOFTNDK_RING_CONNECTED_WITHOUT_READS = 3;
}

c_structs! { SOFTNDK_RING_LAYOUTS:
    /// The head of a ring. Fields that the program's side writes and fields that the driver writes are on different
    /// cache lines.
    ///
    /// `Capacity` is a power of two, and at least the depth of the create request. `Context` of a queue pair's ring is
    /// the `QueuePairContext` of its completions. The driver writes `State`: in a ring of initiator requests
    /// `SOFTNDK_RING_CONNECTED`, `SOFTNDK_RING_CONNECTED_WITHOUT_READS`, `SOFTNDK_RING_ENDED`, or 0 before the
    /// connection; in a ring of receives `SOFTNDK_RING_ENDED`, or 0 before that; in a ring of completions the NTSTATUS
    /// that the CQ failed with, STATUS_SUCCESS while it has not failed.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_RING, size 0x100 {
        0x00 Version: u32,
        0x04 EntrySize: u32,
        0x08 Capacity: u32,
        0x0c Kind: u32,
        0x10 Context: u64,
        0x18 Padding0: [u8; 0x28],
        0x40 Tail: u32,
        0x44 Padding1: [u8; 0x3c],
        0x80 Head: u32,
        0x84 Padding2: [u8; 0x3c],
        0xc0 Asleep: u32,
        0xc4 State: u32,
        0xc8 Padding3: [u8; 0x38],
    }

    /// A completion. `Type` is an [`NDK_OPERATION_TYPE`](crate::ndkpi::NDK_OPERATION_TYPE), `Output` the token of a
    /// receive-and-invalidate.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_COMPLETION, size 0x20 {
        0x00 Status: crate::status::NTSTATUS,
        0x04 BytesTransferred: u32,
        0x08 QueuePairContext: u64,
        0x10 RequestContext: u64,
        0x18 Type: u32,
        0x1c Output: u32,
    }
}

/// The size of an entry of a ring of requests for at most `sges` SGEs or `inline_bytes` bytes of inline data. `None`:
/// too large.
#[must_use]
pub const fn request_entry_size(sges: u32, inline_bytes: u32) -> Option<u32> {
    let Some(sges) = sges.checked_mul(size_of::<crate::softndk_ioctl::SOFTNDK_SGE>() as u32) else { return None };
    let data = if sges > inline_bytes { sges } else { inline_bytes };
    match data.checked_add(size_of::<crate::softndk_ioctl::SOFTNDK_POST>() as u32) {
        Some(size) => size.checked_next_multiple_of(SOFTNDK_RING_ALIGNMENT),
        None => None,
    }
}
