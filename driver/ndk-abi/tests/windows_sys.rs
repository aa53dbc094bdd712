//! driver/ndk-abi against the crate windows-sys, whose numbers and layouts Microsoft makes from its own headers. It has no miniport's
//! structures, no Winsock Kernel and no NDKPI but what a user program sees.
#![allow(
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    reason = "one conversion for all types of numbers"
)]

use std::mem::offset_of;

use ndk_abi::index::{LAYOUTS, NUMBERS};
use windows_sys::Wdk::Foundation as kernel_foundation;
use windows_sys::Wdk::NetworkManagement::Ndis as kernel_ndis;
use windows_sys::Wdk::System::SystemServices as system_services;
use windows_sys::Win32::Foundation as foundation;
use windows_sys::Win32::NetworkManagement::IpHelper as ip_helper;
use windows_sys::Win32::NetworkManagement::Ndis as ndis;
use windows_sys::Win32::Networking::WinSock as win_sock;
use windows_sys::Win32::Storage::FileSystem as file_system;
use windows_sys::Win32::System::Ioctl as ioctl;
use windows_sys::Win32::System::SystemInformation as system_information;

/// Names and values of a module's constants, zero-extended.
macro_rules! numbers {
    ($module:ident: $($name:ident)*) => { &[$((stringify!($name), $module::$name as u32 as u64)),*] };
}

/// Name, size and fields of a module's structures.
macro_rules! layouts {
    ($module:ident: $($name:ident { $($field:ident)* })*) => {
        &[$((stringify!($name), size_of::<$module::$name>(),
            &[$((stringify!($field), offset_of!($module::$name, $field))),*])),*]
    };
}

