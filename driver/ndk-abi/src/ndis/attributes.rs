//! The attributes that a miniport gives NDIS for an adapter (NdisMSetMiniportAttributes).
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{NDIS_HANDLE, NDIS_OBJECT_HEADER};
use crate::wdm::BOOLEAN;

c_enum! { MEDIA:
    /// The medium of the network.
    enum NDIS_MEDIUM(i32) {
        NdisMedium802_3 = 0,
    }
}

c_enum! { PHYSICAL_MEDIA:
    /// The physical medium.
    enum NDIS_PHYSICAL_MEDIUM(i32) {
        NdisPhysicalMediumUnspecified = 0,
        NdisPhysicalMedium802_3 = 14,
    }
}

c_enum! { CONNECT_STATES:
    /// Whether the link is up. Alias of NET_IF_MEDIA_CONNECT_STATE.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum NDIS_MEDIA_CONNECT_STATE(i32) {
        MediaConnectStateUnknown = 0,
        MediaConnectStateConnected = 1,
        MediaConnectStateDisconnected = 2,
    }
}

c_enum! { DUPLEX_STATES:
    /// Half or full duplex. Alias of NET_IF_MEDIA_DUPLEX_STATE.
    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    enum NDIS_MEDIA_DUPLEX_STATE(i32) {
        MediaDuplexStateUnknown = 0,
        MediaDuplexStateHalf = 1,
        MediaDuplexStateFull = 2,
    }
}

c_enum! { INTERFACE_TYPES:
    /// The bus.
    enum NDIS_INTERFACE_TYPE(i32) {
        NdisInterfacePNPBus = 15,
    }
}

c_enum! { ACCESS_TYPES:
    /// How many other hosts an interface reaches: one, or many.
    enum NET_IF_ACCESS_TYPE(i32) {
        NET_IF_ACCESS_LOOPBACK = 1,
        NET_IF_ACCESS_BROADCAST = 2,
        NET_IF_ACCESS_POINT_TO_POINT = 3,
        NET_IF_ACCESS_POINT_TO_MULTI_POINT = 4,
    }
}

c_enum! { DIRECTION_TYPES:
    /// Send, receive or both.
    enum NET_IF_DIRECTION_TYPE(i32) {
        NET_IF_DIRECTION_SENDRECEIVE = 0,
        NET_IF_DIRECTION_SENDONLY = 1,
        NET_IF_DIRECTION_RECEIVEONLY = 2,
    }
}

c_enum! { CONNECTION_TYPES:
    /// How the connection of the interface is established.
    enum NET_IF_CONNECTION_TYPE(i32) {
        NET_IF_CONNECTION_DEDICATED = 1,
        NET_IF_CONNECTION_PASSIVE = 2,
        NET_IF_CONNECTION_DEMAND = 3,
    }
}

c_consts! { INTERFACE_NUMBERS: u16;
    /// `IfType` of Ethernet.
    IF_TYPE_ETHERNET_CSMACD = 6;
}

c_consts! { ATTRIBUTE_FLAGS: u32;
    NDIS_MINIPORT_ATTRIBUTES_HARDWARE_DEVICE = 0x01;
    NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM = 0x02;
    NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK = 0x04;
    NDIS_MINIPORT_ATTRIBUTES_NOT_CO_NDIS = 0x08;
    NDIS_MINIPORT_ATTRIBUTES_DO_NOT_BIND_TO_ALL_CO = 0x10;
    NDIS_MINIPORT_ATTRIBUTES_NO_HALT_ON_SUSPEND = 0x20;
    NDIS_MINIPORT_ATTRIBUTES_BUS_MASTER = 0x40;
    NDIS_MINIPORT_ATTRIBUTES_CONTROLS_DEFAULT_PORT = 0x80;
    NDIS_MINIPORT_ATTRIBUTES_NO_PAUSE_ON_SUSPEND = 0x0000_0100;
    NDIS_MINIPORT_ATTRIBUTES_NO_OID_INTERCEPT_ON_NONDEFAULT_PORTS = 0x0000_0200;
    NDIS_MINIPORT_ATTRIBUTES_REGISTER_BUGCHECK_CALLBACK = 0x0000_0400;
}

c_consts! { MAC_OPTIONS: u32;
    NDIS_MAC_OPTION_COPY_LOOKAHEAD_DATA = 0x01;
    NDIS_MAC_OPTION_RECEIVE_SERIALIZED = 0x02;
    NDIS_MAC_OPTION_TRANSFERS_NOT_PEND = 0x04;
    NDIS_MAC_OPTION_NO_LOOPBACK = 0x08;
    NDIS_MAC_OPTION_FULL_DUPLEX = 0x10;
    NDIS_MAC_OPTION_EOTX_INDICATION = 0x20;
    NDIS_MAC_OPTION_8021P_PRIORITY = 0x40;
    NDIS_MAC_OPTION_SUPPORTS_MAC_ADDRESS_OVERWRITE = 0x80;
    NDIS_MAC_OPTION_RECEIVE_AT_DPC = 0x0000_0100;
    NDIS_MAC_OPTION_8021Q_VLAN = 0x0000_0200;
    NDIS_MAC_OPTION_RESERVED = 0x8000_0000;
}

