//! Posting work requests. The hot path: no allocation, two locks.
#![allow(non_upper_case_globals, reason = "C names of operation types in patterns")]

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_OP_FLAG_INLINE, NDK_OPERATION_TYPE, NDK_SGE, NDK_SGE_ADDRESS, NdkOperationTypeBind,
    NdkOperationTypeFastRegister, NdkOperationTypeInvalidate, NdkOperationTypeRead, NdkOperationTypeReceive,
    NdkOperationTypeSend, NdkOperationTypeWrite,
};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE, SOFTNDK_SRQ_POST};
use ndk_abi::status::{
    NTSTATUS, STATUS_DATA_OVERRUN, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
    STATUS_SUCCESS,
};
use platform::Arc;
use zerocopy::FromBytes;

use crate::decode::{Reply, input, range};
use crate::file::Space;
use crate::mr::{Memory, Mr};
use crate::mw::{self, Mw};
use crate::qp::Qp;
use crate::srq::Srq;
use crate::{Host, Ref, Request};
use ndk_consumer::{Data, Work};

/// More scatter/gather entries than any adapter takes; they are copied to the stack.
const MAX_SGES: usize = 64;

/// NDK_OP_FLAG_INLINE is carried out here: the data must come from the kernel's copy of the request, never from an address
/// that the user names.
pub(crate) fn post<H: Host>(space: &Space<H>, request: &mut H::Request) -> Reply {
    let input: SOFTNDK_POST = input(request)?;
    let qp: Arc<Qp<H>, _> = space.handles.get(input.QpHandle)?;
    let header = size_of::<SOFTNDK_POST>() as u32;
    let mut storage = [NDK_SGE::ZERO; MAX_SGES];
    let sges = sges(request, header, input.SgeCount, &mut storage)?;
    let inline = input.Flags & NDK_OP_FLAG_INLINE != 0;
    if inline && input.SgeCount != 0 || !inline && input.InlineLength != 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let data = if inline { Data::Inline(range(request, header, input.InlineLength)?) } else { Data::Regions(sges) };
    let flags = input.Flags & !NDK_OP_FLAG_INLINE;
    let (address, token) = (input.RemoteAddress, input.RemoteToken);
    let takes_inline = [NdkOperationTypeSend, NdkOperationTypeWrite, SEND_AND_INVALIDATE];
    let operation = NDK_OPERATION_TYPE(input.Operation.cast_signed());
    if inline && !takes_inline.contains(&operation) {
        return Err(STATUS_INVALID_PARAMETER_4.into());
    }
    if operation == NdkOperationTypeBind {
        return mw::bind(space, request, &qp, &input);
    }
    let initiate = |work: &Work<'_, Memory<H>, H::Platform>| {
        let turn = qp.initiator_turn.lock();
        let status = qp.ndk.post(input.RequestContext, work, flags);
        drop(turn);
        done(status)
    };
    match operation {
        NdkOperationTypeReceive => {
            if flags != 0 {
                return Err(STATUS_INVALID_PARAMETER_4.into());
            }
            // Its receives come from the SRQ.
            if qp.ndk.keep().srq.is_some() {
                return Err(STATUS_INVALID_PARAMETER.into());
            }
            let turn = qp.receive_turn.lock();
            let status = qp.ndk.receive(input.RequestContext, sges);
            drop(turn);
            done(status)
        }
        NdkOperationTypeSend => initiate(&Work::Send(data)),
        SEND_AND_INVALIDATE => initiate(&Work::SendAndInvalidate { data, token }),
        NdkOperationTypeWrite => initiate(&Work::Write { data, address, token }),
        NdkOperationTypeRead => initiate(&Work::Read { sges, address, token }),
        NdkOperationTypeFastRegister => {
            let mr = region(space, &qp, input.ObjectHandle)?;
            let memory = mr.ndk.keep().fast.as_ref().ok_or(STATUS_INVALID_PARAMETER)?;
            // The mapping covers whole pages; the user pinned these bytes of them.
            let length = usize::try_from(input.Length).ok().filter(|length| *length <= memory.length);
            let length = length.ok_or(STATUS_INVALID_PARAMETER)?;
            initiate(&Work::FastRegister { mr: &mr.ndk, lam: &memory.lam, base: input.BaseVirtualAddress, length })
        }
        NdkOperationTypeInvalidate => match window(space, &qp, input.ObjectHandle) {
            Ok(mw) => {
                let turn = qp.initiator_turn.lock();
                let status = qp.ndk.invalidate_window(input.RequestContext, &mw.ndk, flags);
                drop(turn);
                done(status)
            }
            Err(_) => initiate(&Work::Invalidate(&region(space, &qp, input.ObjectHandle)?.ndk)),
        },
        _ => Err(STATUS_INVALID_PARAMETER.into()),
    }
}

const SEND_AND_INVALIDATE: NDK_OPERATION_TYPE = NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE.cast_signed());

pub(crate) fn srq_post<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_SRQ_POST = input(request)?;
    let srq: Arc<Srq<H>, _> = space.handles.get(input.SrqHandle)?;
    let mut storage = [NDK_SGE::ZERO; MAX_SGES];
    let sges = sges(request, size_of::<SOFTNDK_SRQ_POST>() as u32, input.SgeCount, &mut storage)?;
    done(srq.receive(input.RequestContext, sges))
}

/// A region of the QP's protection domain. STATUS_INVALID_HANDLE: of another.
pub(crate) fn region<H: Host>(space: &Space<H>, qp: &Qp<H>, handle: u64) -> Result<Ref<Mr<H>, H>, NTSTATUS> {
    let mr: Arc<Mr<H>, _> = space.handles.get(handle)?;
    if !Arc::ptr_eq(&mr.ndk.keep().pd, &qp.ndk.keep().pd) {
        return Err(STATUS_INVALID_HANDLE);
    }
    Ok(mr)
}

/// A window of the QP's protection domain. STATUS_INVALID_HANDLE: of another, or not a window.
pub(crate) fn window<H: Host>(space: &Space<H>, qp: &Qp<H>, handle: u64) -> Result<Ref<Mw<H>, H>, NTSTATUS> {
    let mw: Arc<Mw<H>, _> = space.handles.get(handle)?;
    if !Arc::ptr_eq(mw.ndk.keep(), &qp.ndk.keep().pd) {
        return Err(STATUS_INVALID_HANDLE);
    }
    Ok(mw)
}

/// The scatter/gather entries at `offset` of the input. STATUS_DATA_OVERRUN: too many.
fn sges<'a>(
    request: &impl Request,
    offset: u32,
    count: u32,
    storage: &'a mut [NDK_SGE; MAX_SGES],
) -> Result<&'a [NDK_SGE], NTSTATUS> {
    let sges = storage.get_mut(..count as usize).ok_or(STATUS_DATA_OVERRUN)?;
    let length = count.checked_mul(size_of::<SOFTNDK_SGE>() as u32).ok_or(STATUS_DATA_OVERRUN)?;
    let bytes = range(request, offset, length)?;
    for (sge, bytes) in sges.iter_mut().zip(bytes.chunks_exact(size_of::<SOFTNDK_SGE>())) {
        let given = SOFTNDK_SGE::read_from_bytes(bytes).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let position = core::ptr::without_provenance_mut(given.Address as usize);
        let u = NDK_SGE_ADDRESS::from_virtual(position);
        *sge = NDK_SGE { u, Length: given.Length, MemoryRegionToken: given.Token };
    }
    Ok(sges)
}

fn done(status: NTSTATUS) -> Reply {
    if status == STATUS_SUCCESS { Ok(0) } else { Err(status.into()) }
}
