//! Posting work requests. The hot path: no allocation, two locks.
#![allow(non_upper_case_globals, reason = "C names of operation types in patterns")]

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NDK_SGE, NDK_SGE_ADDRESS,
    NdkOperationTypeBind, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate, NdkOperationTypeRead,
    NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
};
use ndk_abi::softndk_ioctl::{
    SOFTNDK_MW_TOKEN, SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE, SOFTNDK_SRQ_POST,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_DATA_OVERRUN, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
};
use platform::{Arc, Passive};
use zerocopy::FromBytes;

use crate::decode::{Reply, input, output, range, room_for};
use crate::objects::mr::{Memory, Mr};
use crate::objects::mw::Mw;
use crate::objects::pd::Pd;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::objects::{Handles, Object};
use crate::rings::work_ring::{MAX_DATA, data_length};
use crate::session::handles::Typed;
use crate::{Host, Ref};
use ndk_consumer::{Data, Work};

/// More scatter/gather entries than any adapter takes; they are copied to the stack.
const MAX_SGES: usize = 64;
const _: () = assert!(MAX_DATA == MAX_SGES * size_of::<SOFTNDK_SGE>());

pub(crate) fn post<H: Host>(handles: &Handles<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: SOFTNDK_POST = input(request)?;
    let qp: Arc<Qp<H>, _> = handles.get(input.QpHandle)?;
    let operation = NDK_OPERATION_TYPE(input.Operation.cast_signed());
    let Some(rings) = &qp.rings else { return post_one(handles, request, &qp, &input) };
    if operation == NdkOperationTypeReceive {
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    // What came by the ring is older, also what is given up.
    if !Qp::post_all(&qp, rings, passive) || !rings.initiator.is_drained() {
        return Err(STATUS_NO_MORE_ENTRIES.into());
    }
    // Its ring is not looked at until it completes: the request that it is to wait for may be in there.
    let input = SOFTNDK_POST { Flags: input.Flags & !NDK_OP_FLAG_DEFER, ..input };
    let reports = input.Flags & NDK_OP_FLAG_SILENT_SUCCESS == 0;
    if reports {
        // Before it is posted: it may be reported as soon as it is.
        rings.initiator.posts_beside();
    }
    let posted = post_one(handles, request, &qp, &input);
    if posted.is_err() && reports {
        rings.initiator.reported();
        // A run that has seen it counted awaits its completion.
        Qp::schedule_poll(&qp);
    }
    posted
}

/// Posts a request that came by a control code.
fn post_one<H: Host>(
    handles: &Handles<H>,
    request: &mut H::Request,
    qp: &Ref<Qp<H>, H>,
    input: &SOFTNDK_POST,
) -> Reply {
    let operation = NDK_OPERATION_TYPE(input.Operation.cast_signed());
    if operation == NdkOperationTypeBind {
        if input.Flags & NDK_OP_FLAG_INLINE != 0 {
            return Err(STATUS_INVALID_PARAMETER_4.into());
        }
        let bound = bind(handles, request, qp, input);
        qp.posted();
        return bound;
    }
    if input.SgeCount as usize > MAX_SGES {
        return Err(STATUS_DATA_OVERRUN.into());
    }
    let length = data_length(input).and_then(|length| u32::try_from(length).ok()).ok_or(STATUS_INVALID_PARAMETER)?;
    let mut last = None;
    let status = carry_out(handles, qp, input, range(request, size_of::<SOFTNDK_POST>() as u32, length)?, &mut last);
    qp.posted();
    done(status)
}

/// Posts a bind, and answers with the window's new token.
fn bind<H: Host>(handles: &Handles<H>, request: &mut H::Request, qp: &Ref<Qp<H>, H>, input: &SOFTNDK_POST) -> Reply {
    room_for::<SOFTNDK_MW_TOKEN>(request)?;
    let mw: Arc<Mw<H>, _> = handles.get(input.ObjectHandle)?;
    in_domain(qp, mw.ndk.keep())?;
    let mr: Arc<Mr<H>, _> = handles.get(input.MrHandle)?;
    in_domain(qp, &mr.ndk.keep().pd)?;
    let length = usize::try_from(input.Length).map_err(|_| STATUS_INVALID_PARAMETER)?;
    let part = (input.BaseVirtualAddress, length);
    let turn = qp.initiator_turn.lock();
    let status = qp.ndk.bind(input.RequestContext, &mw.ndk, &mr.ndk, part, input.Flags);
    let token = mw.ndk.remote_token();
    drop(turn);
    if status != STATUS_SUCCESS {
        return Err(status.into());
    }
    output(request, &SOFTNDK_MW_TOKEN { RemoteToken: token, Reserved: 0 })
}

/// Posts a request with the SGEs or the inline data in `data`.
///
/// NDK_OP_FLAG_INLINE is carried out here: the data must come from the kernel's copy of the request, never from an address
/// that the user names. `last`: see [`with_named`].
pub(crate) fn carry_out<H: Host>(
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
                // Its receives come from the SRQ.
                if qp.ndk.keep().srq.is_some() {
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
                in_domain(qp, &mr.ndk.keep().pd)?;
                let memory = mr.ndk.keep().fast.as_ref().ok_or(STATUS_INVALID_PARAMETER)?;
                // The mapping covers whole pages; the user pinned these bytes of them.
                let length = usize::try_from(head.Length).ok().filter(|length| *length <= memory.length);
                let length = length.ok_or(STATUS_INVALID_PARAMETER)?;
                initiate(&Work::FastRegister { mr: &mr.ndk, lam: &memory.lam, base: head.BaseVirtualAddress, length })
            }),
            NdkOperationTypeInvalidate => {
                let window = with_named(handles, head.ObjectHandle, last, |mw: &Ref<Mw<H>, H>| {
                    in_domain(qp, mw.ndk.keep())?;
                    let turn = qp.initiator_turn.lock();
                    let status = qp.ndk.invalidate_window(head.RequestContext, &mw.ndk, flags);
                    drop(turn);
                    Ok(status)
                });
                // A region, if it is not a window.
                window.or_else(|_| {
                    with_named(handles, head.ObjectHandle, last, |mr: &Ref<Mr<H>, H>| {
                        in_domain(qp, &mr.ndk.keep().pd)?;
                        initiate(&Work::Invalidate(&mr.ndk))
                    })
                })
            }
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    });
    result.unwrap_or_else(|status| status)
}

