//! Connector: establishes and ends a connection.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::ffi::c_void;

use super::{
    NDK_FN_CLOSE_OBJECT, NDK_FN_QUERY_EXTENSION_INTERFACE, NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER, NDK_QP,
    NDK_SHARED_ENDPOINT,
};
use crate::sockaddr::SOCKADDR;
use crate::status::NTSTATUS;
use crate::wdm::BOOLEAN;

c_structs! { CONNECTOR_LAYOUTS:
    struct NDK_CONNECTOR, size 0x30 {
        0x00 Header: NDK_OBJECT_HEADER,
        0x28 Dispatch: *const NDK_CONNECTOR_DISPATCH,
    }

    /// The table of a connector. Before NDKPI 2.1 it ended after NdkDisconnect, size 0x58.
    table NDK_CONNECTOR_DISPATCH, size 0x68 {
        0x00 NdkCloseConnector: NDK_FN_CLOSE_OBJECT,
        0x08 NdkQueryExtension: NDK_FN_QUERY_EXTENSION_INTERFACE,
        0x10 NdkConnect: NDK_FN_CONNECT,
        0x18 NdkConnectWithSharedEndpoint: NDK_FN_CONNECT_WITH_SHARED_ENDPOINT,
        0x20 NdkCompleteConnect: NDK_FN_COMPLETE_CONNECT,
        0x28 NdkAccept: NDK_FN_ACCEPT,
        0x30 NdkReject: NDK_FN_REJECT,
        0x38 NdkGetConnectionData: NDK_FN_GET_CONNECTION_DATA,
        0x40 NdkGetLocalAddress: NDK_FN_GET_LOCAL_ADDRESS,
        0x48 NdkGetPeerAddress: NDK_FN_GET_PEER_ADDRESS,
        0x50 NdkDisconnect: NDK_FN_DISCONNECT,
        0x58 NdkCompleteConnectEx: NDK_FN_COMPLETE_CONNECT_EX,
        0x60 NdkAcceptEx: NDK_FN_ACCEPT_EX,
    }
}

