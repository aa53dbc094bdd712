//! What a driver tells NDIS about an adapter, in MiniportInitializeEx.

use std::ffi::c_void;

use kernel::{PASSIVE_LEVEL, violation};
use ndk_abi::{ndis::*, status::*};

use crate::{
    adapter::{self, Adapter, State},
    check_header, lock, offload,
};

/// OIDs that an Ethernet miniport without hardware has to list (network/mandatory-oids-for-miniport-drivers), and those of NDK.
const LISTED: [u32; 15] = [
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
];
const LISTED_OFFLOAD: [u32; 2] = [OID_OFFLOAD_ENCAPSULATION, OID_TCP_OFFLOAD_PARAMETERS];
const LISTED_NDK: [u32; 4] = [OID_NDK_SET_STATE, OID_NDK_STATISTICS, OID_NDK_CONNECTIONS, OID_NDK_LOCAL_ENDPOINTS];

/// What has been set so far.
#[derive(Default)]
pub(crate) struct Attributes {
    registered: bool,
    general: bool,
    ndk: bool,
    pub(crate) ndk_enabled: bool,
    /// OIDs the driver says it supports.
    pub(crate) oids: Vec<u32>,
    pub(crate) packet_filters: u32,
    pub(crate) mac_address: [u8; 6],
    pub(crate) mtu: u32,
    /// The link is up, as the miniport has said last.
    pub(crate) connected: bool,
    pub(crate) multicast_addresses: usize,
    /// If the miniport has offloads.
    pub(crate) offloads: Option<offload::State>,
}

impl Attributes {
    /// After a successful MiniportInitializeEx: everything needed must have been set.
    pub(crate) fn check_complete(&self, is_provider: bool) {
        if !self.registered || !self.general {
            violation("MiniportInitializeEx succeeded without registration and general attributes");
        }
        if is_provider && !self.ndk {
            violation("MiniportInitializeEx of an NDK provider succeeded without NDK attributes");
        }
        let missing = |wanted: &[u32]| -> Vec<String> {
            wanted.iter().filter(|oid| !self.oids.contains(oid)).map(|oid| format!("{oid:#010x}")).collect()
        };
        let listed = missing(&LISTED_OFFLOAD).is_empty();
        if self.offloads.is_some() != listed {
            violation("offload attributes without their OIDs in the list, or these without attributes");
        }
        let mut absent = missing(&LISTED);
        if is_provider {
            absent.extend(missing(&LISTED_NDK));
        }
        if !absent.is_empty() {
            violation(&format!("the supported OID list lacks mandatory OIDs: {}", absent.join(", ")));
        }
    }
}

/// ndis/nf-ndis-ndismsetminiportattributes: PASSIVE_LEVEL, in MiniportInitializeEx; registration first, then general, then others.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMSetMiniportAttributes(handle: NDIS_HANDLE, attributes: *const c_void) -> NDIS_STATUS {
    kernel::at_most(PASSIVE_LEVEL, "NdisMSetMiniportAttributes");
    let Some(adapter) = adapter::from_handle(handle, "NdisMSetMiniportAttributes") else {
        return NDIS_STATUS_INVALID_PARAMETER;
    };
    if attributes.is_null() {
        violation("NdisMSetMiniportAttributes: null");
        return NDIS_STATUS_INVALID_PARAMETER;
    }
    if adapter.state() != State::Initializing {
        violation("NdisMSetMiniportAttributes: called outside MiniportInitializeEx");
        return NDIS_STATUS_FAILURE;
    }
    // SAFETY: attributes begin with a header.
    let kind = unsafe { attributes.cast::<NDIS_OBJECT_HEADER>().read() }.Type;
    // SAFETY: the header's type says which structure it is, and each function checks its size.
    let result = unsafe {
        match kind {
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES => registration(&adapter, attributes.cast()),
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES => general(&adapter, attributes.cast()),
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES => ndk(&adapter, attributes.cast()),
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES => offloads(&adapter, attributes.cast()),
            _ => {
                violation(&format!("NdisMSetMiniportAttributes: unknown header type {kind:#x}"));
                Err(NDIS_STATUS_NOT_SUPPORTED)
            }
        }
    };
    result.err().unwrap_or(NDIS_STATUS_SUCCESS)
}

