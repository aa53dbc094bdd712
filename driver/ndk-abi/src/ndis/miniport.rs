//! The entry points of a miniport driver.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDIS_HANDLE, NDIS_OBJECT_HEADER, NDIS_OID_REQUEST, NDIS_PORT_NUMBER, NET_BUFFER_LIST, NET_DEVICE_PNP_EVENT,
};
use crate::status::NDIS_STATUS;
use crate::wdm::BOOLEAN;

c_enum! { HALT_ACTIONS:
    /// Why an adapter is halted.
    enum NDIS_HALT_ACTION(i32) {
        NdisHaltDeviceDisabled = 0,
        NdisHaltDeviceInstanceDeInitialized = 1,
        NdisHaltDevicePoweredDown = 2,
        NdisHaltDeviceSurpriseRemoved = 3,
        NdisHaltDeviceFailed = 4,
        NdisHaltDeviceInitializationFailed = 5,
        NdisHaltDeviceStopped = 6,
    }
}

c_enum! { SHUTDOWN_ACTIONS:
    /// Why the system shuts down.
    enum NDIS_SHUTDOWN_ACTION(i32) {
        NdisShutdownPowerOff = 0,
        NdisShutdownBugCheck = 1,
    }
}

c_structs! { MINIPORT_LAYOUTS:
    /// The entry points of a miniport driver. Versions are decimal (6 and 85). Revision 2 ends before
    /// `SynchronousOidRequestHandler`. Page `ns-ndis-_ndis_miniport_driver_characteristics`.
    struct NDIS_MINIPORT_DRIVER_CHARACTERISTICS, size 0xa0 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 MajorNdisVersion: u8,
        0x05 MinorNdisVersion: u8,
        0x06 MajorDriverVersion: u8,
        0x07 MinorDriverVersion: u8,
        0x08 Flags: u32,
        0x10 SetOptionsHandler: Option<SET_OPTIONS_HANDLER>,
        0x18 InitializeHandlerEx: Option<MINIPORT_INITIALIZE_HANDLER>,
        0x20 HaltHandlerEx: Option<MINIPORT_HALT_HANDLER>,
        0x28 UnloadHandler: Option<MINIPORT_DRIVER_UNLOAD>,
        0x30 PauseHandler: Option<MINIPORT_PAUSE_HANDLER>,
        0x38 RestartHandler: Option<MINIPORT_RESTART_HANDLER>,
        0x40 OidRequestHandler: Option<MINIPORT_OID_REQUEST_HANDLER>,
        0x48 SendNetBufferListsHandler: Option<MINIPORT_SEND_NET_BUFFER_LISTS_HANDLER>,
        0x50 ReturnNetBufferListsHandler: Option<MINIPORT_RETURN_NET_BUFFER_LISTS_HANDLER>,
        0x58 CancelSendHandler: Option<MINIPORT_CANCEL_SEND_HANDLER>,
        0x60 CheckForHangHandlerEx: Option<MINIPORT_CHECK_FOR_HANG_HANDLER>,
        0x68 ResetHandlerEx: Option<MINIPORT_RESET_HANDLER>,
        0x70 DevicePnPEventNotifyHandler: Option<MINIPORT_DEVICE_PNP_EVENT_NOTIFY_HANDLER>,
        0x78 ShutdownHandlerEx: Option<MINIPORT_SHUTDOWN_HANDLER>,
        0x80 CancelOidRequestHandler: Option<MINIPORT_CANCEL_OID_REQUEST_HANDLER>,
        0x88 DirectOidRequestHandler: Option<MINIPORT_DIRECT_OID_REQUEST_HANDLER>,
        0x90 CancelDirectOidRequestHandler: Option<MINIPORT_CANCEL_DIRECT_OID_REQUEST_HANDLER>,
        0x98 SynchronousOidRequestHandler: Option<MINIPORT_SYNCHRONOUS_OID_REQUEST_HANDLER>,
    }

    /// Input of MiniportInitializeEx.
    struct NDIS_MINIPORT_INIT_PARAMETERS, size 0x40 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 AllocatedResources: *mut c_void,
        0x10 IMDeviceInstanceContext: NDIS_HANDLE,
        0x18 MiniportAddDeviceContext: NDIS_HANDLE,
        0x20 IfIndex: u32,
        0x28 NetLuid: u64,
        0x30 DefaultPortAuthStates: *mut c_void,
        0x38 PciDeviceCustomProperties: *mut c_void,
    }

    /// Input of MiniportPause.
    struct NDIS_MINIPORT_PAUSE_PARAMETERS, size 0xc {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 Flags: u32,
        0x08 PauseReason: u32,
    }

    /// Input of MiniportRestart.
    struct NDIS_MINIPORT_RESTART_PARAMETERS, size 0x18 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 RestartAttributes: *mut c_void,
        0x10 Flags: u32,
    }
}

