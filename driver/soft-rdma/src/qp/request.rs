//! Work requests: as posted, and as they wait in a queue.

use platform::{Arc, Platform};

use crate::{
    BindRange, Error, FastRegistration, Mapping, MemoryRegion, MemoryWindow, OperationKind, limits,
    memory::window::Bind,
};

/// A scatter/gather entry, with the layout of NDK_SGE.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Sge {
    /// The consumer's address; a logical address under the privileged token.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local token.
    pub token: u32,
}

bitflags::bitflags! {
    /// NDK_OP_FLAG_* of the requests that move data, with NDKPI's names and numbers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// A success gets no completion.
        const SILENT_SUCCESS = 0x1;
        /// The request starts when all earlier reads are complete. Within a device that is always so; over a wire the step waits.
        const READ_FENCE = 0x2;
        /// The completion of the peer's receive is solicited (sends).
        const SEND_AND_SOLICIT_EVENT = 0x4;
        /// The post copies the data before it returns (sends and writes).
        const INLINE = 0x40;
        /// A success invalidates the token of the first SGE, which names a fast region (reads).
        const RDMA_READ_LOCAL_INVALIDATE = 0x100;
        /// A hint that another request follows.
        const DEFER = 0x200;
    }
}

impl Flags {
    /// Allowed on every initiator request.
    pub(crate) const COMMON: Self = Self::SILENT_SUCCESS.union(Self::READ_FENCE).union(Self::DEFER);
    /// Allowed on a send that is not inline.
    pub(crate) const SEND: Self = Self::COMMON.union(Self::SEND_AND_SOLICIT_EVENT);
}

/// The peer's memory of a read or write.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The peer's address.
    pub address: u64,
    /// The peer's token.
    pub token: u32,
}

/// The kind of an initiator request, for both of its forms: [`Post`] and [`Operation`].
macro_rules! kind_of_operation {
    () => {
        pub(crate) fn kind(&self) -> OperationKind {
            match self {
                Self::Send(_) => OperationKind::Send,
                Self::Read(_) => OperationKind::Read,
                Self::Write(_) => OperationKind::Write,
                Self::FastRegister(..) => OperationKind::FastRegister,
                Self::Bind(..) => OperationKind::Bind,
                Self::Invalidate(_) | Self::InvalidateWindow(_) => OperationKind::Invalidate,
            }
        }
    };
}

/// What an initiator request does, as it is posted.
pub enum Post<'a, P: Platform> {
    /// A send. With a token, the peer invalidates that token before its receive completes.
    Send(Option<u32>),
    /// A read from the peer's memory into the SGEs.
    Read(Remote),
    /// A write from the SGEs to the peer's memory.
    Write(Remote),
    /// A fast registration.
    FastRegister(&'a Arc<MemoryRegion<P>, P>, FastRegistration<'a>),
    /// A bind of a window to a part of a region.
    Bind(&'a Arc<MemoryWindow<P>, P>, &'a Arc<MemoryRegion<P>, P>, BindRange),
    /// An invalidation of a fast region.
    Invalidate(&'a Arc<MemoryRegion<P>, P>),
    /// An invalidation of a window.
    InvalidateWindow(&'a Arc<MemoryWindow<P>, P>),
}

impl<P: Platform> Post<'_, P> {
    pub(crate) fn allowed_flags(&self) -> Flags {
        match self {
            Self::Send(_) => Flags::COMMON | Flags::SEND_AND_SOLICIT_EVENT | Flags::INLINE,
            Self::Write(_) => Flags::COMMON | Flags::INLINE,
            Self::Read(_) => Flags::COMMON | Flags::RDMA_READ_LOCAL_INVALIDATE,
            Self::FastRegister(..) | Self::Bind(..) | Self::Invalidate(_) | Self::InvalidateWindow(_) => Flags::COMMON,
        }
    }

    kind_of_operation!();
}

