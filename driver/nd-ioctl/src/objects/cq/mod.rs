//! Completion queues: what is of one, and its notifications.

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

/// Results that are fetched with the lock held once.
const BURST: usize = 16;
/// Handles that one run of the deferred call looks through for queue pairs.
const HANDLES: u32 = 64;

pub(crate) struct Cq<H: Host> {
    /// Before the rest, so that its memory is unlocked while there still is an open adapter, which a cleanup waits for.
    ring: Option<UserCqRing<H>>,
    /// What it was made with.
    pub(crate) affinity: Option<GROUP_AFFINITY>,
    /// Fills the ring.
    deferred: Deferred<H::Platform>,
    /// When it has ended: the first handle that may be that of a queue pair which was not told yet.
    next_to_notify: AtomicU32,
    pub(crate) ndk: Owned<NDK_CQ, CqEvents<H>, H::Platform>,
    /// Freed queue pairs that report nothing more than what is in it, oldest first.
    closed: SpinLock<Option<Chain>, H::Platform>,
    /// NdkArmCq and NdkGetCqResultsEx must not overlap on one CQ (NDKPI completion handling requirements).
    turn: SpinLock<(), H::Platform>,
}

/// What the notifications of a CQ need.
pub(crate) struct CqEvents<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    /// The table that has the handles of its queue pairs.
    handles: Ref<Handles<H>, H>,
    adapter: Ref<Adapter<H::Platform>, H>,
    waiting: Waiting<H>,
    /// Set when the CQ has been made; for arming it from a notification.
    cq: BackRef<Cq<H>, H>,
    /// Notifications that have come.
    notified: AtomicU64,
    /// The last of them that a request was told of, or whose completions have all been polled. If one after it has come, which found
    /// nobody waiting (an arm can't be taken back), the next request is completed at once: the provider need not notify again for what
    /// was there then.
    delivered: AtomicU64,
    /// Why there will be no notification any more; STATUS_SUCCESS: there will.
    ended: AtomicI32,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Cq<H> {
    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        &self.ndk.context().adapter
    }

    /// The requests that wait for it.
    pub(crate) fn waiting(&self) -> &Waiting<H> {
        &self.ndk.context().waiting
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// There will be no completions any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ndk.context().ended.load(Ordering::SeqCst) != STATUS_SUCCESS.0
    }

    /// Has the rings of its queue pairs looked at, which may await completions. A part of them in each run; true: there are more.
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

    /// A doorbell: there is room in the ring.
    pub(crate) fn wake(this: &Ref<Self, H>) {
        if let Some(ring) = &this.ring {
            ring.wake();
            Deferred::schedule(this);
        }
    }

    /// Reports a request that never was posted; false: not now. Callable with the lock of the request's ring held.
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
        // Of one that has ended nobody takes anything.
        let completed = this.has_ended() || this.ring.as_ref().is_none_or(|ring| ring.push(completion, true));
        Deferred::schedule(this);
        completed
    }

    /// The NDK queue pair of a handle is closed.
    pub(crate) fn queue_pair_closed(this: &Ref<Self, H>, handle: u64) {
        let mut closed = this.closed.lock();
        let was_freed = this.ndk.context().handles.append_freed(&mut closed, handle);
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
    /// Completes the requests that wait for a notification, which has come. If there are none, it is for the next request.
    fn offer(&self) {
        // First: a request that comes in between must not wait for what was notified already.
        let number = self.notified.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        let pended = &self.pended;
        let end = pended.end();
        if let Some(first) = pended.take_first(&self.waiting, &[Event::Completion], end) {
            // Before it ends: its user may ask for the next notification then.
            self.set_delivered(number);
            first.succeed();
            pended.take_until(&self.waiting, &[Event::Completion], end, Pended::succeed);
        }
    }

    /// The number of the last notification, if nobody was told of it.
    fn undelivered(&self) -> Option<u64> {
        let notified = self.notified.load(Ordering::SeqCst);
        (notified > self.delivered.load(Ordering::SeqCst)).then_some(notified)
    }

    /// A request is told of this notification, or nothing is left to be told.
    fn set_delivered(&self, number: u64) {
        self.delivered.fetch_max(number, Ordering::SeqCst);
    }

    /// There will be no notification any more.
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
        // This notification used up the arm of those who wait for errors only (merge table of NdkArmCq).
        if let Some(cq) = cq.filter(|_| self.pended.any(&self.waiting, Event::CqError)) {
            cq.arm(ND_CQ_NOTIFY_ERRORS);
        }
    }
}
