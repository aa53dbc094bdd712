//! Calls the function of a control code. A function with a few hundred bytes of stack is `#[inline(never)]`: if all were inlined, the frame
//! of [`File::dispatch`] would be the sum of their frames.

use core::sync::atomic::Ordering;

use ndk_abi::nd_ioctl::{
    IOCTL_ND_ADAPTER_CLOSE, IOCTL_ND_ADAPTER_OPEN, IOCTL_ND_ADAPTER_QUERY, IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST,
    IOCTL_ND_CONNECTOR_ACCEPT, IOCTL_ND_CONNECTOR_BIND, IOCTL_ND_CONNECTOR_CANCEL_IO,
    IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, IOCTL_ND_CONNECTOR_CONNECT, IOCTL_ND_CONNECTOR_CREATE,
    IOCTL_ND_CONNECTOR_DISCONNECT, IOCTL_ND_CONNECTOR_FREE, IOCTL_ND_CONNECTOR_GET_ADDRESS,
    IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, IOCTL_ND_CONNECTOR_GET_READ_LIMITS,
    IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, IOCTL_ND_CONNECTOR_REJECT, IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_CREATE,
    IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_GET_AFFINITY, IOCTL_ND_CQ_MODIFY, IOCTL_ND_CQ_NOTIFY, IOCTL_ND_LISTENER_BIND,
    IOCTL_ND_LISTENER_CANCEL_IO, IOCTL_ND_LISTENER_CREATE, IOCTL_ND_LISTENER_FREE, IOCTL_ND_LISTENER_GET_ADDRESS,
    IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, IOCTL_ND_LISTENER_LISTEN, IOCTL_ND_MR_CANCEL_IO, IOCTL_ND_MR_CREATE,
    IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_FREE, IOCTL_ND_MR_REGISTER, IOCTL_ND_MW_CREATE, IOCTL_ND_MW_FREE,
    IOCTL_ND_PD_CREATE, IOCTL_ND_PD_FREE, IOCTL_ND_PROVIDER_BIND_FILE, IOCTL_ND_PROVIDER_INIT,
    IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, IOCTL_ND_QP_CREATE,
    IOCTL_ND_QP_CREATE_WITH_SRQ, IOCTL_ND_QP_FLUSH, IOCTL_ND_QP_FREE, IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_CREATE,
    IOCTL_ND_SRQ_FREE, IOCTL_ND_SRQ_GET_AFFINITY, IOCTL_ND_SRQ_MODIFY, IOCTL_ND_SRQ_NOTIFY, METHOD_BUFFERED, ND_HANDLE,
};
use ndk_abi::softndk_ioctl::{
    IOCTL_SOFTNDK_ADAPTER, IOCTL_SOFTNDK_ADDRESSES, IOCTL_SOFTNDK_ATTACH, IOCTL_SOFTNDK_CABLE, IOCTL_SOFTNDK_CAPTURE,
    IOCTL_SOFTNDK_COUNTERS, IOCTL_SOFTNDK_CQ_MODERATE, IOCTL_SOFTNDK_DIAGNOSTICS, IOCTL_SOFTNDK_DOORBELL,
    IOCTL_SOFTNDK_ENDPOINTS, IOCTL_SOFTNDK_FAST_MR_CREATE, IOCTL_SOFTNDK_FAULT_RULES, IOCTL_SOFTNDK_FILE_ID,
    IOCTL_SOFTNDK_MR_QUERY, IOCTL_SOFTNDK_NOP, IOCTL_SOFTNDK_POLL, IOCTL_SOFTNDK_POST, IOCTL_SOFTNDK_SET_FAULT_RULES,
    IOCTL_SOFTNDK_SRQ_POST, IOCTL_SOFTNDK_START_CAPTURE, IOCTL_SOFTNDK_TEST_LINK, IOCTL_SOFTNDK_TEST_PERF,
    IOCTL_SOFTNDK_TEST_PLANT, IOCTL_SOFTNDK_TEST_SMB_DIRECT,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE, STATUS_SUCCESS,
};
use platform::Passive;

use crate::decode::{Reply, finish, input};
use crate::device_state::DeviceState;
use crate::objects::Handles;
use crate::objects::connector::Connector;
use crate::objects::cq::Cq;
use crate::objects::listener::Listener;
use crate::objects::mr::Mr;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::session::provider_context::ProviderContext;
use crate::tables::sent::{Sent, Waiting};
use crate::{
    File, Host, Ref, Request, diagnostics,
    objects::{adapter, connector, cq, listener, mr, mw, pd, post, qp, srq},
    provider,
    session::attach,
};

