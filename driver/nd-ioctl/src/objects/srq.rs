//! Shared receive queues.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{ND_CREATE_SRQ, ND_HANDLE, ND_SRQ_MODIFY};
use ndk_abi::ndkpi::{NDK_OPERATION_TYPE, NDK_SGE, NDK_SRQ, NdkOperationTypeReceive};
use ndk_abi::softndk_ioctl::SOFTNDK_POST;
use ndk_abi::softndk_ring::SOFTNDK_RING_RECEIVE;
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4,
    STATUS_INVALID_PARAMETER_MIX, STATUS_PENDING, STATUS_SUCCESS,
};
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Arc, Charge, Deferred, Dispatch, Passive, RunDeferred, RunTimer, SpinLock, Timer};

use crate::decode::{Reply, finish, input};
use crate::objects::pd::Pd;
use crate::objects::sges::{MAX_SGES, sges};
use crate::objects::{Handles, PendedRequests, affinity};
use crate::quota::Quota;
use crate::rings::ring_poll::{Next, STALLED_MICROSECONDS};
use crate::rings::user_ring::{UserWorkRing, descriptor, descriptor_with, mappings, room_for_descriptor};
use crate::rings::work_ring::{MAX_SERVES, Posted, ServeMode, Step, WorkRing};
use crate::tables::lines::Lines;
use crate::tables::pended::Event;
use crate::tables::sent::{Sent, Waiting};
use crate::{Host, Ref, shared};
use ndk_consumer::{Owned, SrqNotified, SrqSize};

pub(crate) struct Srq<H: Host> {
    /// Dropped first, as a queue pair's rings.
    pub(crate) ring: Option<UserWorkRing<H>>,
    /// SRQ_MODIFYs under way. Nothing in the ring is posted while there are any.
    modifications: AtomicU32,
    /// Receives in the ring wait for room in the queue.
    waiting: AtomicBool,
    sges: u32,
    /// The affinity of the create request.
    pub(crate) affinity: Option<GROUP_AFFINITY>,
    deferred: Deferred<H::Platform>,
    timer: Timer<H::Platform>,
    pub(crate) ndk: Owned<NDK_SRQ, SrqEvents<H>, H::Platform>,
    /// Posts to one SRQ must not overlap (NDKPI work request posting requirements).
    turn: SpinLock<(), H::Platform>,
}

/// The context of an SRQ's notifications.
pub(crate) struct SrqEvents<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    pub(crate) pd: Ref<Pd<H>, H>,
    handle: u64,
    waiting: Waiting<H>,
    /// The last threshold that was set; 0: none.
    threshold: AtomicU32,
    /// The status with which the SRQ ended; STATUS_SUCCESS: it has not ended.
    ended: AtomicI32,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Srq<H> {
    pub(crate) fn receive(&self, context: u64, sges: &[NDK_SGE]) -> NTSTATUS {
        let turn = self.turn.lock();
        let status = self.ndk.receive(context, sges);
        drop(turn);
        status
    }

    /// Posts a receive from the ring.
    fn post_entry(&self, head: &SOFTNDK_POST, data: &[u8]) -> NTSTATUS {
        if NDK_OPERATION_TYPE(head.Operation.cast_signed()) != NdkOperationTypeReceive || head.InlineLength != 0 {
            return STATUS_INVALID_PARAMETER;
        }
        if head.Flags != 0 {
            return STATUS_INVALID_PARAMETER_4;
        }
        let mut storage = [NDK_SGE::ZERO; MAX_SGES];
        match sges(data, &mut storage) {
            Ok(sges) => self.receive(head.RequestContext, sges),
            Err(status) => status,
        }
    }

    /// The pended SRQ_NOTIFYs.
    pub(crate) fn waiting(&self) -> &Waiting<H> {
        &self.ndk.context().waiting
    }

    pub(crate) fn handle(&self) -> u64 {
        self.ndk.context().handle
    }

    /// A doorbell: schedules a run that serves the ring.
    pub(crate) fn wake(this: &Ref<Self, H>) {
        if let Some(ring) = &this.ring {
            ring.wake();
            Deferred::schedule(this);
        }
    }

    /// A receive of the SRQ has completed: schedules a run if receives wait for room.
    pub(crate) fn completed(this: &Ref<Self, H>) {
        if this.waiting.swap(false, Ordering::AcqRel) {
            Deferred::schedule(this);
        }
    }

    /// As `completed`, for a receive that a freed queue pair had taken. The program gets no completion, so the receive's slot in the ring
    /// is freed here.
    pub(crate) fn completed_without_qp(this: &Ref<Self, H>) {
        if let Some(ring) = &this.ring {
            ring.completing();
            ring.completed();
        }
        Self::completed(this);
    }

    fn serve(&self, polls_on: bool) -> Next {
        let Some(ring) = &self.ring else { return Next::Sleep };
        // The notification counts the receives in the queue, so those in the ring are posted without waiting for a completion.
        let mode = ServeMode { awaits: false, polls_on };
        let mut serving = ring.serve(mode);
        loop {
            match serving.next() {
                Step::Post(head, data) => {
                    let is_modified = self.modifications.load(Ordering::Relaxed) != 0;
                    let posted = if is_modified { Posted::NotNow } else { self.post_entry(head, data).into() };
                    serving.posted(posted);
                }
                // No queue pair has taken the receive, so no CQ gets its completion.
                Step::Complete(..) => serving.completed_unposted(true),
                Step::End(served) => return served.next,
            }
        }
    }

    /// Posts the receives in the ring, as far as the queue takes them.
    fn serve_all(&self, _passive: &Passive<'_>) {
        for _ in 0..MAX_SERVES {
            if self.serve(false) != Next::Run {
                return;
            }
        }
    }

    /// The handle is freed: closes the ring and cancels the pended requests.
    pub(crate) fn close(this: &Ref<Self, H>) {
        this.ring.iter().for_each(WorkRing::close);
        Timer::cancel(this);
        let events = this.ndk.context();
        events.ended.store(STATUS_CANCELLED.0, Ordering::SeqCst);
        events.pended.cancel(&events.waiting);
    }
}