/// What an initiator request does, as it waits in the queue.
pub(crate) enum Operation<P: Platform> {
    Send(Option<u32>),
    Read(Remote),
    Write(Remote),
    /// The mapping is filled already, and taken when the request runs.
    FastRegister(Arc<MemoryRegion<P>, P>, Option<Arc<Mapping<P>, P>>),
    Bind(Bind<P>),
    Invalidate(Arc<MemoryRegion<P>, P>),
    InvalidateWindow(Arc<MemoryWindow<P>, P>),
}

impl<P: Platform> Operation<P> {
    kind_of_operation!();
}

impl<P: Platform> Drop for Operation<P> {
    fn drop(&mut self) {
        if let Self::FastRegister(region, mapping) = self
            && let Some(mapping) = mapping.take()
        {
            region.unstage(mapping);
        }
    }
}

/// An initiator request in a queue. A small send has no more than this; other requests have an operation, and SGEs or inline bytes, in the queue
/// pair's arrays, under the same slot. The default is all zero, without padding: an array of them is cleared as one piece.
#[derive(Clone, Copy, Default)]
pub(crate) struct InitiatorRequest {
    pub(crate) context: usize,
    /// A small send's SGE. In other requests only the length counts: the bytes of all SGEs.
    pub(crate) data: Sge,
    pub(crate) flags: Flags,
    /// The number of SGEs; not used for inline data.
    pub(crate) sges: u16,
    /// A send of one SGE, which a batch may carry out (`engine/batch.rs`).
    pub(crate) small: bool,
    pub(crate) _unused: u8,
}
const _: () = assert!(size_of::<InitiatorRequest>() == 32);

/// A receive in a queue. If it has several SGEs, they are in the queue's array, under the same slot.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReceiveRequest {
    pub(crate) context: usize,
    /// The first SGE; without any, an SGE of no bytes.
    pub(crate) first: Sge,
    pub(crate) sges: usize,
}

/// A receive that was taken from its queue, for a send to be placed into.
pub(crate) struct CurrentReceive {
    pub(crate) context: usize,
    pub(crate) sges: SgeList,
    /// Bytes of all SGEs.
    pub(crate) room: u64,
    pub(crate) cursor: Cursor,
}

/// The SGEs of one request, copied from a queue or from a consumer's list.
#[derive(Clone, Copy)]
pub(crate) struct SgeList {
    entries: [Sge; limits::SGES as usize],
    used: usize,
}

impl SgeList {
    /// Copies a list. A consumer's list is copied before a lock raises the IRQL: it may be pageable at PASSIVE_LEVEL.
    pub(crate) fn copy_of(sges: &[Sge]) -> Result<Self, Error> {
        let mut entries = [Sge::default(); limits::SGES as usize];
        entries.get_mut(..sges.len()).ok_or(Error::TooManySges)?.copy_from_slice(sges);
        Ok(Self { entries, used: sges.len() })
    }

    pub(crate) fn as_slice(&self) -> &[Sge] {
        self.entries.get(..self.used).unwrap_or(&[])
    }
}

/// The bytes of a list of SGEs. The sum cannot overflow: at most 2^32 entries of less than 2^32 bytes.
#[inline]
pub(crate) fn total(sges: &[Sge]) -> u64 {
    match sges {
        [sge] => u64::from(sge.length),
        _ => sges.iter().map(|sge| u64::from(sge.length)).sum(),
    }
}

/// A place in a list of SGEs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    index: usize,
    offset: u32,
}

/// A part of one SGE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) token: u32,
}

impl Cursor {
    /// The rest of the current SGE; `None` at the end of the list. SGEs of no bytes are skipped.
    pub(crate) fn piece(&mut self, sges: &[Sge]) -> Option<Piece> {
        loop {
            let sge = sges.get(self.index)?;
            match sge.length.checked_sub(self.offset) {
                Some(length) if length > 0 => {
                    let address = sge.address.wrapping_add(u64::from(self.offset));
                    return Some(Piece { address, length, token: sge.token });
                }
                _ => {
                    self.index = self.index.checked_add(1)?;
                    self.offset = 0;
                }
            }
        }
    }

    /// Moves `bytes` on in the current SGE.
    pub(crate) fn advance(&mut self, bytes: u32) {
        self.offset = self.offset.saturating_add(bytes);
    }
}