impl<H: Host> File<H> {
    /// Serves a request of the process with number `process`: completes or pends it. Returns the status that the dispatch routine has to
    /// return: the completed request's status, or STATUS_PENDING.
    ///
    /// STATUS_INVALID_DEVICE_REQUEST: the request comes from another process than the one that opened the file, which is possible as
    /// handles can be inherited and duplicated. The addresses in such a request mean other memory.
    pub fn dispatch(&self, mut request: H::Request, process: u64, passive: &Passive<'_>) -> NTSTATUS {
        if process != self.process {
            return request.complete(STATUS_INVALID_DEVICE_REQUEST, 0);
        }
        let code = request.code();
        if !is_diagnostic(code) {
            self.device.requests.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(reply) = before_init(self, code, &mut request, passive) {
            return finish(request, reply);
        }
        let Some(context) = &self.context() else {
            return finish(request, Err(STATUS_INVALID_DEVICE_STATE.into()));
        };
        let ProviderContext { handles, quota, device, .. } = &**context;
        match code {
            IOCTL_ND_CQ_NOTIFY => cq::notify(handles, Sent::new(request, &self.state)),
            IOCTL_ND_SRQ_NOTIFY => srq::notify(handles, Sent::new(request, &self.state), passive),
            IOCTL_ND_CONNECTOR_CONNECT => {
                connector::connect(handles, quota, &device.host, Sent::new(request, &self.state), passive)
            }
            IOCTL_ND_CONNECTOR_COMPLETE_CONNECT => {
                connector::complete_connect(handles, Sent::new(request, &self.state))
            }
            IOCTL_ND_CONNECTOR_ACCEPT => connector::accept(handles, Sent::new(request, &self.state)),
            IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT => {
                connector::notify_disconnect(handles, Sent::new(request, &self.state))
            }
            IOCTL_ND_CONNECTOR_DISCONNECT => connector::disconnect(handles, Sent::new(request, &self.state)),
            IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST => {
                listener::get_connection_request(handles, Sent::new(request, &self.state))
            }
            _ => match (code, serve(context, code, &mut request, passive)) {
                // Clients wait for the event or completion packet, whatever status the call returned (ndspi.md section 5, rule e).
                (IOCTL_ND_MR_REGISTER | IOCTL_ND_MR_DEREGISTER | IOCTL_SOFTNDK_NOP, Ok(length)) => {
                    request.complete_pending(STATUS_SUCCESS, length)
                }
                // The context is ending, and closes its objects in an order of its own, which may be why the request failed.
                (_, Err(_)) if handles.are_closed() => finish(request, Err(STATUS_DEVICE_REMOVED.into())),
                (_, reply) => finish(request, reply),
            },
        }
    }
}

/// Serves the codes that need no PROVIDER_INIT, and refuses those that no program may send. `None`: the code needs PROVIDER_INIT.
#[inline(never)]
fn before_init<H: Host>(by: &File<H>, code: u32, request: &mut H::Request, passive: &Passive<'_>) -> Option<Reply> {
    Some(match code {
        IOCTL_ND_PROVIDER_INIT => attach::init(by, request),
        IOCTL_SOFTNDK_ATTACH => attach::attach(by, request),
        IOCTL_SOFTNDK_DIAGNOSTICS => diagnostics::diagnostics(&by.device, request),
        IOCTL_SOFTNDK_COUNTERS => diagnostics::counters(&by.device, request),
        IOCTL_SOFTNDK_ADAPTER => diagnostics::adapter(&by.device, request),
        IOCTL_SOFTNDK_ADDRESSES => diagnostics::addresses(&by.device, request),
        IOCTL_SOFTNDK_ENDPOINTS => diagnostics::endpoints(&by.device, request),
        IOCTL_SOFTNDK_CABLE => diagnostics::cable(&by.device, request),
        IOCTL_SOFTNDK_FAULT_RULES => diagnostics::fault_rules(&by.device, request),
        IOCTL_SOFTNDK_SET_FAULT_RULES => provider::set_fault_rules(&by.device, request),
        IOCTL_SOFTNDK_START_CAPTURE => provider::start_capture(by, request),
        IOCTL_SOFTNDK_CAPTURE => provider::read_capture(by, request),
        IOCTL_SOFTNDK_TEST_PLANT => provider::plant(&by.device, request),
        IOCTL_SOFTNDK_TEST_LINK => provider::test_link(by, request, passive),
        IOCTL_SOFTNDK_TEST_PERF => provider::test_perf(by, request, passive),
        IOCTL_SOFTNDK_TEST_SMB_DIRECT => provider::test_smb_direct(&by.device, request, passive),
        _ if is_for_users(code) => return None,
        // Unknown codes, and those of kernel callers (NDK_MR_REGISTER, all of partitions), which come by IRP_MJ_INTERNAL_DEVICE_CONTROL.
        _ => Err(STATUS_INVALID_DEVICE_REQUEST.into()),
    })
}

/// Serves the codes that complete before they return.
#[inline(never)]
fn serve<H: Host>(
    context: &Ref<ProviderContext<H>, H>,
    code: u32,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let ProviderContext { handles, pended, quota, adapters, device, .. } = &**context;
    let host = &device.host;
    let cancel_io = |waiting: &Waiting<H>| {
        pended.cancel_io(waiting);
        Ok(0)
    };
    match code {
        IOCTL_SOFTNDK_POST => post::post(handles, request, passive),
        IOCTL_SOFTNDK_DOORBELL => doorbell(device, handles, request),
        IOCTL_SOFTNDK_MR_QUERY => mr::query(handles, request),
        IOCTL_SOFTNDK_FILE_ID => attach::file_id(context, request),
        IOCTL_SOFTNDK_NOP => handle(request).map(|_| 0).map_err(Into::into),
        IOCTL_SOFTNDK_SRQ_POST => post::srq_post(handles, request),
        IOCTL_SOFTNDK_POLL => cq::poll(handles, request),
        IOCTL_SOFTNDK_CQ_MODERATE => cq::moderate(handles, request),
        IOCTL_SOFTNDK_FAST_MR_CREATE => mr::create_fast(handles, quota, host, request, passive),
        IOCTL_ND_PROVIDER_BIND_FILE => attach::bind_file(context, request, passive),
        IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST => provider::query_address_list(host, request),
        IOCTL_ND_PROVIDER_RESOLVE_ADDRESS => provider::resolve_address(host, request),
        IOCTL_ND_ADAPTER_OPEN => adapter::open(handles, adapters, quota, host, request, passive),
        IOCTL_ND_ADAPTER_CLOSE => adapter::close(handles, adapters, host, request, passive),
        IOCTL_ND_ADAPTER_QUERY => adapter::query(handles, host, request, passive),
        IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST => adapter::query_address_list(handles, host, request),
        IOCTL_ND_PD_CREATE => pd::create(handles, quota, request, passive),
        IOCTL_ND_PD_FREE => pd::free(handles, request),
        IOCTL_ND_CQ_CREATE => cq::create(handles, pended, quota, host, request, passive),
        IOCTL_ND_CQ_FREE => cq::free(handles, request),
        IOCTL_ND_CQ_CANCEL_IO => cancel_io(handles.get::<Cq<H>>(handle(request)?)?.waiting()),
        IOCTL_ND_CQ_GET_AFFINITY => cq::get_affinity(handles, host, request),
        IOCTL_ND_CQ_MODIFY => cq::modify(handles, quota, host, request, passive),
        IOCTL_ND_MR_CREATE => mr::create(handles, quota, request, passive),
        IOCTL_ND_MR_FREE => mr::free(handles, request, passive),
        IOCTL_ND_MR_CANCEL_IO => nothing_waits(handles.get::<Mr<H>>(handle(request)?)?),
        IOCTL_ND_MR_REGISTER => mr::register(handles, quota, host, request, passive),
        IOCTL_ND_MR_DEREGISTER => mr::deregister(handles, request, passive),
        IOCTL_ND_MW_CREATE => mw::create(handles, quota, request, passive),
        IOCTL_ND_MW_FREE => mw::free(handles, request),
        IOCTL_ND_SRQ_CREATE => srq::create(handles, pended, quota, host, request, passive),
        IOCTL_ND_SRQ_FREE => srq::free(handles, request),
        IOCTL_ND_SRQ_CANCEL_IO => cancel_io(handles.get::<Srq<H>>(handle(request)?)?.waiting()),
        IOCTL_ND_SRQ_GET_AFFINITY => srq::get_affinity(handles, host, request),
        IOCTL_ND_SRQ_MODIFY => srq::modify(handles, quota, host, request, passive),
        IOCTL_ND_CONNECTOR_CREATE => connector::create(handles, pended, quota, request),
        IOCTL_ND_CONNECTOR_FREE => connector::free(handles, request),
        IOCTL_ND_CONNECTOR_CANCEL_IO => cancel_io(&handles.get::<Connector<H>>(handle(request)?)?.waiting),
        IOCTL_ND_CONNECTOR_BIND => connector::bind(handles, host, request),
        IOCTL_ND_CONNECTOR_REJECT => connector::reject(handles, request),
        IOCTL_ND_CONNECTOR_GET_READ_LIMITS => connector::get_read_limits(handles, request),
        IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA => connector::get_private_data(handles, request),
        IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS => connector::get_peer_address(handles, request),
        IOCTL_ND_CONNECTOR_GET_ADDRESS => connector::get_address(handles, request),
        IOCTL_ND_LISTENER_CREATE => listener::create(handles, pended, quota, request, passive),
        IOCTL_ND_LISTENER_FREE => listener::free(handles, request),
        IOCTL_ND_LISTENER_CANCEL_IO => cancel_io(handles.get::<Listener<H>>(handle(request)?)?.waiting()),
        IOCTL_ND_LISTENER_BIND => listener::bind(handles, host, request, passive),
        IOCTL_ND_LISTENER_LISTEN => listener::listen(handles, request),
        IOCTL_ND_LISTENER_GET_ADDRESS => listener::get_address(handles, request),
        IOCTL_ND_QP_CREATE => qp::create(handles, quota, host, request, passive),
        IOCTL_ND_QP_CREATE_WITH_SRQ => qp::create_with_srq(handles, quota, host, request, passive),
        IOCTL_ND_QP_FREE => qp::free(handles, request),
        IOCTL_ND_QP_FLUSH => qp::flush(handles, request),
        _ => Err(STATUS_INVALID_DEVICE_REQUEST.into()),
    }
}

/// Whether this is the code of a diagnostic request, which is not counted.
fn is_diagnostic(code: u32) -> bool {
    matches!(
        code,
        IOCTL_SOFTNDK_DIAGNOSTICS
            | IOCTL_SOFTNDK_COUNTERS
            | IOCTL_SOFTNDK_ADAPTER
            | IOCTL_SOFTNDK_ADDRESSES
            | IOCTL_SOFTNDK_ENDPOINTS
            | IOCTL_SOFTNDK_CABLE
            | IOCTL_SOFTNDK_FAULT_RULES
            | IOCTL_SOFTNDK_CAPTURE
    )
}

/// Whether a program may send the code after PROVIDER_INIT: the operations of each resource, and SoftNDK's own codes.
fn is_for_users(code: u32) -> bool {
    matches!(
        code,
        IOCTL_ND_PROVIDER_BIND_FILE..=IOCTL_ND_PROVIDER_RESOLVE_ADDRESS
            | IOCTL_ND_ADAPTER_OPEN..=IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST
            | IOCTL_ND_PD_CREATE..=IOCTL_ND_PD_FREE
            | IOCTL_ND_CQ_CREATE..=IOCTL_ND_CQ_NOTIFY
            | IOCTL_ND_MR_CREATE..=IOCTL_ND_MR_DEREGISTER
            | IOCTL_ND_MW_CREATE..=IOCTL_ND_MW_FREE
            | IOCTL_ND_SRQ_CREATE..=IOCTL_ND_SRQ_NOTIFY
            | IOCTL_ND_CONNECTOR_CREATE..=IOCTL_ND_CONNECTOR_DISCONNECT
            | IOCTL_ND_LISTENER_CREATE..=IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST
            | IOCTL_ND_QP_CREATE..=IOCTL_ND_QP_FLUSH
            | IOCTL_SOFTNDK_POST..=IOCTL_SOFTNDK_FAST_MR_CREATE
            | IOCTL_SOFTNDK_CQ_MODERATE..=IOCTL_SOFTNDK_FILE_ID
            | IOCTL_SOFTNDK_NOP
    ) && code & 3 == METHOD_BUFFERED
}

/// Schedules a run that serves the rings of a queue pair, a CQ or an SRQ.
fn doorbell<H: Host>(device: &DeviceState<H>, handles: &Handles<H>, request: &H::Request) -> Reply {
    let handle = handle(request)?;
    device.doorbells.fetch_add(1, Ordering::Relaxed);
    if let Ok(qp) = handles.get::<Qp<H>>(handle) {
        Qp::wake(&qp);
    } else if let Ok(cq) = handles.get::<Cq<H>>(handle) {
        Cq::wake(&cq);
    } else {
        Srq::wake(&handles.get::<Srq<H>>(handle)?);
    }
    Ok(0)
}

/// `*_CANCEL_IO` of an object whose requests never pend.
fn nothing_waits<T>(_: T) -> Reply {
    Ok(0)
}

fn handle(request: &impl Request) -> Result<u64, NTSTATUS> {
    input::<ND_HANDLE>(request).map(|input| input.Handle)
}
