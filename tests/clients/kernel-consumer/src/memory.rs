//! Non-paged memory with its MDL, and registered memory.
#![expect(unsafe_code, reason = "memory that the provider reads and writes meanwhile is copied by pointer")]

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

use ndk_abi::ndkpi::{NDK_SGE, NDK_SGE_ADDRESS};
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER};
use ndk_abi::wdm::PAGE_SIZE;
use ndk_consumer::Pinned;
use platform::{Passive, Platform};

use crate::{Kernel, Mr, Pd, PlatformOf, Ref, shared};

/// Whole pages of the platform's memory.
struct Pages<P: Platform> {
    start: NonNull<u8>,
    layout: Layout,
    _platform: PhantomData<P>,
}

impl<P: Platform> Pages<P> {
    fn new(length: usize) -> Result<Self, NTSTATUS> {
        let size = length.max(1).checked_next_multiple_of(PAGE_SIZE).ok_or(STATUS_INVALID_PARAMETER)?;
        let layout = Layout::from_size_align(size, PAGE_SIZE).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let start = P::allocate(layout).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { start, layout, _platform: PhantomData })
    }
}

impl<P: Platform> Drop for Pages<P> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; each user of the memory keeps its owner.
        unsafe { P::free(self.start, self.layout) };
    }
}

/// `length` bytes of non-paged memory, from `offset` inside a page on, with their MDL.
pub struct Buffer<K: Kernel> {
    /// Declared before the pages, so dropped first.
    mdl: K::Mdl,
    start: NonNull<u8>,
    length: usize,
    _pages: Pages<PlatformOf<K>>,
}

// SAFETY: bytes, which are only copied in and out; the MDL is Send.
unsafe impl<K: Kernel> Send for Buffer<K> {}
// SAFETY: as for Send; a copy during a write of the provider is torn, as with any hardware.
unsafe impl<K: Kernel> Sync for Buffer<K> {}

impl<K: Kernel> Buffer<K> {
    /// Allocates the memory. STATUS_INVALID_PARAMETER: `length` is 0, or `offset` is outside of a page.
    pub fn new(length: usize, offset: usize) -> Result<Self, NTSTATUS> {
        let end = length.checked_add(offset).filter(|_| length > 0 && offset < PAGE_SIZE);
        let pages = Pages::<PlatformOf<K>>::new(end.ok_or(STATUS_INVALID_PARAMETER)?)?;
        // SAFETY: the offset lies inside the first page.
        let start = unsafe { pages.start.add(offset) };
        // SAFETY: `length` bytes from `start` on are inside the pages, which are freed after the MDL.
        let mdl = unsafe { K::describe(start, length) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { mdl, start, length, _pages: pages })
    }

    /// Bytes of the memory.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The address of `length` bytes at `offset`. `None`: out of bounds.
    fn place(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        offset.checked_add(length).filter(|end| *end <= self.length)?;
        // SAFETY: the offset is in bounds.
        Some(unsafe { self.start.add(offset) })
    }

    /// Copies `bytes` to `offset`. STATUS_INVALID_PARAMETER: out of bounds.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), NTSTATUS> {
        let place = self.place(offset, bytes.len()).ok_or(STATUS_INVALID_PARAMETER)?;
        // SAFETY: in bounds; no reference to the memory is ever given out, so `bytes` does not overlap the memory.
        unsafe { place.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Fills `bytes` from `offset`. STATUS_INVALID_PARAMETER: out of bounds.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), NTSTATUS> {
        let place = self.place(offset, bytes.len()).ok_or(STATUS_INVALID_PARAMETER)?;
        // SAFETY: as in `write`.
        unsafe { place.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// The virtual address of the first byte in the MDL.
    fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }
}

// SAFETY: the MDL and the memory live as long as the buffer.
unsafe impl<K: Kernel> Pinned for Buffer<K> {
    fn mdl(&self) -> NonNull<ndk_abi::wdm::MDL> {
        self.mdl.mdl()
    }
}

/// The context of a registered region, which lives until the region's close has completed.
pub(crate) struct Registration<K: Kernel> {
    buffer: Buffer<K>,
    _pd: Ref<Pd<K>, K>,
}

/// A buffer registered as a whole (NdkRegisterMr).
pub struct Registered<K: Kernel> {
    mr: Mr<Registration<K>, K>,
    token: u32,
}

impl<K: Kernel> Registered<K> {
    /// Allocates and registers `length` bytes, with NDK_MR_FLAG_* `flags`.
    pub fn new(pd: &Ref<Pd<K>, K>, length: usize, flags: u32, passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let keep = shared::<_, K>(Registration { buffer: Buffer::new(length, 0)?, _pd: pd.clone() })?;
        let mr = Mr::<Registration<K>, K>::create_mr(pd, false, keep, passive)?;
        mr.register(&mr.context().buffer, length, flags, passive)?;
        let token = mr.local_token();
        Ok(Self { mr, token })
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer<K> {
        &self.mr.context().buffer
    }

    /// An SGE for `length` bytes at `offset`; the provider checks the bounds.
    pub fn sge(&self, offset: usize, length: u32) -> NDK_SGE {
        let address = self.buffer().address().wrapping_add(offset as u64) as usize;
        NDK_SGE {
            u: NDK_SGE_ADDRESS::from_virtual(core::ptr::without_provenance_mut(address)),
            Length: length,
            MemoryRegionToken: self.token,
        }
    }

    /// The address of a byte for the peer, which checks the bounds by [`Self::remote_token`].
    #[must_use]
    pub fn remote_address(&self, offset: usize) -> u64 {
        self.buffer().address().wrapping_add(offset as u64)
    }

    /// The token by which the peer accesses the memory, if the flags allow that.
    #[must_use]
    pub fn remote_token(&self) -> u32 {
        self.mr.remote_token()
    }

    /// NdkDeregisterMr: after the return the provider no longer uses the memory.
    pub fn deregister(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        self.mr.deregister(passive)
    }
}
