//! Wraps the consumer's callbacks in [`Callback`]s, which the device calls.
#![expect(unsafe_code, reason = "calls function pointers of a C interface")]

use core::{
    ffi::c_void,
    mem::transmute,
    ptr::{null, null_mut},
};

use ndk_abi::ndkpi::{
    NDK_FN_CLOSE_COMPLETION, NDK_FN_CONNECT_EVENT_CALLBACK, NDK_FN_CQ_NOTIFICATION_CALLBACK,
    NDK_FN_DISCONNECT_EVENT_CALLBACK, NDK_FN_DISCONNECT_EVENT_CALLBACK_EX, NDK_FN_REQUEST_COMPLETION,
    NDK_FN_SRQ_NOTIFICATION_CALLBACK,
};
use platform::{Arc, Platform};
use soft_rdma::{Callback, ConnectEvent, Connector, DisconnectReason, Status};

use crate::{connector, status};

/// Defines how a callback type is wrapped: its name, the consumer's function type, the device's argument and the call.
macro_rules! callback {
    ($(#[$meta:meta])* $name:ident, $function:ty, $argument:ident: $type:ty, |$call:ident, $context:ident| $body:expr) => {
        $(#[$meta])*
        pub(crate) fn $name(function: $function, context: *mut c_void) -> Callback<$type> {
            unsafe fn invoke(function: *const (), $context: *mut c_void, $argument: $type) {
                // SAFETY: `function` was made from this very type below.
                let $call = unsafe { transmute::<*const (), $function>(function) };
                // SAFETY: NDKPI: the consumer's function may be called with its context, on any thread at <=
                // DISPATCH_LEVEL.
                unsafe { $body };
            }
            // SAFETY: NDKPI: the consumer's function may be called, as in `invoke`, until the object or the request has
            // ended.
            unsafe { Callback::new(invoke, function as *const (), context) }
        }
    };
}

callback!(
    /// The completion of a close.
    closed, NDK_FN_CLOSE_COMPLETION, _argument: (), |call, context| call(context));
callback!(
    /// The completion of an asynchronous request.
    requested, NDK_FN_REQUEST_COMPLETION, result: Status, |call, context| call(context, status::status(result)));
callback!(
    /// The notification of a CQ: an armed completion, or the failure of the CQ.
    cq_notified, NDK_FN_CQ_NOTIFICATION_CALLBACK, result: Status, |call, context| call(context, status::status(result)));
callback!(
    /// The notification of an SRQ: fewer receives than the threshold.
    srq_notified, NDK_FN_SRQ_NOTIFICATION_CALLBACK, result: Status, |call, context| call(context, status::status(result)));
callback!(
    /// The disconnect event, without the reason.
    disconnected, NDK_FN_DISCONNECT_EVENT_CALLBACK, _reason: DisconnectReason, |call, context| call(context));
callback!(
    /// The disconnect event, with the reason (NDKPI 2.1).
    disconnected_ex, NDK_FN_DISCONNECT_EVENT_CALLBACK_EX, reason: DisconnectReason, |call, context| call(context, reason));

/// The notification of a CQ whose consumer gave no callback: does nothing.
pub(crate) fn none() -> Callback<Status> {
    unsafe fn invoke(_function: *const (), _context: *mut c_void, _result: Status) {}
    // SAFETY: `invoke` does nothing.
    unsafe { Callback::new(invoke, null(), null_mut()) }
}

/// The connect event of a listener: gives the consumer the connector of a request.
pub(crate) fn connect_event<P: Platform>(
    function: NDK_FN_CONNECT_EVENT_CALLBACK,
    context: *mut c_void,
) -> ConnectEvent<P> {
    unsafe fn invoke<P: Platform>(function: *const (), context: *mut c_void, incoming: Arc<Connector<P>, P>) {
        // Without memory for the head the consumer gets no event, and the peer gets a reject.
        let Ok(object) = connector::hand_out(incoming) else { return };
        // SAFETY: `function` was made from this very type below.
        let call = unsafe { transmute::<*const (), NDK_FN_CONNECT_EVENT_CALLBACK>(function) };
        // SAFETY: NDKPI: the consumer's function may be called with its context and a connector, which the consumer
        // then owns.
        unsafe { call(context, object) };
    }
    // SAFETY: NDKPI: the consumer's function may be called, as in `invoke`, until the listener has been closed.
    unsafe { Callback::new(invoke::<P>, function as *const (), context) }
}
