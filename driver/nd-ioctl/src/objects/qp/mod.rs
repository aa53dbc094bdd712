//! Queue pairs. [`post_entry()`] posts a request, by control code or from a ring: [`crate::rings::work_ring`].

mod post_entry;
mod requests;

pub(crate) use post_entry::{in_domain, post_entry};
pub(crate) use requests::{create, create_with_srq, flush, free};

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::ndkpi::{NDK_OPERATION_TYPE, NDK_QP, NdkOperationTypeReceive};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_MIX, STATUS_SUCCESS,
};
use platform::{Arc, Charge, Deferred, Dispatch, Passive, RunDeferred, RunTimer, SpinLock, Timer, Weak};

use crate::objects::Handles;
use crate::objects::connector::Connector;
use crate::objects::cq::Cq;
use crate::objects::pd::Pd;
use crate::objects::srq::Srq;
use crate::rings::ring_poll::{Awaited, Next, RingPoll, STALLED_MICROSECONDS};
use crate::rings::user_ring::UserWorkRing;
use crate::rings::work_ring::{MAX_SERVES, Posted, ServeMode, Step, WorkRing};
use crate::{Host, Ref, shared};
use ndk_consumer::{Adapter, Owned};

pub(crate) struct Qp<H: Host> {
    /// Dropped first: the rings' memory is unlocked before the last reference to the adapter goes, for which a cleanup waits.
    pub(crate) rings: Option<Rings<H>>,
    deferred: Deferred<H::Platform>,
    timer: Timer<H::Platform>,
    pub(crate) ndk: Owned<NDK_QP, Antecedents<H>, H::Platform>,
    /// Posts to one queue must not overlap (NDKPI work request posting requirements).
    pub(crate) initiator_turn: SpinLock<(), H::Platform>,
    /// As `initiator_turn`, for the receive queue.
    receive_turn: SpinLock<(), H::Platform>,
    /// The one connection that the queue pair serves.
    connection: SpinLock<Connection<H>, H::Platform>,
    /// The peer has disconnected.
    peer_gone: AtomicBool,
}

/// The connection of a queue pair, or that its handle is freed. One lock orders the two.
enum Connection<H: Host> {
    None,
    /// Established by this connector.
    Of(Weak<Connector<H>, H::Platform>),
    /// The handle is freed.
    Closed,
}

/// The rings of a queue pair.
pub(crate) struct Rings<H: Host> {
    /// `Context` of the ring of initiator requests, which becomes the `QueuePairContext` of all completions of the queue pair.
    pub(crate) queue_pair_context: u64,
    pub(crate) initiator: UserWorkRing<H>,
    /// `None`: its receives come from an SRQ.
    pub(crate) receive: Option<UserWorkRing<H>>,
    poll: RingPoll,
    /// The handles of the regions and windows that requests name.
    handles: Ref<Handles<H>, H>,
}

impl<H: Host> Rings<H> {
    fn new(
        handles: &Ref<Handles<H>, H>,
        queue_pair_context: u64,
        initiator: UserWorkRing<H>,
        receive: Option<UserWorkRing<H>>,
    ) -> Self {
        Self { queue_pair_context, initiator, receive, poll: RingPoll::new(), handles: handles.clone() }
    }

    fn each(&self) -> impl Iterator<Item = &UserWorkRing<H>> {
        [Some(&self.initiator), self.receive.as_ref()].into_iter().flatten()
    }
}

/// The objects that must outlive a QP.
pub(crate) struct Antecedents<H: Host> {
    pub(crate) pd: Ref<Pd<H>, H>,
    pub(crate) srq: Option<Ref<Srq<H>, H>>,
    receive_cq: Ref<Cq<H>, H>,
    initiator_cq: Ref<Cq<H>, H>,
    /// The handle of the queue pair.
    handle: u64,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Antecedents<H> {
    /// The CQ of the receives, or of the initiator requests.
    fn cq(&self, receives: bool) -> &Ref<Cq<H>, H> {
        if receives { &self.receive_cq } else { &self.initiator_cq }
    }

    /// The handle of the SRQ, if it has a ring.
    fn shared_ring(&self) -> Option<u64> {
        self.srq.as_ref().filter(|srq| srq.ring.is_some()).map(|srq| srq.handle())
    }

    /// Checks that both CQs have rings: only a ring takes the completion of a request that was never posted.
    fn have_rings(&self) -> Result<(), NTSTATUS> {
        if self.receive_cq.has_ring() && self.initiator_cq.has_ring() {
            Ok(())
        } else {
            Err(STATUS_INVALID_PARAMETER_MIX)
        }
    }
}

impl<H: Host> Drop for Antecedents<H> {
    /// Runs when the close of the NDK queue pair has completed, or when its create has failed.
    fn drop(&mut self) {
        if self.shared_ring().is_some() {
            Cq::queue_pair_closed(&self.receive_cq, self.handle);
        }
    }
}

impl<H: Host> Qp<H> {
    fn make(
        ndk: Owned<NDK_QP, Antecedents<H>, H::Platform>,
        rings: Option<Rings<H>>,
    ) -> Result<Ref<Self, H>, NTSTATUS> {
        let qp = shared(Self {
            rings,
            deferred: Deferred::default(),
            timer: Timer::default(),
            ndk,
            initiator_turn: SpinLock::<_, H::Platform>::new(()),
            receive_turn: SpinLock::<_, H::Platform>::new(()),
            connection: SpinLock::<_, H::Platform>::new(Connection::None),
            peer_gone: AtomicBool::new(false),
        })?;
        Deferred::initialize(&qp);
        Timer::initialize(&qp);
        if qp.rings.is_some() {
            // No doorbell rings before a run has set `Asleep`.
            Deferred::schedule(&qp);
        }
        Ok(qp)
    }

    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        self.ndk.context().pd.adapter()
    }

