//! Fast-register regions: the client's memory, which the server may access during one request.

use ndk_abi::status::NTSTATUS;
use ndk_consumer::{Adapter, Lam};
use platform::Passive;

use crate::{Kernel, Mr, Pd, PlatformOf, Ref, shared};
use kernel_consumer::Buffer;

/// The base address of a region without its offset in the first page. The number is arbitrary: the provider only computes offsets from it.
const FIRST_BASE: u64 = 0xABCD_0000_0000_0000;
/// Each registration gets another base, so that addresses of an earlier registration are not valid.
const BASE_STEP: u64 = 1 << 32;

/// The context of a region, which lives until the region's close has completed.
pub(crate) struct RegionMemory<K: Kernel> {
    /// Declared before the buffer, so released first.
    lam: Lam<PlatformOf<K>>,
    buffer: Buffer<K>,
    _pd: Ref<Pd<K>, K>,
}

/// A fast-register region with memory of its own.
pub(crate) struct Region<K: Kernel> {
    mr: Mr<RegionMemory<K>, K>,
    token: u32,
    base: u64,
}

impl<K: Kernel> Region<K> {
    /// Makes a region of `length` bytes that start `offset` bytes into a page.
    pub(crate) fn new(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        pd: &Ref<Pd<K>, K>,
        length: usize,
        offset: usize,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let buffer = Buffer::new(length, offset)?;
        let lam = Lam::build(adapter, &buffer, length, passive)?;
        let (pages, offset) = (lam.page_count(), lam.first_byte_offset());
        let memory = shared::<_, K>(RegionMemory { lam, buffer, _pd: pd.clone() })?;
        let mr = Mr::<RegionMemory<K>, K>::create_mr(pd, true, memory, passive)?;
        mr.initialize_fast_register(pages, true, passive)?;
        // The token of the region never changes, so one query is enough.
        let token = mr.remote_token();
        Ok(Self { mr, token, base: FIRST_BASE.wrapping_add(offset.into()) })
    }

    pub(crate) fn mr(&self) -> &Mr<RegionMemory<K>, K> {
        &self.mr
    }

    pub(crate) fn lam(&self) -> &Lam<PlatformOf<K>> {
        &self.mr.context().lam
    }

    pub(crate) fn buffer(&self) -> &Buffer<K> {
        &self.mr.context().buffer
    }

    /// The address of the first byte, in the registration and for the peer.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The token by which the peer accesses the region.
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Chooses another base, for the next registration.
    pub(crate) fn move_base(&mut self) {
        self.base = self.base.wrapping_add(BASE_STEP);
    }
}
