//! The program's ends of rings, for NetworkDirect providers. [`RequestRing::post`] checks all of a request that it can,
//! as the driver reads the ring later and cannot return an error to the caller.
#![allow(non_upper_case_globals, reason = "C names of operation types in patterns")]

use ndk_abi::ndkpi::{
    NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_READ_FENCE,
    NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NdkOperationTypeInvalidate,
    NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE};
use ndk_abi::softndk_ring::{
    SOFTNDK_COMPLETION, SOFTNDK_RING_CONNECTED, SOFTNDK_RING_CONNECTED_WITHOUT_READS, SOFTNDK_RING_ENDED,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CONNECTION_INVALID, STATUS_DATA_OVERRUN, STATUS_INTERNAL_ERROR,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::{BadIndex, Mapped, PushError, Reader, Writer};

/// The most inline data of a request, in words.
const INLINE_WORDS: usize = 128;
const SEND_AND_INVALIDATE: NDK_OPERATION_TYPE = NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE.cast_signed());

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Requests of the queue.
    pub depth: u32,
    /// SGEs of a request.
    pub sges: u32,
    /// Bytes of inline data of a request.
    pub inline_data: u32,
    /// Bytes of a request.
    pub transfer_length: u32,
}

/// The program's end of a ring of requests. Its owner serialises the calls.
#[derive(Debug)]
pub struct RequestRing {
    writer: Writer<Mapped>,
    limits: RequestLimits,
}

impl RequestRing {
    /// The program's end of `ring`, which was made for a queue with these limits.
    #[must_use]
    pub fn new(ring: Mapped, limits: RequestLimits) -> Self {
        Self { writer: Writer::new(ring), limits }
    }

    /// Writes a request into the ring. `Flags` are NDK_OP_FLAG_*; with NDK_OP_FLAG_INLINE the caller passes no SGEs,
    /// without it no inline data.
    ///
    /// STATUS_INVALID_PARAMETER: an operation that does not go by rings, such as a bind or a fast registration;
    /// STATUS_INVALID_PARAMETER_4: flags that the operation does not have, or too much inline data;
    /// STATUS_DATA_OVERRUN: too many SGEs; STATUS_BUFFER_OVERFLOW: too many bytes; STATUS_CONNECTION_INVALID: not a
    /// receive, and the queue pair is not connected yet; STATUS_INVALID_DEVICE_REQUEST: a read with a read limit of 0;
    /// STATUS_NO_MORE_ENTRIES: the queue is full.
    pub fn post(&mut self, head: &SOFTNDK_POST, sges: &[SOFTNDK_SGE], inline: &[u8]) -> Result<(), NTSTATUS> {
        let operation = NDK_OPERATION_TYPE(head.Operation.cast_signed());
        let allowed_flags = allowed_flags(operation).ok_or(STATUS_INVALID_PARAMETER)?;
        if head.Flags & !allowed_flags != 0 || inline.len() > self.limits.inline_data as usize {
            return Err(STATUS_INVALID_PARAMETER_4);
        }
        if sges.len() > self.limits.sges as usize {
            return Err(STATUS_DATA_OVERRUN);
        }
        let bytes: u64 = sges.iter().map(|sge| u64::from(sge.Length)).sum();
        if bytes > u64::from(self.limits.transfer_length) {
            return Err(STATUS_BUFFER_OVERFLOW);
        }
        match self.writer.memory().state() {
            _ if operation == NdkOperationTypeReceive => {}
            // After the end of the connection the driver cancels initiator requests.
            SOFTNDK_RING_CONNECTED | SOFTNDK_RING_ENDED => {}
            SOFTNDK_RING_CONNECTED_WITHOUT_READS if operation != NdkOperationTypeRead => {}
            SOFTNDK_RING_CONNECTED_WITHOUT_READS => return Err(STATUS_INVALID_DEVICE_REQUEST),
            _ => return Err(STATUS_CONNECTION_INVALID),
        }
        if self.writer.used().map_err(broken)? >= self.limits.depth {
            return Err(STATUS_NO_MORE_ENTRIES);
        }
        let head = SOFTNDK_POST { SgeCount: sges.len() as u32, InlineLength: inline.len() as u32, ..*head };
        let head: [u64; size_of::<SOFTNDK_POST>() / size_of::<u64>()] = zerocopy::transmute!(head);
        let mut copy = [0u64; INLINE_WORDS];
        let data = if inline.is_empty() {
            <[u64]>::ref_from_bytes(sges.as_bytes()).map_err(|_| STATUS_INTERNAL_ERROR)?
        } else {
            let words = copy.get_mut(..inline.len().div_ceil(size_of::<u64>())).ok_or(STATUS_INVALID_PARAMETER_4)?;
            words.as_mut_bytes().get_mut(..inline.len()).ok_or(STATUS_INTERNAL_ERROR)?.copy_from_slice(inline);
            &*words
        };
        self.writer.push(&head, data).map_err(|full| match full {
            PushError::Full => STATUS_NO_MORE_ENTRIES,
            PushError::BadIndex => STATUS_INTERNAL_ERROR,
        })
    }

