//! Queue pairs, listeners and connectors.

use std::{ffi::c_void, sync::OnceLock};

use ndk_abi::{ndkpi::*, sockaddr::SOCKADDR, status::NTSTATUS};

use super::{Originals, Traced, attach, close, lengths, note, provider, request, returned};

traced! { NDK_QP, NDK_QP_DISPATCH, [NdkCloseQp]:
    fn NdkFlush(this) |call| {
        note("NdkFlush".to_owned());
        call(this);
    }

    fn NdkSend(this, context: *mut c_void, list: *const NDK_SGE, count: u32, flags: u32) -> NTSTATUS |call| {
        note(format!("NdkSend of {}, flags {flags:#x}", lengths(list, count)));
        returned("NdkSend", call(this, context, list, count, flags))
    }

    fn NdkReceive(this, context: *mut c_void, list: *const NDK_SGE, count: u32) -> NTSTATUS |call| {
        note(format!("NdkReceive of {}", lengths(list, count)));
        returned("NdkReceive", call(this, context, list, count))
    }

    fn NdkFastRegister(
        this,
        context: *mut c_void,
        region: *mut NDK_MR,
        pages: u32,
        array: *const NDK_LOGICAL_ADDRESS,
        fbo: u32,
        length: usize,
        base: *mut c_void,
        flags: u32,
    ) -> NTSTATUS |call| {
        note(format!("NdkFastRegister of {pages} pages, {length} bytes, flags {flags:#x}"));
        returned("NdkFastRegister", call(this, context, region, pages, array, fbo, length, base, flags))
    }

    fn NdkInvalidate(this, context: *mut c_void, object: *mut NDK_OBJECT_HEADER, flags: u32) -> NTSTATUS |call| {
        note(format!("NdkInvalidate, flags {flags:#x}"));
        returned("NdkInvalidate", call(this, context, object, flags))
    }

    fn NdkRead(
        this,
        context: *mut c_void,
        list: *const NDK_SGE,
        count: u32,
        address: u64,
        token: u32,
        flags: u32,
    ) -> NTSTATUS |call| {
        note(format!("NdkRead of {}, flags {flags:#x}", lengths(list, count)));
        returned("NdkRead", call(this, context, list, count, address, token, flags))
    }

    fn NdkWrite(
        this,
        context: *mut c_void,
        list: *const NDK_SGE,
        count: u32,
        address: u64,
        token: u32,
        flags: u32,
    ) -> NTSTATUS |call| {
        note(format!("NdkWrite of {}, flags {flags:#x}", lengths(list, count)));
        returned("NdkWrite", call(this, context, list, count, address, token, flags))
    }
}

traced! { NDK_LISTENER, NDK_LISTENER_DISPATCH, [NdkCloseListener]:
    fn NdkListen(
        this,
        address: *const SOCKADDR,
        length: u32,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(" at an address of {length} bytes, family {}", (*address).sa_family);
        request("NdkListen", &asked, completion, context, |done, wait| call(this, address, length, done, wait))
    }

    fn NdkControlConnectEvents(this, pause: u8) |call| {
        note(format!("NdkControlConnectEvents, Pause {pause}"));
        call(this, pause);
    }
}

/// A consumer's callback for the end of a connection.
struct End {
    event: NDK_FN_DISCONNECT_EVENT_CALLBACK,
    context: *mut c_void,
}

impl End {
    /// What the provider gets instead. Some bytes for each connection, which go with the process.
    fn noting(
        event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
        context: *mut c_void,
    ) -> (Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>, *mut c_void) {
        match event {
            Some(event) => (Some(disconnected), Box::into_raw(Box::new(Self { event, context })).cast()),
            None => (None, context),
        }
    }
}

unsafe extern "system" fn disconnected(end: *mut c_void) {
    note("disconnect event".to_owned());
    // SAFETY: made with the connection, never freed.
    let end = unsafe { &*end.cast::<End>() };
    // SAFETY: the consumer's own.
    unsafe { (end.event)(end.context) };
}

/// A consumer's callback for connections that come.
pub(super) struct Events {
    pub(super) event: NDK_FN_CONNECT_EVENT_CALLBACK,
    pub(super) context: *mut c_void,
}

pub(super) unsafe extern "system" fn connect_event(events: *mut c_void, connector: *mut NDK_CONNECTOR) {
    note("connect event".to_owned());
    // SAFETY: new, the consumer has not seen it.
    unsafe { attach(connector) };
    // SAFETY: made with the listener, never freed.
    let events = unsafe { &*events.cast::<Events>() };
    // SAFETY: the consumer's own.
    unsafe { (events.event)(events.context, connector) };
}

traced! { NDK_CONNECTOR, NDK_CONNECTOR_DISPATCH, [NdkCloseConnector]:
    fn NdkConnect(
        this,
        qp: *mut NDK_QP,
        source: *const SOCKADDR,
        source_length: u32,
        destination: *const SOCKADDR,
        destination_length: u32,
        inbound: u32,
        outbound: u32,
        data: *const c_void,
        data_length: u32,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(
            ", addresses of {source_length} and {destination_length} bytes, read limits {inbound} in and {outbound} out, {data_length} \
             bytes of private data",
        );
        request("NdkConnect", &asked, completion, context, |done, wait| {
            call(
                this, qp, source, source_length, destination, destination_length, inbound, outbound, data, data_length, done,
                wait,
            )
        })
    }

    fn NdkCompleteConnect(
        this,
        event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
        event_context: *mut c_void,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(", disconnect event {}", event.is_some());
        let (event, event_context) = End::noting(event, event_context);
        request("NdkCompleteConnect", &asked, completion, context, |done, wait| {
            call(this, event, event_context, done, wait)
        })
    }

    fn NdkAccept(
        this,
        qp: *mut NDK_QP,
        inbound: u32,
        outbound: u32,
        data: *const c_void,
        data_length: u32,
        event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
        event_context: *mut c_void,
        completion: NDK_FN_REQUEST_COMPLETION,
        context: *mut c_void,
    ) -> NTSTATUS |call| {
        let asked = format!(
            ", read limits {inbound} in and {outbound} out, {data_length} bytes of private data, disconnect event {}",
            event.is_some(),
        );
        let (event, event_context) = End::noting(event, event_context);
        request("NdkAccept", &asked, completion, context, |done, wait| {
            call(this, qp, inbound, outbound, data, data_length, event, event_context, done, wait)
        })
    }

    fn NdkReject(this, data: *const c_void, length: u32) -> NTSTATUS |call| {
        let status = call(this, data, length);
        note(format!("NdkReject, {length} bytes of private data: {status}"));
        status
    }

    fn NdkGetConnectionData(
        this,
        inbound: *mut u32,
        outbound: *mut u32,
        data: *mut c_void,
        length: *mut u32,
    ) -> NTSTATUS |call| {
        let status = call(this, inbound, outbound, data, length);
        note(format!("NdkGetConnectionData: {status}, {:?} in, {:?} out", inbound.as_ref(), outbound.as_ref()));
        status
    }

    fn NdkDisconnect(this, completion: NDK_FN_REQUEST_COMPLETION, context: *mut c_void) -> NTSTATUS |call| {
        request("NdkDisconnect", "", completion, context, |done, wait| call(this, done, wait))
    }
}
