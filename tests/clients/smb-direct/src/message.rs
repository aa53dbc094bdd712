//! Requests for the file and their answers: the contents of SMB2 READ and WRITE with RDMA channels (MS-SMB2 2.2.19 to 2.2.22), and an echo.
//! The layouts are this crate's own, as both ends are in it.

use ndk_abi::status::{NTSTATUS, STATUS_INVALID_NETWORK_RESPONSE};
use platform::{Platform, Slice};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::no_memory;

/// The answer repeats the payload.
pub(crate) const ECHO: u32 = 1;
/// The server reads the client's memory into the file.
pub(crate) const WRITE: u32 = 2;
/// The server writes part of the file into the client's memory.
pub(crate) const READ: u32 = 3;

/// SMB2_CHANNEL_RDMA_V1: the client invalidates its tokens.
pub(crate) const CHANNEL_V1: u32 = 1;
/// SMB2_CHANNEL_RDMA_V1_INVALIDATE: the answer invalidates the first token.
pub(crate) const CHANNEL_V1_INVALIDATE: u32 = 2;

/// The most descriptors of one request.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// A request. Buffer descriptors follow, or the payload of an echo.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Request {
    pub(crate) kind: U32,
    pub(crate) channel: U32,
    pub(crate) id: U64,
    pub(crate) offset: U64,
    pub(crate) length: U64,
    /// The checksum of the data of a write.
    pub(crate) checksum: U64,
}

/// An answer. The payload of an echo follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Answer {
    pub(crate) kind: U32,
    pub(crate) status: U32,
    pub(crate) id: U64,
    /// The checksum of the data in the file.
    pub(crate) checksum: U64,
}

/// Builds a message from its head and the bytes that follow.
pub(crate) fn encode<P: Platform>(head: &(impl IntoBytes + Immutable), tail: &[u8]) -> Result<Slice<u8, P>, NTSTATUS> {
    let head = head.as_bytes();
    let byte = |index: usize| {
        let after = || tail.get(index.saturating_sub(head.len()));
        head.get(index).or_else(after).copied().unwrap_or(0)
    };
    Slice::from_fn(head.len().saturating_add(tail.len()), byte).map_err(no_memory)
}

/// Splits a message into its head and the bytes that follow.
pub(crate) fn decode<T: FromBytes + Copy>(bytes: &[u8]) -> Result<(T, &[u8]), NTSTATUS> {
    T::read_from_prefix(bytes).map_err(|_too_short| STATUS_INVALID_NETWORK_RESPONSE)
}
