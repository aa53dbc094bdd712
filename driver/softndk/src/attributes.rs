//! The attributes that the adapter announces to NDIS, in the three sets of an NDK miniport, and one for task offloads.
#![expect(unsafe_code, reason = "calls into NDIS")]

use core::ffi::c_void;

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        IF_TYPE_ETHERNET_CSMACD, MediaConnectStateConnected, MediaConnectStateDisconnected, MediaDuplexStateFull,
        NDIS_HANDLE, NDIS_LINK_STATE, NDIS_LINK_STATE_REVISION_1, NDIS_MAC_OPTION_COPY_LOOKAHEAD_DATA,
        NDIS_MAC_OPTION_NO_LOOPBACK, NDIS_MAC_OPTION_TRANSFERS_NOT_PEND, NDIS_MEDIA_CONNECT_STATE,
        NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES, NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
        NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES, NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
        NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES, NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
        NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES, NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
        NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM, NDIS_MINIPORT_ATTRIBUTES_NO_OID_INTERCEPT_ON_NONDEFAULT_PORTS,
        NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK, NDIS_NDK_CAPABILITIES, NDIS_NDK_CAPABILITIES_REVISION_1,
        NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES,
        NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES, NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES,
        NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES, NDIS_OBJECT_TYPE_STATUS_INDICATION, NDIS_OFFLOAD,
        NDIS_PACKET_TYPE_ALL_MULTICAST, NDIS_PACKET_TYPE_BROADCAST, NDIS_PACKET_TYPE_DIRECTED,
        NDIS_PACKET_TYPE_MULTICAST, NDIS_PACKET_TYPE_PROMISCUOUS, NDIS_SIZEOF_LINK_STATE_REVISION_1,
        NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
        NDIS_SIZEOF_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
        NDIS_SIZEOF_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
        NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1, NDIS_SIZEOF_NDK_CAPABILITIES_REVISION_1,
        NDIS_SIZEOF_STATUS_INDICATION_REVISION_1, NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT, NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT, NDIS_STATISTICS_FLAGS_VALID_BYTES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT, NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT, NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT, NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT, NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_RCV,
        NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT, NDIS_STATISTICS_FLAGS_VALID_RCV_DISCARDS,
        NDIS_STATISTICS_FLAGS_VALID_RCV_ERROR, NDIS_STATISTICS_FLAGS_VALID_XMIT_DISCARDS,
        NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR, NDIS_STATUS_INDICATION, NDIS_STATUS_INDICATION_REVISION_1,
        NET_IF_ACCESS_BROADCAST, NET_IF_CONNECTION_DEDICATED, NET_IF_DIRECTION_SENDRECEIVE, NdisInterfacePNPBus,
        NdisMedium802_3, NdisPhysicalMedium802_3,
    },
    ndkpi::NDK_ADAPTER_INFO,
    status::{
        NDIS_STATUS, NDIS_STATUS_LINK_STATE, NDIS_STATUS_RESOURCES, NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG,
        STATUS_SUCCESS,
    },
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::{Arc, Passive};
use vxlan::ethernet::MacAddress;
use zerocopy::FromZeros;

use crate::{ndis, offload, platform::Windows};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: u32 = 14;

/// Addresses in the multicast list, at most.
pub(crate) const MULTICAST_LIST_SIZE: u32 = 32;

/// The link speed that the adapter reports, in bits per second. The virtual link is not limited to that speed.
const LINK_SPEED: u64 = 100_000_000_000;

/// The packet filters that OID_GEN_CURRENT_PACKET_FILTER may set.
pub(crate) const PACKET_FILTERS: u32 = NDIS_PACKET_TYPE_DIRECTED
    | NDIS_PACKET_TYPE_MULTICAST
    | NDIS_PACKET_TYPE_ALL_MULTICAST
    | NDIS_PACKET_TYPE_BROADCAST
    | NDIS_PACKET_TYPE_PROMISCUOUS;

/// The members of NDIS_STATISTICS_INFO that OID_GEN_STATISTICS fills: all.
pub(crate) const STATISTICS: u32 = NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_BYTES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_RCV_DISCARDS
    | NDIS_STATISTICS_FLAGS_VALID_RCV_ERROR
    | NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR
    | NDIS_STATISTICS_FLAGS_VALID_XMIT_DISCARDS
    | NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_RCV
    | NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT
    | NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT;