/// Refuses attributes that are set at the wrong time.
fn refuse(problem: &str) -> Result<(), NDIS_STATUS> {
    violation(&format!("NdisMSetMiniportAttributes: {problem}"));
    Err(NDIS_STATUS_INVALID_PARAMETER)
}

unsafe fn registration(
    adapter: &Adapter,
    attributes: *const NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES,
) -> Result<(), NDIS_STATUS> {
    const WHAT: &str = "NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES";
    let sizes = [
        NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
        NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_2,
    ];
    let kind = NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES;
    // SAFETY: passed on to the caller.
    unsafe { check_header(attributes.cast(), WHAT, kind, &sizes) }?;
    let mut set = lock(&adapter.attributes);
    if set.registered {
        return refuse("registration attributes are set already");
    }
    // SAFETY: only fields within the checked size are read.
    let (context, flags, hang_time) = unsafe {
        ((*attributes).MiniportAdapterContext, (*attributes).AttributeFlags, (*attributes).CheckForHangTimeInSeconds)
    };
    if context.is_null() {
        return refuse("registration attributes without an adapter context");
    }
    let hardware = NDIS_MINIPORT_ATTRIBUTES_HARDWARE_DEVICE | NDIS_MINIPORT_ATTRIBUTES_BUS_MASTER;
    if flags & hardware != 0 {
        violation(&format!("{WHAT}: flags {flags:#x} of hardware in a virtual miniport"));
    }
    if hang_time != 0 && adapter.driver.characteristics.CheckForHangHandlerEx.is_none() {
        violation(&format!("{WHAT}: a hang time without a CheckForHang handler"));
    }
    adapter.set_context(context);
    set.registered = true;
    Ok(())
}

unsafe fn general(
    adapter: &Adapter,
    attributes: *const NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES,
) -> Result<(), NDIS_STATUS> {
    const WHAT: &str = "NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES";
    let sizes = [
        NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_1,
        NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
    ];
    let kind = NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES;
    // SAFETY: passed on to the caller.
    let revision = unsafe { check_header(attributes.cast(), WHAT, kind, &sizes) }?;
    let mut set = lock(&adapter.attributes);
    if !set.registered {
        return refuse("general attributes before registration attributes");
    }
    if set.general {
        return refuse("general attributes are set already");
    }
    let mut copy = <NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES as ndk_abi::describe::ZeroInit>::ZERO;
    // SAFETY: the source has as many bytes as its revision says, the copy is of the latest.
    unsafe { (&raw mut copy).cast::<u8>().copy_from(attributes.cast(), sizes[usize::from(revision) - 1].into()) };
    // NDIS_LINK_SPEED_UNKNOWN is allowed while the link is down.
    let is_above = |speed: u64, most: u64| {
        speed > most && (speed != u64::MAX || copy.MediaConnectState == MediaConnectStateConnected)
    };
    let too_fast =
        is_above(copy.XmitLinkSpeed, copy.MaxXmitLinkSpeed) || is_above(copy.RcvLinkSpeed, copy.MaxRcvLinkSpeed);
    let problems = [
        (copy.MediaType != NdisMedium802_3, "MediaType is not NdisMedium802_3"),
        (copy.MacAddressLength != 6, "MacAddressLength is not 6"),
        (copy.PermanentMacAddress[0] & 1 != 0, "the permanent MAC address is a group address"),
        (copy.MtuSize == 0 || copy.LookaheadSize == 0, "MtuSize or LookaheadSize is 0"),
        (copy.IfType != IF_TYPE_ETHERNET_CSMACD, "IfType is not Ethernet"),
        (copy.SupportedOidListLength % 4 != 0 || copy.SupportedOidList.is_null(), "the OID list is not a list of u32"),
        (too_fast, "speed above maximum"),
        (!copy.PowerManagementCapabilities.is_null() && revision > 1, "PowerManagementCapabilities in revision 2"),
    ];
    for (_, problem) in problems.iter().filter(|(wrong, _)| *wrong) {
        violation(&format!("{WHAT}: {problem}"));
    }
    if !copy.SupportedOidList.is_null() {
        let count = copy.SupportedOidListLength as usize / 4;
        // SAFETY: the driver gives that many bytes of OIDs.
        set.oids = unsafe { std::slice::from_raw_parts(copy.SupportedOidList, count) }.to_vec();
    }
    set.mtu = copy.MtuSize;
    set.connected = copy.MediaConnectState != MediaConnectStateDisconnected;
    set.multicast_addresses = copy.MaxMulticastListSize as usize;
    set.packet_filters = copy.SupportedPacketFilters;
    set.mac_address.copy_from_slice(&copy.CurrentMacAddress[..6]);
    set.general = true;
    Ok(())
}

