//! Requests of kernel callers (IRP_MJ_INTERNAL_DEVICE_CONTROL): page lists, security of a bind, partitions of guests.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{IF_PHYSICAL_ADDRESS, ND_BIND, ND_MR_REGISTER_HDR};
use crate::sockaddr::SOCKADDR_INET;
use crate::wdm::BOOLEAN;

c_enum! { MMIO_TYPES:
    /// The kind of address by which a partition reaches device memory.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum NDV_MMIO_TYPE(i32) {
        NdPartitionKernelVirtual = 0,
        NdPartitionSystemPhysical = 1,
        NdPartitionGuestPhysical = 2,
    }
}

/// Undoes [`NDV_PARTITION_BIND_ADDRESS`].
pub type NDV_PARTITION_UNBIND_ADDRESS = ND_BIND;

c_structs! { KERNEL_LAYOUTS:
    /// A locally unique identifier.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct LUID, size 0x8 {
        0x00 LowPart: u32,
        0x04 HighPart: i32,
    }

    /// [`ND_BIND`] on behalf of the logon session `AuthenticationId`.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDK_BIND, size 0x40 {
        0x00 Header: ND_BIND,
        0x30 AuthenticationId: LUID,
        0x38 IsAdmin: BOOLEAN,
        0x39 Padding0: [u8; 7],
    }

    /// Registers pages; their logical addresses lie at `CbLogicalPageAddressesOffset` of the input.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDK_MR_REGISTER, size 0x28 {
        0x00 Header: ND_MR_REGISTER_HDR,
        0x20 CbLogicalPageAddressesOffset: u32,
        0x24 Padding0: [u8; 4],
    }

    /// Asks for the adapter with a hardware address.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDV_RESOLVE_ADAPTER_ID, size 0x28 {
        0x00 Version: u32,
        0x04 HwAddress: IF_PHYSICAL_ADDRESS,
        0x26 Padding0: [u8; 2],
    }

    /// Creates the partition of a guest.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDV_PARTITION_CREATE, size 0x18 {
        0x00 Version: u32,
        0x04 MmioType: NDV_MMIO_TYPE,
        0x08 AdapterId: u64,
        0x10 XmitCap: u64,
    }

    /// Assigns an address to a partition.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDV_PARTITION_BIND_ADDRESS, size 0x70 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 PartitionHandle: u64,
        0x10 Address: SOCKADDR_INET,
        0x2c GuestHwAddress: IF_PHYSICAL_ADDRESS,
        0x4e HwAddress: IF_PHYSICAL_ADDRESS,
    }

    /// Assigns an interface to a partition.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDV_PARTITION_BIND_LUID, size 0x40 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 PartitionHandle: u64,
        0x10 HwAddress: IF_PHYSICAL_ADDRESS,
        0x32 Padding0: [u8; 6],
        0x38 Luid: u64,
    }
}
