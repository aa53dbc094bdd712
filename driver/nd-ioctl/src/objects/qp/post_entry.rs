//! Posts one request to a queue pair. This is the hot path: it allocates nothing, except from the third fast registration of one region in
//! the queue on. It takes the lock of the queue's turn and, if the request names an object, the lock of the handles.
#![allow(non_upper_case_globals, reason = "C names of operation types in patterns")]

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_OP_FLAG_INLINE, NDK_OPERATION_TYPE, NDK_SGE, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
    NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE};
use ndk_abi::status::{
    NTSTATUS, STATUS_DATA_OVERRUN, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
};
use platform::Arc;

use super::Qp;
use crate::objects::mr::{Memory, Mr};
use crate::objects::mw::Mw;
use crate::objects::pd::Pd;
use crate::objects::sges::{MAX_SGES, sges};
use crate::objects::{Handles, Object};
use crate::tables::handles::Typed;
use crate::{Host, Ref};
use ndk_consumer::{Data, Work};

const SEND_AND_INVALIDATE: NDK_OPERATION_TYPE = NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE.cast_signed());

/// Posts a request with the SGEs or the inline data in `data`.
///
/// For NDK_OP_FLAG_INLINE the data comes from the kernel's copy of the request, never from an address that the program names. `last`: see
/// [`with_named`].
pub(crate) fn post_entry<H: Host>(
    handles: &Handles<H>,
    qp: &Qp<H>,
    head: &SOFTNDK_POST,
    data: &[u8],
    last: &mut Option<Object<H>>,
) -> NTSTATUS {
    let mut storage = [NDK_SGE::ZERO; MAX_SGES];
    let result = split(head, data, &mut storage).and_then(|(sges, bytes)| {
        let inline = head.Flags & NDK_OP_FLAG_INLINE != 0;
        if inline && head.SgeCount != 0 || !inline && head.InlineLength != 0 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let data = if inline { Data::Inline(bytes) } else { Data::Regions(sges) };
        let flags = head.Flags & !NDK_OP_FLAG_INLINE;
        let (address, token) = (head.RemoteAddress, head.RemoteToken);
        let takes_inline = [NdkOperationTypeSend, NdkOperationTypeWrite, SEND_AND_INVALIDATE];
        let operation = NDK_OPERATION_TYPE(head.Operation.cast_signed());
        if inline && !takes_inline.contains(&operation) {
            return Err(STATUS_INVALID_PARAMETER_4);
        }
        let initiate = |work: &Work<'_, Memory<H>, H::Platform>| {
            let turn = qp.initiator_turn.lock();
            let status = qp.ndk.post(head.RequestContext, work, flags);
            drop(turn);
            Ok(status)
        };
        match operation {
            NdkOperationTypeReceive => {
                if flags != 0 {
                    return Err(STATUS_INVALID_PARAMETER_4);
                }
                // The queue pair's receives come from the SRQ.
                if qp.ndk.context().srq.is_some() {
                    return Err(STATUS_INVALID_PARAMETER);
                }
                let turn = qp.receive_turn.lock();
                let status = qp.ndk.receive(head.RequestContext, sges);
                drop(turn);
                Ok(status)
            }
            NdkOperationTypeSend => initiate(&Work::Send(data)),
            SEND_AND_INVALIDATE => initiate(&Work::SendAndInvalidate { data, token }),
            NdkOperationTypeWrite => initiate(&Work::Write { data, address, token }),
            NdkOperationTypeRead => initiate(&Work::Read { sges, address, token }),
            NdkOperationTypeFastRegister => with_named(handles, head.ObjectHandle, last, |mr: &Ref<Mr<H>, H>| {
                in_domain(qp, &mr.ndk.context().pd)?;
                let memory = mr.ndk.context().fast.as_ref().ok_or(STATUS_INVALID_PARAMETER)?;
                // The mapping covers whole pages; the region has `memory.length` bytes of them.
                let length = usize::try_from(head.Length).ok().filter(|length| *length <= memory.length);
                let length = length.ok_or(STATUS_INVALID_PARAMETER)?;
                initiate(&Work::FastRegister { mr: &mr.ndk, lam: &memory.lam, base: head.BaseVirtualAddress, length })
            }),
            NdkOperationTypeInvalidate => {
                let window = |mw: &Ref<Mw<H>, H>| {
                    in_domain(qp, mw.ndk.context())?;
                    let turn = qp.initiator_turn.lock();
                    let status = qp.ndk.invalidate_window(head.RequestContext, &mw.ndk, flags);
                    drop(turn);
                    Ok(status)
                };
                let region = |mr: &Ref<Mr<H>, H>| {
                    in_domain(qp, &mr.ndk.context().pd)?;
                    initiate(&Work::Invalidate(&mr.ndk))
                };
                // The handle names a window or a region.
                match with_named(handles, head.ObjectHandle, last, window) {
                    Err(STATUS_INVALID_HANDLE) => with_named(handles, head.ObjectHandle, last, region),
                    result => result,
                }
            }
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    });
    result.unwrap_or_else(|status| status)
}

/// STATUS_INVALID_HANDLE: `pd` is not the QP's protection domain.
pub(crate) fn in_domain<H: Host>(qp: &Qp<H>, pd: &Ref<Pd<H>, H>) -> Result<(), NTSTATUS> {
    if Arc::ptr_eq(pd, &qp.ndk.context().pd) { Ok(()) } else { Err(STATUS_INVALID_HANDLE) }
}

/// Calls `code` with the object of a handle. If the program frees the handle during the call, this leaves the last reference in `last`:
/// the caller drops it when it holds no lock.
fn with_named<H: Host, T: Typed<Object<H>, H::Platform>>(
    handles: &Handles<H>,
    handle: u64,
    last: &mut Option<Object<H>>,
    code: impl FnOnce(&Ref<T, H>) -> Result<NTSTATUS, NTSTATUS>,
) -> Result<NTSTATUS, NTSTATUS> {
    let object = handles.get::<T>(handle)?;
    let result = code(&object);
    if let Err(object) = Arc::release(object) {
        *last = Some(T::wrap(object));
    }
    result
}

/// The SGEs of a request, and the bytes behind them. STATUS_DATA_OVERRUN: too many SGEs.
fn split<'a>(
    head: &SOFTNDK_POST,
    data: &'a [u8],
    storage: &'a mut [NDK_SGE; MAX_SGES],
) -> Result<(&'a [NDK_SGE], &'a [u8]), NTSTATUS> {
    let length = (head.SgeCount as usize).checked_mul(size_of::<SOFTNDK_SGE>()).ok_or(STATUS_DATA_OVERRUN)?;
    let (list, inline) = data.split_at_checked(length).ok_or(STATUS_INVALID_PARAMETER)?;
    Ok((sges(list, storage)?, inline))
}
