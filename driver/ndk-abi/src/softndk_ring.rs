//! Rings: queues in memory of the user, which the driver locks, so that posts and polls need no control code.
//!
//! A ring is a [`SOFTNDK_RING`] and, behind it, `Capacity` entries of `EntrySize` bytes, on a multiple of 64 bytes. It is passed
//! as an [`ND_MAP_MEMORY`](crate::nd_ioctl::ND_MAP_MEMORY) with NdModifyAccess of the create or modify request:
//!
//! | request | mappings |
//! |---|---|
//! | CQ_CREATE, CQ_MODIFY | 1: completions |
//! | QP_CREATE | 2: initiator requests, receives |
//! | QP_CREATE_WITH_SRQ | 1: initiator requests |
//! | SRQ_CREATE, SRQ_MODIFY | 1: receives |
//!
//! The ring of an SRQ_MODIFY starts at the numbers of the one before; `Information` of its mapping's result says how many of the
//! newest requests of that the driver has not read: the user moves them.
//!
//! Without a mapping an object is used by [`IOCTL_SOFTNDK_POST`](crate::softndk_ioctl::IOCTL_SOFTNDK_POST),
//! [`IOCTL_SOFTNDK_SRQ_POST`](crate::softndk_ioctl::IOCTL_SOFTNDK_SRQ_POST) and
//! [`IOCTL_SOFTNDK_POLL`](crate::softndk_ioctl::IOCTL_SOFTNDK_POLL) instead.
//!
//! `Tail` counts the entries ever written, `Head` those ever read, both modulo 2^32; entry n lies in slot n % `Capacity`. Whoever
//! writes entries fills one, then stores `Tail` with release ordering; whoever reads them copies one, then stores `Head` so.
//! The user side writes entries of requests, the driver those of completions. All before `Tail` is written by the user before
//! the ring is passed, and read once by the driver then.
//!
//! The driver moves `Head` of a ring of requests not when it has read one, but when the request has been reported, or will not
//! be unless it fails: `Tail` - `Head` is what the depth of a queue limits.
//!
//! When the driver has nothing to do for a ring it sets `Asleep`, and looks again: at `Tail` of a ring of requests, at `Head`
//! of a full one of completions. After storing that, the user side reads `Asleep`, with a sequentially consistent fence in
//! between, and if it is not 0 sends [`IOCTL_SOFTNDK_DOORBELL`](crate::softndk_ioctl::IOCTL_SOFTNDK_DOORBELL).
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

c_consts! { SOFTNDK_RING_NUMBERS: u32;
    /// [`SOFTNDK_RING::Version`].
    SOFTNDK_RING_VERSION = 1;
    /// [`SOFTNDK_RING::Kind`]: the driver writes [`SOFTNDK_COMPLETION`]s.
    SOFTNDK_RING_COMPLETIONS = 1;
    /// [`SOFTNDK_RING::Kind`]: the user writes initiator requests, [`SOFTNDK_POST`](crate::softndk_ioctl::SOFTNDK_POST) with its
    /// SGEs or inline data.
    SOFTNDK_RING_INITIATOR = 2;
    /// [`SOFTNDK_RING::Kind`]: the user writes receives, in the same form.
    SOFTNDK_RING_RECEIVE = 3;
    /// [`SOFTNDK_RING::EntrySize`] is a multiple of this.
    SOFTNDK_RING_ALIGNMENT = 0x20;
    /// [`SOFTNDK_RING::State`] of a queue pair: initiator requests are taken.
    SOFTNDK_RING_CONNECTED = 1;
    /// [`SOFTNDK_RING::State`] of a queue pair: it takes no more, as its connection has ended, or its user side broke the rules.
    SOFTNDK_RING_ENDED = 2;
    /// [`SOFTNDK_RING::State`] of a queue pair: initiator requests other than reads are taken.
    SOFTNDK_RING_CONNECTED_WITHOUT_READS = 3;
}

c_structs! { SOFTNDK_RING_LAYOUTS:
    /// The head of a ring. What different sides write is on cache lines of its own.
    ///
    /// `Capacity` is a power of two, and not less than the depth asked for. `Context`, of the rings of a queue pair, is what its
    /// completions name it by. `State` is the driver's: of a queue pair's rings `SOFTNDK_RING_CONNECTED`,
    /// `SOFTNDK_RING_CONNECTED_WITHOUT_READS`, `SOFTNDK_RING_ENDED`, or 0 before; of completions the NTSTATUS that their queue ended with, STATUS_SUCCESS before.
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

/// The size of an entry of requests with at most so many SGEs, or bytes of inline data. `None`: too large.
#[must_use]
pub const fn request_entry_size(sges: u32, inline_bytes: u32) -> Option<u32> {
    let Some(sges) = sges.checked_mul(size_of::<crate::softndk_ioctl::SOFTNDK_SGE>() as u32) else { return None };
    let data = if sges > inline_bytes { sges } else { inline_bytes };
    match data.checked_add(size_of::<crate::softndk_ioctl::SOFTNDK_POST>() as u32) {
        Some(size) => size.checked_next_multiple_of(SOFTNDK_RING_ALIGNMENT),
        None => None,
    }
}
