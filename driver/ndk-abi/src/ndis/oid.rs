//! Object identifiers, and the requests that carry them.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::{NDIS_HANDLE, NDIS_OBJECT_HEADER, NDIS_PORT_NUMBER};
use crate::describe::ZeroInit;

c_enum! { REQUEST_TYPES:
    /// The type of an OID request.
    enum NDIS_REQUEST_TYPE(i32) {
        NdisRequestQueryInformation = 0,
        NdisRequestSetInformation = 1,
        NdisRequestQueryStatistics = 2,
        NdisRequestMethod = 12,
    }
}

c_consts! { OIDS: u32;
    OID_GEN_SUPPORTED_LIST = 0x0001_0101;
    OID_GEN_HARDWARE_STATUS = 0x0001_0102;
    OID_GEN_MEDIA_SUPPORTED = 0x0001_0103;
    OID_GEN_MEDIA_IN_USE = 0x0001_0104;
    OID_GEN_MAXIMUM_LOOKAHEAD = 0x0001_0105;
    OID_GEN_MAXIMUM_FRAME_SIZE = 0x0001_0106;
    OID_GEN_LINK_SPEED = 0x0001_0107;
    OID_GEN_TRANSMIT_BUFFER_SPACE = 0x0001_0108;
    OID_GEN_RECEIVE_BUFFER_SPACE = 0x0001_0109;
    OID_GEN_TRANSMIT_BLOCK_SIZE = 0x0001_010A;
    OID_GEN_RECEIVE_BLOCK_SIZE = 0x0001_010B;
    OID_GEN_VENDOR_ID = 0x0001_010C;
    OID_GEN_VENDOR_DESCRIPTION = 0x0001_010D;
    OID_GEN_CURRENT_PACKET_FILTER = 0x0001_010E;
    OID_GEN_CURRENT_LOOKAHEAD = 0x0001_010F;
    OID_GEN_DRIVER_VERSION = 0x0001_0110;
    OID_GEN_MAXIMUM_TOTAL_SIZE = 0x0001_0111;
    OID_GEN_MAC_OPTIONS = 0x0001_0113;
    OID_GEN_MEDIA_CONNECT_STATUS = 0x0001_0114;
    OID_GEN_MAXIMUM_SEND_PACKETS = 0x0001_0115;
    OID_GEN_VENDOR_DRIVER_VERSION = 0x0001_0116;
    OID_GEN_PHYSICAL_MEDIUM = 0x0001_0202;
    OID_GEN_LINK_STATE = 0x0001_0207;
    OID_GEN_LINK_PARAMETERS = 0x0001_0208;
    OID_GEN_INTERRUPT_MODERATION = 0x0001_0209;
    OID_GEN_XMIT_OK = 0x0002_0101;
    OID_GEN_RCV_OK = 0x0002_0102;
    OID_GEN_XMIT_ERROR = 0x0002_0103;
    OID_GEN_RCV_ERROR = 0x0002_0104;
    OID_GEN_RCV_NO_BUFFER = 0x0002_0105;
    /// Query. NDIS_STATISTICS_INFO; NDK traffic counts too.
    OID_GEN_STATISTICS = 0x0002_0106;
    OID_GEN_DIRECTED_BYTES_XMIT = 0x0002_0201;
    OID_GEN_DIRECTED_FRAMES_XMIT = 0x0002_0202;
    OID_GEN_MULTICAST_BYTES_XMIT = 0x0002_0203;
    OID_GEN_MULTICAST_FRAMES_XMIT = 0x0002_0204;
    OID_GEN_BROADCAST_BYTES_XMIT = 0x0002_0205;
    OID_GEN_BROADCAST_FRAMES_XMIT = 0x0002_0206;
    OID_GEN_DIRECTED_BYTES_RCV = 0x0002_0207;
    OID_GEN_DIRECTED_FRAMES_RCV = 0x0002_0208;
    OID_GEN_MULTICAST_BYTES_RCV = 0x0002_0209;
    OID_GEN_MULTICAST_FRAMES_RCV = 0x0002_020A;
    OID_GEN_BROADCAST_BYTES_RCV = 0x0002_020B;
    OID_GEN_BROADCAST_FRAMES_RCV = 0x0002_020C;
    OID_GEN_BYTES_RCV = 0x0002_0219;
    OID_GEN_BYTES_XMIT = 0x0002_021A;
    OID_GEN_RCV_DISCARDS = 0x0002_021B;
    OID_GEN_XMIT_DISCARDS = 0x0002_021C;
    /// Query. NDIS_RSC_STATISTICS_INFO.
    OID_TCP_RSC_STATISTICS = 0x0002_021D;
    OID_802_3_PERMANENT_ADDRESS = 0x0101_0101;
    OID_802_3_CURRENT_ADDRESS = 0x0101_0102;
    OID_802_3_MULTICAST_LIST = 0x0101_0103;
    OID_802_3_MAXIMUM_LIST_SIZE = 0x0101_0104;
    OID_802_3_RCV_ERROR_ALIGNMENT = 0x0102_0101;
    OID_802_3_XMIT_ONE_COLLISION = 0x0102_0102;
    OID_802_3_XMIT_MORE_COLLISIONS = 0x0102_0103;
    OID_OFFLOAD_ENCAPSULATION = 0x0101_010A;
    OID_TCP_OFFLOAD_PARAMETERS = 0xFC01_020C;
    OID_PNP_CAPABILITIES = 0xFD01_0100;
    OID_PNP_SET_POWER = 0xFD01_0101;
    OID_PNP_QUERY_POWER = 0xFD01_0102;
    /// Set, BOOLEAN. The miniport raises the PnP event from a work item, never in the handler.
    OID_NDK_SET_STATE = 0xFC04_0201;
    /// Query, on the direct path. NDIS_NDK_STATISTICS_INFO.
    OID_NDK_STATISTICS = 0xFC04_0202;
    /// Query. NDIS_NDK_CONNECTIONS.
    OID_NDK_CONNECTIONS = 0xFC04_0203;
    /// Query. NDIS_NDK_LOCAL_ENDPOINTS.
    OID_NDK_LOCAL_ENDPOINTS = 0xFC04_0204;
}

