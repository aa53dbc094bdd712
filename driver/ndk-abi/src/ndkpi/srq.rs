//! Shared receive queue.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER, NDK_SGE,
};
use crate::status::NTSTATUS;

c_structs! { SRQ_LAYOUTS:
    /// Shared receive queue: receives that several QPs consume.
    struct NDK_SRQ, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_SRQ_DISPATCH,
    }

    table NDK_SRQ_DISPATCH, size 0x20 {
        0x00 NdkCloseSrq: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkModifySrq: NDK_FN_MODIFY_SRQ,
        0x18 NdkSrqReceive: NDK_FN_SRQ_RECEIVE,
    }
}

c_fns! { SRQ_PROTOTYPES:
    /// `NdkModifySrq`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_modify_srq`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (depth out of limits).
    fn NDK_FN_MODIFY_SRQ(
        pNdkSrq: *mut NDK_SRQ,
        SrqDepth: u32,
        NotifyThreshold: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// Consumer's callback: `SrqStatus` is SUCCESS or INTERNAL_ERROR. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_srq_notification_callback`.
    fn NDK_FN_SRQ_NOTIFICATION_CALLBACK(SrqNotificationContext: *mut c_void, SrqStatus: NTSTATUS);

    /// `NdkSrqReceive`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_srq_receive`.
    ///
    /// Returns: SUCCESS, other.
    fn NDK_FN_SRQ_RECEIVE(
        pNdkSrq: *mut NDK_SRQ,
        RequestContext: *mut c_void,
        pSgl: *const NDK_SGE,
        nSge: u32,
    ) -> NTSTATUS;
}
