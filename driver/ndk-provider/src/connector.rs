//! NDK_CONNECTOR_DISPATCH.
//!
//! The completion callback of an asynchronous call may run before the call has returned, and the consumer may close the
//! connector in the callback. So each asynchronous entry holds a reference of its own.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_CONNECTOR, NDK_CONNECTOR_DISPATCH, NDK_FN_DISCONNECT_EVENT_CALLBACK, NDK_FN_DISCONNECT_EVENT_CALLBACK_EX,
        NDK_FN_REQUEST_COMPLETION, NDK_OBJECT_HEADER, NDK_QP, NDK_SHARED_ENDPOINT,
    },
    sockaddr::SOCKADDR,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS},
};
use platform::{Arc, OutOfMemory, Platform};
use soft_rdma::{
    Accept, Callback, Connect, Connector, DisconnectReason, QueuePair, ReadLimits, SharedEndpoint, Source,
};

use crate::{
    address, callback,
    object::{Object, close, query_extension},
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_CONNECTOR_DISPATCH {
    NDK_CONNECTOR_DISPATCH {
        NdkCloseConnector: close::<Connector<P>, P>,
        NdkQueryExtension: query_extension,
        NdkConnect: connect::<P>,
        NdkConnectWithSharedEndpoint: connect_with_shared_endpoint::<P>,
        NdkCompleteConnect: complete_connect::<P>,
        NdkAccept: accept::<P>,
        NdkReject: reject::<P>,
        NdkGetConnectionData: connection_data::<P>,
        NdkGetLocalAddress: local_address::<P>,
        NdkGetPeerAddress: peer_address::<P>,
        NdkDisconnect: disconnect::<P>,
        NdkCompleteConnectEx: complete_connect_ex::<P>,
        NdkAcceptEx: accept_ex::<P>,
    }
}

/// Makes the head of a connector.
pub(crate) fn head<P: Platform>(connector: Arc<Connector<P>, P>) -> Result<*mut NDK_OBJECT_HEADER, OutOfMemory> {
    let adapter = connector.adapter().clone();
    Object::hand_out(&adapter, ndk_abi::ndkpi::NdkObjectTypeConnector, const { &table::<P>() }, connector)
}

/// Makes the head of an incoming connector. If there is no memory for the head, the peer gets a reject.
pub(crate) fn hand_out<P: Platform>(connector: Arc<Connector<P>, P>) -> Result<*mut NDK_CONNECTOR, OutOfMemory> {
    let head = head(connector.clone());
    if head.is_err() {
        Connector::discard(&connector);
    }
    head.map(<*mut NDK_OBJECT_HEADER>::cast)
}

/// NdkConnect.
///
/// # Safety
/// NDK_FN_CONNECT.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_CONNECT")]
unsafe extern "system" fn connect<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    qp: *mut NDK_QP,
    source: *const SOCKADDR,
    source_length: u32,
    destination: *const SOCKADDR,
    destination_length: u32,
    inbound: u32,
    outbound: u32,
    private_data: *const c_void,
    private_data_length: u32,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    // SAFETY: the consumer's open queue pair.
    let queue_pair = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the consumer's address, for the time of the call.
    let local = unsafe { address::read(source, source_length) };
    // SAFETY: the consumer's address, for the time of the call.
    let remote = unsafe { address::read(destination, destination_length) };
    // SAFETY: the consumer's data, for the time of the call.
    let private_data = unsafe { address::private_data(private_data, private_data_length) };
    let done = callback::requested(completion, context);
    status::outcome(local.and_then(|local| {
        let (source, limits) = (Source::Address(local), ReadLimits { inbound, outbound });
        Connector::connect(&connector, Connect { queue_pair, source, remote: remote?, limits, private_data }, done)
    }))
}

/// NdkConnectWithSharedEndpoint.
///
/// # Safety
/// NDK_FN_CONNECT_WITH_SHARED_ENDPOINT.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_CONNECT_WITH_SHARED_ENDPOINT")]
unsafe extern "system" fn connect_with_shared_endpoint<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    qp: *mut NDK_QP,
    endpoint: *mut NDK_SHARED_ENDPOINT,
    destination: *const SOCKADDR,
    destination_length: u32,
    inbound: u32,
    outbound: u32,
    private_data: *const c_void,
    private_data_length: u32,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    // SAFETY: the consumer's open queue pair.
    let queue_pair = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the consumer's open shared endpoint.
    let source = Source::Shared(unsafe { Object::<SharedEndpoint<P>, P>::of(endpoint) });
    // SAFETY: the consumer's address, for the time of the call.
    let remote = unsafe { address::read(destination, destination_length) };
    // SAFETY: the consumer's data, for the time of the call.
    let private_data = unsafe { address::private_data(private_data, private_data_length) };
    let done = callback::requested(completion, context);
    status::outcome(remote.and_then(|remote| {
        let limits = ReadLimits { inbound, outbound };
        Connector::connect(&connector, Connect { queue_pair, source, remote, limits, private_data }, done)
    }))
}

/// NdkCompleteConnect: always inline.
///
/// # Safety
/// NDK_FN_COMPLETE_CONNECT.
unsafe extern "system" fn complete_connect<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
    event_context: *mut c_void,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    let event = event.map(|event| callback::disconnected(event, event_context));
    status::outcome(Connector::complete_connect(&connector, event))
}

