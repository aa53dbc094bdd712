//! The control codes of completion queues: create, free, resize, poll, and notification by pended requests.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{
    ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ, ND_HANDLE,
};
use ndk_abi::ndkpi::NDK_RESULT_EX;
use ndk_abi::softndk_ioctl::{SOFTNDK_CQ_MODERATE, SOFTNDK_POLL, SOFTNDK_RESULT};
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_PARAMETER_MIX, STATUS_PENDING, STATUS_SUCCESS,
};
use platform::{Arc, Deferred, Passive, SpinLock};
use zerocopy::IntoBytes;

use super::{BURST, Cq, CqEvents};
use crate::decode::{Reply, finish, input};
use crate::objects::{Handles, PendedRequests, affinity};
use crate::quota::Quota;
use crate::rings::user_ring::{UserCqRing, descriptor, mappings, room_for_descriptor};
use crate::tables::lines::Lines;
use crate::tables::pended::Event;
use crate::tables::sent::Sent;
use crate::{Host, Ref, Request, shared};
use ndk_consumer::{Adapter, Owned};

/// The most times that CQ_MODIFY fills a ring to empty the CQ.
const MAX_FILLS: u32 = 1024;

#[inline(never)]
pub(crate) fn create<H: Host>(
    handles: &Ref<Handles<H>, H>,
    pended: &Ref<PendedRequests<H>, H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_CREATE_CQ = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
    let adapter: Arc<Adapter<_>, _> = handles.get(input.AdapterHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let slot = handles.reserve()?;
    let events = shared(CqEvents {
        pended: pended.clone(),
        handles: handles.clone(),
        adapter: adapter.clone(),
        waiting: Lines::new(&quota.pool)?,
        cq: SpinLock::<_, H::Platform>::new(None),
        notified: AtomicU64::new(0),
        delivered: AtomicU64::new(0),
        ended: AtomicI32::new(0),
        _charge: quota.charge::<Cq<H>, CqEvents<H>>()?,
    })?;
    let affinity = affinity::preference(input.Affinity);
    let ndk = Owned::create_cq(&adapter, input.QueueDepth, affinity, events, passive)?;
    let ring = match &memory {
        None => None,
        Some([memory]) => Some(UserCqRing::<H>::open(host, quota, request, memory, input.QueueDepth, passive)?),
    };
    let cq = shared(Cq {
        ring,
        affinity,
        deferred: Deferred::default(),
        next_to_notify: AtomicU32::new(0),
        ndk,
        closed: SpinLock::<_, H::Platform>::new(None),
        turn: SpinLock::<_, H::Platform>::new(()),
    })?;
    Deferred::initialize(&cq);
    *cq.ndk.context().cq.lock() = Some(Arc::downgrade(&cq));
    if cq.has_ring() {
        cq.arm(ND_CQ_NOTIFY_ANY);
    }
    descriptor(request, slot.fill(cq)?, input.CeMappingCount)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Cq<H>>(input.Handle)?.close();
    Ok(0)
}

#[inline(never)]
pub(crate) fn modify<H: Host>(
    handles: &Handles<H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_CQ_MODIFY = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
    let cq: Arc<Cq<H>, _> = handles.get(input.CqHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    match (&memory, &cq.ring) {
        (None, _) => cq.ndk.resize(input.QueueDepth, passive)?,
        (Some([memory]), Some(ring)) => {
            let other = UserCqRing::<H>::open(host, quota, request, memory, input.QueueDepth, passive)?;
            // Completions that are still in the CQ count too. The loop is bounded, as the CQ's queue pairs go on completing requests.
            for _ in 0..MAX_FILLS {
                if !cq.fill(ring) {
                    break;
                }
            }
            if ring.unread() > input.QueueDepth {
                return Err(STATUS_BUFFER_OVERFLOW.into());
            }
            cq.ndk.resize(input.QueueDepth, passive)?;
            let turn = cq.turn.lock();
            let old = ring.replace(other);
            drop(turn);
            // Unlocks the old ring's memory, with no lock held.
            drop(old);
            Deferred::schedule(&cq);
        }
        (Some(_), None) => return Err(STATUS_INVALID_PARAMETER_MIX.into()),
    }
    descriptor(request, input.CqHandle, input.CeMappingCount)
}

pub(crate) fn get_affinity<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request) -> Reply {
    let cq: Arc<Cq<H>, _> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    affinity::reply(host, request, cq.affinity)
}

/// SOFTNDK_CQ_MODERATE: sets the moderation of notifications.
pub(crate) fn moderate<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_CQ_MODERATE = input(request)?;
    let cq: Arc<Cq<H>, _> = handles.get(input.CqHandle)?;
    if cq.has_ring() {
        // A CQ with a ring is notified to fill the ring.
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    // Calls of NdkControlCqInterruptModeration on one CQ must not overlap.
    let turn = cq.turn.lock();
    let result = cq.ndk.moderate(input.Interval, input.Count);
    drop(turn);
    result?;
    Ok(0)
}

/// CQ_NOTIFY: pends until the CQ is notified.
pub(crate) fn notify<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let input: ND_CQ_NOTIFY = input(&sent.request)?;
        if input.Type > ND_CQ_NOTIFY_SOLICITED {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let cq: Arc<Cq<H>, _> = handles.get(input.CqHandle)?;
        Ok((input.Type, cq))
    };
    let (kind, cq) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(status.into())),
    };
    let events = cq.ndk.context();
    let event = match kind {
        ND_CQ_NOTIFY_ERRORS => Event::CqError,
        ND_CQ_NOTIFY_SOLICITED if cq.has_ring() => Event::Solicited,
        _ => Event::Completion,
    };
    let id = match events.pended.insert(sent, &events.waiting, event, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    let ended = NTSTATUS(events.ended.load(Ordering::SeqCst));
    if ended != STATUS_SUCCESS {
        if let Some(pended) = events.pended.take(id) {
            pended.complete(ended);
        }
    } else if let Some(ring) = &cq.ring {
        // The completion may be in the ring already.
        cq.notify(ring);
    } else if event == Event::Completion
        && let Some(number) = events.undelivered()
    {
        // `None`: the request was cancelled, or another notification has completed it.
        if let Some(pended) = events.pended.take(id) {
            events.set_delivered(number);
            pended.succeed();
        }
    } else {
        cq.arm(kind);
    }
    STATUS_PENDING
}

/// SOFTNDK_POLL: returns completions.
pub(crate) fn poll<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let input: SOFTNDK_POLL = input(request)?;
    let cq: Arc<Cq<H>, _> = handles.get(input.CqHandle)?;
    if cq.has_ring() {
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    let events = cq.ndk.context();
    // Before the first poll: a notification that comes during this call is left for the next request.
    let undelivered = events.undelivered();
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
    if empty && let Some(number) = undelivered {
        events.set_delivered(number);
    }
    Ok(written)
}

/// A completion in the program's layout: the queue pair's context is its handle, the request's context is the program's number.
fn reported(result: &NDK_RESULT_EX) -> SOFTNDK_RESULT {
    SOFTNDK_RESULT {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QpHandle: result.QPContext.addr() as u64,
        RequestContext: result.RequestContext.addr() as u64,
        Type: result.Type.0.cast_unsigned(),
        ProviderErrorCode: 0,
        Output: result.TypeSpecificCompletionOutput as u64,
    }
}
