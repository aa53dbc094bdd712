//! Memory window.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use super::{NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_OBJECT_HEADER};

c_structs! { MW_LAYOUTS:
    /// Memory window: gives peers access to a part of a region.
    struct NDK_MW, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_MW_DISPATCH,
    }

    table NDK_MW_DISPATCH, size 0x18 {
        0x00 NdkCloseMw: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkGetRemoteTokenFromMw: NDK_FN_GET_REMOTE_TOKEN_FROM_MW,
    }
}

c_fns! { MW_PROTOTYPES:
    /// `NdkGetRemoteTokenFromMw`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_remote_token_from_mw`.
    ///
    /// Returns: the token.
    fn NDK_FN_GET_REMOTE_TOKEN_FROM_MW(pNdkMw: *mut NDK_MW) -> u32;
}
