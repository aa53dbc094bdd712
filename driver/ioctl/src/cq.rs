//! Completion queues: create, resize, poll, and notification by pended requests.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{
    ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ, ND_HANDLE,
    ND_RESOURCE_DESCRIPTOR,
};
use ndk_abi::ndkpi::{NDK_CQ, NDK_RESULT_EX};
use ndk_abi::softndk_ioctl::{SOFTNDK_CQ_MODERATE, SOFTNDK_POLL, SOFTNDK_RESULT};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_PENDING, STATUS_SUCCESS};
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Arc, Passive, SpinLock, Weak};
use zerocopy::IntoBytes;

use crate::adapter::descriptor;
use crate::decode::{Reply, input, no_mappings, room_for};
use crate::file::{Space, finish};
use crate::pd::shared;
use crate::pended::{Event, Pended};
use crate::{BackRef, Host, Ref, Request};
use ndk_consumer::{Adapter, Notified, Owned};

/// Results that are fetched with the lock held once.
const BURST: usize = 16;

pub(crate) struct Cq<H: Host> {
    pub(crate) ndk: Owned<NDK_CQ, CqEvents<H>, H::Platform>,
    /// NdkArmCq and NdkGetCqResultsEx must not overlap on one CQ (NDKPI completion handling requirements).
    turn: SpinLock<(), H::Platform>,
}

/// What the notifications of a CQ need.
pub(crate) struct CqEvents<H: Host> {
    space: Ref<Space<H>, H>,
    adapter: Ref<Adapter<H::Platform>, H>,
    handle: u64,
    /// Set when the CQ has been made; for arming it from a notification.
    cq: BackRef<Cq<H>, H>,
    /// A notification found nobody waiting (an arm can't be taken back), and the CQ was not polled empty since. The provider
    /// need not notify again for what was there then, so the next request is completed at once.
    unclaimed: AtomicBool,
    /// Why there will be no notification any more; STATUS_SUCCESS: there will.
    ended: AtomicI32,
}

impl<H: Host> Cq<H> {
    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        &self.ndk.keep().adapter
    }

    fn arm(&self, kind: u32) {
        let turn = self.turn.lock();
        self.ndk.arm(kind);
        drop(turn);
    }

    /// Its handle is gone: nobody may wait any more.
    pub(crate) fn close(&self, space: &Space<H>) {
        let events = self.ndk.keep();
        events.ended.store(STATUS_CANCELLED.0, Ordering::SeqCst);
        space.cancel_all(|pended| pended.owner == events.handle);
    }
}

impl<H: Host> CqEvents<H> {
    fn waits(&self, event: Event) -> impl Fn(&Pended<H>) -> bool {
        let owner = self.handle;
        move |pended| pended.owner == owner && pended.event == event
    }
}

impl<H: Host> Notified for CqEvents<H> {
    fn notified(&self, status: NTSTATUS) {
        if status != STATUS_SUCCESS {
            self.ended.store(status.0, Ordering::SeqCst);
            self.space.pended.take_all(|pended| pended.owner == self.handle, |pended| pended.complete(status));
            return;
        }
        // Set first and taken back later: a request that comes in between must not wait for what was notified already.
        self.unclaimed.store(true, Ordering::SeqCst);
        let mut claimed = false;
        self.space.pended.take_all(self.waits(Event::Completion), |pended| {
            claimed = true;
            pended.succeed();
        });
        if claimed {
            self.unclaimed.store(false, Ordering::SeqCst);
        }
        // This notification used up the arm of those who wait for errors only (merge table of NdkArmCq).
        if self.space.pended.any(self.waits(Event::CqError)) {
            let cq = self.cq.lock().as_ref().and_then(Weak::upgrade);
            if let Some(cq) = cq {
                cq.arm(ND_CQ_NOTIFY_ERRORS);
            }
        }
    }
}

