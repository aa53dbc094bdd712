//! NDK_CQ_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::{ffi::c_void, ptr::with_exposed_provenance_mut};

use ndk_abi::{
    ndkpi::{
        NDK_CQ, NDK_CQ_DISPATCH, NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED, NDK_FN_REQUEST_COMPLETION,
        NDK_OPERATION_TYPE, NDK_RESULT, NDK_RESULT_EX,
    },
    softndk_ioctl::{SOFTNDK_RESULT_SILENT, SOFTNDK_RESULT_SOLICITED},
    status::NTSTATUS,
};
use platform::Platform;
use soft_rdma::{Arm, Completion, CompletionQueue};

use crate::{
    object::{Object, close, query_extension},
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_CQ_DISPATCH {
    NDK_CQ_DISPATCH {
        NdkCloseCq: close::<CompletionQueue<P>, P>,
        NdkQueryExtension: query_extension,
        NdkResizeCq: resize::<P>,
        NdkArmCq: arm::<P>,
        NdkGetCqResults: results::<P>,
        NdkControlCqInterruptModeration: moderate::<P>,
        NdkGetCqResultsEx: results_ex::<P>,
    }
}

/// NdkResizeCq: always inline.
///
/// # Safety
/// NDK_FN_RESIZE_CQ.
unsafe extern "system" fn resize<P: Platform>(
    cq: *mut NDK_CQ,
    depth: u32,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open queue.
    let cq = unsafe { Object::<CompletionQueue<P>, P>::of(cq) };
    status::status(CompletionQueue::resize(cq, depth))
}

/// NdkArmCq. The function returns no status, so it cannot refuse an unknown type: such an arm is for errors only.
///
/// # Safety
/// NDK_FN_ARM_CQ.
unsafe extern "system" fn arm<P: Platform>(cq: *mut NDK_CQ, notify: u32) {
    let arm = match notify {
        NDK_CQ_NOTIFY_ANY => Arm::Any,
        NDK_CQ_NOTIFY_SOLICITED => Arm::Solicited,
        _ => Arm::Errors,
    };
    // SAFETY: the consumer's open queue.
    CompletionQueue::arm(unsafe { Object::<CompletionQueue<P>, P>::of(cq) }, arm);
}

/// NdkControlCqInterruptModeration.
///
/// # Safety
/// NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION.
unsafe extern "system" fn moderate<P: Platform>(cq: *mut NDK_CQ, interval: u32, count: u32) -> NTSTATUS {
    // SAFETY: the consumer's open queue.
    let cq = unsafe { Object::<CompletionQueue<P>, P>::of(cq) };
    status::status(CompletionQueue::moderate(cq, interval, count))
}

/// NdkGetCqResults.
///
/// # Safety
/// NDK_FN_GET_CQ_RESULTS.
unsafe extern "system" fn results<P: Platform>(cq: *mut NDK_CQ, results: *mut NDK_RESULT, count: u32) -> u32 {
    // SAFETY: the consumer's open queue.
    let cq = unsafe { Object::<CompletionQueue<P>, P>::of(cq) };
    let taken = cq.poll(count as usize, |index, completion| {
        let result = NDK_RESULT {
            Status: status::status(completion.status),
            BytesTransferred: completion.bytes,
            QPContext: with_exposed_provenance_mut(completion.qp_context),
            RequestContext: with_exposed_provenance_mut(completion.request_context),
        };
        // SAFETY: index < count, inside the consumer's array.
        let place = unsafe { results.add(index) };
        // SAFETY: as above.
        unsafe { place.write(result) };
    });
    u32::try_from(taken).unwrap_or(count)
}

/// NdkGetCqResultsEx.
///
/// # Safety
/// NDK_FN_GET_CQ_RESULTS_EX.
unsafe extern "system" fn results_ex<P: Platform>(cq: *mut NDK_CQ, results: *mut NDK_RESULT_EX, count: u32) -> u32 {
    // SAFETY: the consumer's open queue.
    let cq = unsafe { Object::<CompletionQueue<P>, P>::of(cq) };
    let for_process = cq.serves_process();
    let taken = cq.poll(count as usize, |index, completion| {
        let result = NDK_RESULT_EX {
            Status: status::status(completion.status),
            BytesTransferred: completion.bytes,
            QPContext: with_exposed_provenance_mut(completion.qp_context),
            RequestContext: with_exposed_provenance_mut(completion.request_context),
            Type: NDK_OPERATION_TYPE((completion.kind as u32).cast_signed()),
            // Vendor-defined: 0, except on an adapter of a process: the control device needs SOFTNDK_RESULT_* to fill
            // rings.
            ProviderErrorCode: if for_process { kind_of(completion) } else { 0 },
            TypeSpecificCompletionOutput: completion.invalidated_token as usize,
        };
        // SAFETY: index < count, inside the consumer's array.
        let place = unsafe { results.add(index) };
        // SAFETY: as above.
        unsafe { place.write(result) };
    });
    u32::try_from(taken).unwrap_or(count)
}

fn kind_of(completion: &Completion) -> u32 {
    match completion {
        Completion { status: Ok(()), solicited: true, .. } => SOFTNDK_RESULT_SOLICITED,
        Completion { silent: true, .. } => SOFTNDK_RESULT_SILENT,
        _ => 0,
    }
}