c_structs! { OID_LAYOUTS:
    /// An OID request. NDIS allocates it, and its size depends on the version of NDIS: a driver reads it through a
    /// pointer only. `RequestType` selects the member of `DATA`.
    struct NDIS_OID_REQUEST, size 0xf8 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 RequestType: NDIS_REQUEST_TYPE,
        0x08 PortNumber: NDIS_PORT_NUMBER,
        0x0c Timeout: u32,
        0x10 RequestId: *mut c_void,
        0x18 RequestHandle: NDIS_HANDLE,
        0x20 DATA: NDIS_OID_REQUEST_DATA,
        0x48 NdisReserved: [u8; 128],
        0xc8 MiniportReserved: [u8; 16],
        0xd8 SourceReserved: [u8; 16],
        0xe8 SupportedRevision: u8,
        0xe9 Reserved1: u8,
        0xea Reserved2: u16,
        0xec SwitchId: u32,
        0xf0 VPortId: u32,
        0xf4 Flags: u32,
    }

    /// A query.
    struct NDIS_OID_REQUEST_QUERY, size 0x20 {
        0x00 Oid: u32,
        0x08 InformationBuffer: *mut c_void,
        0x10 InformationBufferLength: u32,
        0x14 BytesWritten: u32,
        0x18 BytesNeeded: u32,
    }

    /// A set.
    struct NDIS_OID_REQUEST_SET, size 0x20 {
        0x00 Oid: u32,
        0x08 InformationBuffer: *mut c_void,
        0x10 InformationBufferLength: u32,
        0x14 BytesRead: u32,
        0x18 BytesNeeded: u32,
    }

    /// A method.
    struct NDIS_OID_REQUEST_METHOD, size 0x28 {
        0x00 Oid: u32,
        0x08 InformationBuffer: *mut c_void,
        0x10 InputBufferLength: u32,
        0x14 OutputBufferLength: u32,
        0x18 MethodId: u32,
        0x1c BytesWritten: u32,
        0x20 BytesRead: u32,
        0x24 BytesNeeded: u32,
    }
}

/// The part of [`NDIS_OID_REQUEST`] that `RequestType` selects. All members start with the OID and the buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub union NDIS_OID_REQUEST_DATA {
    /// NdisRequestQueryInformation, NdisRequestQueryStatistics.
    pub QUERY_INFORMATION: NDIS_OID_REQUEST_QUERY,
    /// NdisRequestSetInformation.
    pub SET_INFORMATION: NDIS_OID_REQUEST_SET,
    /// NdisRequestMethod.
    pub METHOD_INFORMATION: NDIS_OID_REQUEST_METHOD,
}

const _: () = assert!(size_of::<NDIS_OID_REQUEST_DATA>() == 0x28);

impl core::fmt::Debug for NDIS_OID_REQUEST_DATA {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("NDIS_OID_REQUEST_DATA")
    }
}

impl ZeroInit for NDIS_OID_REQUEST_DATA {
    const ZERO: Self = Self { METHOD_INFORMATION: NDIS_OID_REQUEST_METHOD::ZERO };
}
