//! Memory region.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER};
use crate::status::NTSTATUS;
use crate::wdm::{BOOLEAN, MDL};

c_structs! { MR_LAYOUTS:
    /// Memory region: registered with an MDL chain, or by fast-register work requests.
    struct NDK_MR, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_MR_DISPATCH,
    }

    table NDK_MR_DISPATCH, size 0x38 {
        0x00 NdkCloseMr: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkRegisterMr: NDK_FN_REGISTER_MR,
        0x18 NdkDeregisterMr: NDK_FN_DEREGISTER_MR,
        0x20 NdkInitializeFastRegisterMr: NDK_FN_INITIALIZE_FAST_REGISTER_MR,
        0x28 NdkGetRemoteTokenFromMr: NDK_FN_GET_REMOTE_TOKEN_FROM_MR,
        0x30 NdkGetLocalTokenFromMr: NDK_FN_GET_LOCAL_TOKEN_FROM_MR,
    }
}

c_fns! { MR_PROTOTYPES:
    /// `NdkRegisterMr`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_register_mr`.
    ///
    /// Returns: SUCCESS, PENDING, INVALID_PARAMETER (MDL not virtually contiguous over Length),
    /// INSUFFICIENT_RESOURCES.
    fn NDK_FN_REGISTER_MR(
        pNdkMr: *mut NDK_MR,
        Mdl: *mut MDL,
        Length: usize,
        Flags: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkDeregisterMr`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_deregister_mr`.
    ///
    /// Returns: SUCCESS, PENDING.
    fn NDK_FN_DEREGISTER_MR(
        pNdkMr: *mut NDK_MR,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkInitializeFastRegisterMr`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_initialize_fast_register_mr`.
    ///
    /// Returns: SUCCESS, PENDING, IMPLEMENTATION_LIMIT (AdapterPageCount too large).
    fn NDK_FN_INITIALIZE_FAST_REGISTER_MR(
        pNdkMr: *mut NDK_MR,
        AdapterPageCount: u32,
        RemoteAccess: BOOLEAN,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkGetRemoteTokenFromMr`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_remote_token_from_mr`.
    ///
    /// Returns: the token.
    fn NDK_FN_GET_REMOTE_TOKEN_FROM_MR(pNdkMr: *mut NDK_MR) -> u32;

    /// `NdkGetLocalTokenFromMr`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_local_token_from_mr`.
    ///
    /// Returns: the token.
    fn NDK_FN_GET_LOCAL_TOKEN_FROM_MR(pNdkMr: *mut NDK_MR) -> u32;
}
