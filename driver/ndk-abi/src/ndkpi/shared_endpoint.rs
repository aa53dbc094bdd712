//! Shared endpoint.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use super::{NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_OBJECT_HEADER};
use crate::sockaddr::SOCKADDR;
use crate::status::NTSTATUS;

c_structs! { SHARED_ENDPOINT_LAYOUTS:
    /// A local address that several connectors use.
    struct NDK_SHARED_ENDPOINT, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_SHARED_ENDPOINT_DISPATCH,
    }

    table NDK_SHARED_ENDPOINT_DISPATCH, size 0x18 {
        0x00 NdkCloseSharedEndpoint: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkGetLocalAddress: NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS,
    }
}

c_fns! { SHARED_ENDPOINT_PROTOTYPES:
    /// `NdkGetLocalAddress`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_shared_endpoint_local_address`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL.
    fn NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS(
        pNdkSharedEndpoint: *mut NDK_SHARED_ENDPOINT,
        pAddress: *mut SOCKADDR,
        pAddressLength: *mut u32,
    ) -> NTSTATUS;
}
