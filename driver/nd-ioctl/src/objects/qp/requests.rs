//! The control codes of queue pairs: create, free, flush.

use ndk_abi::nd_ioctl::{ND_CREATE_QP, ND_CREATE_QP_HDR, ND_CREATE_QP_WITH_SRQ, ND_HANDLE};
use ndk_abi::softndk_ring::{SOFTNDK_RING_INITIATOR, SOFTNDK_RING_RECEIVE};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_PARAMETER_MIX};
use platform::{Arc, Passive};

use super::{Antecedents, Qp, Rings};
use crate::decode::{Reply, input};
use crate::objects::Handles;
use crate::objects::adapter::same_adapter;
use crate::objects::cq::Cq;
use crate::objects::pd::Pd;
use crate::objects::srq::Srq;
use crate::quota::Quota;
use crate::rings::ring_poll::Next;
use crate::rings::user_ring::{UserWorkRing, descriptor, mappings, room_for_descriptor};
use crate::rings::work_ring::MAX_SERVES;
use crate::{Host, Ref, shared};
use ndk_consumer::{Owned, QpDepths};

/// The objects that a queue pair is made from, all of one adapter.
fn antecedents<H: Host>(
    handles: &Handles<H>,
    quota: &Quota<H>,
    header: &ND_CREATE_QP_HDR,
    srq: Option<u64>,
    handle: u64,
) -> Result<Antecedents<H>, NTSTATUS> {
    let pd: Arc<Pd<H>, _> = handles.get(header.PdHandle)?;
    let receive_cq: Arc<Cq<H>, _> = handles.get(header.ReceiveCqHandle)?;
    let initiator_cq: Arc<Cq<H>, _> = handles.get(header.InitiatorCqHandle)?;
    let srq = srq.map(|handle| handles.get::<Srq<H>>(handle)).transpose()?;
    same_adapter::<H>(pd.adapter(), receive_cq.adapter())?;
    same_adapter::<H>(pd.adapter(), initiator_cq.adapter())?;
    if let Some(srq) = &srq {
        same_adapter::<H>(pd.adapter(), srq.ndk.context().pd.adapter())?;
    }
    let charge = quota.charge::<Qp<H>, Antecedents<H>>()?;
    Ok(Antecedents { pd, srq, receive_cq, initiator_cq, handle, _charge: charge })
}

fn depths(header: &ND_CREATE_QP_HDR) -> QpDepths {
    QpDepths {
        initiator_depth: header.InitiatorQueueDepth,
        initiator_sges: header.MaxInitiatorRequestSge,
        inline_bytes: header.CbMaxInlineData,
    }
}

#[inline(never)]
pub(crate) fn create<H: Host>(
    handles: &Ref<Handles<H>, H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_CREATE_QP = input(request)?;
    let header = &input.Header;
    let memory = mappings::<2>(request, header.CeMappingCount, header.CbMappingsOffset)?;
    room_for_descriptor(request, header.CeMappingCount)?;
    let slot = handles.reserve()?;
    let antecedents = shared(antecedents(handles, quota, header, None, slot.handle())?)?;
    let receive = (input.ReceiveQueueDepth, input.MaxReceiveRequestSge);
    let ndk = Owned::create_qp(
        &antecedents.pd.ndk,
        &antecedents.receive_cq.ndk,
        &antecedents.initiator_cq.ndk,
        slot.handle(),
        receive,
        &depths(header),
        antecedents.clone(),
        passive,
    )?;
    let rings = match &memory {
        None => None,
        Some([initiator, receives]) => {
            antecedents.have_rings()?;
            let sizes = (header.InitiatorQueueDepth, header.MaxInitiatorRequestSge, header.CbMaxInlineData);
            let (initiator, queue_pair_context) =
                UserWorkRing::open(host, quota, request, initiator, SOFTNDK_RING_INITIATOR, sizes, passive)?;
            let (receive, _) = UserWorkRing::open(
                host,
                quota,
                request,
                receives,
                SOFTNDK_RING_RECEIVE,
                (receive.0, receive.1, 0),
                passive,
            )?;
            Some(Rings::new(handles, queue_pair_context, initiator, Some(receive)))
        }
    };
    descriptor(request, slot.fill(Qp::make(ndk, rings)?)?, header.CeMappingCount)
}

#[inline(never)]
pub(crate) fn create_with_srq<H: Host>(
    handles: &Ref<Handles<H>, H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_CREATE_QP_WITH_SRQ = input(request)?;
    let header = &input.Header;
    let memory = mappings::<1>(request, header.CeMappingCount, header.CbMappingsOffset)?;
    room_for_descriptor(request, header.CeMappingCount)?;
    let slot = handles.reserve()?;
    let antecedents = shared(antecedents(handles, quota, header, Some(input.SrqHandle), slot.handle())?)?;
    let srq: Arc<Srq<H>, _> = handles.get(input.SrqHandle)?;
    if srq.ring.is_some() != memory.is_some() {
        // Only completions of a queue pair with rings free the slots of the SRQ's ring.
        return Err(STATUS_INVALID_PARAMETER_MIX.into());
    }
    let ndk = Owned::create_qp_with_srq(
        &antecedents.pd.ndk,
        &antecedents.receive_cq.ndk,
        &antecedents.initiator_cq.ndk,
        &srq.ndk,
        slot.handle(),
        &depths(header),
        antecedents.clone(),
        passive,
    )?;
    let rings = match &memory {
        None => None,
        Some([initiator]) => {
            antecedents.have_rings()?;
            let sizes = (header.InitiatorQueueDepth, header.MaxInitiatorRequestSge, header.CbMaxInlineData);
            let (initiator, queue_pair_context) =
                UserWorkRing::open(host, quota, request, initiator, SOFTNDK_RING_INITIATOR, sizes, passive)?;
            Some(Rings::new(handles, queue_pair_context, initiator, None))
        }
    };
    descriptor(request, slot.fill(Qp::make(ndk, rings)?)?, header.CeMappingCount)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    Qp::close(&handles.remove_leaving(input.Handle, Qp::shared_ring)?);
    Ok(0)
}

/// QP_FLUSH: cancels posted requests, and those in the rings, which are posted first.
pub(crate) fn flush<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let qp: Arc<Qp<H>, _> = handles.get(input.Handle)?;
    for _ in 0..MAX_SERVES {
        let next = qp.serve(false);
        qp.ndk.flush();
        if next == Next::Sleep {
            break;
        }
    }
    // Requests that complete unposted do so after the cancelled ones are reported.
    Qp::schedule_poll(&qp);
    Ok(0)
}
