//! The device, over this process and the host's TCP, and registered memory.
#![expect(unsafe_code, reason = "NDK adapters by pointer, and memory that the device reads and writes")]

use std::{net::IpAddr, ptr::NonNull};

use anyhow::{Result, ensure};
use hosted::{Hosted, Mdl, passive};
use ndk_abi::{
    ndkpi::{NDK_ADAPTER, NDK_MR, NDK_PD, NDK_SGE, NDK_SGE_ADDRESS, NDK_VERSION},
    status::NTSTATUS,
    wdm::MDL,
};
use ndk_consumer::{AdapterSource, OpenAdapters, Pinned};
use ndk_provider::{ObjectCounts, Provider};
use platform::{Passive, PoolQuota};
use rping::{Memory, Place};

use crate::status::{Named, shared};

/// A shared reference, as the kernel counts it.
pub(crate) type Ref<T> = platform::Arc<T, Hosted>;
/// An open object of NDK.
pub(crate) type Owned<T, K> = ndk_consumer::Owned<T, K, Hosted>;
/// The open adapter.
pub(crate) type Adapter = ndk_consumer::Adapter<Hosted>;
/// A protection domain.
pub(crate) type Pd = Owned<NDK_PD, Adapter>;

/// A device with one address.
pub(crate) struct Device {
    source: Source,
    open: OpenAdapters<Hosted>,
}

pub(crate) struct Source(Provider<Hosted>);

impl Device {
    /// `crc`: its connections have CRCs.
    pub(crate) fn new(address: IpAddr, crc: bool) -> Result<Self> {
        let provider = Provider::new(&[address]).named("making a device")?;
        provider.want_crc(crc);
        Ok(Self { source: Source(provider), open: OpenAdapters::default() })
    }

    /// Opens the adapter.
    pub(crate) fn open(&self) -> Result<Ref<Adapter>> {
        self.open.open(&self.source, None, &passive()).named("opening the adapter")
    }

    /// Waits until everything is closed that was made on it; fails if something is left.
    pub(crate) fn close(self) -> Result<()> {
        self.open.close_all(&self.source, &passive());
        let left = self.source.0.object_counts();
        ensure!(left == ObjectCounts::default(), "left in the device: {left:?}");
        Ok(())
    }
}

// SAFETY: the provider obeys NDKPI; all its callbacks come from DPCs.
unsafe impl AdapterSource<Hosted> for Source {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        _: Option<&PoolQuota<Hosted>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        self.0.open(version)
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's contract is the same.
        unsafe { Provider::<Hosted>::close(adapter, passive) }.wait(passive);
    }
}

/// Memory with its MDL.
struct Described {
    /// Goes before the bytes.
    mdl: Mdl,
    bytes: NonNull<[u8]>,
}

// SAFETY: bytes, which are only copied in and out.
unsafe impl Send for Described {}
// SAFETY: as for Send; a peer that writes while they are copied gets them torn, as with any card.
unsafe impl Sync for Described {}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: made by `into_raw`, and nothing uses it any more: its region is closed.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

// SAFETY: the MDL lives as long as the memory that it describes.
unsafe impl Pinned for Described {
    fn mdl(&self) -> NonNull<MDL> {
        // SAFETY: the first of a chain.
        unsafe { NonNull::new_unchecked(self.mdl.as_ptr()) }
    }
}

/// What a region keeps.
struct Registration {
    memory: Described,
    _pd: Ref<Pd>,
}

/// Registered memory.
pub(crate) struct Region(Owned<NDK_MR, Registration>);

impl Region {
    /// `length` bytes, `flags` of `NDK_MR_FLAG_*`.
    pub(crate) fn new(pd: &Ref<Pd>, length: usize, flags: u32) -> Result<Self> {
        let bytes = NonNull::from(Box::leak(vec![0_u8; length].into_boxed_slice()));
        // SAFETY: the bytes go after the MDL.
        let mdl = unsafe { Mdl::lock(bytes.cast(), length) };
        let keep = shared(Registration { memory: Described { mdl, bytes }, _pd: pd.clone() })?;
        let region = Owned::create_mr(pd, false, keep, &passive()).named("NdkCreateMr")?;
        region.register(&region.context().memory, length, flags, &passive()).named("NdkRegisterMr")?;
        Ok(Self(region))
    }

    /// The region itself.
    pub(crate) fn registered(&self) -> &Owned<NDK_MR, impl Send + Sync> {
        &self.0
    }

    /// So many bytes of it, from `offset` on.
    pub(crate) fn sge(&self, offset: usize, length: usize) -> NDK_SGE {
        let bytes = self.0.context().memory.bytes;
        assert!(offset + length <= bytes.len(), "{length} bytes at {offset} of a region of {}", bytes.len());
        let u = NDK_SGE_ADDRESS::from_virtual(bytes.as_ptr().cast::<u8>().wrapping_add(offset).cast());
        NDK_SGE { u, Length: length as u32, MemoryRegionToken: self.0.local_token() }
    }
}

impl Memory for Region {
    fn place(&self) -> Place {
        let address = self.0.context().memory.bytes.cast::<u8>().addr().get() as u64;
        Place { address, token: self.0.remote_token() }
    }

    fn bytes(&self, length: usize) -> Vec<u8> {
        let bytes = self.0.context().memory.bytes;
        let mut copy = vec![0; length.min(bytes.len())];
        // SAFETY: no more bytes than there are; no reference to them is ever given out.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr().cast(), copy.len()) };
        copy
    }

    fn fill(&self, bytes: &[u8]) {
        let memory = self.0.context().memory.bytes;
        assert!(bytes.len() <= memory.len(), "{} bytes into a region of {}", bytes.len(), memory.len());
        // SAFETY: in bounds, as just checked; no reference to the memory is ever given out.
        unsafe { memory.as_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}
