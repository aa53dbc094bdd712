//! Protection domain.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_CQ, NDK_FN_CLOSE_OBJECT, NDK_FN_CREATE_COMPLETION, NDK_FN_QUERY_EXTENSION_INTERFACE,
    NDK_FN_SRQ_NOTIFICATION_CALLBACK, NDK_MR, NDK_MW, NDK_OBJECT_HEADER, NDK_QP, NDK_SRQ,
};
use crate::status::NTSTATUS;
use crate::wdm::{BOOLEAN, GROUP_AFFINITY};

c_structs! { PD_LAYOUTS:
    /// Protection domain: a QP reaches the regions of its own domain only.
    struct NDK_PD, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_PD_DISPATCH,
    }

    table NDK_PD_DISPATCH, size 0x40 {
        0x00 NdkClosePd: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkCreateMr: NDK_FN_CREATE_MR,
        0x18 NdkCreateMw: NDK_FN_CREATE_MW,
        0x20 NdkCreateSrq: NDK_FN_CREATE_SRQ,
        0x28 NdkCreateQp: NDK_FN_CREATE_QP,
        0x30 NdkCreateQpWithSrq: NDK_FN_CREATE_QP_WITH_SRQ,
        0x38 NdkGetPrivilegedMemoryRegionToken: NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN,
    }
}

c_fns! { PD_PROTOTYPES:
    /// `NdkCreateMr`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_mr`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_MR(
        pNdkPd: *mut NDK_PD,
        FastRegister: BOOLEAN,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkMr: *mut *mut NDK_MR,
    ) -> NTSTATUS;

    /// `NdkCreateMw`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_mw`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_MW(
        pNdkPd: *mut NDK_PD,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkMw: *mut *mut NDK_MW,
    ) -> NTSTATUS;

    /// `NdkCreateSrq`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_srq`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (SrqDepth / MaxReceiveRequestSge above limit),
    /// INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_SRQ(
        pNdkPd: *mut NDK_PD,
        SrqDepth: u32,
        MaxReceiveRequestSge: u32,
        NotifyThreshold: u32,
        SrqNotification: Option<NDK_FN_SRQ_NOTIFICATION_CALLBACK>,
        SrqNotificationContext: *mut c_void,
        Affinity: *mut GROUP_AFFINITY,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkSrq: *mut *mut NDK_SRQ,
    ) -> NTSTATUS;

    /// `NdkCreateQp`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_create_qp`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (any of the 5 sizes above NDK_ADAPTER_INFO),
    /// INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_QP(
        pNdkPd: *mut NDK_PD,
        pReceiveCq: *mut NDK_CQ,
        pInitiatorCq: *mut NDK_CQ,
        QPContext: *mut c_void,
        ReceiveQueueDepth: u32,
        InitiatorQueueDepth: u32,
        MaxReceiveRequestSge: u32,
        MaxInitiatorRequestSge: u32,
        InlineDataSize: u32,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkQp: *mut *mut NDK_QP,
    ) -> NTSTATUS;

    /// `NdkCreateQpWithSrq`: asynchronous, `STATUS_PENDING` then the CreateCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_create_qp_with_srq`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER, INSUFFICIENT_RESOURCES.
    fn NDK_FN_CREATE_QP_WITH_SRQ(
        pNdkPd: *mut NDK_PD,
        pReceiveCq: *mut NDK_CQ,
        pInitiatorCq: *mut NDK_CQ,
        pSrq: *mut NDK_SRQ,
        QPContext: *mut c_void,
        InitiatorQueueDepth: u32,
        MaxInitiatorRequestSge: u32,
        InlineDataSize: u32,
        CreateCompletion: NDK_FN_CREATE_COMPLETION,
        RequestContext: *mut c_void,
        ppNdkQp: *mut *mut NDK_QP,
    ) -> NTSTATUS;

    /// `NdkGetPrivilegedMemoryRegionToken`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_privileged_memory_region_token`.
    fn NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN(pNdkPd: *mut NDK_PD, pToken: *mut u32);
}
