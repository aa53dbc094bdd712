//! The version, the object header, and the function types that several tables have.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::NDK_OBJECT_TYPE;
use crate::status::NTSTATUS;
use crate::wdm::GUID;

c_structs! { COMMON_LAYOUTS:
    /// A version of the interface. In an object: the version that the consumer opened the adapter with.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct NDK_VERSION, size 0x4 {
        0x00 Major: u16,
        0x02 Minor: u16,
    }

    /// The provider zeroes this block before it returns the object; from then on the block belongs to Windows and the
    /// consumer.
    struct NDK_OBJECT_HEADER_RESERVED_BLOCK, size 0x20 {
        0x00 rf: [*mut c_void; 4],
    }

    /// The first 0x28 bytes of every object; its dispatch pointer follows.
    struct NDK_OBJECT_HEADER, size 0x28 {
        0x00 Version: NDK_VERSION,
        0x04 ObjectType: NDK_OBJECT_TYPE,
        0x08 NdkReserved: NDK_OBJECT_HEADER_RESERVED_BLOCK,
    }

    /// The out parameter of NdkQueryExtension.
    struct NDK_EXTENSION_INTERFACE, size 0x8 {
        0x00 Dispatch: *const c_void,
    }
}

c_fns! { COMMON_PROTOTYPES:
    /// Consumer's callback: the close has completed; no other callback of the object follows. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_close_completion`.
    fn NDK_FN_CLOSE_COMPLETION(Context: *mut c_void);

    /// Consumer's callback: the request has completed. Called only if the function that took the callback returned
    /// PENDING. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_request_completion`.
    fn NDK_FN_REQUEST_COMPLETION(Context: *mut c_void, Status: NTSTATUS);

    /// Consumer's callback: the create has completed. Called only if the create function returned PENDING. On success
    /// `pNdkObject` is the new object; the provider must not write the create function's out parameter. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_create_completion`.
    fn NDK_FN_CREATE_COMPLETION(Context: *mut c_void, Status: NTSTATUS, pNdkObject: *mut NDK_OBJECT_HEADER);

    /// `NdkClose…` of every object but the adapter: asynchronous, `STATUS_PENDING` then the CloseCompletion. IRQL
    /// at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_close_object`.
    ///
    /// Returns: SUCCESS (no callback), PENDING. The page also lists "other", but the CloseCompletion page says
    /// close never fails.
    fn NDK_FN_CLOSE_OBJECT(
        pNdkObject: *mut NDK_OBJECT_HEADER,
        CloseCompletion: NDK_FN_CLOSE_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkQueryExtension` of every object: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_query_extension_interface`.
    ///
    /// Returns: SUCCESS, NOT_SUPPORTED.
    fn NDK_FN_QUERY_EXTENSION_INTERFACE(
        pNdkObject: *mut NDK_OBJECT_HEADER,
        ExtensionInterfaceID: *mut GUID,
        ExtensionInterfaceVersion: NDK_VERSION,
        pExtensionInterface: *mut NDK_EXTENSION_INTERFACE,
    ) -> NTSTATUS;
}
