//! NDK_ADAPTER, the root of all objects.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_ADAPTER_INFO, NDK_CONNECTOR, NDK_CQ, NDK_FN_CONNECT_EVENT_CALLBACK, NDK_FN_CQ_NOTIFICATION_CALLBACK,
    NDK_FN_CREATE_COMPLETION, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_LISTENER,
    NDK_LOGICAL_ADDRESS_MAPPING, NDK_OBJECT_HEADER, NDK_PD, NDK_SHARED_ENDPOINT, NDK_VERSION,
};
use crate::sockaddr::SOCKADDR;
use crate::status::NTSTATUS;
use crate::wdm::{GROUP_AFFINITY, MDL};

c_structs! { ADAPTER_LAYOUTS:
    /// The adapter as one consumer has opened it.
    struct NDK_ADAPTER, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_ADAPTER_DISPATCH,
    }

    /// The table of an adapter. It has no close entry: NDIS closes adapters with CLOSE_NDK_ADAPTER_HANDLER.
    table NDK_ADAPTER_DISPATCH, size 0x48 {
        0x00 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x08 NdkQueryAdapterInfo: NDK_FN_QUERY_ADAPTER_INFO,
        0x10 NdkCreateCq: NDK_FN_CREATE_CQ,
        0x18 NdkCreatePd: NDK_FN_CREATE_PD,
        0x20 NdkCreateSharedEndpoint: NDK_FN_CREATE_SHARED_ENDPOINT,
        0x28 NdkCreateConnector: NDK_FN_CREATE_CONNECTOR,
        0x30 NdkCreateListener: NDK_FN_CREATE_LISTENER,
        0x38 NdkBuildLAM: NDK_FN_BUILD_LAM,
        0x40 NdkReleaseLAM: NDK_FN_RELEASE_LAM,
    }
}

c_fns! { ADAPTER_PROTOTYPES:
    /// `NdkQueryAdapterInfo`: synchronous, may block. IRQL PASSIVE_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_query_adapter_info`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL (then *pBufferSize = needed).
    fn NDK_FN_QUERY_ADAPTER_INFO(
        pNdkAdapter: *mut NDK_ADAPTER,
        pInfo: *mut NDK_ADAPTER_INFO,
        pBufferSize: *mut u32,
    ) -> NTSTATUS;

    /// No table has this function and no page describes it. IRQL PASSIVE_LEVEL.
    ///
    /// Returns: not documented.
    fn NDK_FN_QUERY_ADAPTER_INFO_EX(
        pNdkAdapter: *mut NDK_ADAPTER,
        Version: NDK_VERSION,
        pInfo: *mut NDK_ADAPTER_INFO,
        pBufferSize: *mut u32,
    ) -> NTSTATUS;

    /// `NdkCreateCq`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_cq`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (CqDepth > MaxCqDepth), INSUFFICIENT_RESOURCES (inline or
    /// async).
    fn NDK_FN_CREATE_CQ(
        pNdkAdapter: *mut NDK_ADAPTER,
        CqDepth: u32,
        CqNotification: NDK_FN_CQ_NOTIFICATION_CALLBACK,
        CqNotificationContext: *mut c_void,
        Affinity: *mut GROUP_AFFINITY,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkCq: *mut *mut NDK_CQ,
    ) -> NTSTATUS;

    /// `NdkCreatePd`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_pd`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_PD(
        pNdkAdapter: *mut NDK_ADAPTER,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkPd: *mut *mut NDK_PD,
    ) -> NTSTATUS;

    /// `NdkCreateSharedEndpoint`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_create_shared_endpoint`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES, SHARING_VIOLATION, INVALID_ADDRESS, TOO_MANY_ADDRESSES.
    fn NDK_FN_CREATE_SHARED_ENDPOINT(
        pNdkAdapter: *mut NDK_ADAPTER,
        pAddress: *const SOCKADDR,
        AddressLength: u32,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkSharedEndpoint: *mut *mut NDK_SHARED_ENDPOINT,
    ) -> NTSTATUS;

    /// `NdkCreateConnector`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_create_connector`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_CONNECTOR(
        pNdkAdapter: *mut NDK_ADAPTER,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkConnector: *mut *mut NDK_CONNECTOR,
    ) -> NTSTATUS;

    /// `NdkCreateListener`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_create_listener`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_LISTENER(
        pNdkAdapter: *mut NDK_ADAPTER,
        ConnectEvent: NDK_FN_CONNECT_EVENT_CALLBACK,
        ConnectEventContext: *mut c_void,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkListener: *mut *mut NDK_LISTENER,
    ) -> NTSTATUS;

    /// `NdkBuildLAM`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_build_lam`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (MDL range not virtually contiguous), INSUFFICIENT_RESOURCES
    /// (inline or async), BUFFER_TOO_SMALL (*pLAMSize = needed).
    fn NDK_FN_BUILD_LAM(
        pNdkAdapter: *mut NDK_ADAPTER,
        Mdl: *mut MDL,
        Length: usize,
        RequestCompletion: Option<NDK_FN_REQUEST_COMPLETION>,
        RequestContext: *mut c_void,
        pNdkLAM: *mut NDK_LOGICAL_ADDRESS_MAPPING,
        pLAMSize: *mut u32,
        pFBO: *mut u32,
    ) -> NTSTATUS;

    /// `NdkReleaseLAM`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_release_lam`.
    fn NDK_FN_RELEASE_LAM(pNdkAdapter: *mut NDK_ADAPTER, pNdkLAM: *mut NDK_LOGICAL_ADDRESS_MAPPING);
}
