//! Work requests, as they are posted and as they wait.

use platform::{Arc, Platform};

use crate::{
    Error, FastRegistration, Mapping, MemoryRegion, MemoryWindow, OperationKind, Part, limits, memory::window::Bind,
};

/// A scatter/gather entry. The layout is NDK_SGE's.
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
    /// NDK_OP_FLAG_* that every initiator request may carry, and the three that only some do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// No completion if it succeeds.
        const SILENT_SUCCESS = 0x1;
        /// Not before all earlier reads are complete: within a device that always holds, over a wire the step waits.
        const READ_FENCE = 0x2;
        /// The peer's receive completion is solicited (sends).
        const SOLICIT = 0x4;
        /// The data is copied before the post returns (sends and writes).
        const INLINE = 0x40;
        /// Success invalidates the token of the first SGE, a fast region's (reads).
        const LOCAL_INVALIDATE = 0x100;
        /// A hint that another request follows.
        const DEFER = 0x200;
    }
}

impl Flags {
    /// Allowed on every initiator request.
    pub(crate) const COMMON: Self = Self::SILENT_SUCCESS.union(Self::READ_FENCE).union(Self::DEFER);
    /// Allowed on a send that is not inline.
    pub(crate) const SEND: Self = Self::COMMON.union(Self::SOLICIT);
}

/// The remote side of a read or write.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The peer's address.
    pub address: u64,
    /// The peer's token.
    pub token: u32,
}

/// The kind of an initiator request, of which there are two forms: as it is posted, and as it waits.
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
    /// Send; with a token, the peer invalidates it before its receive completes.
    Send(Option<u32>),
    /// Read from the peer into the SGEs.
    Read(Remote),
    /// Write the SGEs to the peer.
    Write(Remote),
    /// Register a fast region.
    FastRegister(&'a Arc<MemoryRegion<P>, P>, FastRegistration<'a>),
    /// Bind a window to a part of a region.
    Bind(&'a Arc<MemoryWindow<P>, P>, &'a Arc<MemoryRegion<P>, P>, Part),
    /// Invalidate a fast region.
    Invalidate(&'a Arc<MemoryRegion<P>, P>),
    /// Invalidate a window.
    InvalidateWindow(&'a Arc<MemoryWindow<P>, P>),
}

impl<P: Platform> Post<'_, P> {
    pub(crate) fn allowed_flags(&self) -> Flags {
        match self {
            Self::Send(_) => Flags::COMMON | Flags::SOLICIT | Flags::INLINE,
            Self::Write(_) => Flags::COMMON | Flags::INLINE,
            Self::Read(_) => Flags::COMMON | Flags::LOCAL_INVALIDATE,
            Self::FastRegister(..) | Self::Bind(..) | Self::Invalidate(_) | Self::InvalidateWindow(_) => Flags::COMMON,
        }
    }

    kind_of_operation!();
}

/// What an initiator request does, as it waits.
pub(crate) enum Operation<P: Platform> {
    Send(Option<u32>),
    Read(Remote),
    Write(Remote),
    /// The mapping is filled; it is taken when the request runs.
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

/// A waiting initiator request. Of a small send this is all. Of others, the operation and the SGEs or inline bytes lie in the
/// queue pair's arrays, in the same slot. All zero by default, and without padding: an array of them is cleared as one piece.
#[derive(Clone, Copy, Default)]
pub(crate) struct InitiatorRequest {
    pub(crate) context: usize,
    /// Of a small send, its SGE. Of others, only the length is used: their bytes.
    pub(crate) data: Sge,
    pub(crate) flags: Flags,
    /// Of one with inline data it means nothing.
    pub(crate) sges: u16,
    /// A send of one SGE that is carried out in a row with others (see `engine/batch.rs`).
    pub(crate) small: bool,
    pub(crate) _unused: u8,
}
const _: () = assert!(size_of::<InitiatorRequest>() == 32);

/// A waiting receive. If it has more than one SGE, they lie in the queue's array, in the same slot.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReceiveRequest {
    pub(crate) context: usize,
    /// One without bytes if it has none.
    pub(crate) first: Sge,
    pub(crate) sges: usize,
}

/// A receive that a send is being placed into.
pub(crate) struct Receive {
    pub(crate) context: usize,
    pub(crate) sges: SgeList,
    /// Bytes it has room for.
    pub(crate) room: u64,
    pub(crate) cursor: Cursor,
}

/// The SGEs of one request, copied out of a queue, or off a consumer's list.
#[derive(Clone, Copy)]
pub(crate) struct SgeList {
    entries: [Sge; limits::SGES as usize],
    used: usize,
}

impl SgeList {
    /// A copy, taken before a lock raises the IRQL: the consumer's list may be pageable at PASSIVE_LEVEL.
    pub(crate) fn copy_of(sges: &[Sge]) -> Result<Self, Error> {
        let mut entries = [Sge::default(); limits::SGES as usize];
        entries.get_mut(..sges.len()).ok_or(Error::TooManySges)?.copy_from_slice(sges);
        Ok(Self { entries, used: sges.len() })
    }

    pub(crate) fn as_slice(&self) -> &[Sge] {
        self.entries.get(..self.used).unwrap_or(&[])
    }
}

/// The bytes of a list of SGEs: at most 2^32 entries of less than 2^32 bytes, so the sum fits.
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
    /// The rest of the current SGE; `None` at the end. SGEs without bytes are skipped.
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

    /// Steps over `bytes` of the current piece.
    pub(crate) fn advance(&mut self, bytes: u32) {
        self.offset = self.offset.saturating_add(bytes);
    }
}
