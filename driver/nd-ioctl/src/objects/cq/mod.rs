//! Completion queues: the state of a CQ, and its notifications.

mod fill;
mod requests;

pub(crate) use requests::{create, free, get_affinity, moderate, modify, notify, poll};

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use ndk_abi::nd_ioctl::ND_CQ_NOTIFY_ERRORS;
use ndk_abi::ndkpi::{NDK_CQ, NdkOperationTypeSend};
use ndk_abi::softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE};
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_SUCCESS};
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Charge, Deferred, Dispatch, RunDeferred, SpinLock, Weak};

use crate::objects::qp::Qp;
use crate::objects::{Handles, PendedRequests};
use crate::rings::user_ring::UserCqRing;
use crate::tables::handles::Chain;
use crate::tables::pended::{Event, Pended};
use crate::tables::sent::Waiting;
use crate::{BackRef, Host, Ref};
use ndk_consumer::{Adapter, Notified, Owned};

/// The most results that are polled in one hold of the turn.
const BURST: usize = 16;
/// The number of handles that one run of the deferred call searches for queue pairs.
const HANDLES: u32 = 64;

pub(crate) struct Cq<H: Host> {
    /// Dropped first: the ring's memory is unlocked before the last reference to the adapter goes, for which a cleanup waits.
    ring: Option<UserCqRing<H>>,
    /// The affinity of the create request.
    pub(crate) affinity: Option<GROUP_AFFINITY>,
    /// Its run fills the ring and completes pended requests.
    deferred: Deferred<H::Platform>,
    /// After the end of the CQ: the index of the handle at which `notify_queue_pairs` continues.
    next_to_notify: AtomicU32,
    pub(crate) ndk: Owned<NDK_CQ, CqEvents<H>, H::Platform>,
    /// Freed and closed queue pairs whose last completions may still be in the CQ, oldest first.
    closed: SpinLock<Option<Chain>, H::Platform>,
    /// NdkArmCq and NdkGetCqResultsEx must not overlap on one CQ (NDKPI completion handling requirements).
    turn: SpinLock<(), H::Platform>,
}

