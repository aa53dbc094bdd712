//! A consumer's memory: buffers, scatter/gather entries, logical address mappings.

use ndk_abi::{
    ndkpi::{
        NDK_LOGICAL_ADDRESS, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ,
        NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_SGE, NDK_SGE_ADDRESS, NdkOperationTypeFastRegister,
        NdkOperationTypeInvalidate,
    },
    status::{NTSTATUS, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};
use simkernel::{Mdl, Pages};

use super::{Adapter, Mr, Pd, Side};

/// Bytes that differ from seed to seed.
pub(crate) fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8).wrapping_add(seed))
        .collect()
}

pub(crate) fn sge(address: u64, length: usize, token: u32) -> NDK_SGE {
    NDK_SGE {
        u: NDK_SGE_ADDRESS::from_virtual(std::ptr::without_provenance_mut(address as usize)),
        Length: u32::try_from(length).expect("an SGE has 32 bits for its length"),
        MemoryRegionToken: token,
    }
}

/// Registered memory.
pub(crate) struct Buffer {
    pub(crate) pages: Pages,
    pub(crate) mr: Mr,
    pub(crate) base: u64,
    pub(crate) token: u32,
    _mdl: Mdl,
}

impl Buffer {
    /// The virtual addresses in MDLs are only an index: nothing is mapped there, so a driver that dereferences one faults.
    pub(crate) const INDEX: u64 = 0x7FFE_0000_0000;

    pub(crate) fn new(pd: &Pd, pages: usize, flags: u32) -> Self {
        let pages = Pages::new(pages);
        let mdl = pages.mdl(0, pages.size(), Self::INDEX);
        let mr = pd.create_mr(false).expect("a region");
        mr.register(&mdl, pages.size(), flags).succeed();
        let token = mr.token();
        assert_ne!(token, 0);
        Self { pages, mr, base: mdl.virtual_address(), token, _mdl: mdl }
    }

    /// With all rights.
    pub(crate) fn full(pd: &Pd, pages: usize) -> Self {
        let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_READ | NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
        Self::new(pd, pages, flags)
    }

    pub(crate) fn address(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    pub(crate) fn sge(&self, offset: usize, length: usize) -> NDK_SGE {
        sge(self.address(offset), length, self.token)
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.mr.deregister().succeed();
        self.mr.close_now();
    }
}

/// A logical address mapping.
pub(crate) struct Lam {
    pub(crate) pages: Vec<NDK_LOGICAL_ADDRESS>,
    pub(crate) first_byte_offset: u32,
}

/// Builds and releases a mapping. Its addresses stay good as long as the MDL does.
pub(crate) fn mapping(adapter: &Adapter, mdl: &Mdl, length: usize) -> Result<Lam, NTSTATUS> {
    adapter.build_lam(mdl, length)
}

/// A fast-register region over memory of its own.
pub(crate) struct FastRegion {
    pub(crate) mr: Mr,
    pub(crate) pages: Pages,
    pub(crate) lam: Lam,
    /// The address of the first byte, to be registered with.
    pub(crate) base: u64,
    pub(crate) length: usize,
    _mdl: Mdl,
}

impl FastRegion {
    /// An address that consumers make up: treat as a 64-bit index.
    pub(crate) const BASE: u64 = 0xABCD_0000_0000_0000;

    pub(crate) fn new(adapter: &Adapter, pd: &Pd, pages: usize, remote_access: bool) -> Self {
        Self::at(adapter, pd, pages, 0, pages * PAGE_SIZE, remote_access)
    }

    /// `length` bytes from `offset` on.
    pub(crate) fn at(adapter: &Adapter, pd: &Pd, pages: usize, offset: usize, length: usize, remote: bool) -> Self {
        let memory = Pages::new(pages);
        let mdl = memory.mdl(offset, length, Buffer::INDEX);
        let lam = mapping(adapter, &mdl, length).expect("a mapping");
        let mr = pd.create_mr(true).expect("a region");
        mr.initialize_fast(pages as u32, remote).succeed();
        assert_ne!(mr.token(), 0, "consumers keep the token from here on");
        let base = Self::BASE + u64::from(lam.first_byte_offset);
        Self { mr, pages: memory, lam, base, length, _mdl: mdl }
    }

    pub(crate) fn post(&self, side: &Side, context: usize, flags: u32) -> NTSTATUS {
        side.qp.fast_register(context, &self.mr, &self.lam, self.length, self.base, flags)
    }

    /// Registers through `side`'s queue pair and waits.
    #[track_caller]
    pub(crate) fn register(&self, side: &Side, flags: u32) {
        assert_eq!(self.post(side, 0xFA57, flags), STATUS_SUCCESS);
        let result = side.initiator_cq.wait_one();
        assert_eq!(result.Status, STATUS_SUCCESS);
        assert_eq!(result.Type, NdkOperationTypeFastRegister);
    }

    /// Invalidates through `side`'s queue pair and waits.
    #[track_caller]
    pub(crate) fn invalidate(&self, side: &Side) {
        assert_eq!(side.qp.invalidate(0x1_4A7E, &self.mr, 0), STATUS_SUCCESS);
        let result = side.initiator_cq.wait_one();
        assert_eq!(result.Status, STATUS_SUCCESS);
        assert_eq!(result.Type, NdkOperationTypeInvalidate);
    }

    pub(crate) fn sge(&self, offset: usize, length: usize) -> NDK_SGE {
        sge(self.base + offset as u64, length, self.mr.token())
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.mr.close_now();
    }
}
