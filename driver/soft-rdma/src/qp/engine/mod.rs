//! How initiator requests are carried out: in order, one at a time, in bounded steps, without holding a lock while data moves.
//!
//! The engine of a queue pair is its deferred call, so it always runs at DISPATCH_LEVEL and never on a consumer's stack.
//! What the burst limit leaves over goes on in another DPC.

mod batch;
mod unready;

pub(crate) use batch::SMALL_SEND_BYTES;

use batch::Batch;
use platform::{Arc, Deferred, Dispatch, Platform, RunDeferred};

use crate::{
    Access, Error, Flags, Mapping, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, Remote, Status, limits,
    memory::region::{Invalidation, Range},
    memory::runs::{self, Memory},
    memory::window::Bind,
    qp::request::{Operation, Piece},
    qp::{Ended, Peer, Report},
    wire::{Frames, Wire},
};

/// Bytes of one step: what is copied between two looks at the state of both sides.
const STEP_BYTES: u32 = 256 * 1024;
/// Bytes of one run, so that a DPC stays near the 100 microseconds that the DPC watchdog documentation recommends.
const BURST_BYTES: u32 = 2 * STEP_BYTES;
/// Steps of one run.
const BURST_STEPS: u32 = 32;

/// What a step came to.
pub(crate) enum Step {
    /// Nothing to do until somebody schedules the engine.
    Idle,
    /// Bytes moved; go on.
    Moved(u32),
    /// Something is busy on another processor: look again in a new DPC.
    Busy,
}

/// What the engine does without the lock.
enum Job<P: Platform> {
    Send { invalidate: Option<u32>, solicited: bool },
    Read(Remote),
    Write(Remote),
    FastRegister(Arc<MemoryRegion<P>, P>, Option<Arc<Mapping<P>, P>>),
    Bind(Bind<P>),
    Invalidate(Arc<MemoryRegion<P>, P>),
    InvalidateWindow(Arc<MemoryWindow<P>, P>),
}

/// How a step left the oldest request.
pub(crate) enum Progress {
    /// `bytes` more are done.
    Bytes(u32),
    Complete,
    /// The peer was asked for the data.
    Asked,
    Failed(Error),
    /// The peer is not connected. If it is still connecting, it schedules the engine when it is.
    Waiting,
    /// The peer has no receive for the send: a post of one will schedule the engine, and the timer if the time for that is limited.
    NoReceive {
        limited: bool,
    },
    Busy,
}

/// The data of the oldest request that a step works on.
pub(crate) struct Part {
    pub(crate) length: u32,
    pub(crate) done: u64,
    local: Option<Piece>,
    inline: bool,
    /// The token to invalidate when all is read.
    invalidate: Option<u32>,
}

impl<P: Platform> RunDeferred<P> for QueuePair<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, _: &Dispatch<'_>) {
        let mut bytes = 0u32;
        for _ in 0..BURST_STEPS {
            let step = match Self::batch(this) {
                Batch::Idle => Step::Idle,
                Batch::Moved(bytes) => Step::Moved(bytes),
                Batch::Other => Self::step(this, None),
                Batch::Remote(wire) => return Wire::carry(&wire, this),
            };
            match step {
                Step::Idle => return,
                Step::Busy => break,
                Step::Moved(moved) => bytes = bytes.saturating_add(moved),
            }
            if bytes >= BURST_BYTES {
                break;
            }
        }
        Deferred::schedule(this);
    }
}