c_consts! { PACKET_FILTERS: u32;
    NDIS_PACKET_TYPE_DIRECTED = 0x01;
    NDIS_PACKET_TYPE_MULTICAST = 0x02;
    NDIS_PACKET_TYPE_ALL_MULTICAST = 0x04;
    NDIS_PACKET_TYPE_BROADCAST = 0x08;
    NDIS_PACKET_TYPE_SOURCE_ROUTING = 0x10;
    NDIS_PACKET_TYPE_PROMISCUOUS = 0x20;
    NDIS_PACKET_TYPE_SMT = 0x40;
    NDIS_PACKET_TYPE_ALL_LOCAL = 0x80;
    NDIS_PACKET_TYPE_GROUP = 0x0000_1000;
    NDIS_PACKET_TYPE_ALL_FUNCTIONAL = 0x0000_2000;
    NDIS_PACKET_TYPE_FUNCTIONAL = 0x0000_4000;
    NDIS_PACKET_TYPE_MAC_FRAME = 0x0000_8000;
    NDIS_PACKET_TYPE_NO_LOCAL = 0x0001_0000;
}

c_consts! { STATISTICS_FLAGS: u32;
    NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_RCV = 0x01;
    NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_RCV = 0x02;
    NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_RCV = 0x04;
    NDIS_STATISTICS_FLAGS_VALID_BYTES_RCV = 0x08;
    NDIS_STATISTICS_FLAGS_VALID_RCV_DISCARDS = 0x10;
    NDIS_STATISTICS_FLAGS_VALID_RCV_ERROR = 0x20;
    NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT = 0x40;
    NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT = 0x80;
    NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT = 0x0000_0100;
    NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT = 0x0000_0200;
    NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR = 0x0000_0400;
    NDIS_STATISTICS_FLAGS_VALID_XMIT_DISCARDS = 0x0000_8000;
    NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_RCV = 0x0001_0000;
    NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_RCV = 0x0002_0000;
    NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_RCV = 0x0004_0000;
    NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT = 0x0008_0000;
    NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT = 0x0010_0000;
    NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT = 0x0020_0000;
}

c_structs! { ATTRIBUTE_LAYOUTS:
    /// Set first; has the context that NDIS passes to all entry points of the adapter.
    struct NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES, size 0x20 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 MiniportAdapterContext: NDIS_HANDLE,
        0x10 AttributeFlags: u32,
        0x14 CheckForHangTimeInSeconds: u32,
        0x18 InterfaceType: NDIS_INTERFACE_TYPE,
    }

    /// Set second. Speeds are bits per second, `SupportedOidListLength` is in bytes.
    struct NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES, size 0xe0 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 MediaType: NDIS_MEDIUM,
        0x0c PhysicalMediumType: NDIS_PHYSICAL_MEDIUM,
        0x10 MtuSize: u32,
        0x18 MaxXmitLinkSpeed: u64,
        0x20 XmitLinkSpeed: u64,
        0x28 MaxRcvLinkSpeed: u64,
        0x30 RcvLinkSpeed: u64,
        0x38 MediaConnectState: NDIS_MEDIA_CONNECT_STATE,
        0x3c MediaDuplexState: NDIS_MEDIA_DUPLEX_STATE,
        0x40 LookaheadSize: u32,
        0x48 PowerManagementCapabilities: *mut c_void,
        0x50 MacOptions: u32,
        0x54 SupportedPacketFilters: u32,
        0x58 MaxMulticastListSize: u32,
        0x5c MacAddressLength: u16,
        0x5e PermanentMacAddress: [u8; 32],
        0x7e CurrentMacAddress: [u8; 32],
        0xa0 RecvScaleCapabilities: *mut c_void,
        0xa8 AccessType: NET_IF_ACCESS_TYPE,
        0xac DirectionType: NET_IF_DIRECTION_TYPE,
        0xb0 ConnectionType: NET_IF_CONNECTION_TYPE,
        0xb4 IfType: u16,
        0xb6 IfConnectorPresent: BOOLEAN,
        0xb8 SupportedStatistics: u32,
        0xbc SupportedPauseFunctions: u32,
        0xc0 DataBackFillSize: u32,
        0xc4 ContextBackFillSize: u32,
        0xc8 SupportedOidList: *mut u32,
        0xd0 SupportedOidListLength: u32,
        0xd4 AutoNegotiationFlags: u32,
        0xd8 PowerManagementCapabilitiesEx: *mut c_void,
    }
}
