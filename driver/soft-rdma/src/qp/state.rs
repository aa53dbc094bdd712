//! The part of a queue pair that its lock protects: the connection, and the requests and receives.

use platform::{Arc, Platform, Slice, Weak};

use super::{InitiatorSizes, QueuePair};
use crate::{
    Connector, Error, Flags, OperationKind, Sge,
    memory::runs,
    qp::receive_queue::ReceiveQueue,
    qp::request::{CurrentReceive, Cursor, InitiatorRequest, Operation},
    ring::Ring,
    wire::Wire,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpState {
    /// Never connected.
    Idle,
    /// A connector is connecting the queue pair.
    Connecting,
    Connected,
    /// The peer is gone. Outstanding requests and receives wait until the consumer flushes, disconnects or closes.
    PeerGone,
    /// Disconnected by this side, or by an error: everything is flushed, and the queue pair cannot be connected again. Comments call it dead.
    Error,
}

/// How far a request is with its point for fault rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointState {
    /// It has not passed the point.
    Before,
    /// The engine may carry it out.
    Passed,
    /// It ends with this error.
    Fails(Error),
    /// It waits for the time in `delay_left`, of which the timer ends a second at a time.
    Delayed,
    /// It waits likewise, when the timer has expired that runs for an earlier wait.
    DelayedBehindTimer,
    /// It waits until it is flushed, or no rule is for its point.
    Stalled,
}

/// A request that has ended, and its operation. The operation is dropped without a lock, as it may hold the last reference to a region.
pub(crate) type EndedRequest<P> = (InitiatorRequest, Option<Operation<P>>);

/// The other side of the connection.
pub(crate) enum PeerQp<P: Platform> {
    /// A queue pair of this device. Its engine places the data that it sends.
    Local(Weak<QueuePair<P>, P>),
    /// A queue pair of another machine. The engine of this side's queue pair, the second field, places what the wire receives.
    Remote(Arc<Wire<P>, P>, Weak<QueuePair<P>, P>),
}

impl<P: Platform> PeerQp<P> {
    /// The queue pair whose engine places what the peer sends.
    fn sender(&self) -> &Weak<QueuePair<P>, P> {
        let (Self::Local(engine) | Self::Remote(_, engine)) = self;
        engine
    }

    /// The peer, if it is a queue pair of this device.
    pub(crate) fn local(&self) -> Option<Arc<QueuePair<P>, P>> {
        match self {
            Self::Local(peer) => peer.upgrade(),
            Self::Remote(..) => None,
        }
    }
}

/// The state under the lock, in the order that [`QueuePair`] explains.
#[repr(C)]
pub(crate) struct LockedQp<P: Platform> {
    pub(crate) qp_state: QpState,
    /// The agreed outbound read limit is not 0. A wire keeps the limit (`TxStream::reads`); within the device one read runs at a time.
    pub(super) may_read: bool,
    /// The engine works on requests, or places the response to a read, without the lock.
    pub(crate) executing: bool,
    /// An engine accesses this side's memory for the peer without the lock: the peer's engine, or over a wire this side's.
    pub(crate) placing: bool,
    pub(super) flush_receive: bool,
    /// No data may move: a half-done message was flushed, a request has failed, or a completion queue has overrun. The connector then
    /// aborts the connection, unless the connection is ending already.
    pub(crate) broken: bool,
    /// The engine that places the peer's sends waits for a receive, or for this side to be connected.
    pub(crate) sender_waits: bool,
    /// The current request is a send that waits for a receive of the peer.
    pub(crate) awaits_receive: bool,
    pub(crate) receive_queue: Option<ReceiveQueue<P>>,
    pub(crate) initiator_queue: Ring<InitiatorRequest, P>,
    pub(crate) peer: Option<PeerQp<P>>,
    /// Number of the oldest requests that are carried out and not reported. The oldest of them awaits the peer's response
    /// or confirmation. 0 within the device.
    pub(crate) outstanding: usize,
    /// Number of reads among `outstanding` whose response is due.
    pub(crate) open_reads: u32,
    /// How far the current request is with its point for fault rules.
    pub(crate) point: PointState,
    /// The current request, behind `outstanding`: its bytes that are done, and the place in its SGEs behind them.
    pub(crate) done: u64,
    pub(crate) cursor: Cursor,
    /// Number of the oldest requests that a flush has still to cancel.
    pub(super) flush_requests: usize,
    /// Number of the oldest receives in the queue that a flush has still to cancel. The flush cancels `receive` before them.
    pub(super) flush_receives: usize,
    /// The receive that the peer's send is being placed into. A batch only checks whether there is one.
    pub(crate) receive: Option<CurrentReceive>,
    pub(crate) sges: Slice<Sge, P>,
    operations: Slice<Option<Operation<P>>, P>,
    inline: Slice<u8, P>,
    pub(crate) connector: Option<Weak<Connector<P>, P>>,
    /// The slot of the request that the peer's Terminate has refused, or that failed here behind `outstanding`, and the error with which that request
    /// ends.
    pub(crate) failed_request: Option<(usize, Error)>,
    /// Seconds that the current send may still wait for a receive, if its wait is limited.
    pub(crate) wait_left: u32,
    /// Microseconds that a fault rule has the current request wait yet.
    pub(crate) delay_left: u32,
    /// The timer runs. It ends a second of the current wait, or the rest of a second that began in an earlier wait.
    pub(crate) timer_runs: bool,
    /// A send or write that is not silent ends when the peer has placed it: the consumer is a program, and the peer serves reads.
    pub(crate) confirms: bool,
    /// A request that awaits confirmation is carried out, and no read that would confirm it was sent after it.
    pub(crate) unconfirmed: bool,
    /// Number of the oldest requests that the response to the wire's zero-length read confirms.
    pub(crate) to_confirm: usize,
}