impl<P: Platform> QueuePair<P> {
    /// One step of the current request; data for another machine goes to `wire`.
    pub(crate) fn step(this: &Arc<Self, P>, wire: Option<&mut Frames<'_, P>>) -> Step {
        let mut inline_data;
        let mut inline: &[u8] = &[];
        let mut state = this.state.lock();
        if !state.is_open() || state.flushing_requests() {
            return Step::Idle;
        }
        let done = state.done;
        let Some((slot, &request)) = state.current() else { return Step::Idle };
        let flags = request.flags;
        if flags.contains(Flags::READ_FENCE) && state.open_reads > 0 {
            return Step::Idle;
        }
        let inlined = flags.contains(Flags::INLINE);
        let mut part = Part { length: request.data.length, done, local: None, inline: inlined, invalidate: None };
        let solicited = flags.contains(Flags::SOLICIT);
        let job = match state.operation_mut(slot) {
            // A small send that no row could take.
            None => Job::Send { invalidate: None, solicited },
            Some(Operation::Send(token)) => Job::Send { invalidate: *token, solicited },
            Some(Operation::Read(remote)) => Job::Read(*remote),
            Some(Operation::Write(remote)) => Job::Write(*remote),
            Some(Operation::FastRegister(region, mapping)) => Job::FastRegister(region.clone(), mapping.take()),
            Some(Operation::Bind(bind)) => Job::Bind(bind.clone()),
            Some(Operation::Invalidate(region)) => Job::Invalidate(region.clone()),
            Some(Operation::InvalidateWindow(window)) => Job::InvalidateWindow(window.clone()),
        };
        if part.inline {
            let bytes = state.inline_of(slot, part.length, this.sizes().inline_data).unwrap_or(&[]);
            inline_data = [0u8; limits::INLINE_DATA as usize];
            if let Some(copy) = inline_data.get_mut(..bytes.len()) {
                copy.copy_from_slice(bytes);
                inline = copy;
            }
        } else {
            let mut cursor = state.cursor;
            let sges = state.sges_of(slot, &request, this.sizes().sges).unwrap_or(&[]);
            part.local = cursor.piece(sges);
            part.invalidate = sges.first().filter(|_| flags.contains(Flags::LOCAL_INVALIDATE)).map(|sge| sge.token);
            state.cursor = cursor;
        }
        let open_reads = state.open_reads;
        let counts = wire.is_none() && matches!(job, Job::Send { .. } | Job::Read(_) | Job::Write(_));
        let peer = if wire.is_none() { state.peer.as_ref().and_then(Peer::here) } else { None };
        state.executing = true;
        drop(state);

        let progress = match job {
            Job::FastRegister(region, Some(mapping)) => Progress::of(region.install(mapping)),
            Job::FastRegister(_, None) => Progress::Failed(Error::InternalError),
            Job::Bind(bind) => Progress::of_invalidation(bind.run(this)),
            Job::Invalidate(region) => Progress::of_invalidation(region.invalidate()),
            Job::InvalidateWindow(window) => Progress::of_invalidation(window.invalidate()),
            Job::Send { .. } | Job::Read(_) | Job::Write(_) => match (wire, peer) {
                (Some(wire), _) => match job {
                    Job::Read(remote) => wire.read_request(part.length, remote, open_reads),
                    Job::Write(remote) => wire.write(this, &part, inline, remote),
                    Job::Send { invalidate, solicited } => wire.send(this, &part, inline, invalidate, solicited),
                    _ => Progress::Failed(Error::InternalError),
                },
                (None, None) => Progress::Waiting,
                (None, Some(peer)) => match job {
                    Job::Read(remote) => this.read(&peer, &part, remote),
                    Job::Write(remote) => this.write(&peer, &part, inline, remote),
                    Job::Send { invalidate, solicited } => {
                        Self::send(this, &peer, &part, inline, invalidate, solicited)
                    }
                    Job::FastRegister(..) | Job::Bind(_) | Job::Invalidate(_) | Job::InvalidateWindow(_) => {
                        Progress::Failed(Error::InternalError)
                    }
                },
            },
        };
        Self::apply(this, progress, counts)
    }

    /// `counts`: it is data within the device. What goes to another machine is counted where it is sent.
    fn apply(this: &Arc<Self, P>, progress: Progress, counts: bool) -> Step {
        let count = |bytes, requests| {
            if counts {
                this.pd.adapter().device().counters().moved(this.meter, bytes, requests);
            }
        };
        let mut state = this.state.lock();
        state.executing = false;
        let mut fatal = false;
        let mut finished = None;
        let step = match progress {
            Progress::Bytes(bytes) => {
                state.done = state.done.saturating_add(u64::from(bytes));
                state.cursor.advance(bytes);
                count(u64::from(bytes), 0);
                Step::Moved(bytes)
            }
            Progress::Complete | Progress::Asked => {
                state.carried_out(matches!(progress, Progress::Asked));
                finished = state.take_ended();
                fatal |= this.report(finished.as_ref(), Ok(()));
                count(0, 1);
                Step::Moved(0)
            }
            Progress::Failed(error) => {
                // Nothing is reported out of order. Behind what the peer has still to answer or to confirm a program's request fails again
                // when that has ended, or at once, and what is before it is cancelled. Others are cancelled with what is before them.
                fatal = state.sent == 0 || !state.confirms || !state.can_fail_again();
                if state.sent == 0 {
                    finished = state.finish_oldest();
                    this.report(finished.as_ref(), Err(error));
                } else if fatal && state.confirms {
                    state.refused = state.current().map(|(slot, _)| (slot, error));
                }
                Step::Idle
            }
            Progress::Waiting => Step::Idle,
            Progress::NoReceive { limited } => {
                Self::begin_wait(this, &mut state, limited);
                Step::Idle
            }
            Progress::Busy => Step::Busy,
        };
        let report = Self::unlock_and_flush_after(this, state, fatal);
        drop(finished);
        this.report_to_connector(report);
        step
    }