    /// Whether the driver posts no more requests of the ring: it cancels the requests that it finds there.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.writer.memory().state() == SOFTNDK_RING_ENDED
    }

    /// Whether a doorbell has to follow [`RequestRing::post`].
    #[must_use]
    pub fn needs_doorbell(&self) -> bool {
        self.writer.needs_doorbell()
    }

    /// Makes `other` continue the counts of this ring. Called before SRQ_MODIFY passes `other`.
    pub fn prepare(&self, other: &mut Self) {
        other.writer.continue_from(&self.writer);
    }

    /// Copies the `waiting` newest requests of this ring to `other`, after SRQ_MODIFY has passed `other`. `waiting` is
    /// the number of requests that the driver has not read, which SRQ_MODIFY returns.
    pub fn move_to(&self, other: &mut Self, waiting: u32) -> Result<(), NTSTATUS> {
        let mut words = [0u64; size_of::<SOFTNDK_POST>() / size_of::<u64>() + INLINE_WORDS];
        let used = self.writer.used().map_err(broken)?;
        for index in (0..waiting.min(used)).rev() {
            self.writer.copy_back(index, &mut words);
            other.writer.push(&words, &[]).map_err(|_| STATUS_NO_MORE_ENTRIES)?;
        }
        Ok(())
    }
}

/// The driver has stored an impossible index.
fn broken(_: BadIndex) -> NTSTATUS {
    STATUS_INTERNAL_ERROR
}

/// The NDK_OP_FLAG_* of an operation; `None`: the operation does not go by rings.
fn allowed_flags(operation: NDK_OPERATION_TYPE) -> Option<u32> {
    let common = NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_READ_FENCE | NDK_OP_FLAG_DEFER;
    Some(match operation {
        NdkOperationTypeReceive => 0,
        NdkOperationTypeSend | SEND_AND_INVALIDATE => common | NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT | NDK_OP_FLAG_INLINE,
        NdkOperationTypeWrite => common | NDK_OP_FLAG_INLINE,
        NdkOperationTypeRead => common | NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
        NdkOperationTypeInvalidate => common,
        _ => return None,
    })
}

/// The program's end of a ring of completions. Its owner serialises the calls.
#[derive(Debug)]
pub struct CompletionRing(Reader<Mapped>);

impl CompletionRing {
    /// The program's end of `ring`, which was made for completions.
    #[must_use]
    pub fn new(ring: Mapped) -> Self {
        Self(Reader::new(ring))
    }

    /// Takes out up to `most` completions, oldest first, and returns their number: 0 if the driver's index is
    /// impossible.
    pub fn poll(&mut self, most: usize, mut take: impl FnMut(SOFTNDK_COMPLETION)) -> usize {
        let waiting = self.0.waiting().unwrap_or(0);
        let count = waiting.min(u32::try_from(most).unwrap_or(u32::MAX));
        for index in 0..count {
            let mut words = [0u64; size_of::<SOFTNDK_COMPLETION>() / size_of::<u64>()];
            self.0.copy(index, 0, &mut words);
            take(zerocopy::transmute!(words));
        }
        if count > 0 {
            self.0.advance(count);
        }
        count as usize
    }

    /// Whether a doorbell has to follow [`CompletionRing::poll`].
    #[must_use]
    pub fn needs_doorbell(&self) -> bool {
        self.0.needs_doorbell()
    }

    /// The completions that wait in the ring.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.0.waiting().unwrap_or(0)
    }
}