/// The context of a CQ's notifications.
pub(crate) struct CqEvents<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    /// The table that has the handles of its queue pairs.
    handles: Ref<Handles<H>, H>,
    adapter: Ref<Adapter<H::Platform>, H>,
    waiting: Waiting<H>,
    /// The CQ, set by its create request. A notification arms it or schedules its deferred call.
    cq: BackRef<Cq<H>, H>,
    /// The number of notifications that have come.
    notified: AtomicU64,
    /// The number of the last notification that completed a request, or whose completions have all been polled. If a later one has come,
    /// when no request waited (an arm cannot be taken back), the next request completes at once: the provider need not notify again for the
    /// completions of that time.
    delivered: AtomicU64,
    /// The status with which the CQ ended; STATUS_SUCCESS: it has not ended.
    ended: AtomicI32,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Cq<H> {
    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        &self.ndk.context().adapter
    }

    /// The pended CQ_NOTIFYs.
    pub(crate) fn waiting(&self) -> &Waiting<H> {
        &self.ndk.context().waiting
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether the CQ has failed or its handle is freed. Its queue pairs do not await completions then.
    pub(crate) fn has_ended(&self) -> bool {
        self.ndk.context().ended.load(Ordering::SeqCst) != STATUS_SUCCESS.0
    }

    /// Schedules runs of the CQ's queue pairs, whose rings may await completions. One call searches `HANDLES` handles; true: there are
    /// more.
    fn notify_queue_pairs(this: &Ref<Self, H>) -> bool {
        let first = this.next_to_notify.load(Ordering::Relaxed);
        let end = first.saturating_add(HANDLES);
        for index in first..end {
            match this.ndk.context().handles.at::<Qp<H>>(index) {
                Some(Some(qp)) if qp.uses(this) => Qp::schedule_poll(&qp),
                Some(_) => {}
                None => {
                    this.next_to_notify.store(index, Ordering::Relaxed);
                    return false;
                }
            }
        }
        this.next_to_notify.store(end, Ordering::Relaxed);
        true
    }

    /// A doorbell: the program has freed slots of the ring.
    pub(crate) fn wake(this: &Ref<Self, H>) {
        if let Some(ring) = &this.ring {
            ring.wake();
            Deferred::schedule(this);
        }
    }

    /// Writes the completion of a request that was never posted into the ring. False: the ring has no room. Callable with the lock of the
    /// request's ring held.
    pub(crate) fn complete_unposted(
        this: &Ref<Self, H>,
        qp_context: u64,
        head: &SOFTNDK_POST,
        status: NTSTATUS,
    ) -> bool {
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
        // A program gets no completions of a CQ that has ended.
        let completed = this.has_ended() || this.ring.as_ref().is_none_or(|ring| ring.push(completion, true));
        Deferred::schedule(this);
        completed
    }

    /// The NDK queue pair of a handle is closed: no more completions of it get into the CQ.
    pub(crate) fn queue_pair_closed(this: &Ref<Self, H>, handle: u64) {
        let mut closed = this.closed.lock();
        let was_freed = this.ndk.context().handles.append_freed(&mut closed, handle);
        drop(closed);
        if was_freed {
            // The run frees the slot of the handle when it finds the CQ empty.
            Deferred::schedule(this);
        }
    }

    fn arm(&self, kind: u32) {
        let turn = self.turn.lock();
        self.ndk.arm(kind);
        drop(turn);
    }

    /// The handle is freed: cancels the pended requests.
    pub(crate) fn close(&self) {
        let events = self.ndk.context();
        events.ended.store(STATUS_CANCELLED.0, Ordering::SeqCst);
        events.pended.cancel(&events.waiting);
    }
}

impl<H: Host> Drop for Cq<H> {
    fn drop(&mut self) {
        let mut closed = self.closed.lock();
        if let Some(last) = closed.as_ref().map(Chain::last) {
            self.ndk.context().handles.forget_freed(&mut closed, last);
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
        this.notify(ring);
        let more_to_notify = this.has_ended() && Self::notify_queue_pairs(this);
        if more || more_to_notify {
            Deferred::schedule(this);
        }
    }
}

impl<H: Host> CqEvents<H> {
    /// A notification has come: completes the requests that wait for it. If none waits, the notification is left for the next request.
    fn offer(&self) {
        // Counted first: a request that is inserted after the search below must see the notification.
        let number = self.notified.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        let pended = &self.pended;
        let end = pended.end();
        if let Some(first) = pended.take_first(&self.waiting, &[Event::Completion], end) {
            // Before the request completes, as the program may ask for the next notification then.
            self.set_delivered(number);
            first.succeed();
            pended.take_until(&self.waiting, &[Event::Completion], end, Pended::succeed);
        }
    }

    /// The number of the last notification, if it completed no request.
    fn undelivered(&self) -> Option<u64> {
        let notified = self.notified.load(Ordering::SeqCst);
        (notified > self.delivered.load(Ordering::SeqCst)).then_some(notified)
    }

    /// A request completes for this notification, or all its completions have been polled.
    fn set_delivered(&self, number: u64) {
        self.delivered.fetch_max(number, Ordering::SeqCst);
    }

    /// The CQ has ended with `status`: completes the pended requests with it.
    fn end(&self, status: NTSTATUS) {
        self.ended.store(status.0, Ordering::SeqCst);
        self.pended.take_all(&self.waiting, |pended| pended.complete(status));
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
        self.offer();
        // The notification used up the arm, so the CQ is armed again for the requests that wait for errors only (merge table of NdkArmCq).
        if let Some(cq) = cq.filter(|_| self.pended.any(&self.waiting, Event::CqError)) {
            cq.arm(ND_CQ_NOTIFY_ERRORS);
        }
    }
}