    /// Reports a request; true if its completion queue could not take it.
    fn report(&self, ended: Option<&Ended<P>>, status: Status) -> bool {
        ended.is_some_and(|ended| self.complete_request(ended, status).is_err())
    }

    /// Copies the next bytes of our data to a frame.
    pub(crate) fn copy_out(&self, to: &mut [u8], part: &Part, inline: &[u8]) -> Result<(), Error> {
        if let Some(piece) = part.local {
            let bytes = u32::try_from(to.len()).map_err(|_| Error::InternalError)?;
            return runs::copy_out(to, &self.local(piece, bytes, Access::empty())?);
        }
        let done = usize::try_from(part.done).map_err(|_| Error::InternalError)?;
        let next = inline.get(done..).and_then(|rest| rest.get(..to.len())).ok_or(Error::InternalError)?;
        to.copy_from_slice(next);
        Ok(())
    }

    /// Copies the next `bytes` of our data to `to`.
    fn copy_to(&self, to: &Memory<P>, part: &Part, inline: &[u8], bytes: u32) -> Result<(), Error> {
        if let Some(piece) = part.local {
            return runs::copy(to, &self.local(piece, bytes, Access::empty())?, u64::from(bytes));
        }
        let next = usize::try_from(part.done).ok().and_then(|done| inline.get(done..)?.get(..bytes as usize));
        runs::copy_inline(to, next.ok_or(Error::InternalError)?)
    }

    pub(crate) fn local(&self, piece: Piece, bytes: u32, right: Access) -> Result<Memory<P>, Error> {
        let range = Range { address: piece.address, length: u64::from(bytes) };
        ProtectionDomain::local(&self.pd, piece.token, range, right)
    }

    fn write(&self, peer: &Arc<Self, P>, part: &Part, inline: &[u8], remote: Remote) -> Progress {
        Self::move_remote(peer, part, remote, Access::REMOTE_WRITE, |target, bytes| {
            self.copy_to(target, part, inline, bytes)
        })
    }

    fn read(&self, peer: &Arc<Self, P>, part: &Part, remote: Remote) -> Progress {
        if part.left() == 0
            && let Some(token) = part.invalidate
        {
            return Progress::of_invalidation(ProtectionDomain::invalidate(&self.pd, token));
        }
        Self::move_remote(peer, part, remote, Access::REMOTE_READ, |source, bytes| {
            let piece = part.local.ok_or(Error::AccessViolation)?;
            runs::copy(&self.local(piece, bytes, Access::LOCAL_WRITE)?, source, u64::from(bytes))
        })
    }

    /// One step of a read or write: `copy` moves the bytes between the peer's memory and ours.
    fn move_remote(
        peer: &Arc<Self, P>,
        part: &Part,
        remote: Remote,
        right: Access,
        copy: impl FnOnce(&Memory<P>, u32) -> Result<(), Error>,
    ) -> Progress {
        if part.left() == 0 {
            return Progress::Complete;
        }
        if !peer.state.lock().begin_placing() {
            return Progress::Waiting;
        }
        let bytes = part.step_bytes();
        let moved = (|| {
            let address = remote.address.checked_add(part.done).ok_or(Error::AccessViolation)?;
            // The whole rest is checked, so that a range that is too short fails before its first byte.
            let range = Range { address, length: part.left() };
            let memory = Self::open_for_peer(peer, remote.token, range, right)?;
            copy(&memory, bytes)
        })();
        Self::end_placing(peer, Report::default());
        match moved {
            Ok(()) => Progress::Bytes(bytes),
            Err(error) => Progress::Failed(error),
        }
    }

