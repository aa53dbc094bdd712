//! Completion queues: create, resize, poll, and notification by pended requests.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{
    ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ, ND_HANDLE,
};
use ndk_abi::ndkpi::{
    NDK_CQ, NDK_RESULT_EX, NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend,
};
use ndk_abi::softndk_ioctl::{
    SOFTNDK_CQ_MODERATE, SOFTNDK_POLL, SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_RESULT,
};
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INTERNAL_ERROR, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_MIX, STATUS_PENDING, STATUS_SUCCESS,
};
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Arc, Deferred, Dispatch, Passive, RunDeferred, SpinLock, Weak};
use zerocopy::IntoBytes;

use crate::affinity::preference;
use crate::cq_ring::{CqRing, Room};
use crate::decode::{Reply, input};
use crate::file::{Space, finish};
use crate::handles::{Chain, Reporter};
use crate::pd::shared;
use crate::pended::{Event, Pended, Sent};
use crate::qp::Qp;
use crate::ring::{descriptor, mappings, room_for_descriptor};
use crate::srq::Srq;
use crate::{BackRef, Host, Ref, Request};
use ndk_consumer::{Adapter, Notified, Owned};

/// Results that are fetched with the lock held once.
const BURST: usize = 16;
/// Times that a ring is filled to get to the end of what waits for it.
const MAX_FILLS: u32 = 1024;
/// Bursts that one run of the deferred call puts into a ring.
const BURSTS: u32 = 8;
/// Handles that one run of the deferred call looks through for queue pairs.
const HANDLES: u32 = 64;

pub(crate) struct Cq<H: Host> {
    /// Before the rest, so that its memory is unlocked while there still is an open adapter, which a cleanup waits for.
    ring: Option<CqRing<H>>,
    /// What it was made with.
    pub(crate) affinity: Option<GROUP_AFFINITY>,
    /// Fills the ring.
    deferred: Deferred<H::Platform>,
    /// When it has ended: the first handle that may be that of a queue pair which was not told yet.
    untold: AtomicU32,
    pub(crate) ndk: Owned<NDK_CQ, CqEvents<H>, H::Platform>,
    /// Freed queue pairs that report nothing more than what is in it, oldest first.
    closed: SpinLock<Option<Chain>, H::Platform>,
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

/// Whom some completions concern; each in the place of its first.
type Reporters<H> = [Option<Reporter<H>>; BURST];

/// What filling a ring came to.
enum Filled {
    /// There may be more.
    Some,
    /// There is nothing more, or no room.
    All,
    /// Its user's index cannot be.
    Wild,
}

impl<H: Host> Cq<H> {
    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        &self.ndk.keep().adapter
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// There will be no completions any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ndk.keep().ended.load(Ordering::SeqCst) != STATUS_SUCCESS.0
    }

    /// Has the rings of its queue pairs looked at, which may await completions. A part of them in each run; true: there are more.
    fn tell_queue_pairs(this: &Ref<Self, H>) -> bool {
        let first = this.untold.load(Ordering::Relaxed);
        let end = first.saturating_add(HANDLES);
        for index in first..end {
            match this.ndk.keep().space.handles.at::<Qp<H>>(index) {
                Some(Some(qp)) if qp.uses(this) => Qp::look(&qp),
                Some(_) => {}
                None => {
                    this.untold.store(index, Ordering::Relaxed);
                    return false;
                }
            }
        }
        this.untold.store(end, Ordering::Relaxed);
        true
    }

    /// A doorbell: there is room in the ring.
    pub(crate) fn wake(this: &Ref<Self, H>) {
        if let Some(ring) = &this.ring {
            ring.wake();
            Deferred::schedule(this);
        }
    }

    /// Reports a request that never was posted; false: not now. Callable with the lock of its ring held.
    pub(crate) fn give_up(this: &Ref<Self, H>, qp_context: u64, head: &SOFTNDK_POST, status: NTSTATUS) -> bool {
        let kind = match head.Operation {
            SOFTNDK_POST_SEND_AND_INVALIDATE => NdkOperationTypeSend.0.cast_unsigned(),
            operation => operation,
        };
        let completion = SOFTNDK_COMPLETION {
            Status: status,
            BytesTransferred: 0,
            QueuePairContext: qp_context,
            RequestContext: head.RequestContext,
            Type: kind,
            Output: 0,
        };
        // Of one that has ended nobody takes anything.
        let given_up = this.has_ended() || this.ring.as_ref().is_none_or(|ring| ring.push(completion, true));
        Deferred::schedule(this);
        given_up
    }

    /// Moves completions into the ring: as many as it has room for, and not too many at once. True: there may be more.
    fn fill(&self, ring: &CqRing<H>) -> bool {
        for _ in 0..BURSTS {
            // Let go without the lock: a reference may be the last of a queue pair that is freed meanwhile.
            let mut reporters = [const { None }; BURST];
            let turn = self.turn.lock();
            let filled = self.fill_once(ring, &mut reporters);
            ring.release();
            drop(turn);
            match filled {
                Filled::Some => {}
                Filled::All => return false,
                Filled::Wild => {
                    ring.end(STATUS_INTERNAL_ERROR);
                    self.ndk.keep().end(STATUS_INTERNAL_ERROR);
                    return false;
                }
            }
        }
        true
    }

