//! Queue pair.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_LOGICAL_ADDRESS, NDK_MR, NDK_MW, NDK_OBJECT_HEADER,
    NDK_SGE,
};
use crate::status::NTSTATUS;

c_structs! { QP_LAYOUTS:
    /// Queue pair: an initiator and a receive queue.
    struct NDK_QP, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_QP_DISPATCH,
    }

    table NDK_QP_DISPATCH, size 0x58 {
        0x00 NdkCloseQp: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkFlush: NDK_FN_FLUSH,
        0x18 NdkSend: NDK_FN_SEND,
        0x20 NdkReceive: NDK_FN_RECEIVE,
        0x28 NdkBind: NDK_FN_BIND,
        0x30 NdkFastRegister: NDK_FN_FAST_REGISTER,
        0x38 NdkInvalidate: NDK_FN_INVALIDATE,
        0x40 NdkRead: NDK_FN_READ,
        0x48 NdkWrite: NDK_FN_WRITE,
        0x50 NdkSendAndInvalidate: NDK_FN_SEND_AND_INVALIDATE,
    }
}

c_fns! { QP_PROTOTYPES:
    /// `NdkFlush`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_flush`.
    fn NDK_FN_FLUSH(pNdkQp: *mut NDK_QP);

    /// `NdkSend`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_send`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID.
    fn NDK_FN_SEND(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pSgl: *const NDK_SGE,
        nSge: u32,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkReceive`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_receive`.
    ///
    /// Returns: SUCCESS, other.
    fn NDK_FN_RECEIVE(pNdkQp: *mut NDK_QP, RequestContext: *mut c_void, pSgl: *const NDK_SGE, nSge: u32) -> NTSTATUS;

    /// `NdkBind`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_bind`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID, ACCESS_VIOLATION (MR lacks the right).
    fn NDK_FN_BIND(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pMr: *mut NDK_MR,
        pMw: *mut NDK_MW,
        VirtualAddress: *mut c_void,
        Length: usize,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkFastRegister`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_fast_register`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID, ACCESS_VIOLATION (remote flag but RemoteAccess FALSE).
    fn NDK_FN_FAST_REGISTER(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pMr: *mut NDK_MR,
        AdapterPageCount: u32,
        AdapterPageArray: *const NDK_LOGICAL_ADDRESS,
        FBO: u32,
        Length: usize,
        BaseVirtualAddress: *mut c_void,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkInvalidate`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_invalidate`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID.
    fn NDK_FN_INVALIDATE(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pNdkMrOrMw: *mut NDK_OBJECT_HEADER,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkRead`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_read`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID, REMOTE_RESOURCES.
    fn NDK_FN_READ(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pSgl: *const NDK_SGE,
        nSge: u32,
        RemoteAddress: u64,
        RemoteToken: u32,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkWrite`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_write`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID.
    fn NDK_FN_WRITE(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pSgl: *const NDK_SGE,
        nSge: u32,
        RemoteAddress: u64,
        RemoteToken: u32,
        Flags: u32,
    ) -> NTSTATUS;

    /// `NdkSendAndInvalidate`: posts a work request, its completion goes to the CQ. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_send_and_invalidate`.
    ///
    /// Returns: SUCCESS, CONNECTION_INVALID.
    fn NDK_FN_SEND_AND_INVALIDATE(
        pNdkQp: *mut NDK_QP,
        RequestContext: *mut c_void,
        pSgl: *const NDK_SGE,
        nSge: u32,
        Flags: u32,
        RemoteToken: u32,
    ) -> NTSTATUS;
}
