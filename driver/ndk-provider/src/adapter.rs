//! NDK_ADAPTER_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::{ffi::c_void, mem::transmute};

use ndk_abi::{
    ndkpi::{
        NDK_ADAPTER, NDK_ADAPTER_DISPATCH, NDK_ADAPTER_INFO, NDK_CONNECTOR, NDK_CQ, NDK_FN_CONNECT_EVENT_CALLBACK,
        NDK_FN_CQ_NOTIFICATION_CALLBACK, NDK_FN_CREATE_COMPLETION, NDK_FN_CREATE_CQ, NDK_LISTENER, NDK_PD,
        NDK_SHARED_ENDPOINT, NDK_VERSION,
    },
    sockaddr::SOCKADDR,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS},
    wdm::GROUP_AFFINITY,
};
use platform::{Passive, Platform};
use soft_rdma::{Adapter, CompletionQueue, Connector, Listener, ProtectionDomain, SharedEndpoint};

use crate::{
    Provider, address, callback, connector, cq, lam, listener,
    object::{Object, created, query_extension},
    pd, shared_endpoint,
};

pub(crate) const fn table<P: Platform>() -> NDK_ADAPTER_DISPATCH {
    NDK_ADAPTER_DISPATCH {
        NdkQueryExtension: query_extension,
        NdkQueryAdapterInfo: query_info::<P>,
        // SAFETY: the types differ in one parameter only: a function pointer that may be NULL. Both are passed alike.
        NdkCreateCq: unsafe { transmute::<CreateCq, NDK_FN_CREATE_CQ>(create_cq::<P>) },
        NdkCreatePd: create_pd::<P>,
        NdkCreateSharedEndpoint: create_shared_endpoint::<P>,
        NdkCreateConnector: create_connector::<P>,
        NdkCreateListener: create_listener::<P>,
        NdkBuildLAM: lam::build::<P>,
        NdkReleaseLAM: lam::release,
    }
}

/// NdkQueryAdapterInfo. A consumer of version 1.x may pass the structure without RdmaTechnology. PASSIVE_LEVEL.
///
/// # Safety
/// NDK_FN_QUERY_ADAPTER_INFO.
unsafe extern "system" fn query_info<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    info: *mut NDK_ADAPTER_INFO,
    size: *mut u32,
) -> NTSTATUS {
    // SAFETY: the caller's contract; the simulated kernel checks the IRQL.
    let _passive = unsafe { Passive::assume::<P>() };
    // SAFETY: the consumer's open adapter.
    let (major, minor) = unsafe { Object::<Adapter<P>, P>::of(adapter) }.version();
    let full = size_of::<NDK_ADAPTER_INFO>();
    let needed = if major < 2 { core::mem::offset_of!(NDK_ADAPTER_INFO, RdmaTechnology) } else { full };
    // SAFETY: an in/out parameter of the call.
    let available = unsafe { size.read() } as usize;
    // SAFETY: as above.
    unsafe { size.write(needed as u32) };
    if info.is_null() || available < needed {
        return STATUS_BUFFER_TOO_SMALL;
    }
    let values = Provider::<P>::adapter_info(NDK_VERSION { Major: major, Minor: minor });
    // SAFETY: the buffer is writable for `needed` bytes, the values are `full` >= `needed` bytes.
    unsafe { core::ptr::copy_nonoverlapping((&raw const values).cast::<u8>(), info.cast::<u8>(), needed) };
    STATUS_SUCCESS
}

/// NDK_FN_CREATE_CQ with an optional notification callback: a consumer that only polls may pass NULL.
type CreateCq = unsafe extern "system" fn(
    *mut NDK_ADAPTER,
    u32,
    Option<NDK_FN_CQ_NOTIFICATION_CALLBACK>,
    *mut c_void,
    *mut GROUP_AFFINITY,
    NDK_FN_CREATE_COMPLETION,
    *mut c_void,
    *mut *mut NDK_CQ,
) -> NTSTATUS;

/// NdkCreateCq. The affinity is a hint, which the software device ignores.
///
/// # Safety
/// NDK_FN_CREATE_CQ.
unsafe extern "system" fn create_cq<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    depth: u32,
    notification: Option<NDK_FN_CQ_NOTIFICATION_CALLBACK>,
    notification_context: *mut c_void,
    _affinity: *mut GROUP_AFFINITY,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_CQ,
) -> NTSTATUS {
    // SAFETY: the consumer's open adapter.
    let adapter = unsafe { Object::<Adapter<P>, P>::of(adapter) };
    let notify = notification
        .map_or_else(callback::none, |notification| callback::cq_notified(notification, notification_context));
    let cq = CompletionQueue::new(adapter, depth, notify);
    let object = cq.and_then(|cq| {
        Ok(Object::hand_out(adapter, ndk_abi::ndkpi::NdkObjectTypeCq, const { &cq::table::<P>() }, cq)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreatePd.
///
/// # Safety
/// NDK_FN_CREATE_PD.
unsafe extern "system" fn create_pd<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_PD,
) -> NTSTATUS {
    // SAFETY: the consumer's open adapter.
    let adapter = unsafe { Object::<Adapter<P>, P>::of(adapter) };
    let object = ProtectionDomain::new(adapter).and_then(|pd| {
        Ok(Object::hand_out(adapter, ndk_abi::ndkpi::NdkObjectTypePd, const { &pd::table::<P>() }, pd)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateSharedEndpoint.
///
/// # Safety
/// NDK_FN_CREATE_SHARED_ENDPOINT.
unsafe extern "system" fn create_shared_endpoint<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    address: *const SOCKADDR,
    address_length: u32,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_SHARED_ENDPOINT,
) -> NTSTATUS {
    // SAFETY: the consumer's open adapter.
    let adapter = unsafe { Object::<Adapter<P>, P>::of(adapter) };
    // SAFETY: the consumer's address, for the time of the call.
    let address = unsafe { address::read(address, address_length) };
    let object = address.and_then(|address| {
        let endpoint = SharedEndpoint::new(adapter, address)?;
        let table = const { &shared_endpoint::table::<P>() };
        Ok(Object::hand_out(adapter, ndk_abi::ndkpi::NdkObjectTypeSharedEndpoint, table, endpoint)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateConnector.
///
/// # Safety
/// NDK_FN_CREATE_CONNECTOR.
unsafe extern "system" fn create_connector<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_CONNECTOR,
) -> NTSTATUS {
    // SAFETY: the consumer's open adapter.
    let adapter = unsafe { Object::<Adapter<P>, P>::of(adapter) };
    let object = Connector::new(adapter).and_then(|connector| Ok(connector::head(connector)?));
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateListener.
///
/// # Safety
/// NDK_FN_CREATE_LISTENER.
unsafe extern "system" fn create_listener<P: Platform>(
    adapter: *mut NDK_ADAPTER,
    event: NDK_FN_CONNECT_EVENT_CALLBACK,
    event_context: *mut c_void,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_LISTENER,
) -> NTSTATUS {
    // SAFETY: the consumer's open adapter.
    let adapter = unsafe { Object::<Adapter<P>, P>::of(adapter) };
    let made = Listener::new(adapter, callback::connect_event::<P>(event, event_context));
    let object = made.and_then(|made| {
        Ok(Object::hand_out(adapter, ndk_abi::ndkpi::NdkObjectTypeListener, const { &listener::table::<P>() }, made)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}