pub(crate) fn create<H: Host>(space: &Ref<Space<H>, H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CREATE_CQ = input(request)?;
    no_mappings(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for::<ND_RESOURCE_DESCRIPTOR>(request)?;
    let adapter: Arc<Adapter<_>, _> = space.handles.get(input.AdapterHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let slot = space.handles.reserve()?;
    let events = shared(CqEvents {
        space: space.clone(),
        adapter: adapter.clone(),
        handle: slot.handle(),
        cq: SpinLock::<_, H::Platform>::new(None),
        unclaimed: AtomicBool::new(false),
        ended: AtomicI32::new(0),
    })?;
    let ndk = Owned::create_cq(&adapter, input.QueueDepth, preference(input.Affinity), events, passive)?;
    let cq = shared(Cq { ndk, turn: SpinLock::<_, H::Platform>::new(()) })?;
    *cq.ndk.keep().cq.lock() = Some(Arc::downgrade(&cq));
    descriptor(request, slot.fill(cq)?)
}

/// An affinity without processors is none.
pub(crate) fn preference(affinity: GROUP_AFFINITY) -> Option<GROUP_AFFINITY> {
    Some(affinity).filter(|affinity| affinity.Mask != 0)
}

pub(crate) fn free<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.handles.remove::<Cq<H>>(input.Handle)?.close(space);
    Ok(0)
}

pub(crate) fn modify<H: Host>(space: &Space<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CQ_MODIFY = input(request)?;
    no_mappings(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for::<ND_RESOURCE_DESCRIPTOR>(request)?;
    let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    cq.ndk.resize(input.QueueDepth, passive)?;
    descriptor(request, input.CqHandle)
}

/// Sets the moderation of notifications.
pub(crate) fn moderate<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_CQ_MODERATE = input(request)?;
    let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
    // Calls on one CQ must not overlap.
    let turn = cq.turn.lock();
    let result = cq.ndk.moderate(input.Interval, input.Count);
    drop(turn);
    result?;
    Ok(0)
}

/// Pends until the CQ is notified.
pub(crate) fn notify<H: Host>(space: &Space<H>, request: H::Request) -> NTSTATUS {
    let prepare = || {
        let input: ND_CQ_NOTIFY = input(&request)?;
        if input.Type > ND_CQ_NOTIFY_SOLICITED {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
        Ok((input.Type, cq))
    };
    let (kind, cq) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(request, Err(status.into())),
    };
    let events = cq.ndk.keep();
    let event = if kind == ND_CQ_NOTIFY_ERRORS { Event::CqError } else { Event::Completion };
    let id = match space.pended.insert(request, events.handle, event, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    let ended = NTSTATUS(events.ended.load(Ordering::SeqCst));
    if ended != STATUS_SUCCESS {
        if let Some(pended) = space.pended.take(id) {
            pended.complete(ended);
        }
    } else if event == Event::Completion && events.unclaimed.swap(false, Ordering::SeqCst) {
        match space.pended.take(id) {
            Some(pended) => pended.succeed(),
            // It was cancelled, so it claims nothing.
            None => events.unclaimed.store(true, Ordering::SeqCst),
        }
    } else {
        cq.arm(kind);
    }
    STATUS_PENDING
}

/// Fetches completions.
pub(crate) fn poll<H: Host>(space: &Space<H>, request: &mut H::Request) -> Reply {
    let input: SOFTNDK_POLL = input(request)?;
    let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
    let events = cq.ndk.keep();
    // Before the first look: a notification that comes during this call must stay unclaimed.
    let unclaimed = events.unclaimed.load(Ordering::SeqCst) && events.unclaimed.swap(false, Ordering::SeqCst);
    let mut results = [NDK_RESULT_EX::ZERO; BURST];
    let mut written = 0usize;
    let mut empty = false;
    let mut places = request.output().chunks_exact_mut(size_of::<SOFTNDK_RESULT>()).take(input.MaxResults as usize);
    while !empty && places.len() > 0 {
        let room = places.len().min(BURST);
        let Some(results) = results.get_mut(..room) else { break };
        let turn = cq.turn.lock();
        let count = cq.ndk.results(results);
        drop(turn);
        empty = count < room;
        for (result, place) in results.iter().take(count).zip(places.by_ref()) {
            place.copy_from_slice(reported(result).as_bytes());
            written = written.saturating_add(size_of::<SOFTNDK_RESULT>());
        }
    }
    if unclaimed && !empty {
        events.unclaimed.store(true, Ordering::SeqCst);
    }
    Ok(written)
}

/// A completion as the user sees it: the contexts are numbers of ours and of the user.
fn reported(result: &NDK_RESULT_EX) -> SOFTNDK_RESULT {
    SOFTNDK_RESULT {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QpHandle: result.QPContext.addr() as u64,
        RequestContext: result.RequestContext.addr() as u64,
        Type: result.Type.0.cast_unsigned(),
        ProviderErrorCode: result.ProviderErrorCode,
        Output: result.TypeSpecificCompletionOutput as u64,
    }
}
