//! Queue pairs: create, flush, free. What is posted is in [`crate::post`].

use ndk_abi::nd_ioctl::{ND_CREATE_QP, ND_CREATE_QP_HDR, ND_CREATE_QP_WITH_SRQ, ND_HANDLE, ND_RESOURCE_DESCRIPTOR};
use ndk_abi::ndkpi::NDK_QP;
use ndk_abi::status::NTSTATUS;
use platform::{Arc, Passive, SpinLock};

use crate::adapter::{descriptor, same_adapter};
use crate::cq::Cq;
use crate::decode::{Reply, input, no_mappings, room_for};
use crate::file::Space;
use crate::pd::{Pd, shared};
use crate::srq::Srq;
use crate::{Host, Ref};
use ndk_consumer::{Adapter, Owned, QpDepths};

pub(crate) struct Qp<H: Host> {
    pub(crate) ndk: Owned<NDK_QP, Antecedents<H>, H::Platform>,
    /// Posts to one queue must not overlap (NDKPI work request posting requirements).
    pub(crate) initiator_turn: SpinLock<(), H::Platform>,
    /// As `initiator_turn`, for the receive queue.
    pub(crate) receive_turn: SpinLock<(), H::Platform>,
}

/// What must outlive a QP.
pub(crate) struct Antecedents<H: Host> {
    pub(crate) pd: Ref<Pd<H>, H>,
    pub(crate) srq: Option<Ref<Srq<H>, H>>,
    receive_cq: Ref<Cq<H>, H>,
    initiator_cq: Ref<Cq<H>, H>,
}

impl<H: Host> Qp<H> {
    fn new(ndk: Owned<NDK_QP, Antecedents<H>, H::Platform>) -> Self {
        Self {
            ndk,
            initiator_turn: SpinLock::<_, H::Platform>::new(()),
            receive_turn: SpinLock::<_, H::Platform>::new(()),
        }
    }

    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        self.ndk.keep().pd.adapter()
    }

    /// Its handle is gone. A connector may hold the QP open, so what is posted is cancelled here.
    pub(crate) fn close(&self) {
        self.ndk.flush();
    }
}

/// The objects that a queue pair is made from, all of one adapter.
fn antecedents<H: Host>(
    space: &Space<H>,
    request: &H::Request,
    header: &ND_CREATE_QP_HDR,
    srq: Option<u64>,
) -> Result<Antecedents<H>, NTSTATUS> {
    no_mappings(request, header.CeMappingCount, header.CbMappingsOffset)?;
    room_for::<ND_RESOURCE_DESCRIPTOR>(request)?;
    let pd: Arc<Pd<H>, _> = space.handles.get(header.PdHandle)?;
    let receive_cq: Arc<Cq<H>, _> = space.handles.get(header.ReceiveCqHandle)?;
    let initiator_cq: Arc<Cq<H>, _> = space.handles.get(header.InitiatorCqHandle)?;
    let srq = srq.map(|handle| space.handles.get::<Srq<H>>(handle)).transpose()?;
    same_adapter::<H>(pd.adapter(), receive_cq.adapter())?;
    same_adapter::<H>(pd.adapter(), initiator_cq.adapter())?;
    if let Some(srq) = &srq {
        same_adapter::<H>(pd.adapter(), srq.ndk.keep().pd.adapter())?;
    }
    Ok(Antecedents { pd, srq, receive_cq, initiator_cq })
}

fn depths(header: &ND_CREATE_QP_HDR) -> QpDepths {
    QpDepths {
        initiator_depth: header.InitiatorQueueDepth,
        initiator_sges: header.MaxInitiatorRequestSge,
        inline_bytes: header.CbMaxInlineData,
    }
}

pub(crate) fn create<H: Host>(space: &Space<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CREATE_QP = input(request)?;
    let keep = shared(antecedents(space, request, &input.Header, None)?)?;
    let slot = space.handles.reserve()?;
    let receive = (input.ReceiveQueueDepth, input.MaxReceiveRequestSge);
    let ndk = Owned::create_qp(
        &keep.pd.ndk,
        &keep.receive_cq.ndk,
        &keep.initiator_cq.ndk,
        slot.handle(),
        receive,
        &depths(&input.Header),
        keep.clone(),
        passive,
    )?;
    descriptor(request, slot.fill(shared(Qp::new(ndk))?)?)
}

pub(crate) fn create_with_srq<H: Host>(space: &Space<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CREATE_QP_WITH_SRQ = input(request)?;
    let keep = shared(antecedents(space, request, &input.Header, Some(input.SrqHandle))?)?;
    let srq: Arc<Srq<H>, _> = space.handles.get(input.SrqHandle)?;
    let slot = space.handles.reserve()?;
    let ndk = Owned::create_qp_with_srq(
        &keep.pd.ndk,
        &keep.receive_cq.ndk,
        &keep.initiator_cq.ndk,
        &srq.ndk,
        slot.handle(),
        &depths(&input.Header),
        keep.clone(),
        passive,
    )?;
    descriptor(request, slot.fill(shared(Qp::new(ndk))?)?)
}

pub(crate) fn free<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.handles.remove::<Qp<H>>(input.Handle)?.close();
    Ok(0)
}

pub(crate) fn flush<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.handles.get::<Qp<H>>(input.Handle)?.ndk.flush();
    Ok(0)
}
