//! Memory that the client lets the server into, one request at a time: fast-register regions.

use ndk_abi::status::NTSTATUS;
use ndk_consumer::{Adapter, Lam};
use platform::Passive;

use crate::memory::Buffer;
use crate::{Kernel, Mr, Pd, PlatformOf, Ref, shared};

/// Addresses are made up: to the provider they are an index. An offset inside a page is added.
const FIRST_BASE: u64 = 0xABCD_0000_0000_0000;
/// Each registration gets another base, so that an address of an earlier one is no good.
const BASE_STEP: u64 = 1 << 32;

/// What a region keeps until its close has completed.
pub(crate) struct RegionMemory<K: Kernel> {
    /// Before the memory, so that it is released first.
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
    /// `length` bytes that start `offset` bytes into a page.
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
        // The token stays the same: it may be asked for once.
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

    /// The address of the first byte, for the registration and for the peer.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// What the peer names the region by.
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Chooses another base, for the next registration.
    pub(crate) fn move_base(&mut self) {
        self.base = self.base.wrapping_add(BASE_STEP);
    }
}
