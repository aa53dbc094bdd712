//! The WSK interface by which a kernel consumer opens an adapter. The interface is Microsoft's; only test consumers use
//! it.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{NDK_ADAPTER, NDK_VERSION};
use crate::status::NTSTATUS;

c_consts! { WSK_CONTROL_CODES: u32;
    /// WskControlClient code (`NDKD`) that fills a [`WSK_PROVIDER_NDK_DISPATCH`].
    WSKNDK_GET_WSK_PROVIDER_NDK_DISPATCH = 0x4E44_4B44;
}

c_structs! { WSK_LAYOUTS:
    /// The functions that WSK gives the consumer.
    struct WSK_PROVIDER_NDK_DISPATCH, size 0x10 {
        0x00 WskOpenNdkAdapter: Option<PFN_WSK_OPEN_NDK_ADAPTER>,
        0x08 WskCloseNdkAdapter: Option<PFN_WSK_CLOSE_NDK_ADAPTER>,
    }
}

c_fns! { WSK_PROTOTYPES:
    /// Opens the adapter of an interface. IRQL PASSIVE_LEVEL. No page.
    fn PFN_WSK_OPEN_NDK_ADAPTER(
        Client: *mut c_void,
        Version: NDK_VERSION,
        InterfaceIndex: u32,
        ppNdkAdapter: *mut *mut NDK_ADAPTER,
    ) -> NTSTATUS;

    /// Closes the adapter. IRQL PASSIVE_LEVEL. No page.
    fn PFN_WSK_CLOSE_NDK_ADAPTER(Client: *mut c_void, pNdkAdapter: *mut NDK_ADAPTER);
}