impl<P: Platform> LockedQp<P> {
    /// The state before the first connect. The caller has checked the sizes.
    pub(super) fn new(sizes: &InitiatorSizes, receive_queue: Option<ReceiveQueue<P>>) -> Result<Self, Error> {
        let depth = sizes.depth as usize;
        let slots = |per_request: u32| depth.checked_mul(per_request as usize).ok_or(Error::InvalidParameter);
        Ok(Self {
            qp_state: QpState::Idle,
            peer: None,
            connector: None,
            outstanding: 0,
            open_reads: 0,
            may_read: false,
            initiator_queue: Ring::new(depth, InitiatorRequest::default())?,
            operations: Slice::from_fn(depth, |_| None)?,
            sges: Slice::filled(slots(sizes.sges)?, Sge::default())?,
            inline: Slice::filled(slots(sizes.inline_data)?, 0)?,
            done: 0,
            cursor: Cursor::default(),
            executing: false,
            flush_requests: 0,
            receive_queue,
            receive: None,
            placing: false,
            flush_receives: 0,
            flush_receive: false,
            broken: false,
            sender_waits: false,
            awaits_receive: false,
            failed_request: None,
            point: PointState::Before,
            delay_left: 0,
            wait_left: 0,
            timer_runs: false,
            confirms: false,
            unconfirmed: false,
            to_confirm: 0,
        })
    }

    /// Bytes of the pool that the initiator queue takes.
    pub(super) fn pool_bytes(sizes: &InitiatorSizes) -> u64 {
        let depth = sizes.depth as usize;
        let slots = |per_request: u32| depth.saturating_mul(per_request as usize);
        Ring::<InitiatorRequest, P>::pool_bytes(depth)
            .saturating_add(Slice::<Option<Operation<P>>, P>::pool_bytes(depth))
            .saturating_add(Slice::<Sge, P>::pool_bytes(slots(sizes.sges)))
            .saturating_add(Slice::<u8, P>::pool_bytes(slots(sizes.inline_data)))
    }

    /// Checks that the connection allows a request of this kind, and that the queue has room.
    #[inline]
    pub(super) fn may_post(&self, kind: OperationKind) -> Result<(), Error> {
        if kind == OperationKind::Read && !self.may_read {
            return Err(Error::InvalidDeviceRequest);
        }
        if self.initiator_queue.is_full() { Err(Error::QueueFull) } else { Ok(()) }
    }

    /// Appends a request, for which there is room.
    pub(super) fn enqueue(
        &mut self,
        sizes: &InitiatorSizes,
        sges: &[Sge],
        request: InitiatorRequest,
        operation: &mut Option<Operation<P>>,
    ) -> Result<(), Error> {
        let slot = self.initiator_queue.next_slot();
        let stored = if request.flags.contains(Flags::INLINE) {
            self.store_inline(slot, sizes, sges, request.data.length)
        } else {
            self.store_sges(slot, sizes, sges)
        };
        stored.ok_or(Error::AccessViolation)?;
        if let Some(Operation::Bind(bind)) = operation {
            bind.announce();
        }
        // The place is empty: `finish_oldest` has taken the operation of the last request in this slot.
        core::mem::swap(self.operations.get_mut(slot).ok_or(Error::InternalError)?, operation);
        self.initiator_queue.push(request)
    }

