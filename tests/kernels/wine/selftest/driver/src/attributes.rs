//! What the adapter tells NDIS about itself.

use ndk_abi::{describe::ZeroInit, ndis::*};

/// What the driver hands out as adapter context: any non-null address of its own.
static CONTEXT: u8 = 0;

/// A frame of usual length.
pub(crate) const FRAME: u32 = 60;

/// Payload of a frame, and the header before it.
pub(crate) const MTU: u32 = 1500;
pub(crate) const HEADER: u32 = 14;

/// Those that are mandatory come last.
const OIDS: [u32; 25] = [
    OID_802_3_PERMANENT_ADDRESS,
    OID_802_3_CURRENT_ADDRESS,
    OID_PNP_QUERY_POWER,
    OID_PNP_SET_POWER,
    OID_OFFLOAD_ENCAPSULATION,
    OID_TCP_OFFLOAD_PARAMETERS,
    OID_GEN_CURRENT_LOOKAHEAD,
    OID_GEN_CURRENT_PACKET_FILTER,
    OID_GEN_INTERRUPT_MODERATION,
    OID_GEN_LINK_PARAMETERS,
    OID_GEN_MAXIMUM_TOTAL_SIZE,
    OID_GEN_RECEIVE_BLOCK_SIZE,
    OID_GEN_RECEIVE_BUFFER_SPACE,
    OID_GEN_STATISTICS,
    OID_GEN_TRANSMIT_BLOCK_SIZE,
    OID_GEN_TRANSMIT_BUFFER_SPACE,
    OID_GEN_VENDOR_DESCRIPTION,
    OID_GEN_VENDOR_DRIVER_VERSION,
    OID_GEN_VENDOR_ID,
    OID_GEN_XMIT_OK,
    OID_GEN_RCV_OK,
    OID_NDK_SET_STATE,
    OID_NDK_STATISTICS,
    OID_NDK_CONNECTIONS,
    OID_NDK_LOCAL_ENDPOINTS,
];

/// How many of them are not mandatory.
pub(crate) const OPTIONAL_OIDS: usize = 4;

pub(crate) const PACKET_FILTERS: u32 =
    NDIS_PACKET_TYPE_DIRECTED | NDIS_PACKET_TYPE_MULTICAST | NDIS_PACKET_TYPE_BROADCAST;

pub(crate) fn registration() -> NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES {
    NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
        ),
        MiniportAdapterContext: (&raw const CONTEXT).cast_mut().cast(),
        AttributeFlags: NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM | NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK,
        CheckForHangTimeInSeconds: 0,
        InterfaceType: NdisInterfacePNPBus,
    }
}

pub(crate) fn general() -> NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES {
    let mut address = [0; 32];
    if let Some(bytes) = address.first_chunk_mut() {
        *bytes = [0x02, 0x53, 0x4F, 0x46, 0x54, 0x01];
    }
    NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
            NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
        ),
        PhysicalMediumType: NdisPhysicalMediumUnspecified,
        MtuSize: MTU,
        MaxXmitLinkSpeed: 1_000_000_000,
        XmitLinkSpeed: 1_000_000_000,
        MaxRcvLinkSpeed: 1_000_000_000,
        RcvLinkSpeed: 1_000_000_000,
        MediaConnectState: MediaConnectStateConnected,
        MediaDuplexState: MediaDuplexStateFull,
        LookaheadSize: 1500,
        MacOptions: NDIS_MAC_OPTION_NO_LOOPBACK,
        SupportedPacketFilters: PACKET_FILTERS,
        MaxMulticastListSize: 32,
        MacAddressLength: 6,
        PermanentMacAddress: address,
        CurrentMacAddress: address,
        AccessType: NET_IF_ACCESS_BROADCAST,
        DirectionType: NET_IF_DIRECTION_SENDRECEIVE,
        ConnectionType: NET_IF_CONNECTION_DEDICATED,
        IfType: IF_TYPE_ETHERNET_CSMACD,
        SupportedOidList: OIDS.as_ptr().cast_mut(),
        SupportedOidListLength: size_of_val(&OIDS) as u32,
        ..NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES::ZERO
    }
}
