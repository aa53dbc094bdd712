//! IND2CompletionQueue.
#![expect(unsafe_code, reason = "COM")]

use std::{ptr, sync::Arc};

use nd_com::{
    status::{ND_INVALID_PARAMETER, ND_SUCCESS, from_nt},
    v2::{
        IND2CompletionQueue, IND2CompletionQueue_Impl, ND2_REQUEST_TYPE, ND2_RESULT, Nd2RequestTypeBind,
        Nd2RequestTypeInvalidate, Nd2RequestTypeRead, Nd2RequestTypeReceive, Nd2RequestTypeSend, Nd2RequestTypeWrite,
    },
};
use ndk_abi::{
    ndkpi::{
        NDK_OPERATION_TYPE, NdkOperationTypeBind, NdkOperationTypeInvalidate, NdkOperationTypeRead,
        NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ring::SOFTNDK_COMPLETION,
    status::NTSTATUS,
    wdm::GROUP_AFFINITY,
};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::overlapped::overlapped;
use crate::{
    arguments::{hresult, places, with},
    core::completion_queue,
    hold::Hold,
};

#[implement(IND2CompletionQueue, Agile = false)]
pub(crate) struct CompletionQueue {
    core: Arc<completion_queue::CompletionQueue>,
    _hold: Hold,
}

impl CompletionQueue {
    pub(super) fn new(core: Arc<completion_queue::CompletionQueue>) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Arc<completion_queue::CompletionQueue> {
        &self.core
    }
}

overlapped!(CompletionQueue_Impl);

impl IND2CompletionQueue_Impl for CompletionQueue_Impl {
    unsafe fn GetNotifyAffinity(&self, group: *mut u16, affinity: *mut usize) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_affinity(|| self.core.affinity(), group, affinity) }
    }

    unsafe fn Resize(&self, depth: u32) -> HRESULT {
        if depth == 0 || depth > self.core.adapter().info().MaxCompletionQueueDepth {
            return ND_INVALID_PARAMETER;
        }
        hresult(self.core.resize(depth))
    }

    unsafe fn Notify(&self, kind: u32, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.notify(kind, overlapped)) }
    }

    unsafe fn GetResults(&self, results: *mut ND2_RESULT, count: u32) -> u32 {
        // SAFETY: the caller's array.
        let results = unsafe { places(results, count) };
        let most = results.len();
        let mut places = results.iter_mut();
        let taken = self.core.poll(most, |completion| {
            if let Some(place) = places.next() {
                place.write(result(&completion));
            }
        });
        taken as u32
    }
}

fn result(completion: &SOFTNDK_COMPLETION) -> ND2_RESULT {
    ND2_RESULT {
        Status: from_nt(completion.Status),
        BytesTransferred: completion.BytesTransferred,
        QueuePairContext: ptr::without_provenance_mut(completion.QueuePairContext as usize),
        RequestContext: ptr::without_provenance_mut(completion.RequestContext as usize),
        RequestType: request_type(NDK_OPERATION_TYPE(completion.Type.cast_signed())),
    }
}

fn request_type(operation: NDK_OPERATION_TYPE) -> ND2_REQUEST_TYPE {
    [
        (NdkOperationTypeSend, Nd2RequestTypeSend),
        (NdkOperationTypeBind, Nd2RequestTypeBind),
        (NdkOperationTypeInvalidate, Nd2RequestTypeInvalidate),
        (NdkOperationTypeRead, Nd2RequestTypeRead),
        (NdkOperationTypeWrite, Nd2RequestTypeWrite),
    ]
    .into_iter()
    .find(|(known, _)| *known == operation)
    // A receive, with or without an invalidate.
    .map_or(Nd2RequestTypeReceive, |(_, kind)| kind)
}

/// Returns the affinity of notifications to the caller.
///
/// # Safety
/// Both pointers are null or valid.
pub(super) unsafe fn give_affinity(
    affinity: impl FnOnce() -> Result<GROUP_AFFINITY, NTSTATUS>,
    group: *mut u16,
    mask: *mut usize,
) -> HRESULT {
    if group.is_null() || mask.is_null() {
        return ND_INVALID_PARAMETER;
    }
    match affinity() {
        Ok(affinity) => {
            // SAFETY: not null.
            unsafe { group.write(affinity.Group) };
            // SAFETY: not null.
            unsafe { mask.write(affinity.Mask as usize) };
            ND_SUCCESS
        }
        Err(status) => from_nt(status),
    }
}
