//! NDK_LISTENER_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{NDK_FN_REQUEST_COMPLETION, NDK_LISTENER, NDK_LISTENER_DISPATCH},
    sockaddr::SOCKADDR,
    status::NTSTATUS,
    wdm::BOOLEAN,
};
use platform::Platform;
use soft_rdma::Listener;

use crate::{
    address, callback,
    object::{Object, close, query_extension},
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_LISTENER_DISPATCH {
    NDK_LISTENER_DISPATCH {
        NdkCloseListener: close::<Listener<P>, P>,
        NdkQueryExtension: query_extension,
        NdkListen: listen::<P>,
        NdkGetLocalAddress: local_address::<P>,
        NdkControlConnectEvents: control_connect_events::<P>,
    }
}

/// NdkListen.
///
/// # Safety
/// NDK_FN_LISTEN.
unsafe extern "system" fn listen<P: Platform>(
    listener: *mut NDK_LISTENER,
    address: *const SOCKADDR,
    length: u32,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open listener.
    let listener = unsafe { Object::<Listener<P>, P>::of(listener) }.clone();
    // SAFETY: the consumer's address, for the time of the call.
    let address = unsafe { address::read(address, length) };
    let done = callback::requested(completion, context);
    status::outcome(address.and_then(|address| Listener::listen(&listener, address, done)))
}

/// NdkGetLocalAddress.
///
/// # Safety
/// NDK_FN_GET_LISTENER_LOCAL_ADDRESS.
unsafe extern "system" fn local_address<P: Platform>(
    listener: *mut NDK_LISTENER,
    buffer: *mut SOCKADDR,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open listener.
    let listener = unsafe { Object::<Listener<P>, P>::of(listener) };
    // SAFETY: the consumer's buffer and its length.
    unsafe { address::write(listener.local_address(), buffer, length) }
}

/// NdkControlConnectEvents.
///
/// # Safety
/// NDK_FN_CONTROL_CONNECT_EVENTS.
unsafe extern "system" fn control_connect_events<P: Platform>(listener: *mut NDK_LISTENER, pause: BOOLEAN) {
    // SAFETY: the consumer's open listener.
    unsafe { Object::<Listener<P>, P>::of(listener) }.pause(pause != 0);
}