    /// The same once, in turn: who takes completions puts them in, so that they stay in order. `reporters` keeps whom they
    /// concern.
    fn fill_once(&self, ring: &CqRing<H>, reporters: &mut Reporters<H>) -> Filled {
        let room = match ring.reserve(BURST as u32) {
            Room::For(room) => room as usize,
            Room::None => {
                // What is in the CQ stays there, and may become too much.
                self.ndk.arm(ND_CQ_NOTIFY_ERRORS);
                return Filled::All;
            }
            Room::Wild => return Filled::Wild,
        };
        let handles = &self.ndk.keep().space.handles;
        let closed_before = self.closed.lock().as_ref().map(Chain::last);
        let mut results = [NDK_RESULT_EX::ZERO; BURST];
        let count = self.ndk.results(results.get_mut(..room).unwrap_or_default());
        if count == 0 {
            if let Some(last) = closed_before {
                handles.forget_freed(&mut self.closed.lock(), last);
            }
            // All that came before is taken: from now on a notification says that there is more.
            self.ndk.arm(ND_CQ_NOTIFY_ANY);
            return Filled::All;
        }
        let mut last = None;
        for (result, place) in results.iter().take(count).zip(reporters) {
            let handle = result.QPContext.addr() as u64;
            if last.is_none_or(|(of, _)| of != handle) {
                *place = handles.reporter(handle);
                last = Some((handle, &*place));
            }
            let receive = is_receive(result);
            match last {
                Some((_, Some(Reporter::Qp(qp)))) => {
                    let counted = qp.reports(receive, result.Status);
                    ring.push_reserved(completion(qp, handle, result), is_solicited(result));
                    Qp::reported(qp, receive, counted);
                }
                Some((_, Some(Reporter::Srq(srq)))) if receive => Srq::reported_for_nobody(srq),
                _ => {}
            }
        }
        Filled::Some
    }

    /// Completes the requests that wait for what is in the ring.
    fn tell(&self, ring: &CqRing<H>) {
        let events = self.ndk.keep();
        let pended = &events.space.pended;
        let any = pended.any(events.waits(Event::Completion));
        let kind = if any { ND_CQ_NOTIFY_ANY } else { ND_CQ_NOTIFY_SOLICITED };
        if (any || pended.any(events.waits(Event::Solicited))) && ring.tell(kind) {
            // One event completes all; a request for any completion makes the others that too.
            let owner = events.handle;
            let wanted = |pended: &Pended<H>| {
                pended.owner == owner && matches!(pended.event, Event::Completion | Event::Solicited)
            };
            pended.take_all(wanted, Pended::succeed);
        }
    }