/// NdkCompleteConnectEx: always inline.
///
/// # Safety
/// NDK_FN_COMPLETE_CONNECT_EX.
unsafe extern "system" fn complete_connect_ex<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK_EX>,
    event_context: *mut c_void,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    let event = event.map(|event| callback::disconnected_ex(event, event_context));
    status::outcome(Connector::complete_connect(&connector, event))
}

/// NdkAccept.
///
/// # Safety
/// NDK_FN_ACCEPT.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_ACCEPT")]
unsafe extern "system" fn accept<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    qp: *mut NDK_QP,
    inbound: u32,
    outbound: u32,
    private_data: *const c_void,
    private_data_length: u32,
    event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>,
    event_context: *mut c_void,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    let event = event.map(|event| callback::disconnected(event, event_context));
    let limits = ReadLimits { inbound, outbound };
    let done = callback::requested(completion, context);
    // SAFETY: the caller's contract.
    unsafe { accept_with::<P>(connector, qp, limits, (private_data, private_data_length), event, done) }
}

/// NdkAcceptEx.
///
/// # Safety
/// NDK_FN_ACCEPT_EX.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_ACCEPT_EX")]
unsafe extern "system" fn accept_ex<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    qp: *mut NDK_QP,
    inbound: u32,
    outbound: u32,
    private_data: *const c_void,
    private_data_length: u32,
    event: Option<NDK_FN_DISCONNECT_EVENT_CALLBACK_EX>,
    event_context: *mut c_void,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    let event = event.map(|event| callback::disconnected_ex(event, event_context));
    let limits = ReadLimits { inbound, outbound };
    let done = callback::requested(completion, context);
    // SAFETY: the caller's contract.
    unsafe { accept_with::<P>(connector, qp, limits, (private_data, private_data_length), event, done) }
}

/// # Safety
/// NDK_FN_ACCEPT.
unsafe fn accept_with<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    qp: *mut NDK_QP,
    limits: ReadLimits,
    private_data: (*const c_void, u32),
    disconnect_event: Option<Callback<DisconnectReason>>,
    done: Callback<soft_rdma::Status>,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    // SAFETY: the consumer's open queue pair.
    let queue_pair = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the consumer's data, for the time of the call.
    let private_data = unsafe { address::private_data(private_data.0, private_data.1) };
    let request = Accept { queue_pair, limits, private_data, disconnect_event };
    status::outcome(Connector::accept(&connector, request, done))
}

/// NdkReject.
///
/// # Safety
/// NDK_FN_REJECT.
unsafe extern "system" fn reject<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    private_data: *const c_void,
    private_data_length: u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) };
    // SAFETY: the consumer's data, for the time of the call.
    let private_data = unsafe { address::private_data(private_data, private_data_length) };
    status::status(Connector::reject(connector, private_data))
}

/// NdkGetConnectionData. Reports the length of the peer's private data; a shorter buffer gets the first bytes of the
/// data.
///
/// # Safety
/// NDK_FN_GET_CONNECTION_DATA.
unsafe extern "system" fn connection_data<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    inbound: *mut u32,
    outbound: *mut u32,
    buffer: *mut c_void,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) };
    connector.connection_data(|limits, data| {
        for (place, limit) in [(inbound, limits.inbound), (outbound, limits.outbound)] {
            if !place.is_null() {
                // SAFETY: an out parameter of the call.
                unsafe { place.write(limit) };
            }
        }
        if length.is_null() {
            return STATUS_SUCCESS;
        }
        // SAFETY: an in/out parameter of the call.
        let available = unsafe { length.read() } as usize;
        // SAFETY: as above.
        unsafe { length.write(u32::try_from(data.len()).unwrap_or(u32::MAX)) };
        if buffer.is_null() && available == 0 {
            return STATUS_SUCCESS;
        }
        if !buffer.is_null() {
            // SAFETY: the buffer is writable for `available` bytes, the data readable for its length.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast(), available.min(data.len())) };
        }
        if available >= data.len() { STATUS_SUCCESS } else { STATUS_BUFFER_TOO_SMALL }
    })
}

/// NdkGetLocalAddress.
///
/// # Safety
/// NDK_FN_GET_LOCAL_ADDRESS.
unsafe extern "system" fn local_address<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    buffer: *mut SOCKADDR,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) };
    // SAFETY: the consumer's buffer and its length.
    unsafe { address::write(connector.local_address(), buffer, length) }
}

/// NdkGetPeerAddress.
///
/// # Safety
/// NDK_FN_GET_PEER_ADDRESS.
unsafe extern "system" fn peer_address<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    buffer: *mut SOCKADDR,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) };
    // SAFETY: the consumer's buffer and its length.
    unsafe { address::write(connector.peer_address(), buffer, length) }
}

/// NdkDisconnect.
///
/// # Safety
/// NDK_FN_DISCONNECT.
unsafe extern "system" fn disconnect<P: Platform>(
    connector: *mut NDK_CONNECTOR,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open connector.
    let connector = unsafe { Object::<Connector<P>, P>::of(connector) }.clone();
    status::outcome(Connector::disconnect(&connector, callback::requested(completion, context)))
}
