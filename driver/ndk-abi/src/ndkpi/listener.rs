//! Listener: accepts connection requests.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_CONNECTOR, NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER,
};
use crate::sockaddr::SOCKADDR;
use crate::status::NTSTATUS;
use crate::wdm::BOOLEAN;

c_structs! { LISTENER_LAYOUTS:
    struct NDK_LISTENER, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_LISTENER_DISPATCH,
    }

    table NDK_LISTENER_DISPATCH, size 0x28 {
        0x00 NdkCloseListener: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkListen: NDK_FN_LISTEN,
        0x18 NdkGetLocalAddress: NDK_FN_GET_LISTENER_LOCAL_ADDRESS,
        0x20 NdkControlConnectEvents: NDK_FN_CONTROL_CONNECT_EVENTS,
    }
}

c_fns! { LISTENER_PROTOTYPES:
    /// `NdkListen`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_listen`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES, SHARING_VIOLATION, INVALID_ADDRESS, TOO_MANY_ADDRESSES.
    fn NDK_FN_LISTEN(
        pNdkListener: *mut NDK_LISTENER,
        pAddress: *const SOCKADDR,
        AddressLength: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkGetLocalAddress`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_listener_local_address`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL.
    fn NDK_FN_GET_LISTENER_LOCAL_ADDRESS(
        pNdkListener: *mut NDK_LISTENER,
        pAddress: *mut SOCKADDR,
        pAddressLength: *mut u32,
    ) -> NTSTATUS;

    /// `NdkControlConnectEvents`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_control_connect_events`.
    fn NDK_FN_CONTROL_CONNECT_EVENTS(pNdkListener: *mut NDK_LISTENER, Pause: BOOLEAN);

    /// Consumer's callback: a connection request. The consumer owns the connector from then on. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_connect_event_callback`.
    fn NDK_FN_CONNECT_EVENT_CALLBACK(ConnectEventContext: *mut c_void, pNdkConnector: *mut NDK_CONNECTOR);
}
