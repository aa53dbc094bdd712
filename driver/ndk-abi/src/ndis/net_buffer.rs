//! Packets. The driver reads them through NDIS's pointers only: the whole structures have no fixed size.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::{NDIS_HANDLE, NDIS_OBJECT_HEADER};
use crate::status::NDIS_STATUS;
use crate::wdm::MDL;

c_consts! { SEND_FLAGS: u32;
    /// Flag of a send: NDIS calls at DISPATCH_LEVEL.
    NDIS_SEND_FLAGS_DISPATCH_LEVEL = 0x1;
    /// Flag of a send's completion: the miniport calls at DISPATCH_LEVEL.
    NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL = 0x1;
}

c_consts! { RECEIVE_FLAGS: u32;
    /// Flag of an indication: the miniport calls at DISPATCH_LEVEL.
    NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL = 0x1;
    /// Flag of an indication: the lists are the miniport's again when the call returns, and are not returned.
    NDIS_RECEIVE_FLAGS_RESOURCES = 0x2;
    /// Flag of a return: NDIS calls at DISPATCH_LEVEL.
    NDIS_RETURN_FLAGS_DISPATCH_LEVEL = 0x1;
}

/// The place of the EtherType, in network order, in [`NET_BUFFER_LIST::NetBufferListInfo`] (NDIS_NET_BUFFER_LIST_INFO).
pub const NetBufferListFrameType: usize = 7;

c_structs! { NET_BUFFER_LAYOUTS:
    /// A list of packets, linked by `Next`. Newer versions of NDIS than 6.60 have more entries in NetBufferListInfo.
    prefix NET_BUFFER_LIST, size 0x160 {
        0x00 Next: *mut NET_BUFFER_LIST,
        0x08 FirstNetBuffer: *mut NET_BUFFER,
        0x10 Context: *mut c_void,
        0x18 ParentNetBufferList: *mut NET_BUFFER_LIST,
        0x20 NdisPoolHandle: NDIS_HANDLE,
        0x28 Padding0: [u8; 8],
        0x30 NdisReserved: [*mut c_void; 2],
        0x40 ProtocolReserved: [*mut c_void; 4],
        0x60 MiniportReserved: [*mut c_void; 2],
        0x70 Scratch: *mut c_void,
        0x78 SourceHandle: NDIS_HANDLE,
        0x80 NblFlags: u32,
        0x84 ChildRefCount: i32,
        0x88 Flags: u32,
        0x8c Status: NDIS_STATUS,
        0x90 NetBufferListInfo: [*mut c_void; 26],
    }

    /// A packet: `DataLength` bytes, from `CurrentMdlOffset` of `CurrentMdl` on. More fields follow.
    prefix NET_BUFFER, size 0x30 {
        0x00 Next: *mut NET_BUFFER,
        0x08 CurrentMdl: *mut MDL,
        0x10 CurrentMdlOffset: u32,
        0x14 Padding0: [u8; 4],
        0x18 DataLength: u32,
        0x1c Padding1: [u8; 4],
        0x20 MdlChain: *mut MDL,
        0x28 DataOffset: u32,
    }

    /// The input of NdisAllocateNetBufferListPool.
    struct NET_BUFFER_LIST_POOL_PARAMETERS, size 0x10 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 ProtocolId: u8,
        0x05 fAllocateNetBuffer: u8,
        0x06 ContextSize: u16,
        0x08 PoolTag: u32,
        0x0c DataSize: u32,
    }
}
