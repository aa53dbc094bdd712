//! The structures of the NDK OIDs.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NDIS_OBJECT_HEADER;
use crate::ndkpi::{NDK_RDMA_TECHNOLOGY, NDK_VERSION};
use crate::sockaddr::SOCKADDR_INET;
use crate::wdm::BOOLEAN;

c_structs! { NDK_OID_LAYOUTS:
    /// Totals, except `ActiveConnection`: the connections at present. Octets and frames include the link layer. Bit n
    /// of NDIS_NDK_CAPABILITIES::MissingCounterMask says that the n-th counter is absent.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_PERFORMANCE_COUNTERS, size 0xf0 {
        0x00 Connect: u64,
        0x08 Accept: u64,
        0x10 ConnectFailure: u64,
        0x18 ConnectionError: u64,
        0x20 ActiveConnection: u64,
        0x28 Reserved01: u64,
        0x30 Reserved02: u64,
        0x38 Reserved03: u64,
        0x40 Reserved04: u64,
        0x48 Reserved05: u64,
        0x50 Reserved06: u64,
        0x58 Reserved07: u64,
        0x60 Reserved08: u64,
        0x68 Reserved09: u64,
        0x70 Reserved10: u64,
        0x78 Reserved11: u64,
        0x80 Reserved12: u64,
        0x88 Reserved13: u64,
        0x90 Reserved14: u64,
        0x98 Reserved15: u64,
        0xa0 Reserved16: u64,
        0xa8 Reserved17: u64,
        0xb0 Reserved18: u64,
        0xb8 Reserved19: u64,
        0xc0 Reserved20: u64,
        0xc8 CQError: u64,
        0xd0 RDMAInOctets: u64,
        0xd8 RDMAOutOctets: u64,
        0xe0 RDMAInFrames: u64,
        0xe8 RDMAOutFrames: u64,
    }

    /// Answer to OID_NDK_STATISTICS.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_STATISTICS_INFO, size 0xf8 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 CounterSet: NDIS_NDK_PERFORMANCE_COUNTERS,
    }

    /// A connection.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_CONNECTION_ENTRY, size 0x40 {
        0x00 Local: SOCKADDR_INET,
        0x1c Remote: SOCKADDR_INET,
        0x38 UserModeOwner: BOOLEAN,
        0x39 Padding0: [u8; 3],
        0x3c OwnerPid: u32,
    }

    /// Answer to OID_NDK_CONNECTIONS: 0x10 + 0x40 * `Count` bytes; `Header.Size` is at most 0xFFFF. If ND maps to TCP,
    /// entries come in pairs: ND addresses, TCP addresses.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_CONNECTIONS, size 0x50 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 Count: u32,
        0x0c NDConnectionsMappedtoTCPConnections: BOOLEAN,
        0x0d Padding0: [u8; 3],
        0x10 Connections: [NDIS_NDK_CONNECTION_ENTRY; 1],
    }

    /// A listener or a shared endpoint.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_LOCAL_ENDPOINT_ENTRY, size 0x24 {
        0x00 Local: SOCKADDR_INET,
        0x1c UserModeOwner: BOOLEAN,
        0x1d Listener: BOOLEAN,
        0x1e Padding0: [u8; 2],
        0x20 OwnerPid: u32,
    }

    /// Answer to OID_NDK_LOCAL_ENDPOINTS: 0x10 + 0x24 * `Count` bytes, otherwise as NDIS_NDK_CONNECTIONS.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_NDK_LOCAL_ENDPOINTS, size 0x34 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 Count: u32,
        0x0c NDLocalEndpointsMappedtoTCPLocalEndpoints: BOOLEAN,
        0x0d Padding0: [u8; 3],
        0x10 LocalEndpoints: [NDIS_NDK_LOCAL_ENDPOINT_ENTRY; 1],
    }

    /// NDK_ADAPTER_INFO in the form that NDIS makes for WMI.
    struct NDK_WMI_ADAPTER_INFO, size 0x68 {
        0x00 Version: NDK_VERSION,
        0x04 VendorId: u32,
        0x08 DeviceId: u32,
        0x10 MaxRegistrationSize: u64,
        0x18 MaxWindowSize: u64,
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

    /// NDIS_NDK_CAPABILITIES in the form that NDIS makes for WMI.
    struct NDIS_WMI_NDK_CAPABILITIES, size 0x90 {
        0x00 MaxQpCount: u32,
        0x04 MaxCqCount: u32,
        0x08 MaxMrCount: u32,
        0x0c MaxPdCount: u32,
        0x10 MaxInboundReadLimit: u32,
        0x14 MaxOutboundReadLimit: u32,
        0x18 MaxMwCount: u32,
        0x1c MaxSrqCount: u32,
        0x20 MissingCounterMask: u64,
        0x28 NdkInfo: NDK_WMI_ADAPTER_INFO,
    }
}

/// Bytes of an [`NDIS_NDK_CONNECTIONS`] with `count` entries, or `None` if they overflow.
#[must_use]
pub const fn NDIS_SIZEOF_NDK_CONNECTIONS_REVISION_1(count: usize) -> Option<usize> {
    sized(core::mem::offset_of!(NDIS_NDK_CONNECTIONS, Connections), size_of::<NDIS_NDK_CONNECTION_ENTRY>(), count)
}

/// Bytes of an [`NDIS_NDK_LOCAL_ENDPOINTS`] with `count` entries, or `None` if they overflow.
#[must_use]
pub const fn NDIS_SIZEOF_NDK_LOCAL_ENDPOINTS_REVISION_1(count: usize) -> Option<usize> {
    sized(
        core::mem::offset_of!(NDIS_NDK_LOCAL_ENDPOINTS, LocalEndpoints),
        size_of::<NDIS_NDK_LOCAL_ENDPOINT_ENTRY>(),
        count,
    )
}

const fn sized(head: usize, entry: usize, count: usize) -> Option<usize> {
    match entry.checked_mul(count) {
        Some(entries) => entries.checked_add(head),
        None => None,
    }
}