    /// The NDK queue pair of a handle is closed.
    pub(crate) fn queue_pair_closed(this: &Ref<Self, H>, handle: u64) {
        let mut closed = this.closed.lock();
        let was_freed = this.ndk.keep().space.handles.append_freed(&mut closed, handle);
        drop(closed);
        if was_freed {
            // To find it empty.
            Deferred::schedule(this);
        }
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

impl<H: Host> Drop for Cq<H> {
    fn drop(&mut self) {
        let mut closed = self.closed.lock();
        if let Some(last) = closed.as_ref().map(Chain::last) {
            self.ndk.keep().space.handles.forget_freed(&mut closed, last);
        }
    }
}

impl<H: Host> RunDeferred<H::Platform> for Cq<H> {
    fn deferred(&self) -> &Deferred<H::Platform> {
        &self.deferred
    }

    fn run(this: &Ref<Self, H>, _: &Dispatch<'_>) {
        let Some(ring) = &this.ring else { return };
        let more = this.fill(ring);
        this.tell(ring);
        let untold = this.has_ended() && Self::tell_queue_pairs(this);
        if more || untold {
            Deferred::schedule(this);
        }
    }
}

impl<H: Host> CqEvents<H> {
    /// There will be no notification any more.
    fn end(&self, status: NTSTATUS) {
        self.ended.store(status.0, Ordering::SeqCst);
        self.space.pended.take_all(|pended| pended.owner == self.handle, |pended| pended.complete(status));
    }

    fn waits(&self, event: Event) -> impl Fn(&Pended<H>) -> bool {
        let owner = self.handle;
        move |pended| pended.owner == owner && pended.event == event
    }
}

impl<H: Host> Notified for CqEvents<H> {
    fn notified(&self, status: NTSTATUS) {
        let cq = self.cq.lock().as_ref().and_then(Weak::upgrade);
        let ring = cq.as_ref().and_then(|cq| cq.ring.as_ref());
        if status != STATUS_SUCCESS {
            ring.iter().for_each(|ring| ring.end(status));
            self.end(status);
        }
        if let (Some(cq), Some(_)) = (&cq, ring) {
            Deferred::schedule(cq);
            return;
        }
        if status != STATUS_SUCCESS {
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
        if let Some(cq) = cq.filter(|_| self.space.pended.any(self.waits(Event::CqError))) {
            cq.arm(ND_CQ_NOTIFY_ERRORS);
        }
    }
}

pub(crate) fn create<H: Host>(space: &Ref<Space<H>, H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CREATE_CQ = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
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
    let affinity = preference(input.Affinity);
    let ndk = Owned::create_cq(&adapter, input.QueueDepth, affinity, events, passive)?;
    let ring = match &memory {
        None => None,
        Some([memory]) => Some(CqRing::open(space, request, memory, input.QueueDepth, passive)?),
    };
    let cq = shared(Cq {
        ring,
        affinity,
        deferred: Deferred::default(),
        untold: AtomicU32::new(0),
        ndk,
        closed: SpinLock::<_, H::Platform>::new(None),
        turn: SpinLock::<_, H::Platform>::new(()),
    })?;
    Deferred::initialize(&cq);
    *cq.ndk.keep().cq.lock() = Some(Arc::downgrade(&cq));
    if cq.has_ring() {
        cq.arm(ND_CQ_NOTIFY_ANY);
    }
    descriptor(request, slot.fill(cq)?, input.CeMappingCount)
}

pub(crate) fn free<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.handles.remove::<Cq<H>>(input.Handle)?.close(space);
    Ok(0)
}

pub(crate) fn modify<H: Host>(space: &Space<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_CQ_MODIFY = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
    let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    match (&memory, &cq.ring) {
        (None, _) => cq.ndk.resize(input.QueueDepth, passive)?,
        (Some([memory]), Some(ring)) => {
            let other = CqRing::open(space, request, memory, input.QueueDepth, passive)?;
            // What still is in the CQ counts too. Not for ever: its queue pairs go on.
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
            // Unlocked without the lock.
            drop(old);
            Deferred::schedule(&cq);
        }
        (Some(_), None) => return Err(STATUS_INVALID_PARAMETER_MIX.into()),
    }
    descriptor(request, input.CqHandle, input.CeMappingCount)
}

/// Sets the moderation of notifications.
pub(crate) fn moderate<H: Host>(space: &Space<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_CQ_MODERATE = input(request)?;
    let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
    if cq.has_ring() {
        // Its notifications are what fills the ring.
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
    // Calls on one CQ must not overlap.
    let turn = cq.turn.lock();
    let result = cq.ndk.moderate(input.Interval, input.Count);
    drop(turn);
    result?;
    Ok(0)
}

/// Pends until the CQ is notified.
pub(crate) fn notify<H: Host>(space: &Space<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let input: ND_CQ_NOTIFY = input(&sent.request)?;
        if input.Type > ND_CQ_NOTIFY_SOLICITED {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let cq: Arc<Cq<H>, _> = space.handles.get(input.CqHandle)?;
        Ok((input.Type, cq))
    };
    let (kind, cq) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(status.into())),
    };
    let events = cq.ndk.keep();
    let event = match kind {
        ND_CQ_NOTIFY_ERRORS => Event::CqError,
        ND_CQ_NOTIFY_SOLICITED if cq.has_ring() => Event::Solicited,
        _ => Event::Completion,
    };
    let id = match space.pended.insert(sent, events.handle, event, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    let ended = NTSTATUS(events.ended.load(Ordering::SeqCst));
    if ended != STATUS_SUCCESS {
        if let Some(pended) = space.pended.take(id) {
            pended.complete(ended);
        }
    } else if let Some(ring) = &cq.ring {
        // It may be in the ring already.
        cq.tell(ring);
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
    if cq.has_ring() {
        return Err(STATUS_INVALID_DEVICE_REQUEST.into());
    }
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

fn is_receive(result: &NDK_RESULT_EX) -> bool {
    result.Type == NdkOperationTypeReceive || result.Type == NdkOperationTypeReceiveAndInvalidate
}

/// Whether it satisfies a request for a solicited notification; the provider says so.
fn is_solicited(result: &NDK_RESULT_EX) -> bool {
    result.ProviderErrorCode != 0 || result.Status != STATUS_SUCCESS
}

/// A completion for the ring.
fn completion<H: Host>(qp: &Qp<H>, handle: u64, result: &NDK_RESULT_EX) -> SOFTNDK_COMPLETION {
    SOFTNDK_COMPLETION {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QueuePairContext: qp.rings.as_ref().map_or(handle, |rings| rings.context),
        RequestContext: result.RequestContext.addr() as u64,
        Type: result.Type.0.cast_unsigned(),
        // A token.
        Output: result.TypeSpecificCompletionOutput as u32,
    }
}

/// A completion as the user sees it: the contexts are numbers of ours and of the user.
fn reported(result: &NDK_RESULT_EX) -> SOFTNDK_RESULT {
    SOFTNDK_RESULT {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QpHandle: result.QPContext.addr() as u64,
        RequestContext: result.RequestContext.addr() as u64,
        Type: result.Type.0.cast_unsigned(),
        ProviderErrorCode: if result.Status == STATUS_SUCCESS { 0 } else { result.ProviderErrorCode },
        Output: result.TypeSpecificCompletionOutput as u64,
    }
}
