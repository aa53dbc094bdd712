//! The one file that touches consumers' memory.
//!
//! The code here uses raw pointers and lengths, never references: a consumer may read or write its memory at any time, as beside a card's DMA. Data
//! is placed in ascending order, and the last byte of each piece is stored last, with release ordering (NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED).
#![expect(unsafe_code, reason = "copies between memory that belongs to consumers")]

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
};

use platform::{Arc, OutOfMemory, Platform, Slice};

use crate::{Error, Mapping, MemoryRegion, Sge, memory::window::WindowAccess};

/// A virtually contiguous part of a region, in system address space.
#[derive(Clone, Copy)]
struct Run {
    /// Bytes of the region before this run.
    offset: u64,
    address: NonNull<u8>,
    length: u64,
}

// SAFETY: a Run is an address; what it points at is accessed as shared, racy memory only.
unsafe impl Send for Run {}
// SAFETY: as for Send.
unsafe impl Sync for Run {}

/// The memory of a registration: its runs in ascending order.
pub struct Runs<P: Platform> {
    runs: Slice<Run, P>,
    used: usize,
}

impl<P: Platform> Runs<P> {
    /// Makes `count` runs: `run(index)` gives the address and the bytes of each. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// The memory stays mapped and writable (readable, if the registration will not allow writing) until the registration
    /// that it becomes part of has ended.
    pub unsafe fn new(count: usize, mut run: impl FnMut(usize) -> (NonNull<u8>, u64)) -> Result<Self, OutOfMemory> {
        let mut offset = 0u64;
        let runs = Slice::from_fn(count, |index| {
            let (address, length) = run(index);
            let run = Run { offset, address, length };
            offset = offset.saturating_add(length);
            run
        })?;
        Ok(Self { runs, used: count })
    }

    /// Bytes of the pool that `count` runs take.
    pub(crate) fn pool_bytes(count: usize) -> u64 {
        Slice::<Run, P>::pool_bytes(count)
    }

    /// The number of runs that fit.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Room for `pages` pages, none in use.
    pub(crate) fn with_capacity(pages: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { runs: Slice::filled(pages, Run { offset: 0, address: NonNull::dangling(), length: 0 })?, used: 0 })
    }

    /// Makes the runs of `pages`, system addresses of whole pages. The first run begins at byte `first_byte_offset` of its page.
    ///
    /// # Safety
    /// As for [`Runs::new`], with pages of `page_size` bytes.
    pub(crate) unsafe fn set_pages(
        &mut self,
        pages: &[u64],
        page_size: u64,
        first_byte_offset: u64,
    ) -> Result<(), Error> {
        let slots = self.runs.get_mut(..pages.len()).ok_or(Error::ImplementationLimit)?;
        let mut offset = 0u64;
        let mut skip = first_byte_offset;
        for (slot, &page) in slots.iter_mut().zip(pages) {
            if page.checked_rem(page_size) != Some(0) {
                return Err(Error::InvalidParameter);
            }
            let address = page.checked_add(skip).and_then(|address| usize::try_from(address).ok());
            let address = address.and_then(|address| NonNull::new(core::ptr::with_exposed_provenance_mut(address)));
            let length = page_size.checked_sub(skip).ok_or(Error::InvalidParameter)?;
            *slot = Run { offset, address: address.ok_or(Error::InvalidParameter)?, length };
            offset = offset.saturating_add(length);
            skip = 0;
        }
        self.used = pages.len();
        Ok(())
    }

    /// Bytes of all runs.
    pub fn length(&self) -> u64 {
        let last = self.used.checked_sub(1).and_then(|last| self.runs.get(last));
        last.map_or(0, |run| run.offset.saturating_add(run.length))
    }

    /// The run of byte `offset`: the offset of its first byte, its address, and its bytes.
    pub(crate) fn run(&self, offset: u64) -> Option<(u64, NonNull<u8>, u64)> {
        let runs = self.runs.get(..self.used)?;
        let run = runs.get(runs.partition_point(|run| run.offset <= offset).checked_sub(1)?)?;
        Some((run.offset, run.address, run.length))
    }

    /// The address of byte `offset`, and the bytes from there to the end of its run.
    fn piece(&self, offset: u64) -> Option<(NonNull<u8>, u64)> {
        let (first, start, length) = self.run(offset)?;
        let inside = offset.checked_sub(first)?;
        let left = length.checked_sub(inside).filter(|&left| left > 0)?;
        // SAFETY: `inside` < the run's length: the same mapped object, by the contract of `new` and `set_pages`.
        let address = unsafe { start.add(usize::try_from(inside).ok()?) };
        Some((address, left))
    }
}