const SEND_AND_INVALIDATE: NDK_OPERATION_TYPE = NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE.cast_signed());

pub(crate) fn srq_post<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_SRQ_POST = input(request)?;
    let srq: Arc<Srq<H>, _> = handles.get(input.SrqHandle)?;
    if srq.ring.is_some() {
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    if input.SgeCount as usize > MAX_SGES {
        return Err(STATUS_DATA_OVERRUN.into());
    }
    let length = input.SgeCount.saturating_mul(size_of::<SOFTNDK_SGE>() as u32);
    let bytes = range(request, size_of::<SOFTNDK_SRQ_POST>() as u32, length)?;
    let mut storage = [NDK_SGE::ZERO; MAX_SGES];
    done(srq.receive(input.RequestContext, sges(bytes, &mut storage)?))
}

/// Posts a receive of a ring to a shared queue.
pub(crate) fn srq_carry_out<H: Host>(srq: &Srq<H>, head: &SOFTNDK_POST, data: &[u8]) -> NTSTATUS {
    if NDK_OPERATION_TYPE(head.Operation.cast_signed()) != NdkOperationTypeReceive || head.InlineLength != 0 {
        return STATUS_INVALID_PARAMETER;
    }
    if head.Flags != 0 {
        return STATUS_INVALID_PARAMETER_4;
    }
    let mut storage = [NDK_SGE::ZERO; MAX_SGES];
    match sges(data, &mut storage) {
        Ok(sges) => srq.receive(head.RequestContext, sges),
        Err(status) => status,
    }
}

/// STATUS_INVALID_HANDLE: it is not the QP's protection domain.
fn in_domain<H: Host>(qp: &Qp<H>, pd: &Ref<Pd<H>, H>) -> Result<(), NTSTATUS> {
    if Arc::ptr_eq(pd, &qp.ndk.keep().pd) { Ok(()) } else { Err(STATUS_INVALID_HANDLE) }
}

/// Has `code` use the object of a handle, which may be freed meanwhile: then the last reference is left in `last`, to be let go of
/// when no lock is held.
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

/// The SGEs of a request, and what follows them. STATUS_DATA_OVERRUN: too many.
fn split<'a>(
    head: &SOFTNDK_POST,
    data: &'a [u8],
    storage: &'a mut [NDK_SGE; MAX_SGES],
) -> Result<(&'a [NDK_SGE], &'a [u8]), NTSTATUS> {
    let length = (head.SgeCount as usize).checked_mul(size_of::<SOFTNDK_SGE>()).ok_or(STATUS_DATA_OVERRUN)?;
    let (list, inline) = data.split_at_checked(length).ok_or(STATUS_INVALID_PARAMETER)?;
    Ok((sges(list, storage)?, inline))
}

/// A list of SGEs. STATUS_DATA_OVERRUN: too many.
fn sges<'a>(list: &[u8], storage: &'a mut [NDK_SGE; MAX_SGES]) -> Result<&'a [NDK_SGE], NTSTATUS> {
    let list = list.chunks_exact(size_of::<SOFTNDK_SGE>());
    let sges = storage.get_mut(..list.len()).ok_or(STATUS_DATA_OVERRUN)?;
    for (sge, bytes) in sges.iter_mut().zip(list) {
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
