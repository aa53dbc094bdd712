//! Status indications, and the answers to general OIDs that are structures.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{NDIS_HANDLE, NDIS_MEDIA_CONNECT_STATE, NDIS_MEDIA_DUPLEX_STATE, NDIS_OBJECT_HEADER, NDIS_PORT_NUMBER};
use crate::status::NDIS_STATUS;
use crate::wdm::GUID;

c_enum! { PAUSE_FUNCTIONS:
    /// Use of IEEE 802.3 pause frames.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum NDIS_SUPPORTED_PAUSE_FUNCTIONS(i32) {
        NdisPauseFunctionsUnsupported = 0,
        NdisPauseFunctionsSendOnly = 1,
        NdisPauseFunctionsReceiveOnly = 2,
        NdisPauseFunctionsSendAndReceive = 3,
        NdisPauseFunctionsUnknown = 4,
    }
}

c_enum! { MODERATIONS:
    /// Interrupt moderation of the adapter.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum NDIS_INTERRUPT_MODERATION(i32) {
        NdisInterruptModerationUnknown = 0,
        NdisInterruptModerationNotSupported = 1,
        NdisInterruptModerationEnabled = 2,
        NdisInterruptModerationDisabled = 3,
    }
}

c_structs! { STATUS_LAYOUTS:
    /// An indication to the protocol and filter drivers above the miniport.
    struct NDIS_STATUS_INDICATION, size 0x70 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 SourceHandle: NDIS_HANDLE,
        0x10 PortNumber: NDIS_PORT_NUMBER,
        0x14 StatusCode: NDIS_STATUS,
        0x18 Flags: u32,
        0x20 DestinationHandle: NDIS_HANDLE,
        0x28 RequestId: *mut c_void,
        0x30 StatusBuffer: *mut c_void,
        0x38 StatusBufferSize: u32,
        0x3c Guid: GUID,
        0x50 NdisReserved: [*mut c_void; 4],
    }

    /// Status buffer of NDIS_STATUS_LINK_STATE. Speeds are bits per second.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_LINK_STATE, size 0x28 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 MediaConnectState: NDIS_MEDIA_CONNECT_STATE,
        0x08 MediaDuplexState: NDIS_MEDIA_DUPLEX_STATE,
        0x0c Padding0: [u8; 4],
        0x10 XmitLinkSpeed: u64,
        0x18 RcvLinkSpeed: u64,
        0x20 PauseFunctions: NDIS_SUPPORTED_PAUSE_FUNCTIONS,
        0x24 AutoNegotiationFlags: u32,
    }

    /// Input of OID_GEN_LINK_PARAMETERS.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_LINK_PARAMETERS, size 0x20 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 MediaDuplexState: NDIS_MEDIA_DUPLEX_STATE,
        0x08 XmitLinkSpeed: u64,
        0x10 RcvLinkSpeed: u64,
        0x18 PauseFunctions: NDIS_SUPPORTED_PAUSE_FUNCTIONS,
        0x1c AutoNegotiationFlags: u32,
    }

    /// Input or answer of OID_GEN_INTERRUPT_MODERATION.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_INTERRUPT_MODERATION_PARAMETERS, size 0xc {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 InterruptModeration: NDIS_INTERRUPT_MODERATION,
    }

    /// Answer to OID_GEN_STATISTICS.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_STATISTICS_INFO, size 0x98 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 SupportedStatistics: u32,
        0x08 ifInDiscards: u64,
        0x10 ifInErrors: u64,
        0x18 ifHCInOctets: u64,
        0x20 ifHCInUcastPkts: u64,
        0x28 ifHCInMulticastPkts: u64,
        0x30 ifHCInBroadcastPkts: u64,
        0x38 ifHCOutOctets: u64,
        0x40 ifHCOutUcastPkts: u64,
        0x48 ifHCOutMulticastPkts: u64,
        0x50 ifHCOutBroadcastPkts: u64,
        0x58 ifOutErrors: u64,
        0x60 ifOutDiscards: u64,
        0x68 ifHCInUcastOctets: u64,
        0x70 ifHCInMulticastOctets: u64,
        0x78 ifHCInBroadcastOctets: u64,
        0x80 ifHCOutUcastOctets: u64,
        0x88 ifHCOutMulticastOctets: u64,
        0x90 ifHCOutBroadcastOctets: u64,
    }
}