/// Checked access to a range of memory. A region's memory stays registered while this exists.
pub(crate) enum Memory<P: Platform> {
    Region {
        mapping: Arc<Mapping<P>, P>,
        offset: u64,
        /// Dropped after the mapping: a close of the region waits for every access.
        _region: Arc<MemoryRegion<P>, P>,
        /// The window by whose token the region was opened, if any.
        _window: Option<WindowAccess<P>>,
    },
    /// A logical address under the privileged token: a system address (see NdkBuildLAM in ndk-provider).
    Privileged(NonNull<u8>),
    /// The driver's own bytes, during a `copy_in` or `copy_out`.
    Inline(NonNull<u8>, u64),
}

impl<P: Platform> Memory<P> {
    /// The memory at a logical address.
    pub(crate) fn privileged(address: u64) -> Option<Self> {
        let address = usize::try_from(address).ok()?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(address)).map(Self::Privileged)
    }

    fn piece(&self, at: u64) -> Option<(NonNull<u8>, u64)> {
        match self {
            Self::Region { mapping, offset, .. } => mapping.runs().piece(offset.checked_add(at)?),
            // SAFETY: by a kernel consumer's contract, the range is part of a mapping that the consumer built.
            Self::Privileged(address) => Some((unsafe { address.add(usize::try_from(at).ok()?) }, u64::MAX)),
            Self::Inline(address, length) => {
                let left = length.checked_sub(at).filter(|&left| left > 0)?;
                // SAFETY: `at` < `length`, inside the driver's own buffer.
                Some((unsafe { address.add(usize::try_from(at).ok()?) }, left))
            }
        }
    }
}

/// Memory of one local token, opened once for several accesses. It stays registered while this exists.
pub(crate) struct OpenMemory<P: Platform> {
    token: u32,
    /// The contiguous part around the first access: the consumer's address of its first byte, its bytes, and its system address.
    address: u64,
    length: u64,
    start: NonNull<u8>,
    memory: Memory<P>,
}

impl<P: Platform> OpenMemory<P> {
    /// Keeps `memory`, which was opened for `sge`.
    #[inline]
    pub(crate) fn new(sge: &Sge, memory: Memory<P>) -> Option<Self> {
        let (address, start, length) = match &memory {
            Memory::Region { mapping, offset, .. } => mapping.contiguous(*offset)?,
            Memory::Privileged(start) => (sge.address, *start, u64::from(sge.length)),
            Memory::Inline(..) => return None,
        };
        Some(Self { token: sge.token, address, length, start, memory })
    }

    pub(crate) fn memory(&self) -> &Memory<P> {
        &self.memory
    }

    /// The system address of an SGE; `None` if the SGE is not all in this part.
    #[inline]
    fn find(&self, sge: &Sge) -> Option<NonNull<u8>> {
        let offset = sge.address.wrapping_sub(self.address);
        let room = self.length.checked_sub(offset)?;
        if sge.token != self.token || u64::from(sge.length) > room {
            return None;
        }
        // SAFETY: inside of the contiguous part, or at its end, of memory that stays registered.
        Some(unsafe { self.start.add(usize::try_from(offset).ok()?) })
    }

    /// Copies all of `from` to the start of `to`, which is at least as long. False: one of the SGEs is not all in its opened part.
    #[inline]
    pub(crate) fn copy(target: &Self, to: &Sge, source: &Self, from: &Sge) -> bool {
        let (Some(to), Some(from_start)) = (target.find(to), source.find(from)) else { return false };
        store(to, from_start, from.length as usize);
        true
    }
}