c_fns! { CONNECTOR_PROTOTYPES:
    /// `NdkConnect`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_connect`.
    ///
    /// Returns: SUCCESS, PENDING, INSUFFICIENT_RESOURCES, NETWORK_UNREACHABLE, HOST_UNREACHABLE,
    /// CONNECTION_REFUSED, IO_TIMEOUT, SHARING_VIOLATION, INVALID_ADDRESS, TOO_MANY_ADDRESSES,
    /// ADDRESS_ALREADY_EXISTS (each inline or async).
    fn NDK_FN_CONNECT(
        pNdkConnector: *mut NDK_CONNECTOR,
        pNdkQp: *mut NDK_QP,
        pSrcAddress: *const SOCKADDR,
        SrcAddressLength: u32,
        pDestAddress: *const SOCKADDR,
        DestAddressLength: u32,
        InboundReadLimit: u32,
        OutboundReadLimit: u32,
        pPrivateData: *const c_void,
        PrivateDataLength: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkConnectWithSharedEndpoint`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_connect_with_shared_endpoint`.
    ///
    /// Returns: as NdkConnect without SHARING_VIOLATION, INVALID_ADDRESS, TOO_MANY_ADDRESSES.
    fn NDK_FN_CONNECT_WITH_SHARED_ENDPOINT(
        pNdkConnector: *mut NDK_CONNECTOR,
        pNdkQp: *mut NDK_QP,
        pNdkSharedEndpoint: *mut NDK_SHARED_ENDPOINT,
        pDestAddress: *const SOCKADDR,
        DestAddressLength: u32,
        InboundReadLimit: u32,
        OutboundReadLimit: u32,
        pPrivateData: *const c_void,
        PrivateDataLength: u32,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkCompleteConnect`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_complete_connect`.
    ///
    /// Returns: SUCCESS, PENDING, CONNECTION_INVALID (QP not connecting), CONNECTION_ABORTED, IO_TIMEOUT.
    fn NDK_FN_COMPLETE_CONNECT(
        pNdkConnector: *mut NDK_CONNECTOR,
        DisconnectEvent: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
        DisconnectEventContext: *mut c_void,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkCompleteConnectEx`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most
    /// DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_complete_connect_ex`.
    ///
    /// Returns: as NdkCompleteConnect.
    fn NDK_FN_COMPLETE_CONNECT_EX(
        pNdkConnector: *mut NDK_CONNECTOR,
        DisconnectEvent: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK_EX>,
        DisconnectEventContext: *mut c_void,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkAccept`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_accept`.
    ///
    /// Returns: SUCCESS, PENDING, CONNECTION_ABORTED, IO_TIMEOUT (peer never called CompleteConnect).
    fn NDK_FN_ACCEPT(
        pNdkConnector: *mut NDK_CONNECTOR,
        pNdkQp: *mut NDK_QP,
        InboundReadLimit: u32,
        OutboundReadLimit: u32,
        pPrivateData: *const c_void,
        PrivateDataLength: u32,
        DisconnectEvent: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
        DisconnectEventContext: *mut c_void,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkAcceptEx`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_accept_ex`.
    ///
    /// Returns: as NdkAccept.
    fn NDK_FN_ACCEPT_EX(
        pNdkConnector: *mut NDK_CONNECTOR,
        pNdkQp: *mut NDK_QP,
        InboundReadLimit: u32,
        OutboundReadLimit: u32,
        pPrivateData: *const c_void,
        PrivateDataLength: u32,
        DisconnectEvent: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK_EX>,
        DisconnectEventContext: *mut c_void,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// `NdkReject`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_reject`.
    ///
    /// Returns: SUCCESS, CONNECTION_ABORTED. No completion callback, so never PENDING.
    fn NDK_FN_REJECT(
        pNdkConnector: *mut NDK_CONNECTOR,
        pPrivateData: *const c_void,
        PrivateDataLength: u32,
    ) -> NTSTATUS;

    /// `NdkGetConnectionData`: synchronous. IRQL at most DISPATCH_LEVEL. Page
    /// `nc-ndkpi-ndk_fn_get_connection_data`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL.
    fn NDK_FN_GET_CONNECTION_DATA(
        pNdkConnector: *mut NDK_CONNECTOR,
        pInboundReadLimit: *mut u32,
        pOutboundReadLimit: *mut u32,
        pPrivateData: *mut c_void,
        pPrivateDataLength: *mut u32,
    ) -> NTSTATUS;

    /// `NdkGetLocalAddress`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_get_local_address`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL (*pAddressLength = needed).
    fn NDK_FN_GET_LOCAL_ADDRESS(
        pNdkConnector: *mut NDK_CONNECTOR,
        pAddress: *mut SOCKADDR,
        pAddressLength: *mut u32,
    ) -> NTSTATUS;

    /// `NdkGetPeerAddress`: synchronous. IRQL at most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_get_peer_address`.
    ///
    /// Returns: SUCCESS, BUFFER_TOO_SMALL.
    fn NDK_FN_GET_PEER_ADDRESS(
        pNdkConnector: *mut NDK_CONNECTOR,
        pAddress: *mut SOCKADDR,
        pAddressLength: *mut u32,
    ) -> NTSTATUS;

    /// `NdkDisconnect`: asynchronous, `STATUS_PENDING` then the RequestCompletion. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_disconnect`.
    ///
    /// Returns: SUCCESS, PENDING, IO_TIMEOUT (inline or async).
    fn NDK_FN_DISCONNECT(
        pNdkConnector: *mut NDK_CONNECTOR,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// No table has this function and no page describes it. IRQL at most DISPATCH_LEVEL.
    ///
    /// Returns: not documented.
    fn NDK_FN_DISCONNECT_EX(
        pNdkConnector: *mut NDK_CONNECTOR,
        Abortive: BOOLEAN,
        RequestCompletion: NDK_FN_REQUEST_COMPLETION,
        RequestContext: *mut c_void,
    ) -> NTSTATUS;

    /// Consumer's callback: the peer has disconnected. At most once for each connection. IRQL at most DISPATCH_LEVEL.
    /// Page `nc-ndkpi-ndk_fn_disconnect_event_callback`.
    fn NDK_FN_DISCONNECT_EVENT_CALLBACK(DisconnectEventContext: *mut c_void);

    /// Consumer's callback, since NDKPI 2.1: the peer has disconnected. The provider defines the reason codes. IRQL at
    /// most DISPATCH_LEVEL. Page `nc-ndkpi-ndk_fn_disconnect_event_callback_ex`.
    fn NDK_FN_DISCONNECT_EVENT_CALLBACK_EX(DisconnectEventContext: *mut c_void, ProviderDisconnectReason: u32);
}