    /// The handle of the SRQ from whose ring its receives come.
    pub(crate) fn shared_ring(&self) -> Option<u64> {
        self.ndk.context().shared_ring()
    }

    /// The handle is freed: ends the connection (ndspi.md section 5, Disconnect) and cancels posted requests. The cancelling is done here
    /// as a connector may keep the QP open.
    pub(crate) fn close(this: &Ref<Self, H>) {
        if let Some(rings) = &this.rings {
            rings.each().for_each(WorkRing::close);
        }
        Timer::cancel(this);
        let connection = core::mem::replace(&mut *this.connection.lock(), Connection::Closed);
        if let Connection::Of(connector) = &connection
            && let Some(connector) = connector.upgrade()
        {
            connector.queue_pair_gone();
        }
        this.ndk.flush();
    }

    /// A doorbell: schedules a run that serves the rings.
    pub(crate) fn wake(this: &Ref<Self, H>) {
        if let Some(rings) = &this.rings {
            rings.each().for_each(WorkRing::wake);
            Deferred::schedule(this);
        }
    }

    /// A completion of this queue pair is about to be written into the ring of its CQ. If it is `counted`, the request's slot is freed, so
    /// a program that reads the completion finds room. A request with NDK_OP_FLAG_SILENT_SUCCESS, which completes only if it fails, is not
    /// counted: its slot was freed at the post.
    pub(crate) fn completing(&self, is_receive: bool, counted: bool, status: NTSTATUS) {
        let Some(rings) = &self.rings else { return };
        if status != STATUS_SUCCESS && status != STATUS_CANCELLED {
            // A request that failed has ended the connection.
            rings.initiator.end();
        }
        if counted && let Some(ring) = self.ring_of(is_receive) {
            ring.completing();
        }
    }

    /// The completion of [`Qp::completing`] is in the ring. `counted`: as for `completing`.
    pub(crate) fn completed(this: &Ref<Self, H>, is_receive: bool, counted: bool) {
        let Some(rings) = &this.rings else { return };
        if counted && let Some(ring) = this.ring_of(is_receive) {
            ring.completed();
        }
        if let Some(srq) = this.ndk.context().srq.as_ref().filter(|_| is_receive) {
            Srq::completed(srq);
        }
        if rings.poll.take_due() {
            Deferred::schedule(this);
        }
    }

    /// The ring from which the receives, or the initiator requests, come.
    fn ring_of(&self, is_receive: bool) -> Option<&UserWorkRing<H>> {
        let rings = self.rings.as_ref()?;
        match (is_receive, &self.ndk.context().srq) {
            (true, Some(srq)) => srq.ring.as_ref(),
            (true, None) => rings.receive.as_ref(),
            (false, _) => Some(&rings.initiator),
        }
    }

    /// A connector has established a connection with this queue pair: keeps a weak reference to it. False: the handle is freed, and the
    /// caller has to end the connection.
    pub(crate) fn establish(&self, connector: &Ref<Connector<H>, H>) -> bool {
        let mut connection = self.connection.lock();
        if matches!(*connection, Connection::Closed) {
            return false;
        }
        let before = core::mem::replace(&mut *connection, Connection::Of(Arc::downgrade(connector)));
        drop(connection);
        drop(before);
        true
    }

    /// Whether this connector has connected the queue pair.
    pub(crate) fn is_of(&self, connector: &Connector<H>) -> bool {
        let of = match &*self.connection.lock() {
            Connection::Of(of) => of.upgrade(),
            Connection::None | Connection::Closed => None,
        };
        of.is_some_and(|of| ptr::eq(Arc::as_ptr(&of), connector))
    }

    /// The connection is established; `reads`: its limit of outbound reads is not 0.
    pub(crate) fn connected(&self, reads: bool) {
        if let Some(rings) = &self.rings {
            rings.initiator.connected(reads);
        }
    }

