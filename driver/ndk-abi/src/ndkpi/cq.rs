//! Completion queue.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER, NDK_RESULT,
    NDK_RESULT_EX,
};
use crate::status::NTSTATUS;

c_structs! { CQ_LAYOUTS:
    struct NDK_CQ, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_CQ_DISPATCH,
    }

    table NDK_CQ_DISPATCH, size 0x38 {
        0x00 NdkCloseCq: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkResizeCq: NDK_FN_RESIZE_CQ,
        0x18 NdkArmCq: NDK_FN_ARM_CQ,
        0x20 NdkGetCqResults: NDK_FN_GET_CQ_RESULTS,
        0x28 NdkControlCqInterruptModeration: NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION,
        0x30 NdkGetCqResultsEx: NDK_FN_GET_CQ_RESULTS_EX,
    }
}

c_fns! { CQ_PROTOTYPES:
    /// `NdkResizeCq`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_resize_cq`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (> MaxCqDepth), INSUFFICIENT_RESOURCES.
    fn NDK_FN_RESIZE_CQ(
        pNdkCq: *mut NDK_CQ,
        CqDepth: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// Consumer's callback: `CqStatus` is SUCCESS, BUFFER_OVERFLOW or INTERNAL_ERROR. Serialised per CQ by the
    /// provider. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_cq_notification_callback`.
    fn NDK_FN_CQ_NOTIFICATION_CALLBACK(CqNotificationContext: *mut c_void, CqStatus: NTSTATUS);

    /// `NdkArmCq`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_arm_cq`.
    fn NDK_FN_ARM_CQ(pNdkCq: *mut NDK_CQ, Type: u32);

    /// `NdkGetCqResults`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_get_cq_results`.
    ///
    /// Returns: the number of entries removed (0 = empty).
    fn NDK_FN_GET_CQ_RESULTS(pNdkCq: *mut NDK_CQ, Results: *mut NDK_RESULT, nResults: u32) -> u32;

    /// `NdkControlCqInterruptModeration`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_control_cq_interrupt_moderation`.
    ///
    /// Returns: SUCCESS, INSUFFICIENT_RESOURCES, NOT_SUPPORTED (only when flag not set), INVALID_PARAMETER_MIX.
    /// Never PENDING.
    fn NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION(
        pNdkCq: *mut NDK_CQ,
        ModerationInterval: u32,
        ModerationCount: u32,
    ) -> NTSTATUS;

    /// `NdkGetCqResultsEx`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_get_cq_results_ex`.
    ///
    /// Returns: the number of entries removed.
    fn NDK_FN_GET_CQ_RESULTS_EX(pNdkCq: *mut NDK_CQ, Results: *mut NDK_RESULT_EX, nResults: u32) -> u32;
}