impl<H: Host> RunDeferred<H::Platform> for Srq<H> {
    fn deferred(&self) -> &Deferred<H::Platform> {
        &self.deferred
    }

    fn run(this: &Ref<Self, H>, _: &Dispatch<'_>) {
        match this.serve(true) {
            Next::Run => Deferred::schedule(this),
            Next::Wait => {
                this.waiting.store(true, Ordering::Release);
                Timer::start(this, STALLED_MICROSECONDS);
            }
            Next::Sleep => {
                if this.ring.as_ref().is_some_and(|ring| !ring.sleep(false)) {
                    Deferred::schedule(this);
                }
            }
        }
    }
}

impl<H: Host> RunTimer<H::Platform> for Srq<H> {
    fn timer(&self) -> &Timer<H::Platform> {
        &self.timer
    }

    fn expired(this: &Ref<Self, H>) {
        Deferred::schedule(this);
    }
}

impl<H: Host> SrqNotified for SrqEvents<H> {
    fn notified(&self, status: NTSTATUS) {
        if status != STATUS_SUCCESS {
            self.ended.store(status.0, Ordering::SeqCst);
        }
        // Without a pended request the notification is lost, which does no harm: each SRQ_NOTIFY arms the SRQ again (NdkModifySrq), and the
        // SRQ notifies at once while it is below the threshold.
        self.pended.take_all(&self.waiting, |pended| pended.complete(status));
    }
}

/// While this value lives no receive is posted from the ring of an SRQ, so the result of [`WorkRing::fits`] holds.
struct Modification<'a, H: Host>(&'a Ref<Srq<H>, H>);

impl<'a, H: Host> Modification<'a, H> {
    fn begin(srq: &'a Ref<Srq<H>, H>) -> Self {
        srq.modifications.fetch_add(1, Ordering::Relaxed);
        Self(srq)
    }
}

impl<H: Host> Drop for Modification<'_, H> {
    fn drop(&mut self) {
        self.0.modifications.fetch_sub(1, Ordering::Relaxed);
        // Serves the receives that came during the modification.
        Deferred::schedule(self.0);
    }
}

pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    pended: &Ref<PendedRequests<H>, H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_CREATE_SRQ = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
    let pd: Arc<Pd<H>, _> = handles.get(input.PdHandle)?;
    if input.QueueDepth == 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let slot = handles.reserve()?;
    let events = shared(SrqEvents {
        pended: pended.clone(),
        pd: pd.clone(),
        handle: slot.handle(),
        waiting: Lines::new(&quota.pool)?,
        threshold: AtomicU32::new(input.NotifyThreshold),
        ended: AtomicI32::new(0),
        _charge: quota.charge::<Srq<H>, SrqEvents<H>>()?,
    })?;
    let size = SrqSize { depth: input.QueueDepth, sges: input.MaxRequestSge, threshold: input.NotifyThreshold };
    let affinity = affinity::preference(input.Affinity);
    let ndk = Owned::create_srq(&pd.ndk, &size, affinity, events, passive)?;
    let ring = match &memory {
        None => None,
        Some([memory]) => {
            let sizes = (input.QueueDepth, input.MaxRequestSge, 0);
            Some(UserWorkRing::open(host, quota, request, memory, SOFTNDK_RING_RECEIVE, sizes, passive)?.0)
        }
    };
    let srq = shared(Srq {
        ring,
        waiting: AtomicBool::new(false),
        modifications: AtomicU32::new(0),
        sges: input.MaxRequestSge,
        affinity,
        deferred: Deferred::default(),
        timer: Timer::default(),
        ndk,
        turn: SpinLock::<_, H::Platform>::new(()),
    })?;
    Deferred::initialize(&srq);
    Timer::initialize(&srq);
    if srq.ring.is_some() {
        // No doorbell rings before a run has set `Asleep`.
        Deferred::schedule(&srq);
    }
    descriptor(request, slot.fill(srq)?, input.CeMappingCount)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    Srq::close(&handles.remove::<Srq<H>>(input.Handle)?);
    Ok(0)
}

pub(crate) fn get_affinity<H: Host>(handles: &Handles<H>, host: &H, request: &mut H::Request) -> Reply {
    let srq: Arc<Srq<H>, _> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    affinity::reply(host, request, srq.affinity)
}

pub(crate) fn modify<H: Host>(
    handles: &Handles<H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_SRQ_MODIFY = input(request)?;
    let memory = mappings::<1>(request, input.CeMappingCount, input.CbMappingsOffset)?;
    room_for_descriptor(request, input.CeMappingCount)?;
    let srq: Arc<Srq<H>, _> = handles.get(input.SrqHandle)?;
    let larger = match (&memory, &srq.ring) {
        (None, _) => None,
        (Some([memory]), Some(ring)) => {
            let sizes = (input.QueueDepth, srq.sges, 0);
            Some((ring, UserWorkRing::open(host, quota, request, memory, SOFTNDK_RING_RECEIVE, sizes, passive)?.0))
        }
        (Some(_), None) => return Err(STATUS_INVALID_PARAMETER_MIX.into()),
    };
    srq.serve_all(passive);
    let still = Modification::begin(&srq);
    if larger.as_ref().is_some_and(|(ring, _)| !ring.fits(input.QueueDepth)) {
        return Err(STATUS_BUFFER_OVERFLOW.into());
    }
    srq.ndk.modify(input.QueueDepth, input.NotifyThreshold, passive)?;
    // The program's side moves the receives that were not posted from the old ring to the new one.
    let left = larger.map_or(0, |(ring, larger)| ring.replace(larger));
    drop(still);
    if input.NotifyThreshold != 0 {
        srq.ndk.context().threshold.store(input.NotifyThreshold, Ordering::Relaxed);
    }
    descriptor_with(request, input.SrqHandle, input.CeMappingCount, left.into())
}

/// SRQ_NOTIFY: pends until the SRQ has fewer receives than the threshold, or fails.
pub(crate) fn notify<H: Host>(handles: &Handles<H>, sent: Sent<H>, passive: &Passive<'_>) -> NTSTATUS {
    let prepare = || handles.get::<Srq<H>>(input::<ND_HANDLE>(&sent.request)?.Handle);
    let srq = match prepare() {
        Ok(srq) => srq,
        Err(status) => return finish(sent.request, Err(status.into())),
    };
    let events = srq.ndk.context();
    let id = match events.pended.insert(sent, &events.waiting, Event::SrqLow, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    let mut end = NTSTATUS(events.ended.load(Ordering::SeqCst));
    let threshold = events.threshold.load(Ordering::Relaxed);
    if end == STATUS_SUCCESS && threshold != 0 {
        // Receives in the ring count as posted, so they go to the queue first.
        srq.serve_all(passive);
        end = srq.ndk.modify(0, threshold, passive).err().unwrap_or(STATUS_SUCCESS);
    }
    if end != STATUS_SUCCESS
        && let Some(pended) = events.pended.take(id)
    {
        pended.complete(end);
    }
    STATUS_PENDING
}