/// The address of an adapter without a cable: locally administered. Its last three bytes are the index in the NET_LUID (bits 24 to 47), so the
/// address is as stable and as unique as the interface.
pub(crate) fn mac_address(luid: u64) -> MacAddress {
    let [.., a, b, c, _, _, _] = luid.to_be_bytes();
    MacAddress([0x02, b'N', b'D', a, b, c])
}

/// Sets the registration attributes. `context` becomes the context of all miniport handlers.
pub(crate) fn register(miniport: NDIS_HANDLE, context: *mut c_void, passive: &Passive<'_>) -> Result<(), NDIS_STATUS> {
    let mut attributes = NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
        ),
        MiniportAdapterContext: context,
        AttributeFlags: NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM
            | NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK
            | NDIS_MINIPORT_ATTRIBUTES_NO_OID_INTERCEPT_ON_NONDEFAULT_PORTS,
        InterfaceType: NdisInterfacePNPBus,
        ..NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES::ZERO
    };
    set(miniport, (&raw mut attributes).cast(), passive)
}

/// The adapter's Ethernet addresses.
#[derive(Clone, Copy)]
pub(crate) struct MacAddresses {
    pub(crate) permanent: MacAddress,
    /// The address that an administrator has given the adapter, or the permanent one.
    pub(crate) current: MacAddress,
}

/// Sets the general attributes. `connected`: the link is up when the adapter starts.
pub(crate) fn set_general(
    miniport: NDIS_HANDLE,
    addresses: MacAddresses,
    mtu: u32,
    connected: bool,
    supported_oids: &'static [u32],
    passive: &Passive<'_>,
) -> Result<(), NDIS_STATUS> {
    let (state, speed) = link(connected);
    let padded = |MacAddress(address)| {
        let mut padded = [0; 32];
        padded.iter_mut().zip(address).for_each(|(to, from)| *to = from);
        padded
    };
    let mut attributes = NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
            NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
        ),
        MediaType: NdisMedium802_3,
        PhysicalMediumType: NdisPhysicalMedium802_3,
        MtuSize: mtu,
        MaxXmitLinkSpeed: LINK_SPEED,
        XmitLinkSpeed: speed,
        MaxRcvLinkSpeed: LINK_SPEED,
        RcvLinkSpeed: speed,
        MediaConnectState: state,
        MediaDuplexState: MediaDuplexStateFull,
        LookaheadSize: mtu,
        MacOptions: NDIS_MAC_OPTION_COPY_LOOKAHEAD_DATA
            | NDIS_MAC_OPTION_TRANSFERS_NOT_PEND
            // NDIS loops frames back; see `datapath`.
            | NDIS_MAC_OPTION_NO_LOOPBACK,
        SupportedPacketFilters: PACKET_FILTERS,
        MaxMulticastListSize: MULTICAST_LIST_SIZE,
        MacAddressLength: size_of::<MacAddress>() as u16,
        PermanentMacAddress: padded(addresses.permanent),
        CurrentMacAddress: padded(addresses.current),
        AccessType: NET_IF_ACCESS_BROADCAST,
        DirectionType: NET_IF_DIRECTION_SENDRECEIVE,
        ConnectionType: NET_IF_CONNECTION_DEDICATED,
        IfType: IF_TYPE_ETHERNET_CSMACD,
        IfConnectorPresent: 0,
        SupportedStatistics: STATISTICS,
        SupportedOidList: supported_oids.as_ptr().cast_mut(),
        SupportedOidListLength: size_of_val(supported_oids) as u32,
        ..NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES::ZERO
    };
    set(miniport, (&raw mut attributes).cast(), passive)
}

/// The state and the speed of a link that is up, or down.
fn link(connected: bool) -> (NDIS_MEDIA_CONNECT_STATE, u64) {
    /// `NDIS_LINK_SPEED_UNKNOWN`.
    const UNKNOWN: u64 = u64::MAX;
    if connected { (MediaConnectStateConnected, LINK_SPEED) } else { (MediaConnectStateDisconnected, UNKNOWN) }
}

/// Tells NDIS that the link is up, or down. IRQL <= DISPATCH.
pub(crate) fn indicate_link(miniport: NDIS_HANDLE, connected: bool) {
    let (connect_state, speed) = link(connected);
    let mut state = NDIS_LINK_STATE {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_LINK_STATE_REVISION_1,
            NDIS_SIZEOF_LINK_STATE_REVISION_1,
        ),
        MediaConnectState: connect_state,
        MediaDuplexState: MediaDuplexStateFull,
        XmitLinkSpeed: speed,
        RcvLinkSpeed: speed,
        ..NDIS_LINK_STATE::new_zeroed()
    };
    let size = size_of_val(&state) as u32;
    indicate(miniport, NDIS_STATUS_LINK_STATE, (&raw mut state).cast(), size);
}

