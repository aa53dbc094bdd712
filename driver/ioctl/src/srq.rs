//! Shared receive queues.

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use ndk_abi::nd_ioctl::{ND_CREATE_SRQ, ND_HANDLE, ND_RESOURCE_DESCRIPTOR, ND_SRQ_MODIFY};
use ndk_abi::ndkpi::{NDK_SGE, NDK_SRQ};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_PENDING, STATUS_SUCCESS};
use platform::{Arc, Passive, SpinLock};

use crate::adapter::descriptor;
use crate::cq::preference;
use crate::decode::{Reply, input, no_mappings, room_for};
use crate::file::{Space, finish};
use crate::pd::{Pd, shared};
use crate::pended::Event;
use crate::{Host, Ref};
use ndk_consumer::{Owned, SrqNotified, SrqSize};

pub(crate) struct Srq<H: Host> {
    pub(crate) ndk: Owned<NDK_SRQ, SrqEvents<H>, H::Platform>,
    /// Posts to one SRQ must not overlap (NDKPI work request posting requirements).
    turn: SpinLock<(), H::Platform>,
}

/// What the notifications of an SRQ need.
pub(crate) struct SrqEvents<H: Host> {
    space: Ref<Space<H>, H>,
    pub(crate) pd: Ref<Pd<H>, H>,
    handle: u64,
    /// The last one set; 0: never.
    threshold: AtomicU32,
    /// Why there will be no notification any more; STATUS_SUCCESS: there will.
    ended: AtomicI32,
}

impl<H: Host> Srq<H> {
    pub(crate) fn receive(&self, context: u64, sges: &[NDK_SGE]) -> NTSTATUS {
        let turn = self.turn.lock();
        let status = self.ndk.receive(context, sges);
        drop(turn);
        status
    }

    /// Its handle is gone: nobody may wait any more.
    pub(crate) fn close(&self, space: &Space<H>) {
        let events = self.ndk.keep();
        events.ended.store(STATUS_CANCELLED.0, Ordering::SeqCst);
        space.cancel_all(|pended| pended.owner == events.handle);
    }
}

impl<H: Host> SrqNotified for SrqEvents<H> {
    fn notified(&self, status: NTSTATUS) {
        if status != STATUS_SUCCESS {
            self.ended.store(status.0, Ordering::SeqCst);
        }
        // If nobody waits it is lost, and nothing with it: each request to wait asks anew (NdkModifySrq), and is answered at
        // once while the queue is below the threshold.
        self.space.pended.take_all(|pended| pended.owner == self.handle, |pended| pended.complete(status));
    }
}

pub(crate) fn create<H: Host>(space: &Ref<Space<H>, H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CREATE_SRQ = input(request)?;
    no_mappings(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for::<ND_RESOURCE_DESCRIPTOR>(request)?;
    let pd: Arc<Pd<H>, _> = space.handles.get(input.PdHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let slot = space.handles.reserve()?;
    let events = shared(SrqEvents {
        space: space.clone(),
        pd: pd.clone(),
        handle: slot.handle(),
        threshold: AtomicU32::new(input.NotifyThreshold),
        ended: AtomicI32::new(0),
    })?;
    let size = SrqSize { depth: input.QueueDepth, sges: input.MaxRequestSge, threshold: input.NotifyThreshold };
    let ndk = Owned::create_srq(&pd.ndk, &size, preference(input.Affinity), events, passive)?;
    descriptor(request, slot.fill(shared(Srq { ndk, turn: SpinLock::<_, H::Platform>::new(()) })?)?)
}

pub(crate) fn free<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.handles.remove::<Srq<H>>(input.Handle)?.close(space);
    Ok(0)
}

pub(crate) fn modify<H: Host>(space: &Space<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_SRQ_MODIFY = input(request)?;
    no_mappings(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for::<ND_RESOURCE_DESCRIPTOR>(request)?;
    let srq: Arc<Srq<H>, _> = space.handles.get(input.SrqHandle)?;
    srq.ndk.modify(input.QueueDepth, input.NotifyThreshold, passive)?;
    if input.NotifyThreshold != 0 {
        srq.ndk.keep().threshold.store(input.NotifyThreshold, Ordering::Relaxed);
    }
    descriptor(request, input.SrqHandle)
}

/// Pends until fewer receives than the threshold are left, or the SRQ fails.
pub(crate) fn notify<H: Host>(space: &Space<H>, request: H::Request, passive: &Passive<'_>) -> NTSTATUS {
    let prepare = || space.handles.get::<Srq<H>>(input::<ND_HANDLE>(&request)?.Handle);
    let srq = match prepare() {
        Ok(srq) => srq,
        Err(status) => return finish(request, Err(status.into())),
    };
    let events = srq.ndk.keep();
    let id = match space.pended.insert(request, events.handle, Event::SrqLow, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    let mut end = NTSTATUS(events.ended.load(Ordering::SeqCst));
    let threshold = events.threshold.load(Ordering::Relaxed);
    if end == STATUS_SUCCESS && threshold != 0 {
        end = srq.ndk.modify(0, threshold, passive).err().unwrap_or(STATUS_SUCCESS);
    }
    if end != STATUS_SUCCESS
        && let Some(pended) = space.pended.take(id)
    {
        pended.complete(end);
    }
    STATUS_PENDING
}
