//! The structures and handlers by which a miniport becomes an NDK provider.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use super::{NDIS_HANDLE, NDIS_OBJECT_HEADER};
use crate::ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION};
use crate::status::NDIS_STATUS;
use crate::wdm::{BOOLEAN, GUID};

c_structs! { NDK_LAYOUTS:
    /// Announces an NDK provider, in MiniportSetOptions. The driver fills the header, `Flags` is 0.
    struct NDIS_NDK_PROVIDER_CHARACTERISTICS, size 0x18 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 OpenNDKAdapterHandler: Option<OPEN_NDK_ADAPTER_HANDLER>,
        0x10 CloseNDKAdapterHandler: Option<CLOSE_NDK_ADAPTER_HANDLER>,
    }

    /// Whether RDMA is enabled on the adapter; set in MiniportInitializeEx even if it is not.
    struct NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES, size 0x10 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Enabled: BOOLEAN,
        0x08 NdkCapabilities: *mut NDIS_NDK_CAPABILITIES,
    }

    /// The most objects of an adapter. The structure and its `NdkInfo` stay valid as long as the adapter exists.
    struct NDIS_NDK_CAPABILITIES, size 0x38 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 MaxQpCount: u32,
        0x0c MaxCqCount: u32,
        0x10 MaxMrCount: u32,
        0x14 MaxPdCount: u32,
        0x18 MaxInboundReadLimit: u32,
        0x1c MaxOutboundReadLimit: u32,
        0x20 MaxMwCount: u32,
        0x24 MaxSrqCount: u32,
        0x28 MissingCounterMask: u64,
        0x30 NdkInfo: *mut NDK_ADAPTER_INFO,
    }

    /// `Version` has the lowest minor version that the consumer accepts. `SwitchId` and `VPortId` exist only for
    /// drivers registered at NDIS 6.50 or later; the structure itself does not say whether it has them.
    struct NDIS_OPEN_NDK_ADAPTER_PARAMETERS, size 0xc {
        0x00 Version: NDK_VERSION,
        0x04 SwitchId: u32,
        0x08 VPortId: u32,
    }
}

c_fns! { NDK_PROTOTYPES:
    /// Opens the adapter for a consumer. IRQL PASSIVE_LEVEL, never pends. Page `nc-ndisndk-open_ndk_adapter_handler`.
    ///
    /// Returns: SUCCESS, NDIS_STATUS_BAD_VERSION, NDIS_STATUS_RESOURCES, NDIS_STATUS_ADAPTER_NOT_READY (disabled).
    fn OPEN_NDK_ADAPTER_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        Parameters: *mut NDIS_OPEN_NDK_ADAPTER_PARAMETERS,
        ppNdkAdapter: *mut *mut NDK_ADAPTER,
    ) -> NDIS_STATUS;

    /// Closes the adapter; returns after the last callback of its last object has returned. IRQL PASSIVE_LEVEL. Page
    /// `nc-ndisndk-close_ndk_adapter_handler`.
    fn CLOSE_NDK_ADAPTER_HANDLER(MiniportAdapterContext: NDIS_HANDLE, pNdkAdapter: *mut NDK_ADAPTER);
}

c_consts! { NDK_NUMBERS: u32;
    /// Bit of the INF keyword `*NetworkDirectGlobalFlags`.
    NETWORK_DIRECT_GLOBAL_FLAGS_ALLOW_REMOTE_IP_SUBNET = 0x1;
    /// Traffic class condition: the port of NetworkDirect traffic.
    NDIS_QOS_CONDITION_NETDIRECT_PORT = 0x6;
}

/// WMI class of the capabilities; NDIS serves it.
pub const GUID_NDIS_NDK_CAPABILITIES: GUID = GUID::from_u128(0x7969ba4d_dd80_4bc7_b3e6_68043997e519);

/// WMI class that enables and disables RDMA; NDIS serves it with OID_NDK_SET_STATE.
pub const GUID_NDIS_NDK_STATE: GUID = GUID::from_u128(0x530c69c9_2f51_49de_a1af_088d54ffa474);