/// Indicates a status to NDIS, with `size` bytes at `buffer`, which outlive the call. IRQL <= DISPATCH.
fn indicate(miniport: NDIS_HANDLE, status: NDIS_STATUS, buffer: *mut c_void, size: u32) {
    let mut indication = NDIS_STATUS_INDICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_STATUS_INDICATION,
            NDIS_STATUS_INDICATION_REVISION_1,
            NDIS_SIZEOF_STATUS_INDICATION_REVISION_1,
        ),
        SourceHandle: miniport,
        StatusCode: status,
        StatusBuffer: buffer,
        StatusBufferSize: size,
        ..NDIS_STATUS_INDICATION::ZERO
    };
    // SAFETY: the adapter's handle, before the halt; an indication that outlives the call.
    unsafe { ndis::NdisMIndicateStatusEx(miniport, &raw mut indication) };
}

/// The structures that the offload attributes point to, as [`NdkAttributes`].
pub(crate) struct OffloadAttributes {
    _current: Arc<NDIS_OFFLOAD, Windows>,
    _capabilities: Arc<NDIS_OFFLOAD, Windows>,
}

/// Sets the offload attributes: the task offloads that are on, and all that can be.
pub(crate) fn set_offloads(
    miniport: NDIS_HANDLE,
    current: offload::Set,
    passive: &Passive<'_>,
) -> Result<OffloadAttributes, NDIS_STATUS> {
    let current = Arc::try_new(current.describe()).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let capabilities = Arc::try_new(offload::capabilities()).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let mut attributes = NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
        ),
        DefaultOffloadConfiguration: Arc::as_ptr(&current).cast_mut(),
        HardwareOffloadCapabilities: Arc::as_ptr(&capabilities).cast_mut(),
        ..NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES::ZERO
    };
    set(miniport, (&raw mut attributes).cast(), passive)?;
    Ok(OffloadAttributes { _current: current, _capabilities: capabilities })
}

/// Tells NDIS which task offloads are on. PASSIVE_LEVEL.
pub(crate) fn indicate_offloads(miniport: NDIS_HANDLE, current: offload::Set) {
    let mut current = current.describe();
    let size = u32::from(current.Header.Size);
    indicate(miniport, NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG, (&raw mut current).cast(), size);
}

/// The structures that the NDK attributes point to. They live as long as the adapter, as no page says that NDIS copies them.
pub(crate) struct NdkAttributes {
    _info: Arc<NDK_ADAPTER_INFO, Windows>,
    _capabilities: Arc<NDIS_NDK_CAPABILITIES, Windows>,
}

/// Sets the NDK attributes: the provider's capabilities, and whether RDMA is on.
pub(crate) fn set_ndk(
    miniport: NDIS_HANDLE,
    enabled: bool,
    passive: &Passive<'_>,
) -> Result<NdkAttributes, NDIS_STATUS> {
    let info = Arc::try_new(adapter_info()).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let capabilities = capabilities(Arc::as_ptr(&info).cast_mut());
    let capabilities = Arc::try_new(capabilities).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let mut attributes = NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
        ),
        Enabled: u8::from(enabled),
        NdkCapabilities: Arc::as_ptr(&capabilities).cast_mut(),
    };
    set(miniport, (&raw mut attributes).cast(), passive)?;
    Ok(NdkAttributes { _info: info, _capabilities: capabilities })
}

/// The limits of one NDK adapter, in the newest version of NDKPI.
fn adapter_info() -> NDK_ADAPTER_INFO {
    Provider::<Windows>::adapter_info(MAX_VERSION_2)
}

/// The most objects of each kind that a miniport adapter can have. `NdkInfo` points to `info`, the limits of one NDK adapter.
fn capabilities(info: *mut NDK_ADAPTER_INFO) -> NDIS_NDK_CAPABILITIES {
    NDIS_NDK_CAPABILITIES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_NDK_CAPABILITIES_REVISION_1,
            NDIS_SIZEOF_NDK_CAPABILITIES_REVISION_1,
        ),
        NdkInfo: info,
        ..Provider::<Windows>::capabilities()
    }
}

fn set(miniport: NDIS_HANDLE, attributes: *mut c_void, _passive: &Passive<'_>) -> Result<(), NDIS_STATUS> {
    // SAFETY: the adapter's handle, and complete attributes that outlive the call; PASSIVE_LEVEL by the token.
    let status = unsafe { ndis::NdisMSetMiniportAttributes(miniport, attributes) };
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