/// Copies `length` bytes. `AccessViolation` if either side is shorter, which callers exclude by checking the ranges.
pub(crate) fn copy<P: Platform>(to: &Memory<P>, from: &Memory<P>, length: u64) -> Result<(), Error> {
    let mut done = 0u64;
    while done < length {
        let (target, room) = to.piece(done).ok_or(Error::AccessViolation)?;
        let (source, available) = from.piece(done).ok_or(Error::AccessViolation)?;
        let bytes = room.min(available).min(length.saturating_sub(done));
        store(target, source, usize::try_from(bytes).map_err(|_| Error::AccessViolation)?);
        done = done.saturating_add(bytes);
    }
    Ok(())
}

/// Copies one contiguous piece of `bytes` bytes, its last byte last.
#[inline]
fn store(target: NonNull<u8>, source: NonNull<u8>, bytes: usize) {
    let Some(head) = bytes.checked_sub(1) else { return };
    // SAFETY: both pieces are `bytes` long; the tail is read before the head is written, in case they overlap.
    let tail = unsafe { source.add(head) };
    // SAFETY: a byte of the source piece.
    let tail = unsafe { tail.read_volatile() };
    // SAFETY: both pieces are mapped for `head` bytes; they may overlap (`copy` is a memmove).
    unsafe { core::ptr::copy(source.as_ptr(), target.as_ptr(), head) };
    // SAFETY: the last byte of the target piece.
    let last = unsafe { target.add(head) };
    // SAFETY: mapped, writable, and any alignment does for a byte; it lives during the store.
    let last = unsafe { AtomicU8::from_ptr(last.as_ptr()) };
    last.store(tail, Ordering::Release);
}

impl Sge {
    /// Copies an SGE field by field. The consumer has mostly just written the fields one by one, and a processor stalls
    /// on a load that spans several stores which are not in its cache yet.
    #[inline]
    pub(crate) fn read(&self) -> Self {
        Self { address: read(&self.address), length: read(&self.length), token: read(&self.token) }
    }
}

/// A read that the compiler does not merge with others.
#[inline]
fn read<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::from_ref(value).read_volatile() }
}

/// Copies a consumer's buffer at `address` to `to`. The consumer promises that it is readable (NDK_OP_FLAG_INLINE).
pub(crate) fn read_inline(to: &mut [u8], address: u64) -> Result<(), Error> {
    let address =
        usize::try_from(address).ok().and_then(|address| NonNull::new(core::ptr::with_exposed_provenance_mut(address)));
    let from: NonNull<u8> = address.ok_or(Error::AccessViolation)?;
    // SAFETY: NDK_SGE: with the inline flag the consumer's address is readable at the caller's IRQL for the SGE's length;
    // `to` is the driver's own memory.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    Ok(())
}

/// Copies the driver's own `bytes` to `to`. Fails as [`copy`].
pub(crate) fn copy_in<P: Platform>(to: &Memory<P>, bytes: &[u8]) -> Result<(), Error> {
    let length = bytes.len() as u64;
    copy(to, &Memory::Inline(NonNull::from(bytes).cast(), length), length)
}

/// Copies the first bytes of `from` to the driver's own `to`. Fails as [`copy`].
pub(crate) fn copy_out<P: Platform>(to: &mut [u8], from: &Memory<P>) -> Result<(), Error> {
    let length = to.len() as u64;
    copy(&Memory::Inline(NonNull::from(to).cast(), length), from, length)
}

impl<'a> crate::FastRegistration<'a> {
    /// A registration of `pages`, the logical addresses that NdkBuildLAM gave.
    ///
    /// # Safety
    /// The pages stay mapped until the region has been invalidated (or closed) and that has completed.
    pub unsafe fn new(pages: &'a [u64], first_byte_offset: u32, length: u64, base: u64, access: crate::Access) -> Self {
        Self { pages, first_byte_offset, length, base, access }
    }

    pub(crate) fn fill<P: Platform>(&self, runs: &mut Runs<P>) -> Result<(), Error> {
        // SAFETY: promised to `new`.
        unsafe { runs.set_pages(self.pages, crate::limits::PAGE_SIZE, u64::from(self.first_byte_offset)) }
    }
}
