//! The data structures of NDKPI: adapter limits, scatter/gather entries, logical address mappings, completions.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{NDK_OPERATION_TYPE, NDK_RDMA_TECHNOLOGY, NDK_VERSION};
use crate::describe::ZeroInit;
use crate::status::NTSTATUS;

c_structs! { DATA_LAYOUTS:
    /// Limits and capabilities of an adapter. Sizes are bytes, depths entries. The structure had 0x60 bytes before
    /// NDKPI 2.0 added `RdmaTechnology`. Page `ns-ndkinfo-ndk_adapter_info`.
    struct NDK_ADAPTER_INFO, size 0x68 {
        0x00 Version: NDK_VERSION,
        0x04 VendorId: u32,
        0x08 DeviceId: u32,
        0x10 MaxRegistrationSize: usize,
        0x18 MaxWindowSize: usize,
        0x20 FRMRPageCount: u32,
        0x24 MaxInitiatorRequestSge: u32,
        0x28 MaxReceiveRequestSge: u32,
        0x2c MaxReadRequestSge: u32,
        0x30 MaxTransferLength: u32,
        0x34 MaxInlineDataSize: u32,
        0x38 MaxInboundReadLimit: u32,
        0x3c MaxOutboundReadLimit: u32,
        0x40 MaxReceiveQueueDepth: u32,
        0x44 MaxInitiatorQueueDepth: u32,
        0x48 MaxSrqDepth: u32,
        0x4c MaxCqDepth: u32,
        0x50 LargeRequestThreshold: u32,
        0x54 MaxCallerData: u32,
        0x58 MaxCalleeData: u32,
        0x5c AdapterFlags: u32,
        0x60 RdmaTechnology: NDK_RDMA_TECHNOLOGY,
    }

    /// A PHYSICAL_ADDRESS that NdkBuildLAM gives; the provider chooses its meaning.
    #[derive(PartialEq, Eq)]
    struct NDK_LOGICAL_ADDRESS, size 0x8 {
        0x00 QuadPart: i64,
    }

    /// The adapter pages of an MDL chain: `AdapterPageCount` entries, 0x10 + 8 * count bytes in all. Page
    /// `ns-ndkpi-_ndk_logical_address_mapping`.
    struct NDK_LOGICAL_ADDRESS_MAPPING, size 0x18 {
        0x00 AdapterContext: *mut c_void,
        0x08 AdapterPageCount: u32,
        0x10 AdapterPageArray: [NDK_LOGICAL_ADDRESS; 1],
    }

    /// A scatter/gather entry: `Length` bytes. The token says what the address means. Page `ns-ndkpi-_ndk_sge`.
    struct NDK_SGE, size 0x10 {
        0x00 u: NDK_SGE_ADDRESS,
        0x08 Length: u32,
        0x0c MemoryRegionToken: u32,
    }

    /// A completion. `BytesTransferred` is meaningful for receives only. Page `ns-ndkpi-_ndk_result`.
    struct NDK_RESULT, size 0x18 {
        0x00 Status: NTSTATUS,
        0x04 BytesTransferred: u32,
        0x08 QPContext: *mut c_void,
        0x10 RequestContext: *mut c_void,
    }

    /// A completion with its kind, since NDKPI 1.2. `TypeSpecificCompletionOutput` is the invalidated token of a
    /// receive-and-invalidate; `ProviderErrorCode` (2.1) was padding before. Page `ns-ndkpi-_ndk_result_ex`.
    struct NDK_RESULT_EX, size 0x28 {
        0x00 Status: NTSTATUS,
        0x04 BytesTransferred: u32,
        0x08 QPContext: *mut c_void,
        0x10 RequestContext: *mut c_void,
        0x18 Type: NDK_OPERATION_TYPE,
        0x1c ProviderErrorCode: u32,
        0x20 TypeSpecificCompletionOutput: usize,
    }
}

/// The address of an [`NDK_SGE`]. In C a union of a pointer and a logical address.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct NDK_SGE_ADDRESS(pub *mut c_void);

impl NDK_SGE_ADDRESS {
    /// With the token of a region, an address in the region; for inline data, the address of the bytes.
    #[must_use]
    pub const fn from_virtual(address: *mut c_void) -> Self {
        Self(address)
    }

    /// With the privileged token of a protection domain.
    #[must_use]
    pub const fn from_logical(address: NDK_LOGICAL_ADDRESS) -> Self {
        Self(core::ptr::without_provenance_mut(address.QuadPart.cast_unsigned() as usize))
    }

    /// The address as a virtual address.
    #[must_use]
    pub const fn VirtualAddress(self) -> *mut c_void {
        self.0
    }

    /// The address as a logical address.
    #[must_use]
    pub fn LogicalAddress(self) -> NDK_LOGICAL_ADDRESS {
        NDK_LOGICAL_ADDRESS { QuadPart: (self.0.addr() as u64).cast_signed() }
    }
}

impl ZeroInit for NDK_SGE_ADDRESS {
    const ZERO: Self = Self(core::ptr::null_mut());
}

impl NDK_LOGICAL_ADDRESS_MAPPING {
    /// Bytes of a mapping of `pages` adapter pages, or `None` if they overflow.
    #[must_use]
    pub const fn size_for(pages: usize) -> Option<usize> {
        match pages.checked_mul(size_of::<NDK_LOGICAL_ADDRESS>()) {
            Some(array) => array.checked_add(core::mem::offset_of!(Self, AdapterPageArray)),
            None => None,
        }
    }
}
