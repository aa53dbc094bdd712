//! Mappings, by which the user-mode provider passes queue memory to the driver. A create or modify request carries
//! `CeMappingCount` [`ND_MAPPING`] at `CbMappingsOffset`.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

c_enum! { MAPPING_TYPES:
    /// The member of [`ND_MAPPING`] that is in use.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum ND_MAPPING_TYPE(i32) {
        NdMapIoSpace = 0,
        NdMapMemory = 1,
        NdMapMemoryCoallesce = 2,
        NdMapPages = 3,
        NdMapPagesCoallesce = 4,
        NdUnmapIoSpace = 5,
        NdUnmapMemory = 6,
    }
}

c_enum! { CACHING_TYPES:
    /// How device memory is cached.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum ND_CACHING_TYPE(i32) {
        NdNonCached = 0,
        NdCached = 1,
        NdWriteCombined = 2,
    }
}

c_enum! { ACCESS_TYPES:
    /// The access of the driver to pinned memory.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum ND_ACCESS_TYPE(i32) {
        NdReadAccess = 0,
        NdWriteAccess = 1,
        NdModifyAccess = 2,
    }
}

c_structs! { MAPPING_LAYOUTS:
    /// Maps doorbell pages of the device.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MAP_IO_SPACE, size 0xc {
        0x00 MapType: ND_MAPPING_TYPE,
        0x04 CacheType: ND_CACHING_TYPE,
        0x08 CbLength: u32,
    }

    /// Pins `CbLength` bytes at `Address` of the caller's process.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MAP_MEMORY, size 0x18 {
        0x00 MapType: ND_MAPPING_TYPE,
        0x04 AccessType: ND_ACCESS_TYPE,
        0x08 Address: u64,
        0x10 CbLength: u32,
        0x14 Padding0: [u8; 4],
    }

    /// Undoes a mapping.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MAPPING_ID, size 0x10 {
        0x00 MapType: ND_MAPPING_TYPE,
        0x04 Padding0: [u8; 4],
        0x08 Id: u64,
    }

    /// For kernel callers: `CbLogicalPageAddressesOffset` of the input has the list of pages.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDK_MAP_PAGES, size 0x20 {
        0x00 Header: ND_MAP_MEMORY,
        0x18 CbLogicalPageAddressesOffset: u32,
        0x1c Padding0: [u8; 4],
    }

    /// The result of one mapping.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MAPPING_RESULT, size 0x10 {
        0x00 Id: u64,
        0x08 Information: u64,
    }

    /// One mapping. In C a union of the structures above, which all start with `MapType`; here its longest member, so
    /// that every byte is initialised. Read the other members from its bytes, with zerocopy.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MAPPING, size 0x20 {
        0x00 MapPages: NDK_MAP_PAGES,
    }
}

impl ND_MAPPING {
    /// The mapping of `length` bytes at `address` of the caller's process, which the driver reads and writes.
    #[must_use]
    pub const fn memory(address: u64, length: u32) -> Self {
        let header = ND_MAP_MEMORY {
            MapType: NdMapMemory,
            AccessType: NdModifyAccess,
            Address: address,
            CbLength: length,
            Padding0: [0; 4],
        };
        Self { MapPages: NDK_MAP_PAGES { Header: header, CbLogicalPageAddressesOffset: 0, Padding0: [0; 4] } }
    }
}
