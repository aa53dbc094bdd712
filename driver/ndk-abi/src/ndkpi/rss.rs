//! The RSS processors of an adapter, the only known extension interface. Optional.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::NDK_ADAPTER;
use crate::status::NDIS_STATUS;
use crate::wdm::GUID;

/// The identifier that NdkQueryExtension of the adapter takes for [`NDK_EXTENSION_ADAPTER_RSS_DISPATCH`].
pub const NDK_EXTENSION_ID_ADAPTER_RSS_DISPATCH: GUID = GUID::from_u128(0xbab27026_86c3_4e31_9f72_4936ded76d42);

c_structs! { RSS_LAYOUTS:
    /// The table of the extension.
    table NDK_EXTENSION_ADAPTER_RSS_DISPATCH, size 0x08 {
        0x00 NdkGetRssProcessorInfo: NDK_FN_GET_RSS_PROCESSOR_INFO,
    }
}

c_fns! { RSS_PROTOTYPES:
    /// `NdkGetRssProcessorInfo`: synchronous. IRQL at most DISPATCH_LEVEL. No page.
    ///
    /// Returns: NDIS_STATUS.
    fn NDK_FN_GET_RSS_PROCESSOR_INFO(
        pNdkAdapter: *mut NDK_ADAPTER,
        RssProcessorInfo: *mut c_void,
        Size: *mut usize,
    ) -> NDIS_STATUS;
}