type Structure = (&'static str, usize, &'static [(&'static str, usize)]);

/// Sizes and offsets that agree, and the others.
fn compare_layouts(theirs: &[Structure]) -> (usize, Vec<String>) {
    let (mut agreed, mut differ) = (0, Vec::new());
    for (name, size, fields) in theirs {
        let ours = LAYOUTS.iter().copied().flatten().find(|layout| layout.name == *name).unwrap();
        let offset = |field: &str| ours.fields.iter().find(|it| it.name == field).map(|it| it.offset);
        let sizes = std::iter::once((String::new(), Some(ours.size), *size));
        for (field, ours, theirs) in
            sizes.chain(fields.iter().map(|(field, at)| (format!(".{field}"), offset(field), *at)))
        {
            if ours == Some(theirs) {
                agreed += 1;
            } else {
                differ.push(format!("{name}{field}: {ours:x?}, in windows-sys {theirs:#x}"));
            }
        }
    }
    (agreed, differ)
}

/// Numbers that agree, and the others.
fn compare_numbers(theirs: &[(&str, u64)]) -> (usize, Vec<String>) {
    let differ = |(name, value): &(&str, u64)| {
        let ours = NUMBERS.iter().copied().flatten().find(|number| number.name == *name).map(|number| number.value);
        (ours != Some(*value)).then(|| format!("{name}: {ours:x?}, in windows-sys {value:#x}"))
    };
    let differ: Vec<_> = theirs.iter().filter_map(differ).collect();
    (theirs.len() - differ.len(), differ)
}

// Shows S113.
#[test]
fn layouts_are_those_of_windows_sys() {
    let (agreed, differ) = compare_layouts(&STRUCTURES.concat());
    assert_eq!(differ, Vec::<String>::new());
    assert_eq!(agreed, 111);
}

// Shows S113.
#[test]
fn numbers_are_those_of_windows_sys() {
    let (agreed, differ) = compare_numbers(&CONSTANTS.concat());
    assert_eq!(differ, Vec::<String>::new());
    assert_eq!(agreed, 302);
}

/// Negative control.
#[test]
fn other_layouts_and_numbers_are_noticed() {
    let (agreed, differ) = compare_layouts(&[("NDK_VERSION", 8, &[("Major", 0), ("Minor", 4), ("Patch", 4)])]);
    assert_eq!(agreed, 1);
    let found = [
        "NDK_VERSION: Some(4), in windows-sys 0x8",
        "NDK_VERSION.Minor: Some(2), in windows-sys 0x4",
        "NDK_VERSION.Patch: None, in windows-sys 0x4",
    ];
    assert_eq!(differ, found);
    let (agreed, differ) =
        compare_numbers(&[("STATUS_PENDING", 0x103), ("STATUS_CANCELLED", 0x103), ("STATUS_FLOWN", 1)]);
    assert_eq!((agreed, differ.len()), (1, 2));
}

const STRUCTURES: &[&[Structure]] = &[
    layouts! { foundation:
        LUID { LowPart HighPart }
        UNICODE_STRING { Length MaximumLength Buffer }
    },
    layouts! { kernel_ndis:
        NDIS_CONFIGURATION_PARAMETER { ParameterType ParameterData }
        BINARY_DATA { Length Buffer }
    },
    layouts! { ndis:
        NDIS_OBJECT_HEADER { Type Revision Size }
        NDIS_LINK_STATE { Header MediaConnectState MediaDuplexState XmitLinkSpeed RcvLinkSpeed PauseFunctions
            AutoNegotiationFlags }
        NDIS_LINK_PARAMETERS { Header MediaDuplexState XmitLinkSpeed RcvLinkSpeed PauseFunctions AutoNegotiationFlags
            }
        NDIS_INTERRUPT_MODERATION_PARAMETERS { Header Flags InterruptModeration }
        NDIS_STATISTICS_INFO { Header SupportedStatistics ifInDiscards ifInErrors ifHCInOctets ifHCInUcastPkts
            ifHCInMulticastPkts ifHCInBroadcastPkts ifHCOutOctets ifHCOutUcastPkts ifHCOutMulticastPkts
            ifHCOutBroadcastPkts ifOutErrors ifOutDiscards ifHCInUcastOctets ifHCInMulticastOctets
            ifHCInBroadcastOctets ifHCOutUcastOctets ifHCOutMulticastOctets ifHCOutBroadcastOctets }
        NDK_VERSION { Major Minor }
        NDK_ADAPTER_INFO { Version VendorId DeviceId MaxRegistrationSize MaxWindowSize FRMRPageCount
            MaxInitiatorRequestSge MaxReceiveRequestSge MaxReadRequestSge MaxTransferLength MaxInlineDataSize
            MaxInboundReadLimit MaxOutboundReadLimit MaxReceiveQueueDepth MaxInitiatorQueueDepth MaxSrqDepth
            MaxCqDepth LargeRequestThreshold MaxCallerData MaxCalleeData AdapterFlags RdmaTechnology }
    },
    layouts! { win_sock:
        SOCKADDR { sa_family sa_data }
        SOCKADDR_IN { sin_family sin_port sin_addr sin_zero }
        SOCKADDR_IN6 { sin6_family sin6_port sin6_flowinfo sin6_addr }
        SOCKADDR_INET { Ipv6 }
    },
    layouts! { kernel_foundation:
        MDL { Next Size MdlFlags Process MappedSystemVa StartVa ByteCount ByteOffset }
    },
    layouts! { system_information:
        GROUP_AFFINITY { Mask Group Reserved }
    },
];

const CONSTANTS: &[&[(&str, u64)]] = &[
    numbers! { ioctl:
        FILE_ANY_ACCESS FILE_DEVICE_NETWORK METHOD_BUFFERED
    },
    numbers! { file_system:
        FILE_READ_DATA FILE_WRITE_DATA
    },
    numbers! { ndis:
        MediaConnectStateConnected MediaConnectStateDisconnected MediaConnectStateUnknown MediaDuplexStateFull
        MediaDuplexStateHalf MediaDuplexStateUnknown NDIS_INTERRUPT_MODERATION_PARAMETERS_REVISION_1
        NDIS_LINK_PARAMETERS_REVISION_1 NDIS_LINK_STATE_REVISION_1 NDIS_MAC_OPTION_8021P_PRIORITY
        NDIS_MAC_OPTION_8021Q_VLAN NDIS_MAC_OPTION_COPY_LOOKAHEAD_DATA NDIS_MAC_OPTION_EOTX_INDICATION
        NDIS_MAC_OPTION_FULL_DUPLEX NDIS_MAC_OPTION_NO_LOOPBACK NDIS_MAC_OPTION_RECEIVE_AT_DPC
        NDIS_MAC_OPTION_RECEIVE_SERIALIZED NDIS_MAC_OPTION_RESERVED NDIS_MAC_OPTION_SUPPORTS_MAC_ADDRESS_OVERWRITE
        NDIS_MAC_OPTION_TRANSFERS_NOT_PEND NDIS_NDK_CAPABILITIES_REVISION_1 NDIS_NDK_CONNECTIONS_REVISION_1
        NDIS_NDK_LOCAL_ENDPOINTS_REVISION_1 NDIS_NDK_STATISTICS_INFO_REVISION_1 NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT
        NDIS_OBJECT_TYPE_DEFAULT NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES
        NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES
        NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES NDIS_OBJECT_TYPE_MINIPORT_DRIVER_CHARACTERISTICS
        NDIS_OBJECT_TYPE_MINIPORT_INIT_PARAMETERS NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS
        NDIS_OBJECT_TYPE_OID_REQUEST NDIS_OBJECT_TYPE_STATUS_INDICATION NDIS_PACKET_TYPE_ALL_FUNCTIONAL
        NDIS_PACKET_TYPE_ALL_LOCAL NDIS_PACKET_TYPE_ALL_MULTICAST NDIS_PACKET_TYPE_BROADCAST NDIS_PACKET_TYPE_DIRECTED
        NDIS_PACKET_TYPE_FUNCTIONAL NDIS_PACKET_TYPE_GROUP NDIS_PACKET_TYPE_MAC_FRAME NDIS_PACKET_TYPE_MULTICAST
        NDIS_PACKET_TYPE_NO_LOCAL NDIS_PACKET_TYPE_PROMISCUOUS NDIS_PACKET_TYPE_SMT NDIS_PACKET_TYPE_SOURCE_ROUTING
        NDIS_QOS_CONDITION_NETDIRECT_PORT NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_RCV
        NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_RCV
        NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT NDIS_STATISTICS_FLAGS_VALID_BYTES_RCV
        NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_RCV
        NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_RCV
        NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_RCV
        NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_RCV
        NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT NDIS_STATISTICS_FLAGS_VALID_RCV_DISCARDS
        NDIS_STATISTICS_FLAGS_VALID_RCV_ERROR NDIS_STATISTICS_FLAGS_VALID_XMIT_DISCARDS
        NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR NDIS_STATISTICS_INFO_REVISION_1
        NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED
        NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED
        NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED
        NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED NET_IF_ACCESS_BROADCAST NET_IF_ACCESS_LOOPBACK
        NET_IF_ACCESS_POINT_TO_MULTI_POINT NET_IF_ACCESS_POINT_TO_POINT NET_IF_CONNECTION_DEDICATED
        NET_IF_CONNECTION_DEMAND NET_IF_CONNECTION_PASSIVE NET_IF_DIRECTION_RECEIVEONLY NET_IF_DIRECTION_SENDONLY
        NET_IF_DIRECTION_SENDRECEIVE NdisInterruptModerationDisabled NdisInterruptModerationEnabled
        NdisInterruptModerationNotSupported NdisInterruptModerationUnknown NdisMedium802_3
        NdisPauseFunctionsReceiveOnly NdisPauseFunctionsSendAndReceive NdisPauseFunctionsSendOnly
        NdisPauseFunctionsUnknown NdisPauseFunctionsUnsupported NdisPhysicalMedium802_3 NdisPhysicalMediumUnspecified
        NdisRequestQueryInformation NdisRequestQueryStatistics NdisRequestSetInformation NdkInfiniBand
        NdkMaxTechnology NdkRoCE NdkRoCEv2 NdkUndefined NdkiWarp OID_802_3_CURRENT_ADDRESS OID_802_3_MAXIMUM_LIST_SIZE
        OID_802_3_MULTICAST_LIST OID_802_3_PERMANENT_ADDRESS OID_802_3_RCV_ERROR_ALIGNMENT
        OID_802_3_XMIT_MORE_COLLISIONS OID_802_3_XMIT_ONE_COLLISION OID_GEN_BROADCAST_BYTES_RCV
        OID_GEN_BROADCAST_BYTES_XMIT OID_GEN_BROADCAST_FRAMES_RCV OID_GEN_BROADCAST_FRAMES_XMIT OID_GEN_BYTES_RCV
        OID_GEN_BYTES_XMIT OID_GEN_CURRENT_LOOKAHEAD OID_GEN_CURRENT_PACKET_FILTER OID_GEN_DIRECTED_BYTES_RCV
        OID_GEN_DIRECTED_BYTES_XMIT OID_GEN_DIRECTED_FRAMES_RCV OID_GEN_DIRECTED_FRAMES_XMIT OID_GEN_DRIVER_VERSION
        OID_GEN_HARDWARE_STATUS OID_GEN_INTERRUPT_MODERATION OID_GEN_LINK_PARAMETERS OID_GEN_LINK_SPEED
        OID_GEN_LINK_STATE OID_GEN_MAC_OPTIONS OID_GEN_MAXIMUM_FRAME_SIZE OID_GEN_MAXIMUM_LOOKAHEAD
        OID_GEN_MAXIMUM_SEND_PACKETS OID_GEN_MAXIMUM_TOTAL_SIZE OID_GEN_MEDIA_CONNECT_STATUS OID_GEN_MEDIA_IN_USE
        OID_GEN_MEDIA_SUPPORTED OID_GEN_MULTICAST_BYTES_RCV OID_GEN_MULTICAST_BYTES_XMIT OID_GEN_MULTICAST_FRAMES_RCV
        OID_GEN_MULTICAST_FRAMES_XMIT OID_GEN_PHYSICAL_MEDIUM OID_GEN_RCV_DISCARDS OID_GEN_RCV_ERROR
        OID_GEN_RCV_NO_BUFFER OID_GEN_RCV_OK OID_GEN_RECEIVE_BLOCK_SIZE OID_GEN_RECEIVE_BUFFER_SPACE
        OID_GEN_STATISTICS OID_GEN_SUPPORTED_LIST OID_GEN_TRANSMIT_BLOCK_SIZE OID_GEN_TRANSMIT_BUFFER_SPACE
        OID_GEN_VENDOR_DESCRIPTION OID_GEN_VENDOR_DRIVER_VERSION OID_GEN_VENDOR_ID OID_GEN_XMIT_DISCARDS
        OID_GEN_XMIT_ERROR OID_GEN_XMIT_OK OID_NDK_CONNECTIONS OID_NDK_LOCAL_ENDPOINTS OID_NDK_SET_STATE
        OID_NDK_STATISTICS OID_OFFLOAD_ENCAPSULATION OID_PNP_CAPABILITIES OID_PNP_QUERY_POWER OID_PNP_SET_POWER
    },
    numbers! { kernel_ndis:
        NDIS_CONFIGURATION_OBJECT_REVISION_1 NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1
        NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_1 NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2
        NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1 NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1
        NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_2 NDIS_MINIPORT_ATTRIBUTES_BUS_MASTER
        NDIS_MINIPORT_ATTRIBUTES_CONTROLS_DEFAULT_PORT NDIS_MINIPORT_ATTRIBUTES_DO_NOT_BIND_TO_ALL_CO
        NDIS_MINIPORT_ATTRIBUTES_HARDWARE_DEVICE NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM
        NDIS_MINIPORT_ATTRIBUTES_NOT_CO_NDIS NDIS_MINIPORT_ATTRIBUTES_NO_HALT_ON_SUSPEND
        NDIS_MINIPORT_ATTRIBUTES_NO_OID_INTERCEPT_ON_NONDEFAULT_PORTS NDIS_MINIPORT_ATTRIBUTES_NO_PAUSE_ON_SUSPEND
        NDIS_MINIPORT_ATTRIBUTES_REGISTER_BUGCHECK_CALLBACK NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK
        NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_1 NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2
        NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_3 NDIS_MINIPORT_INIT_PARAMETERS_REVISION_1
        NDIS_MINIPORT_PAUSE_PARAMETERS_REVISION_1 NDIS_MINIPORT_RESTART_PARAMETERS_REVISION_1
        NDIS_OID_REQUEST_REVISION_1 NDIS_OID_REQUEST_REVISION_2 NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL
        NDIS_SEND_FLAGS_DISPATCH_LEVEL NDIS_STATUS_INDICATION_REVISION_1 NET_DEVICE_PNP_EVENT_REVISION_1
        NET_PNP_EVENT_NOTIFICATION_REVISION_1 NET_PNP_EVENT_NOTIFICATION_REVISION_2
        NdisDevicePnPEventPowerProfileChanged NdisDevicePnPEventQueryRemoved NdisDevicePnPEventQueryStopped
        NdisDevicePnPEventRemoved NdisDevicePnPEventStopped NdisDevicePnPEventSurpriseRemoved NdisInterfacePNPBus
        NdisParameterBinary NdisParameterHexInteger NdisParameterInteger NdisParameterMultiString NdisParameterString
    },
    numbers! { ip_helper:
        IF_TYPE_ETHERNET_CSMACD
    },
    numbers! { win_sock:
        AF_INET AF_INET6 AF_UNSPEC IPPROTO_TCP SOCK_STREAM
    },
    numbers! { foundation:
        STATUS_ACCESS_DENIED STATUS_ACCESS_VIOLATION STATUS_ADDRESS_ALREADY_ASSOCIATED STATUS_ADDRESS_ALREADY_EXISTS
        STATUS_BAD_NETWORK_NAME STATUS_BUFFER_OVERFLOW STATUS_BUFFER_TOO_SMALL STATUS_CANCELLED
        STATUS_CONNECTION_ABORTED STATUS_CONNECTION_ACTIVE STATUS_CONNECTION_DISCONNECTED STATUS_CONNECTION_INVALID
        STATUS_CONNECTION_REFUSED STATUS_CONNECTION_RESET STATUS_DATA_ERROR STATUS_DATA_NOT_ACCEPTED
        STATUS_DATA_OVERRUN STATUS_DELETE_PENDING STATUS_DEVICE_BUSY STATUS_DEVICE_NOT_READY STATUS_DEVICE_REMOVED
        STATUS_DRIVER_INTERNAL_ERROR STATUS_FILE_FORCED_CLOSED STATUS_GRACEFUL_DISCONNECT STATUS_HOST_UNREACHABLE
        STATUS_IMPLEMENTATION_LIMIT STATUS_INFO_LENGTH_MISMATCH STATUS_INSUFFICIENT_RESOURCES STATUS_INTEGER_OVERFLOW
        STATUS_INTERNAL_ERROR STATUS_INVALID_ADDRESS STATUS_INVALID_ADDRESS_COMPONENT STATUS_INVALID_BUFFER_SIZE
        STATUS_INVALID_DEVICE_REQUEST STATUS_INVALID_DEVICE_STATE STATUS_INVALID_HANDLE
        STATUS_INVALID_NETWORK_RESPONSE STATUS_INVALID_PARAMETER STATUS_INVALID_PARAMETER_1
        STATUS_INVALID_PARAMETER_10 STATUS_INVALID_PARAMETER_2 STATUS_INVALID_PARAMETER_3 STATUS_INVALID_PARAMETER_4
        STATUS_INVALID_PARAMETER_5 STATUS_INVALID_PARAMETER_6 STATUS_INVALID_PARAMETER_7 STATUS_INVALID_PARAMETER_8
        STATUS_INVALID_PARAMETER_9 STATUS_INVALID_PARAMETER_MIX STATUS_IO_TIMEOUT STATUS_LOCAL_DISCONNECT
        STATUS_MORE_PROCESSING_REQUIRED STATUS_NETWORK_UNREACHABLE STATUS_NOINTERFACE STATUS_NOT_IMPLEMENTED
        STATUS_NOT_SUPPORTED STATUS_NO_MEMORY STATUS_NO_MORE_ENTRIES STATUS_NO_SUCH_DEVICE
        STATUS_OBJECT_NAME_NOT_FOUND STATUS_OBJECT_TYPE_MISMATCH STATUS_PENDING STATUS_PORT_UNREACHABLE
        STATUS_PROTOCOL_UNREACHABLE STATUS_QUOTA_EXCEEDED STATUS_REMOTE_DISCONNECT STATUS_REMOTE_RESOURCES
        STATUS_REQUEST_ABORTED STATUS_REQUEST_NOT_ACCEPTED STATUS_SHARING_VIOLATION STATUS_SUCCESS STATUS_TIMEOUT
        STATUS_TOO_MANY_ADDRESSES STATUS_UNSUCCESSFUL
    },
    numbers! { system_services:
        APC_LEVEL DISPATCH_LEVEL MDL_ALLOCATED_FIXED_SIZE PAGE_SIZE PASSIVE_LEVEL
    },
];