    fn store_sges(&mut self, slot: usize, sizes: &InitiatorSizes, sges: &[Sge]) -> Option<()> {
        let first = slot.checked_mul(sizes.sges as usize)?;
        let places = self.sges.get_mut(first..first.checked_add(sges.len())?)?;
        // Mostly one SGE, for which a loop is faster than the call of a copy.
        places.iter_mut().zip(sges).for_each(|(place, sge)| *place = *sge);
        Some(())
    }

    /// Copies inline data. `None` also if the list no longer adds up to `length` bytes: the list is the consumer's memory, which may change at any
    /// time.
    fn store_inline(&mut self, slot: usize, sizes: &InitiatorSizes, sges: &[Sge], length: u32) -> Option<()> {
        let first = slot.checked_mul(sizes.inline_data as usize)?;
        let mut free = self.inline.get_mut(first..first.checked_add(length as usize)?)?;
        for Sge { address, length, .. } in sges.iter().copied().filter(|sge| sge.length > 0) {
            let (place, rest) = free.split_at_mut_checked(length as usize)?;
            runs::read_inline(place, address).ok()?;
            free = rest;
        }
        free.is_empty().then_some(())
    }

    /// The SGEs of the request in `slot`.
    pub(crate) fn sges_of<'a>(
        &'a self,
        slot: usize,
        request: &'a InitiatorRequest,
        per_request: u32,
    ) -> Option<&'a [Sge]> {
        if request.small {
            return Some(core::slice::from_ref(&request.data));
        }
        let first = slot.checked_mul(per_request as usize)?;
        self.sges.get(first..first.checked_add(usize::from(request.sges))?)
    }

    /// The inline bytes of the request in `slot`.
    pub(crate) fn inline_of(&self, slot: usize, length: u32, per_request: u32) -> Option<&[u8]> {
        let first = slot.checked_mul(per_request as usize)?;
        self.inline.get(first..first.checked_add(length as usize)?)
    }

    /// Whether data may move, in either direction.
    pub(crate) fn is_open(&self) -> bool {
        self.qp_state == QpState::Connected && !self.broken
    }

    /// Claims this side's memory for an access of an engine, until `end_placing`. False: there is no connection yet, or it has ended.
    pub(crate) fn begin_placing(&mut self) -> bool {
        self.placing = self.is_open();
        self.sender_waits |= self.qp_state == QpState::Connecting;
        self.placing
    }

    /// Notes that the `count` oldest receives were taken from the queue pair's own queue.
    pub(crate) fn receives_taken(&mut self, count: usize) {
        // If a flush is under way, it still counts these receives among those to cancel.
        self.flush_receives = self.flush_receives.saturating_sub(count);
    }

    /// The kind of the request in `slot`.
    pub(crate) fn kind_of(&self, slot: usize) -> OperationKind {
        self.operations.get(slot).and_then(Option::as_ref).map_or(OperationKind::Send, Operation::kind)
    }

    /// The operation of the request in `slot`; `None` for a small send.
    pub(crate) fn operation_mut(&mut self, slot: usize) -> Option<&mut Operation<P>> {
        self.operations.get_mut(slot)?.as_mut()
    }

    /// Removes the `count` oldest requests, which are small sends that have ended.
    pub(crate) fn sends_done(&mut self, count: usize) {
        self.restart();
        self.flush_requests = self.flush_requests.saturating_sub(count);
        self.initiator_queue.skip(count);
    }

    /// The request that is being carried out or is next, and its slot.
    pub(crate) fn current(&self) -> Option<(usize, &InitiatorRequest)> {
        self.initiator_queue.nth(self.outstanding)
    }

    /// Whether there may be something to send: a request, or a read by which the peer confirms earlier ones.
    pub(crate) fn has_to_send(&self) -> bool {
        self.unconfirmed || self.current().is_some()
    }

    /// The current request is carried out. `awaits_response`: the request is a read over the wire.
    pub(crate) fn carried_out(&mut self, awaits_response: bool) {
        let current = self.current().map(|(slot, request)| (slot, request.flags));
        self.unconfirmed |= current.is_some_and(|(slot, flags)| self.awaits_confirmation(slot, flags));
        self.unconfirmed &= !awaits_response;
        self.restart();
        self.outstanding = self.outstanding.saturating_add(1);
        self.open_reads = self.open_reads.saturating_add(u32::from(awaits_response));
    }

    /// A zero-length read was sent behind all requests that are carried out.
    pub(crate) fn await_confirmation(&mut self) {
        self.unconfirmed = false;
        self.to_confirm = self.outstanding;
    }

    /// Whether the request in `slot`, which is carried out, ends only when the peer confirms it.
    fn awaits_confirmation(&mut self, slot: usize, flags: Flags) -> bool {
        self.confirms && !flags.contains(Flags::SILENT_SUCCESS) && self.sends_data(slot)
    }

    /// Whether the request in `slot` is a send or a write.
    fn sends_data(&mut self, slot: usize) -> bool {
        matches!(self.operation_mut(slot), None | Some(Operation::Send(_) | Operation::Write(_)))
    }

    /// Whether the oldest request is a read.
    pub(crate) fn oldest_is_read(&mut self) -> bool {
        let oldest = self.initiator_queue.front().map(|(slot, _)| slot);
        oldest.is_some_and(|slot| matches!(self.operation_mut(slot), Some(Operation::Read(_))))
    }

    /// Whether the current request, which has failed behind others that await the peer, can be tried again when these have ended: no part of it was
    /// sent, and it is a send or a write, whose failed trial changes nothing here.
    pub(crate) fn can_fail_again(&mut self) -> bool {
        let current = self.current().map(|(slot, _)| slot);
        self.done == 0 && current.is_some_and(|slot| self.sends_data(slot))
    }

    /// Removes the oldest request, if it is carried out and awaits nothing.
    pub(crate) fn take_ended(&mut self) -> Option<EndedRequest<P>> {
        let (slot, request) = self.initiator_queue.front().filter(|_| self.outstanding > 0)?;
        let flags = request.flags;
        let awaits_response = self.open_reads > 0 && self.oldest_is_read();
        let failed = self.failed_request.is_some_and(|(failed, _)| failed == slot);
        if awaits_response || failed || self.awaits_confirmation(slot, flags) { None } else { self.finish_oldest() }
    }

    /// Removes the oldest request, which has ended or is cancelled.
    pub(crate) fn finish_oldest(&mut self) -> Option<EndedRequest<P>> {
        match self.outstanding.checked_sub(1) {
            None => self.restart(),
            Some(outstanding) => {
                self.outstanding = outstanding;
                // Only a flush removes a read without its response, and it removes all requests.
                self.open_reads = if outstanding == 0 { 0 } else { self.open_reads };
                self.to_confirm = self.to_confirm.saturating_sub(1);
            }
        }
        self.flush_requests = self.flush_requests.saturating_sub(1);
        let (slot, &request) = self.initiator_queue.front()?;
        let operation = self.operations.get_mut(slot).and_then(Option::take);
        self.initiator_queue.skip(1);
        Some((request, operation))
    }

    /// The error with which a flush ends the oldest request: the error in `failed_request` if that has the request's slot, else `Canceled`.
    pub(super) fn take_flush_status(&mut self) -> Error {
        let oldest = self.initiator_queue.front().map(|(slot, _)| slot);
        self.failed_request.take_if(|(slot, _)| Some(*slot) == oldest).map_or(Error::Canceled, |(_, error)| error)
    }

    /// The current request begins at its first byte.
    pub(crate) fn restart(&mut self) {
        self.done = 0;
        self.cursor = Cursor::default();
        self.awaits_receive = false;
        self.point = PointState::Before;
    }

    /// The queue pair whose engine waits for a receive or for a connection, if any. The caller schedules it.
    pub(super) fn take_waiting_sender(&mut self) -> Option<Weak<QueuePair<P>, P>> {
        // Without a peer the flag stays set, for `connect`. Mostly the flag is not set: then the reference count, which the peer's processor writes
        // too, is not touched.
        let peer = self.peer.as_ref().filter(|_| self.sender_waits)?.sender().clone();
        self.sender_waits = false;
        Some(peer)
    }
}