c_fns! { MINIPORT_PROTOTYPES:
    /// NDIS calls this handler inside NdisMRegisterMiniportDriver; the driver registers optional handlers here. IRQL
    /// PASSIVE_LEVEL.
    fn SET_OPTIONS_HANDLER(NdisDriverHandle: NDIS_HANDLE, DriverContext: NDIS_HANDLE) -> NDIS_STATUS;

    /// Starts an adapter, which is paused when the call returns. IRQL PASSIVE_LEVEL.
    fn MINIPORT_INITIALIZE_HANDLER(
        NdisMiniportHandle: NDIS_HANDLE,
        MiniportDriverContext: NDIS_HANDLE,
        MiniportInitParameters: *mut NDIS_MINIPORT_INIT_PARAMETERS,
    ) -> NDIS_STATUS;

    /// Stops an adapter and frees its resources. IRQL PASSIVE_LEVEL.
    fn MINIPORT_HALT_HANDLER(MiniportAdapterContext: NDIS_HANDLE, HaltAction: NDIS_HALT_ACTION);

    /// Unloads the driver; all adapters are halted before. IRQL PASSIVE_LEVEL.
    fn MINIPORT_DRIVER_UNLOAD(DriverObject: *mut c_void);

    /// Stops sends and receives. IRQL PASSIVE_LEVEL.
    fn MINIPORT_PAUSE_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        PauseParameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
    ) -> NDIS_STATUS;

    /// Restarts sends and receives. IRQL PASSIVE_LEVEL.
    fn MINIPORT_RESTART_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        RestartParameters: *mut NDIS_MINIPORT_RESTART_PARAMETERS,
    ) -> NDIS_STATUS;

    /// Serves an OID request; NDIS serialises the OID requests of each adapter. IRQL PASSIVE_LEVEL.
    fn MINIPORT_OID_REQUEST_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        OidRequest: *mut NDIS_OID_REQUEST,
    ) -> NDIS_STATUS;

    /// Sends. The miniport returns every list by NdisMSendNetBufferListsComplete. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_SEND_NET_BUFFER_LISTS_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        NetBufferList: *mut NET_BUFFER_LIST,
        PortNumber: NDIS_PORT_NUMBER,
        SendFlags: u32,
    );

    /// Returns lists that the miniport indicated. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_RETURN_NET_BUFFER_LISTS_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        NetBufferLists: *mut NET_BUFFER_LIST,
        ReturnFlags: u32,
    );

    /// Cancels the sends that have a cancel identifier. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_CANCEL_SEND_HANDLER(MiniportAdapterContext: NDIS_HANDLE, CancelId: *mut c_void);

    /// Whether the hardware hangs. Absent in a virtual miniport. IRQL PASSIVE_LEVEL.
    fn MINIPORT_CHECK_FOR_HANG_HANDLER(MiniportAdapterContext: NDIS_HANDLE) -> BOOLEAN;

    /// Resets the hardware. Absent in a virtual miniport. IRQL PASSIVE_LEVEL.
    fn MINIPORT_RESET_HANDLER(MiniportAdapterContext: NDIS_HANDLE, AddressingReset: *mut BOOLEAN) -> NDIS_STATUS;

    /// NDIS reports surprise removal and power changes. IRQL PASSIVE_LEVEL.
    fn MINIPORT_DEVICE_PNP_EVENT_NOTIFY_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        NetDevicePnPEvent: *mut NET_DEVICE_PNP_EVENT,
    );

    /// The system shuts down, perhaps by a bug check. IRQL PASSIVE_LEVEL; at a bug check any IRQL.
    fn MINIPORT_SHUTDOWN_HANDLER(MiniportAdapterContext: NDIS_HANDLE, ShutdownAction: NDIS_SHUTDOWN_ACTION);

    /// Cancels a pended OID request. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_CANCEL_OID_REQUEST_HANDLER(MiniportAdapterContext: NDIS_HANDLE, RequestId: *mut c_void);

    /// Serves an OID request that NDIS does not serialise; required of NDK miniports. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_DIRECT_OID_REQUEST_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        OidRequest: *mut NDIS_OID_REQUEST,
    ) -> NDIS_STATUS;

    /// Cancels a pended direct OID request. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_CANCEL_DIRECT_OID_REQUEST_HANDLER(MiniportAdapterContext: NDIS_HANDLE, RequestId: *mut c_void);

    /// Serves an OID request that never pends; RSSv2 only. IRQL at most DISPATCH_LEVEL.
    fn MINIPORT_SYNCHRONOUS_OID_REQUEST_HANDLER(
        MiniportAdapterContext: NDIS_HANDLE,
        OidRequest: *mut NDIS_OID_REQUEST,
    ) -> NDIS_STATUS;
}
