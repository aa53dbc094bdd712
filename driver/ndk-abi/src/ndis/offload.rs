//! Task offloads: what a miniport can do, and does, and what a transport asks for a list of packets (ntddndis.h, ndis/nblchecksum.h, ndis/nbllso.h).
//!
//! C has bit fields where this module has a number: `*_SHIFT`, and values of two bits.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NDIS_OBJECT_HEADER;

c_consts! { OFFLOAD_NUMBERS: u32;
    /// `Encapsulation`: the offload is not supported.
    NDIS_ENCAPSULATION_NOT_SUPPORTED = 0x0;
    /// `Encapsulation`: Ethernet.
    NDIS_ENCAPSULATION_IEEE_802_3 = 0x2;
    /// A member of two bits.
    NDIS_OFFLOAD_NOT_SUPPORTED = 0;
    NDIS_OFFLOAD_SUPPORTED = 1;
    /// NDIS_OFFLOAD_ENCAPSULATION: `Enabled`.
    NDIS_OFFLOAD_SET_NO_CHANGE = 0;
    NDIS_OFFLOAD_SET_ON = 1;
    NDIS_OFFLOAD_SET_OFF = 2;
    /// NDIS_OFFLOAD_PARAMETERS.
    NDIS_OFFLOAD_PARAMETERS_NO_CHANGE = 0;
    NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED = 1;
    NDIS_OFFLOAD_PARAMETERS_TX_ENABLED_RX_DISABLED = 2;
    NDIS_OFFLOAD_PARAMETERS_RX_ENABLED_TX_DISABLED = 3;
    NDIS_OFFLOAD_PARAMETERS_TX_RX_ENABLED = 4;
    NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED = 1;
    NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED = 2;
    NDIS_OFFLOAD_PARAMETERS_RSC_DISABLED = 1;
    NDIS_OFFLOAD_PARAMETERS_RSC_ENABLED = 2;
    /// `Type` and `IPVersion` of NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO.
    NDIS_TCP_LARGE_SEND_OFFLOAD_V2_TYPE = 1;
    NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4 = 0;
    NDIS_TCP_LARGE_SEND_OFFLOAD_IPv6 = 1;
}

/// The places of offloads in [`super::NET_BUFFER_LIST::NetBufferListInfo`] (NDIS_NET_BUFFER_LIST_INFO).
pub const TcpIpChecksumNetBufferListInfo: usize = 0;
pub const TcpLargeSendNetBufferListInfo: usize = 2;
pub const TcpRecvSegCoalesceInfo: usize = 22;
pub const RscTcpTimestampDelta: usize = 23;

c_structs! { OFFLOAD_LAYOUTS:
    /// Each member: `Encapsulation`, then the bits IpOptionsSupported (IPv6: IpExtensionHeadersSupported), TcpOptionsSupported, TcpChecksum,
    /// UdpChecksum and, for IPv4, IpChecksum, of two bits each.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_TCP_IP_CHECKSUM_OFFLOAD, size 0x20 {
        0x00 IPv4Transmit: [u32; 2],
        0x08 IPv4Receive: [u32; 2],
        0x10 IPv6Transmit: [u32; 2],
        0x18 IPv6Receive: [u32; 2],
    }

    /// Each member: `Encapsulation`, `MaxOffLoadSize`, `MinSegmentCount`; then, for IPv6, IpExtensionHeadersSupported and TcpOptionsSupported, of two
    /// bits each.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_TCP_LARGE_SEND_OFFLOAD_V2, size 0x1c {
        0x00 IPv4: [u32; 3],
        0x0c IPv6: [u32; 4],
    }

    /// Revision 4 (NDIS 6.50); later revisions have more members.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    prefix NDIS_OFFLOAD, size 0xb4 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Checksum: NDIS_TCP_IP_CHECKSUM_OFFLOAD,
        0x24 LsoV1: [u32; 4],
        0x34 IPsecV1: [u32; 7],
        0x50 LsoV2: NDIS_TCP_LARGE_SEND_OFFLOAD_V2,
        0x6c Flags: u32,
        0x70 IPsecV2: [u32; 8],
        /// IPv4 and IPv6, and what the compiler leaves free.
        0x90 Rsc: [u8; 4],
        0x94 EncapsulatedPacketTaskOffloadGre: [u32; 2],
        0x9c EncapsulatedPacketTaskOffloadVxlan: [u32; 5],
        0xb0 EncapsulationTypes: u8,
        0xb1 Padding0: [u8; 3],
    }

    /// The input of OID_TCP_OFFLOAD_PARAMETERS, revision 3 (NDIS 6.30). The first revision ends behind `Flags`; later revisions have more members.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    prefix NDIS_OFFLOAD_PARAMETERS, size 0x1c {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 IPv4Checksum: u8,
        0x05 TCPIPv4Checksum: u8,
        0x06 UDPIPv4Checksum: u8,
        0x07 TCPIPv6Checksum: u8,
        0x08 UDPIPv6Checksum: u8,
        0x09 LsoV1: u8,
        0x0a IPsecV1: u8,
        0x0b LsoV2IPv4: u8,
        0x0c LsoV2IPv6: u8,
        0x0d TcpConnectionIPv4: u8,
        0x0e TcpConnectionIPv6: u8,
        0x0f Padding0: [u8; 1],
        0x10 Flags: u32,
        0x14 IPsecV2: u8,
        0x15 IPsecV2IPv4: u8,
        0x16 RscIPv4: u8,
        0x17 RscIPv6: u8,
        0x18 EncapsulatedPacketTaskOffload: u8,
        0x19 EncapsulationTypes: u8,
        0x1a Padding1: [u8; 2],
    }

    /// The answer to OID_TCP_RSC_STATISTICS.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_RSC_STATISTICS_INFO, size 0x28 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Padding0: [u8; 4],
        0x08 CoalescedPkts: u64,
        0x10 CoalescedOctets: u64,
        0x18 CoalesceEvents: u64,
        0x20 Aborts: u64,
    }

    /// The input of OID_OFFLOAD_ENCAPSULATION. Each member: `Enabled`, `EncapsulationType`, `HeaderSize`.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct NDIS_OFFLOAD_ENCAPSULATION, size 0x1c {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 IPv4: [u32; 3],
        0x10 IPv6: [u32; 3],
    }

    /// What is on, and all that can be.
    struct NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES, size 0x28 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 DefaultOffloadConfiguration: *mut NDIS_OFFLOAD,
        0x10 HardwareOffloadCapabilities: *mut NDIS_OFFLOAD,
        0x18 DefaultTcpConnectionOffloadConfiguration: *mut c_void,
        0x20 TcpConnectionOffloadHardwareCapabilities: *mut c_void,
    }
}

/// NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO: `Transmit`, the checksums that the miniport is to write, or `Receive`, what the miniport knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO(pub u32);

impl NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO {
    pub const IS_IPV4: u32 = 1;
    pub const IS_IPV6: u32 = 1 << 1;
    pub const TCP_CHECKSUM: u32 = 1 << 2;
    pub const UDP_CHECKSUM: u32 = 1 << 3;
    pub const IP_HEADER_CHECKSUM: u32 = 1 << 4;
    pub const TCP_HEADER_OFFSET_SHIFT: u32 = 16;
    /// `Receive`.
    pub const TCP_CHECKSUM_SUCCEEDED: u32 = 1 << 3;
    pub const IP_CHECKSUM_SUCCEEDED: u32 = 1 << 5;

    /// Whether the miniport is to write a checksum of these.
    #[must_use]
    pub const fn asks(self, checksums: u32) -> bool {
        self.0 & (Self::IS_IPV4 | Self::IS_IPV6) != 0 && self.0 & checksums != 0
    }

    /// Bytes before the TCP header.
    #[must_use]
    pub const fn tcp_header_offset(self) -> usize {
        (self.0 >> Self::TCP_HEADER_OFFSET_SHIFT) as usize & 0x3FF
    }
}

/// NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO: 0, or how the miniport is to segment the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO(pub u32);

impl NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO {
    const TCP_HEADER_OFFSET_SHIFT: u32 = 20;
    const TYPE_SHIFT: u32 = 30;
    const IP_VERSION_SHIFT: u32 = 31;
    /// `LsoV2TransmitComplete`.
    pub const COMPLETE: Self = Self(NDIS_TCP_LARGE_SEND_OFFLOAD_V2_TYPE << Self::TYPE_SHIFT);

    /// `LsoV2Transmit`.
    #[must_use]
    pub const fn new(mss: u32, tcp_header_offset: u32, ip_version: u32) -> Self {
        Self(
            mss | tcp_header_offset << Self::TCP_HEADER_OFFSET_SHIFT
                | NDIS_TCP_LARGE_SEND_OFFLOAD_V2_TYPE << Self::TYPE_SHIFT
                | ip_version << Self::IP_VERSION_SHIFT,
        )
    }

    #[must_use]
    pub const fn is_version_2(self) -> bool {
        self.0 >> Self::TYPE_SHIFT & 1 == NDIS_TCP_LARGE_SEND_OFFLOAD_V2_TYPE
    }

    #[must_use]
    pub const fn is_ipv6(self) -> bool {
        self.0 >> Self::IP_VERSION_SHIFT == NDIS_TCP_LARGE_SEND_OFFLOAD_IPv6
    }

    /// Bytes of TCP payload in a segment, at most.
    #[must_use]
    pub const fn mss(self) -> usize {
        self.0 as usize & 0xF_FFFF
    }

    /// Bytes before the TCP header.
    #[must_use]
    pub const fn tcp_header_offset(self) -> usize {
        (self.0 >> Self::TCP_HEADER_OFFSET_SHIFT) as usize & 0x3FF
    }
}
