//! The functions of ndis.sys that this driver calls, with the types of `ndk_abi`: the wdk crates do not declare them.
//!
//! Each function has the prototype and the IRQL of its ddi page (`nf-ndis-*`).
#![expect(unsafe_code, reason = "foreign functions")]

use core::ffi::c_void;

use ndk_abi::{
    ndis::{
        NDIS_CONFIGURATION_OBJECT, NDIS_CONFIGURATION_PARAMETER, NDIS_DEVICE_OBJECT_ATTRIBUTES, NDIS_HANDLE,
        NDIS_MINIPORT_DRIVER_CHARACTERISTICS, NDIS_PARAMETER_TYPE, NDIS_PORT_NUMBER, NDIS_STATUS_INDICATION,
        NET_BUFFER, NET_BUFFER_LIST, NET_BUFFER_LIST_POOL_PARAMETERS, NET_PNP_EVENT_NOTIFICATION,
    },
    status::NDIS_STATUS,
    wdm::{MDL, UNICODE_STRING},
};
use wdk_sys::DEVICE_OBJECT;

/// A handle of NDIS. Any thread may use it.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) NDIS_HANDLE);

// SAFETY: the driver never dereferences the handle.
unsafe impl Send for Handle {}
// SAFETY: as for Send.
unsafe impl Sync for Handle {}

/// `NDIS_IO_WORKITEM_FUNCTION`: (context, work item). PASSIVE_LEVEL.
pub(crate) type NdisIoWorkItemFunction = unsafe extern "system" fn(*mut c_void, NDIS_HANDLE);

// Imported by the module's name, so that neither build needs an import library of NDIS.
#[link(name = "ndis.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    // PASSIVE_LEVEL
    pub(crate) fn NdisMRegisterMiniportDriver(
        DriverObject: *mut c_void,
        RegistryPath: *mut UNICODE_STRING,
        MiniportDriverContext: NDIS_HANDLE,
        MiniportDriverCharacteristics: *mut NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
        NdisMiniportDriverHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;
    pub(crate) fn NdisMDeregisterMiniportDriver(NdisMiniportDriverHandle: NDIS_HANDLE);
    pub(crate) fn NdisSetOptionalHandlers(NdisHandle: NDIS_HANDLE, OptionalHandlers: *mut c_void) -> NDIS_STATUS;
    pub(crate) fn NdisMSetMiniportAttributes(
        NdisMiniportAdapterHandle: NDIS_HANDLE,
        MiniportAttributes: *mut c_void,
    ) -> NDIS_STATUS;
    pub(crate) fn NdisMGetDeviceProperty(
        MiniportAdapterHandle: NDIS_HANDLE,
        PhysicalDeviceObject: *mut *mut DEVICE_OBJECT,
        FunctionalDeviceObject: *mut *mut DEVICE_OBJECT,
        NextDeviceObject: *mut *mut DEVICE_OBJECT,
        AllocatedResources: *mut *mut c_void,
        AllocatedResourcesTranslated: *mut *mut c_void,
    );
    pub(crate) fn NdisOpenConfigurationEx(
        ConfigObject: *mut NDIS_CONFIGURATION_OBJECT,
        ConfigurationHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;
    pub(crate) fn NdisReadConfiguration(
        Status: *mut NDIS_STATUS,
        ParameterValue: *mut *mut NDIS_CONFIGURATION_PARAMETER,
        ConfigurationHandle: NDIS_HANDLE,
        Keyword: *mut UNICODE_STRING,
        ParameterType: NDIS_PARAMETER_TYPE,
    );
    pub(crate) fn NdisReadNetworkAddress(
        Status: *mut NDIS_STATUS,
        NetworkAddress: *mut *mut c_void,
        NetworkAddressLength: *mut u32,
        ConfigurationHandle: NDIS_HANDLE,
    );
    pub(crate) fn NdisCloseConfiguration(ConfigurationHandle: NDIS_HANDLE);
    pub(crate) fn NdisRegisterDeviceEx(
        NdisObjectHandle: NDIS_HANDLE,
        DeviceObjectAttributes: *mut NDIS_DEVICE_OBJECT_ATTRIBUTES,
        pDeviceObject: *mut *mut DEVICE_OBJECT,
        NdisDeviceHandle: *mut NDIS_HANDLE,
    ) -> NDIS_STATUS;
    pub(crate) fn NdisDeregisterDeviceEx(NdisDeviceHandle: NDIS_HANDLE);
    pub(crate) fn NdisMNetPnPEvent(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetPnPEvent: *mut NET_PNP_EVENT_NOTIFICATION,
    ) -> NDIS_STATUS;

    // <= DISPATCH_LEVEL
    pub(crate) fn NdisMIndicateStatusEx(
        MiniportAdapterHandle: NDIS_HANDLE,
        StatusIndication: *mut NDIS_STATUS_INDICATION,
    );
    pub(crate) fn NdisAllocateIoWorkItem(NdisObjectHandle: NDIS_HANDLE) -> NDIS_HANDLE;
    pub(crate) fn NdisQueueIoWorkItem(
        NdisIoWorkItemHandle: NDIS_HANDLE,
        Routine: NdisIoWorkItemFunction,
        WorkItemContext: *mut c_void,
    );
    pub(crate) fn NdisFreeIoWorkItem(NdisIoWorkItemHandle: NDIS_HANDLE);
    pub(crate) fn NdisMSendNetBufferListsComplete(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetBufferLists: *mut NET_BUFFER_LIST,
        SendCompleteFlags: u32,
    );
    pub(crate) fn NdisMPauseComplete(MiniportAdapterHandle: NDIS_HANDLE);
    // Returns the bytes in place if they are contiguous, else copies them to `Storage`. Null: the frame has too few bytes, or they cannot
    // be mapped.
    pub(crate) fn NdisAllocateNetBufferListPool(
        NdisHandle: NDIS_HANDLE,
        Parameters: *const NET_BUFFER_LIST_POOL_PARAMETERS,
    ) -> NDIS_HANDLE;
    pub(crate) fn NdisFreeNetBufferListPool(PoolHandle: NDIS_HANDLE);
    pub(crate) fn NdisAllocateNetBufferAndNetBufferList(
        PoolHandle: NDIS_HANDLE,
        ContextSize: u16,
        ContextBackFill: u16,
        MdlChain: *mut MDL,
        DataOffset: u32,
        DataLength: usize,
    ) -> *mut NET_BUFFER_LIST;
    pub(crate) fn NdisFreeNetBufferList(NetBufferList: *mut NET_BUFFER_LIST);
    pub(crate) fn NdisMIndicateReceiveNetBufferLists(
        MiniportAdapterHandle: NDIS_HANDLE,
        NetBufferList: *mut NET_BUFFER_LIST,
        PortNumber: NDIS_PORT_NUMBER,
        NumberOfNetBufferLists: u32,
        ReceiveFlags: u32,
    );
    pub(crate) fn NdisGetDataBuffer(
        NetBuffer: *mut NET_BUFFER,
        BytesNeeded: u32,
        Storage: *mut c_void,
        AlignMultiple: u32,
        AlignOffset: u32,
    ) -> *mut c_void;
}