unsafe fn ndk(adapter: &Adapter, attributes: *const NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES) -> Result<(), NDIS_STATUS> {
    const WHAT: &str = "NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES";
    let sizes = [NDIS_SIZEOF_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1];
    let kind = NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES;
    // SAFETY: passed on to the caller.
    unsafe { check_header(attributes.cast(), WHAT, kind, &sizes) }?;
    let mut set = lock(&adapter.attributes);
    if !set.general {
        return refuse("NDK attributes before general attributes");
    }
    if lock(&adapter.driver.provider).is_none() {
        return refuse("NDK attributes of a driver that registered no NDK provider characteristics");
    }
    // SAFETY: the size has been checked.
    let (enabled, capabilities) = unsafe { ((*attributes).Enabled, (*attributes).NdkCapabilities) };
    let sizes = [NDIS_SIZEOF_NDK_CAPABILITIES_REVISION_1];
    // SAFETY: the driver gives null or capabilities, which begin with a header.
    unsafe { check_header(capabilities.cast(), "NDIS_NDK_CAPABILITIES", NDIS_OBJECT_TYPE_DEFAULT, &sizes) }?;
    // SAFETY: the size has been checked.
    let capabilities = unsafe { &*capabilities };
    // SAFETY: the driver gives null or adapter information that lives as long as the adapter.
    let Some(info) = (unsafe { capabilities.NdkInfo.as_ref() }) else {
        return refuse("NDIS_NDK_CAPABILITIES without NdkInfo");
    };
    let counts = [
        capabilities.MaxQpCount,
        capabilities.MaxCqCount,
        capabilities.MaxMrCount,
        capabilities.MaxPdCount,
        info.MaxInitiatorRequestSge,
        info.MaxReceiveRequestSge,
        info.MaxTransferLength,
        info.MaxReceiveQueueDepth,
        info.MaxInitiatorQueueDepth,
        info.MaxCqDepth,
    ];
    if counts.contains(&0) || capabilities.Flags != 0 {
        violation("NDIS_NDK_CAPABILITIES: a limit is 0, or flags are set");
    }
    set.ndk = true;
    set.ndk_enabled = enabled != 0;
    Ok(())
}

unsafe fn offloads(
    adapter: &Adapter,
    attributes: *const NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES,
) -> Result<(), NDIS_STATUS> {
    let (general, again) = {
        let set = lock(&adapter.attributes);
        (set.general, set.offloads.is_some())
    };
    if !general {
        return refuse("offload attributes before general attributes");
    }
    if again {
        return refuse("offload attributes are set already");
    }
    // SAFETY: passed on to the caller.
    unsafe { offload::attributes(adapter, attributes) }.or_else(refuse)
}