    /// Ends an access to this side, with the `report` it led to.
    pub(crate) fn end_placing(this: &Arc<Self, P>, report: Report) {
        let mut state = this.state.lock();
        state.placing = false;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, report.fatal));
    }

    fn send(
        this: &Arc<Self, P>,
        peer: &Arc<Self, P>,
        part: &Part,
        inline: &[u8],
        invalidate: Option<u32>,
        solicited: bool,
    ) -> Progress {
        let target = match Self::begin_receive(peer, this, part) {
            Receiving::Into(target) => target,
            Receiving::Waiting => return Progress::Waiting,
            Receiving::None => return this.awaits_receive(peer),
            Receiving::TooSmall => return Self::fail_receive(peer, Error::BufferOverflow),
        };
        if part.left() == 0 {
            return Self::end_receive(peer, part.length, invalidate, solicited);
        }
        let Some(target) = target else { return Self::fail_receive(peer, Error::BufferOverflow) };
        let bytes = part.step_bytes().min(target.length);
        let to = match peer.local(target, bytes, Access::LOCAL_WRITE) {
            Ok(to) => to,
            Err(error) => return Self::fail_receive(peer, error),
        };
        let result = this.copy_to(&to, part, inline, bytes);
        drop(to);
        if let Some(receive) = &mut peer.state.lock().receive {
            receive.cursor.advance(bytes);
        }
        Self::end_placing(peer, Report::default());
        match result {
            Ok(()) => Progress::Bytes(bytes),
            Err(error) => Progress::Failed(error),
        }
    }

    /// Claims the receiver's oldest receive for one step of `sender`'s send.
    fn begin_receive(receiver: &Arc<Self, P>, sender: &Arc<Self, P>, part: &Part) -> Receiving {
        let mut state = receiver.state.lock();
        if !state.begin_placing() {
            return Receiving::Waiting;
        }
        if state.receive.is_none() {
            state.receive = receiver.next_receive(&mut state, sender);
        }
        match &mut state.receive {
            Some(receive) if receive.room < u64::from(part.length) => Receiving::TooSmall,
            Some(receive) => Receiving::Into(receive.cursor.piece(receive.sges.as_slice())),
            None => {
                drop(state);
                Self::end_placing(receiver, Report::default());
                Receiving::None
            }
        }
    }

    /// The receive cannot take the data: it completes with `error`; the sender learns that its data was not taken.
    pub(crate) fn fail_receive(receiver: &Arc<Self, P>, error: Error) -> Progress {
        if let Some(receive) = receiver.state.lock().receive.take() {
            // The connection ends in any case, also if the queue is dead.
            let _queue_may_be_dead = receiver.complete_receive(&receive, Err(error), 0, None, false);
        }
        Self::end_placing(receiver, Report::default());
        Progress::Failed(Error::DataError)
    }

    /// All data is placed: invalidates what the sender asked for, then reports the receive.
    pub(crate) fn end_receive(
        receiver: &Arc<Self, P>,
        length: u32,
        invalidate: Option<u32>,
        solicited: bool,
    ) -> Progress {
        let invalidation =
            invalidate.map_or(Ok(Invalidation::Done), |token| Self::invalidate_for_peer(receiver, token));
        let mut report = Report::default();
        let progress = match invalidation {
            Ok(Invalidation::Done) => {
                if let Some(receive) = receiver.state.lock().receive.take() {
                    let reported = receiver.complete_receive(&receive, Ok(()), length, invalidate, solicited);
                    report.fatal = reported.is_err();
                }
                Progress::Complete
            }
            Ok(Invalidation::Busy) => Progress::Busy,
            // NDK_FN_SEND_AND_INVALIDATE: the receiving provider aborts the connection.
            Err(_) => Progress::Failed(Error::DataError),
        };
        Self::end_placing(receiver, report);
        progress
    }
}

/// What a send found on the other side.
enum Receiving {
    /// The part of the receive to fill next; none once it is full.
    Into(Option<Piece>),
    /// No connection yet; the sender will be scheduled.
    Waiting,
    /// No receive; the sender will be scheduled.
    None,
    /// The receive has less room than the send has bytes.
    TooSmall,
}

impl Progress {
    fn of(result: Status) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Complete)
    }

    fn of_invalidation(result: Result<Invalidation, Error>) -> Self {
        match result {
            Ok(Invalidation::Done) => Self::Complete,
            Ok(Invalidation::Busy) => Self::Busy,
            Err(error) => Self::Failed(error),
        }
    }
}

impl Part {
    pub(crate) fn left(&self) -> u64 {
        u64::from(self.length).saturating_sub(self.done)
    }

    /// How much of the current piece one step moves.
    pub(crate) fn step_bytes(&self) -> u32 {
        let left = self.left();
        let piece = if self.inline { self.length } else { self.local.map_or(0, |piece| piece.length) };
        let bytes = piece.min(STEP_BYTES);
        u32::try_from(left).map_or(bytes, |left| bytes.min(left))
    }
}
