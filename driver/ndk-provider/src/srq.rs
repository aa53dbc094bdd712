//! NDK_SRQ_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{NDK_FN_REQUEST_COMPLETION, NDK_SGE, NDK_SRQ, NDK_SRQ_DISPATCH},
    status::NTSTATUS,
};
use platform::Platform;
use soft_rdma::SharedReceiveQueue;

use crate::{
    object::{Object, close, query_extension},
    qp::sges,
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_SRQ_DISPATCH {
    NDK_SRQ_DISPATCH {
        NdkCloseSrq: close::<SharedReceiveQueue<P>, P>,
        NdkQueryExtension: query_extension,
        NdkModifySrq: modify::<P>,
        NdkSrqReceive: receive::<P>,
    }
}

/// NdkModifySrq: always inline.
///
/// # Safety
/// NDK_FN_MODIFY_SRQ.
unsafe extern "system" fn modify<P: Platform>(
    srq: *mut NDK_SRQ,
    depth: u32,
    threshold: u32,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open queue.
    let srq = unsafe { Object::<SharedReceiveQueue<P>, P>::of(srq) };
    status::status(SharedReceiveQueue::modify(srq, depth, threshold))
}

/// NdkSrqReceive.
///
/// # Safety
/// NDK_FN_SRQ_RECEIVE.
unsafe extern "system" fn receive<P: Platform>(
    srq: *mut NDK_SRQ,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open queue.
    let srq = unsafe { Object::<SharedReceiveQueue<P>, P>::of(srq) };
    // SAFETY: the consumer's list, for the time of the call.
    status::status(srq.post(context.expose_provenance(), unsafe { sges(sgl, count) }))
}