    /// The peer has disconnected: cancels all requests, also receives, as existing programs expect (ndspi.md section 5).
    pub(crate) fn peer_gone(this: &Ref<Self, H>) {
        Self::disconnected(this);
        this.peer_gone.store(true, Ordering::Release);
        this.ndk.flush();
    }

    /// A request was posted by a control code: cancels it if the peer has disconnected.
    pub(crate) fn posted(&self) {
        // Either the request is in the queue when `peer_gone` flushes that, under the lock of the device's queue pair, or this load sees
        // its store.
        if self.peer_gone.load(Ordering::Acquire) {
            self.ndk.flush();
        }
    }

    /// The connection has ended: all requests in the rings complete unposted.
    pub(crate) fn disconnected(this: &Ref<Self, H>) {
        if let Some(rings) = &this.rings {
            rings.each().for_each(WorkRing::end);
            Deferred::schedule(this);
        }
    }

    /// Posts the initiator requests in the ring, as far as the queue takes them.
    pub(crate) fn post_all(this: &Ref<Self, H>, rings: &Rings<H>, _passive: &Passive<'_>) {
        for _ in 0..MAX_SERVES {
            if this.serve_ring(rings, &rings.initiator, false, false) != Next::Run {
                break;
            }
        }
        // The deferred call serves the requests that are left.
        Deferred::schedule(this);
    }

    fn serve(&self, polls_on: bool) -> Next {
        let Some(rings) = &self.rings else { return Next::Sleep };
        let serve = |ring, receives| self.serve_ring(rings, ring, receives, polls_on);
        let receive = rings.receive.as_ref().map_or(Next::Sleep, |ring| serve(ring, true));
        receive.max(serve(&rings.initiator, false))
    }

    fn serve_ring(&self, rings: &Rings<H>, ring: &UserWorkRing<H>, receives: bool, polls_on: bool) -> Next {
        let cq = self.ndk.context().cq(receives);
        // The last reference to an object that a request names, dropped after the lock of the ring is released. The loop stops at the first
        // one, and the next run continues.
        let mut last = None;
        let mut serving = ring.serve(ServeMode { awaits: !cq.has_ended(), polls_on });
        let served = loop {
            match serving.next() {
                Step::Post(head, data) => {
                    let kind = NDK_OPERATION_TYPE(head.Operation.cast_signed());
                    let posted = if (kind == NdkOperationTypeReceive) == receives {
                        post_entry(&rings.handles, self, head, data, &mut last).into()
                    } else {
                        Posted::Refused(STATUS_INVALID_PARAMETER)
                    };
                    serving.posted(posted);
                    if last.is_some() {
                        break serving.end(Next::Run);
                    }
                }
                Step::Complete(head, status) => {
                    serving.completed_unposted(Cq::complete_unposted(cq, rings.queue_pair_context, &head, status));
                }
                Step::End(served) => break served,
            }
        };
        drop(serving);
        if served.broken {
            self.ndk.flush();
        }
        served.next
    }

    /// Sets `Asleep` in each ring that awaits no completion. False: the caller has to schedule a run ([`WorkRing::sleep`]).
    fn sleep(&self, rings: &Rings<H>, _awaited: Awaited) -> bool {
        let sleeps = |ring: &UserWorkRing<H>, receives| ring.sleep(!self.ndk.context().cq(receives).has_ended());
        // Called for both rings, whatever the first returns: a program rings no doorbell for a ring whose `Asleep` is not set.
        let receive = rings.receive.as_ref().is_none_or(|ring| sleeps(ring, true));
        sleeps(&rings.initiator, false) && receive
    }

    /// Whether the queue pair reports to this CQ.
    pub(crate) fn uses(&self, cq: &Ref<Cq<H>, H>) -> bool {
        [true, false].into_iter().any(|receives| Arc::ptr_eq(self.ndk.context().cq(receives), cq))
    }

    /// Schedules a run that polls the rings, where no completion does.
    pub(crate) fn schedule_poll(this: &Ref<Self, H>) {
        if this.rings.is_some() {
            Deferred::schedule(this);
        }
    }
}

impl<H: Host> RunDeferred<H::Platform> for Qp<H> {
    fn deferred(&self) -> &Deferred<H::Platform> {
        &self.deferred
    }

    fn run(this: &Ref<Self, H>, _: &Dispatch<'_>) {
        let Some(rings) = &this.rings else { return };
        let next = this.serve(true);
        if next == Next::Run {
            return Deferred::schedule(this);
        }
        let awaited = rings.poll.await_completion();
        if next == Next::Wait {
            Timer::start(this, STALLED_MICROSECONDS);
        } else if !this.sleep(rings, awaited) {
            Deferred::schedule(this);
        }
    }
}

impl<H: Host> RunTimer<H::Platform> for Qp<H> {
    fn timer(&self) -> &Timer<H::Platform> {
        &self.timer
    }

    fn expired(this: &Ref<Self, H>) {
        Deferred::schedule(this);
    }
}
