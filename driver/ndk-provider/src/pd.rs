//! NDK_PD_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_CQ, NDK_FN_CREATE_COMPLETION, NDK_FN_SRQ_NOTIFICATION_CALLBACK, NDK_MR, NDK_MW, NDK_PD, NDK_PD_DISPATCH,
        NDK_QP, NDK_SRQ,
    },
    status::NTSTATUS,
    wdm::{BOOLEAN, GROUP_AFFINITY},
};
use platform::{Arc, Platform};
use soft_rdma::{
    CompletionQueue, Error, InitiatorSizes, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, ReceiveSource,
    SharedReceiveQueue,
};

use crate::{
    callback, mr, mw,
    object::{Object, close, created, query_extension},
    qp, qp_faults, srq,
};

pub(crate) const fn table<P: Platform>() -> NDK_PD_DISPATCH {
    NDK_PD_DISPATCH {
        NdkClosePd: close::<ProtectionDomain<P>, P>,
        NdkQueryExtension: query_extension,
        NdkCreateMr: create_mr::<P>,
        NdkCreateMw: create_mw::<P>,
        NdkCreateSrq: create_srq::<P>,
        NdkCreateQp: create_qp::<P>,
        NdkCreateQpWithSrq: create_qp_with_srq::<P>,
        NdkGetPrivilegedMemoryRegionToken: privileged_token::<P>,
    }
}

/// NdkCreateMr.
///
/// # Safety
/// NDK_FN_CREATE_MR.
unsafe extern "system" fn create_mr<P: Platform>(
    pd: *mut NDK_PD,
    fast_register: BOOLEAN,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_MR,
) -> NTSTATUS {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    let object = MemoryRegion::new(pd, fast_register != 0).and_then(|mr| {
        Ok(Object::hand_out(pd.adapter(), ndk_abi::ndkpi::NdkObjectTypeMr, const { &mr::table::<P>() }, mr)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateMw.
///
/// # Safety
/// NDK_FN_CREATE_MW.
unsafe extern "system" fn create_mw<P: Platform>(
    pd: *mut NDK_PD,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_MW,
) -> NTSTATUS {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    let object = MemoryWindow::new(pd).and_then(|mw| {
        Ok(Object::hand_out(pd.adapter(), ndk_abi::ndkpi::NdkObjectTypeMw, const { &mw::table::<P>() }, mw)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateSrq. The affinity is a hint, which the software device ignores.
///
/// # Safety
/// NDK_FN_CREATE_SRQ.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_CREATE_SRQ")]
unsafe extern "system" fn create_srq<P: Platform>(
    pd: *mut NDK_PD,
    depth: u32,
    sges: u32,
    threshold: u32,
    notification: Option<NDK_FN_SRQ_NOTIFICATION_CALLBACK>,
    notification_context: *mut c_void,
    _affinity: *mut GROUP_AFFINITY,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_SRQ,
) -> NTSTATUS {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    let notify = notification.map(|notification| callback::srq_notified(notification, notification_context));
    let object = SharedReceiveQueue::new(pd, depth, sges, threshold, notify).and_then(|srq| {
        Ok(Object::hand_out(pd.adapter(), ndk_abi::ndkpi::NdkObjectTypeSrq, const { &srq::table::<P>() }, srq)?)
    });
    // SAFETY: the out parameter of the call.
    unsafe { created(object, out) }
}

/// NdkCreateQp.
///
/// # Safety
/// NDK_FN_CREATE_QP.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_CREATE_QP")]
unsafe extern "system" fn create_qp<P: Platform>(
    pd: *mut NDK_PD,
    receive_cq: *mut NDK_CQ,
    initiator_cq: *mut NDK_CQ,
    qp_context: *mut c_void,
    receive_depth: u32,
    initiator_depth: u32,
    receive_sges: u32,
    initiator_sges: u32,
    inline_data: u32,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_QP,
) -> NTSTATUS {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    // SAFETY: the consumer's open queue.
    let receive_cq = unsafe { Object::<CompletionQueue<P>, P>::of(receive_cq) };
    // SAFETY: the consumer's open queue.
    let initiator_cq = unsafe { Object::<CompletionQueue<P>, P>::of(initiator_cq) };
    let sizes = InitiatorSizes { depth: initiator_depth, sges: initiator_sges, inline_data };
    let receives = ReceiveSource::Own { depth: receive_depth, sges: receive_sges };
    let made = QueuePair::new(pd, receive_cq, initiator_cq, qp_context.expose_provenance(), sizes, receives);
    // SAFETY: the out parameter of the call.
    unsafe { created(head(pd, made), out) }
}

/// NdkCreateQpWithSrq.
///
/// # Safety
/// NDK_FN_CREATE_QP_WITH_SRQ.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_CREATE_QP_WITH_SRQ")]
unsafe extern "system" fn create_qp_with_srq<P: Platform>(
    pd: *mut NDK_PD,
    receive_cq: *mut NDK_CQ,
    initiator_cq: *mut NDK_CQ,
    shared: *mut NDK_SRQ,
    qp_context: *mut c_void,
    initiator_depth: u32,
    initiator_sges: u32,
    inline_data: u32,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    out: *mut *mut NDK_QP,
) -> NTSTATUS {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    // SAFETY: the consumer's open queue.
    let receive_cq = unsafe { Object::<CompletionQueue<P>, P>::of(receive_cq) };
    // SAFETY: the consumer's open queue.
    let initiator_cq = unsafe { Object::<CompletionQueue<P>, P>::of(initiator_cq) };
    // SAFETY: the consumer's open shared receive queue.
    let shared = unsafe { Object::<SharedReceiveQueue<P>, P>::of(shared) };
    let sizes = InitiatorSizes { depth: initiator_depth, sges: initiator_sges, inline_data };
    let receives = ReceiveSource::Shared(shared);
    let made = QueuePair::new(pd, receive_cq, initiator_cq, qp_context.expose_provenance(), sizes, receives);
    // SAFETY: the out parameter of the call.
    unsafe { created(head(pd, made), out) }
}

fn head<P: Platform>(
    pd: &ProtectionDomain<P>,
    made: Result<Arc<QueuePair<P>, P>, Error>,
) -> Result<*mut ndk_abi::ndkpi::NDK_OBJECT_HEADER, Error> {
    let dispatch =
        if pd.adapter().passes_posts() { const { &qp_faults::table::<P>() } } else { const { &qp::table::<P>() } };
    Ok(Object::hand_out(pd.adapter(), ndk_abi::ndkpi::NdkObjectTypeQp, dispatch, made?)?)
}

/// NdkGetPrivilegedMemoryRegionToken. The function cannot fail: without memory for the token it returns 0, which is
/// never a token.
///
/// # Safety
/// NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN.
unsafe extern "system" fn privileged_token<P: Platform>(pd: *mut NDK_PD, token: *mut u32) {
    // SAFETY: the consumer's open domain.
    let pd = unsafe { Object::<ProtectionDomain<P>, P>::of(pd) };
    // SAFETY: the out parameter of the call.
    unsafe { token.write(ProtectionDomain::privileged_token(pd).unwrap_or(0)) };
}
