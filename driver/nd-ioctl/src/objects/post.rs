//! The control codes that post work requests to queue pairs and SRQs.

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NDK_SGE,
    NdkOperationTypeBind, NdkOperationTypeReceive,
};
use ndk_abi::softndk_ioctl::{SOFTNDK_MW_TOKEN, SOFTNDK_POST, SOFTNDK_SGE, SOFTNDK_SRQ_POST};
use ndk_abi::status::{
    NTSTATUS, STATUS_DATA_OVERRUN, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
    STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
};
use platform::{Arc, Passive};

use crate::decode::{Reply, input, output, range, room_for};
use crate::objects::Handles;
use crate::objects::mr::Mr;
use crate::objects::mw::Mw;
use crate::objects::qp::{Qp, in_domain, post_entry};
use crate::objects::sges::{MAX_SGES, sges};
use crate::objects::srq::Srq;
use crate::rings::work_ring::data_length;
use crate::{Host, Ref};

pub(crate) fn post<H: Host>(handles: &Handles<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: SOFTNDK_POST = input(request)?;
    let qp: Arc<Qp<H>, _> = handles.get(input.QpHandle)?;
    let operation = NDK_OPERATION_TYPE(input.Operation.cast_signed());
    let Some(rings) = &qp.rings else { return post_one(handles, request, &qp, &input) };
    if operation == NdkOperationTypeReceive {
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    // Requests in the ring are older: they have to be posted, or complete unposted, first.
    Qp::post_all(&qp, rings, passive);
    if !rings.initiator.is_drained() {
        return Err(STATUS_NO_MORE_ENTRIES.into());
    }
    // Never deferred: the next request may be in the ring, which is not polled until this request completes.
    let input = SOFTNDK_POST { Flags: input.Flags & !NDK_OP_FLAG_DEFER, ..input };
    let reports = input.Flags & NDK_OP_FLAG_SILENT_SUCCESS == 0;
    if reports {
        // Before the post, as the request may be reported before the post returns.
        rings.initiator.count_ioctl_post();
    }
    let posted = post_one(handles, request, &qp, &input);
    if posted.is_err() && reports {
        rings.initiator.completed();
        // A run that saw the count awaits a completion that will not come.
        Qp::schedule_poll(&qp);
    }
    posted
}

/// Posts the request of a control code.
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
    let status = post_entry(handles, qp, input, range(request, size_of::<SOFTNDK_POST>() as u32, length)?, &mut last);
    qp.posted();
    done(status)
}

/// Posts a bind and returns the window's new token.
fn bind<H: Host>(handles: &Handles<H>, request: &mut H::Request, qp: &Ref<Qp<H>, H>, input: &SOFTNDK_POST) -> Reply {
    room_for::<SOFTNDK_MW_TOKEN>(request)?;
    let mw: Arc<Mw<H>, _> = handles.get(input.ObjectHandle)?;
    in_domain(qp, mw.ndk.context())?;
    let mr: Arc<Mr<H>, _> = handles.get(input.MrHandle)?;
    in_domain(qp, &mr.ndk.context().pd)?;
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

fn done(status: NTSTATUS) -> Reply {
    if status == STATUS_SUCCESS { Ok(0) } else { Err(status.into()) }
}
