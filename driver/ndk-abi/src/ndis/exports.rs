//! Types of the functions that ndis.sys exports. `driver/softndk` declares the imports, `tests/kernels/wine` the
//! stand-ins; both use these types.
#![allow(missing_docs, reason = "parameters named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDIS_CONFIGURATION_OBJECT, NDIS_CONFIGURATION_PARAMETER, NDIS_DEVICE_OBJECT_ATTRIBUTES, NDIS_HANDLE,
    NDIS_MINIPORT_DRIVER_CHARACTERISTICS, NDIS_OID_REQUEST, NDIS_PARAMETER_TYPE, NDIS_PORT_NUMBER,
    NDIS_STATUS_INDICATION, NET_BUFFER_LIST, NET_BUFFER_LIST_POOL_PARAMETERS, NET_PNP_EVENT_NOTIFICATION,
};
use crate::status::NDIS_STATUS;
use crate::wdm::{MDL, UNICODE_STRING};

c_fns! { EXPORT_PROTOTYPES:
    /// Registers the driver; calls its SetOptions handler before it returns. IRQL PASSIVE_LEVEL.
    fn PFN_NdisMRegisterMiniportDriver(
        DriverObject: *mut c_void,
        RegistryPath: *mut UNICODE_STRING,
        MiniportDriverContext: NDIS_HANDLE,
        MiniportDriverCharacteristics: *mut NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
        NdisMiniportDriverHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;

    /// Deregisters the driver. IRQL PASSIVE_LEVEL.
    fn PFN_NdisMDeregisterMiniportDriver(NdisMiniportDriverHandle: NDIS_HANDLE);

    /// Registers optional handlers, in SetOptions. The `NDIS_OBJECT_HEADER` at the start of the structure gives its
    /// type. IRQL PASSIVE_LEVEL.
    fn PFN_NdisSetOptionalHandlers(NdisHandle: NDIS_HANDLE, OptionalHandlers: *mut c_void) -> NDIS_STATUS;

    /// Sets attributes, in MiniportInitializeEx. The `NDIS_OBJECT_HEADER` at the start of the structure gives its type.
    /// IRQL PASSIVE_LEVEL.
    fn PFN_NdisMSetMiniportAttributes(
        NdisMiniportAdapterHandle: NDIS_HANDLE,
        MiniportAttributes: *mut c_void,
    ) -> NDIS_STATUS;

    /// Raises a PnP event. For NetEventNDKDisable the call returns when all NDK adapters are closed. IRQL
    /// PASSIVE_LEVEL.
    fn PFN_NdisMNetPnPEvent(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetPnPEvent: *mut NET_PNP_EVENT_NOTIFICATION,
    ) -> NDIS_STATUS;

    /// Creates a control device; takes the handle of the driver. IRQL PASSIVE_LEVEL.
    fn PFN_NdisRegisterDeviceEx(
        NdisHandle: NDIS_HANDLE,
        DeviceObjectAttributes: *mut NDIS_DEVICE_OBJECT_ATTRIBUTES,
        pDeviceObject: *mut *mut c_void,
        NdisDeviceHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;

    /// Deletes a control device and its symbolic link. IRQL PASSIVE_LEVEL.
    fn PFN_NdisDeregisterDeviceEx(NdisDeviceHandle: NDIS_HANDLE);

    /// Gives the device extension (`ExtensionSize` bytes) of a control device. Any IRQL.
    fn PFN_NdisGetDeviceReservedExtension(DeviceObject: *mut c_void) -> *mut c_void;

    /// Opens the configuration of an adapter. IRQL PASSIVE_LEVEL.
    fn PFN_NdisOpenConfigurationEx(
        ConfigObject: *mut NDIS_CONFIGURATION_OBJECT,
        ConfigurationHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;

    /// Reads a value; NDIS frees the value when the driver closes the configuration. IRQL PASSIVE_LEVEL.
    fn PFN_NdisReadConfiguration(
        Status: *mut NDIS_STATUS,
        ParameterValue: *mut *mut NDIS_CONFIGURATION_PARAMETER,
        ConfigurationHandle: NDIS_HANDLE,
        Keyword: *mut UNICODE_STRING,
        ParameterType: NDIS_PARAMETER_TYPE,
    );

    /// Reads the hardware address that an administrator has set. IRQL PASSIVE_LEVEL.
    fn PFN_NdisReadNetworkAddress(
        Status: *mut NDIS_STATUS,
        NetworkAddress: *mut *mut c_void,
        NetworkAddressLength: *mut u32,
        ConfigurationHandle: NDIS_HANDLE,
    );

    /// Closes a configuration. IRQL PASSIVE_LEVEL.
    fn PFN_NdisCloseConfiguration(ConfigurationHandle: NDIS_HANDLE);

    /// Gives the device objects of an adapter; each out pointer may be null. IRQL PASSIVE_LEVEL.
    fn PFN_NdisMGetDeviceProperty(
        MiniportAdapterHandle: NDIS_HANDLE,
        PhysicalDeviceObject: *mut *mut c_void,
        FunctionalDeviceObject: *mut *mut c_void,
        NextDeviceObject: *mut *mut c_void,
        AllocatedResources: *mut *mut c_void,
        AllocatedResourcesTranslated: *mut *mut c_void,
    );

    /// Sleeps for a number of microseconds. IRQL at most APC_LEVEL.
    fn PFN_NdisMSleep(MicrosecondsToSleep: u32);

    /// Indicates a status. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMIndicateStatusEx(MiniportAdapterHandle: NDIS_HANDLE, StatusIndication: *mut NDIS_STATUS_INDICATION);

    /// Completes an OID request that the miniport pended. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMOidRequestComplete(
        MiniportAdapterHandle: NDIS_HANDLE,
        OidRequest: *mut NDIS_OID_REQUEST,
        Status: NDIS_STATUS,
    );

    /// Completes a direct OID request that the miniport pended. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMDirectOidRequestComplete(
        MiniportAdapterHandle: NDIS_HANDLE,
        OidRequest: *mut NDIS_OID_REQUEST,
        Status: NDIS_STATUS,
    );

    /// Returns NET_BUFFER_LISTs that were sent. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMSendNetBufferListsComplete(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetBufferList: *mut NET_BUFFER_LIST,
        SendCompleteFlags: u32,
    );

    /// Indicates received NET_BUFFER_LISTs. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMIndicateReceiveNetBufferLists(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetBufferList: *mut NET_BUFFER_LIST,
        PortNumber: NDIS_PORT_NUMBER,
        NumberOfNetBufferLists: u32,
        ReceiveFlags: u32,
    );

    /// Makes a pool of NET_BUFFER_LISTs, or returns null; takes the handle of the adapter. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisAllocateNetBufferListPool(
        NdisHandle: NDIS_HANDLE,
        Parameters: *const NET_BUFFER_LIST_POOL_PARAMETERS,
    ) -> NDIS_HANDLE;

    /// Deletes a pool, all of whose lists are freed. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisFreeNetBufferListPool(PoolHandle: NDIS_HANDLE);

    /// Allocates a list of one NET_BUFFER from a pool that was made with `fAllocateNetBuffer`, or returns null. IRQL at most
    /// DISPATCH_LEVEL.
    fn PFN_NdisAllocateNetBufferAndNetBufferList(
        PoolHandle: NDIS_HANDLE,
        ContextSize: u16,
        ContextBackFill: u16,
        MdlChain: *mut MDL,
        DataOffset: u32,
        DataLength: usize,
    ) -> *mut NET_BUFFER_LIST;

    /// Frees a list, and its NET_BUFFER if they were allocated together. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisFreeNetBufferList(NetBufferList: *mut NET_BUFFER_LIST);

    /// Completes a pause that pended. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMPauseComplete(MiniportAdapterHandle: NDIS_HANDLE);

    /// Completes a restart that pended. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisMRestartComplete(MiniportAdapterHandle: NDIS_HANDLE, Status: NDIS_STATUS);

    /// Allocates a work item, or returns null; takes the handle of the driver or of an adapter. IRQL at most
    /// DISPATCH_LEVEL.
    fn PFN_NdisAllocateIoWorkItem(NdisObjectHandle: NDIS_HANDLE) -> NDIS_HANDLE;

    /// Queues a work item, whose routine runs at PASSIVE_LEVEL. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisQueueIoWorkItem(
        NdisIoWorkItemHandle: NDIS_HANDLE,
        Routine: NDIS_IO_WORKITEM_FUNCTION,
        WorkItemContext: *mut c_void,
    );

    /// Frees a work item that is not queued. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisFreeIoWorkItem(NdisIoWorkItemHandle: NDIS_HANDLE);

    /// The routine of a work item. IRQL PASSIVE_LEVEL.
    fn NDIS_IO_WORKITEM_FUNCTION(WorkItemContext: *mut c_void, NdisIoWorkItemHandle: NDIS_HANDLE);

    /// The version of NDIS, major * 0x10000 + minor: 6.85 is 0x0006_0055. IRQL at most DISPATCH_LEVEL.
    fn PFN_NdisGetVersion() -> u32;
}
