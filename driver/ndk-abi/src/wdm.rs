//! The kernel types that the portable crates use. Fields are named as in the WDM documentation.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// TRUE is any value but 0.
pub type BOOLEAN = u8;
/// An interrupt request level.
pub type KIRQL = u8;

c_consts! { IRQLS: KIRQL;
    /// The level of threads, which may wait and touch paged memory.
    PASSIVE_LEVEL = 0;
    /// Asynchronous procedure calls are blocked.
    APC_LEVEL = 1;
    /// The scheduler is off: no waiting, no paged memory. Spin locks and DPCs run here.
    DISPATCH_LEVEL = 2;
}

c_consts! { SIZES: usize;
    /// Bytes of a page, on x64.
    PAGE_SIZE = 4096;
}

c_consts! { MDL_FLAGS: u16;
    /// `MappedSystemVa` is valid.
    MDL_MAPPED_TO_SYSTEM_VA = 0x0001;
    /// Pages were locked with MmProbeAndLockPages.
    MDL_PAGES_LOCKED = 0x0002;
    /// Set by MmBuildMdlForNonPagedPool; `MappedSystemVa` is valid.
    MDL_SOURCE_IS_NONPAGED_POOL = 0x0004;
    MDL_ALLOCATED_FIXED_SIZE = 0x0008;
    MDL_PARTIAL = 0x0010;
    MDL_PARTIAL_HAS_BEEN_MAPPED = 0x0020;
    /// Locked for writing by the device.
    MDL_WRITE_OPERATION = 0x0080;
}

c_structs! { WDM_LAYOUTS:
    /// The header of a memory descriptor list; an array of page frame numbers (u64) follows it.
    ///
    /// The buffer is `StartVa + ByteOffset`, `ByteCount` bytes. The chain continues at `Next`; an MDL in it may have 0
    /// bytes.
    struct MDL, size 0x30 {
        0x00 Next: *mut MDL,
        0x08 Size: u16,
        0x0a MdlFlags: u16,
        0x10 Process: *mut c_void,
        0x18 MappedSystemVa: *mut c_void,
        0x20 StartVa: *mut c_void,
        0x28 ByteCount: u32,
        0x2c ByteOffset: u32,
    }

    /// Processors of one group. NDKPI takes the affinity as a hint only.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct GROUP_AFFINITY, size 0x10 {
        0x00 Mask: u64,
        0x08 Group: u16,
        0x0a Reserved: [u16; 3],
    }

    /// A globally unique identifier.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct GUID, size 0x10 {
        0x00 Data1: u32,
        0x04 Data2: u16,
        0x06 Data3: u16,
        0x08 Data4: [u8; 8],
    }

    /// A counted UTF-16 string; the lengths are in bytes.
    struct UNICODE_STRING, size 0x10 {
        0x00 Length: u16,
        0x02 MaximumLength: u16,
        0x08 Buffer: *mut u16,
    }
}

impl GUID {
    /// Makes a GUID from the digits of its written form, most significant first.
    #[must_use]
    pub const fn from_u128(digits: u128) -> Self {
        Self {
            Data1: (digits >> 96) as u32,
            Data2: (digits >> 80) as u16,
            Data3: (digits >> 64) as u16,
            Data4: (digits as u64).to_be_bytes(),
        }
    }
}
