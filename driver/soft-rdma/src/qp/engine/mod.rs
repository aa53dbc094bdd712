//! How initiator requests are carried out: in order, in bounded steps, without a lock while data moves.
//!
//! The engine of a queue pair is its deferred call. The engine runs at DISPATCH_LEVEL, in the driver never on a consumer's stack. (In a process a
//! post at PASSIVE_LEVEL may run the engine before the post returns: `driver/hosted`.) A run that reaches a limit queues another. `batch.rs` has
//! small sends, `local_carrier.rs` the copies within the device, `unready.rs` the wait for a receive, `faults.rs` the rules that fail requests on
//! purpose, `capture.rs` what a capture gets of the copies; over a wire, `Wire::run` calls [`QueuePair::step`].

mod batch;
mod capture;
mod faults;
mod local_carrier;
mod unready;

pub(crate) use batch::SMALL_SEND_BYTES;

use batch::BatchOutcome;
use local_carrier::LocalCarrier;
use platform::{Arc, Deferred, Dispatch, Platform, RunDeferred};

use crate::{
    Access, Error, Flags, Mapping, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, Remote, Status, limits,
    memory::region::{Invalidation, Range},
    memory::runs::{self, Memory},
    memory::window::Bind,
    qp::request::{Operation, Piece},
    qp::{EndedRequest, PointState},
    watch,
    wire::Wire,
};

/// Bytes that one step copies, at most, before the state of both sides is checked again.
const STEP_BYTES: u32 = 256 * 1024;
/// Bytes after which a run takes no further step, so that it stays near the 100 microseconds for a DPC that the documentation of the DPC
/// watchdog recommends.
const BURST_BYTES: u32 = 2 * STEP_BYTES;
/// Steps of one run, at most.
const BURST_STEPS: u32 = 32;

/// The result of a step.
pub(crate) enum StepOutcome {
    /// Nothing to do until the engine is scheduled.
    Idle,
    /// Bytes moved; there may be more to do.
    Moved(u32),
    /// An access on another processor must end first: the engine runs again.
    Busy,
}

/// What moves the data of requests: to the memory of a queue pair of this device ([`LocalCarrier`]), or into FPDUs for another
/// machine (`WireCarrier` of `wire`).
pub(crate) trait Carrier<P: Platform> {
    /// True: the engine counts the data. False: the wire counts what it sends and receives.
    const COUNTED: bool;

    /// Carries the next part of the data. The caller holds no lock.
    fn carry(&mut self, from: &Arc<QueuePair<P>, P>, data: &StepData, inline: &[u8], transfer: Transfer) -> Progress;
}

/// A request that transfers data.
#[derive(Clone, Copy)]
pub(crate) enum Transfer {
    Send { invalidate: Option<u32>, solicited: bool },
    Read(Remote),
    Write(Remote),
}

/// What a step does without the lock.
enum Job<P: Platform> {
    Transfer(Transfer),
    FastRegister(Arc<MemoryRegion<P>, P>, Option<Arc<Mapping<P>, P>>),
    Bind(Bind<P>),
    Invalidate(Arc<MemoryRegion<P>, P>),
    InvalidateWindow(Arc<MemoryWindow<P>, P>),
    /// Nothing: a fault rule fails the request.
    Fail(Error),
}

impl<P: Platform> Job<P> {
    fn of(operation: Option<&mut Operation<P>>, solicited: bool) -> Self {
        match operation {
            // A small send that no batch could take.
            None => Self::Transfer(Transfer::Send { invalidate: None, solicited }),
            Some(Operation::Send(token)) => Self::Transfer(Transfer::Send { invalidate: *token, solicited }),
            Some(Operation::Read(remote)) => Self::Transfer(Transfer::Read(*remote)),
            Some(Operation::Write(remote)) => Self::Transfer(Transfer::Write(*remote)),
            Some(Operation::FastRegister(region, mapping)) => Self::FastRegister(region.clone(), mapping.take()),
            Some(Operation::Bind(bind)) => Self::Bind(bind.clone()),
            Some(Operation::Invalidate(region)) => Self::Invalidate(region.clone()),
            Some(Operation::InvalidateWindow(window)) => Self::InvalidateWindow(window.clone()),
        }
    }
}

/// What a step did with the current request.
pub(crate) enum Progress {
    /// This many more bytes are done.
    Bytes(u32),
    Complete,
    /// The read request is sent; the peer's response is due.
    ReadRequested,
    Failed(Error),
    /// The peer is not connected, the wire has no room, or ORD allows no further read. The end of that condition schedules the engine.
    Waiting,
    /// The peer has no receive for the send. The post of one schedules the engine; if the wait is `limited`, the timer does too.
    NoReceive {
        limited: bool,
    },
    Busy,
}

/// The data of the current request that a step works on: how much of it is done, and where the next bytes are.
pub(crate) struct StepData {
    pub(crate) length: u32,
    pub(crate) done: u64,
    /// The queue pair's reads whose response is due. 0 within the device.
    pub(crate) open_reads: u32,
    local: Option<Piece>,
    inline: bool,
    /// A read: the token to invalidate when all data is placed.
    invalidate: Option<u32>,
}

impl<P: Platform> RunDeferred<P> for QueuePair<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, _: &Dispatch<'_>) {
        let mut bytes = 0u32;
        for _ in 0..BURST_STEPS {
            let outcome = match Self::batch(this) {
                BatchOutcome::Idle => StepOutcome::Idle,
                BatchOutcome::Moved(bytes) => StepOutcome::Moved(bytes),
                BatchOutcome::NeedsStep(peer) => Self::step(this, &mut LocalCarrier(peer)),
                BatchOutcome::Remote(wire) => return Wire::run(&wire, this),
            };
            match outcome {
                StepOutcome::Idle => return,
                StepOutcome::Busy => break,
                StepOutcome::Moved(moved) => bytes = bytes.saturating_add(moved),
            }
            if bytes >= BURST_BYTES {
                break;
            }
        }
        Deferred::schedule(this);
    }
}

impl<P: Platform> QueuePair<P> {
    /// One step of the current request. `carrier` moves its data.
    pub(crate) fn step<C: Carrier<P>>(this: &Arc<Self, P>, carrier: &mut C) -> StepOutcome {
        let mut inline_data;
        let mut inline: &[u8] = &[];
        let mut state = this.state.lock();
        if !state.is_open() || state.flushing_requests() {
            return StepOutcome::Idle;
        }
        let done = state.done;
        let Some((slot, &request)) = state.current() else { return StepOutcome::Idle };
        let flags = request.flags;
        if flags.contains(Flags::READ_FENCE) && state.open_reads > 0 {
            return StepOutcome::Idle;
        }
        if watch::any() && this.has_to_pass_point(&state) {
            drop(state);
            Self::pass_point(this);
            // A rule may have the request wait, and a flush may have cancelled it: the next round looks at the queue again.
            return StepOutcome::Moved(0);
        }
        let inlined = flags.contains(Flags::INLINE);
        let (length, open_reads) = (request.data.length, state.open_reads);
        let mut data = StepData { length, done, open_reads, local: None, inline: inlined, invalidate: None };
        let solicited = flags.contains(Flags::SEND_AND_SOLICIT_EVENT);
        let job = match state.point {
            PointState::Delayed | PointState::DelayedBehindTimer | PointState::Stalled if this.has_rule(&state) => {
                return StepOutcome::Idle;
            }
            PointState::Fails(error) => Job::Fail(error),
            _ => Job::of(state.operation_mut(slot), solicited),
        };
        if data.inline {
            let bytes = state.inline_of(slot, data.length, this.sizes().inline_data).unwrap_or(&[]);
            inline_data = [0u8; limits::INLINE_DATA as usize];
            if let Some(copy) = inline_data.get_mut(..bytes.len()) {
                copy.copy_from_slice(bytes);
                inline = copy;
            }
        } else {
            let mut cursor = state.cursor;
            let sges = state.sges_of(slot, &request, this.sizes().sges).unwrap_or(&[]);
            data.local = cursor.piece(sges);
            data.invalidate =
                sges.first().filter(|_| flags.contains(Flags::RDMA_READ_LOCAL_INVALIDATE)).map(|sge| sge.token);
            state.cursor = cursor;
        }
        state.executing = true;
        drop(state);

        let counts = matches!(job, Job::Transfer(_)) && C::COUNTED;
        let progress = match job {
            Job::Transfer(transfer) => carrier.carry(this, &data, inline, transfer),
            Job::Fail(error) => Progress::Failed(error),
            Job::FastRegister(region, Some(mapping)) => Progress::of(region.install(mapping)),
            // Cannot be: a fast registration runs once, as its step is never `Busy` and a failed one is not tried again. The operation has an
            // `Option` because its drop gives the mapping of a cancelled request back.
            Job::FastRegister(_, None) => Progress::Failed(Error::InternalError),
            Job::Bind(bind) => Progress::of_invalidation(bind.run(this)),
            Job::Invalidate(region) => Progress::of_invalidation(region.invalidate()),
            Job::InvalidateWindow(window) => Progress::of_invalidation(window.invalidate()),
        };
        Self::apply(this, progress, counts)
    }

    /// Notes what a step did, and reports the request if it has ended. `counts`: the engine counts the data.
    fn apply(this: &Arc<Self, P>, progress: Progress, counts: bool) -> StepOutcome {
        let count = |bytes, requests| {
            if counts {
                this.pd.adapter().device().counters().moved(this.counter_shard, bytes, requests);
            }
        };
        let mut state = this.state.lock();
        state.executing = false;
        let mut fatal = false;
        let mut finished = None;
        let outcome = match progress {
            Progress::Bytes(bytes) => {
                state.done = state.done.saturating_add(u64::from(bytes));
                state.cursor.advance(bytes);
                count(u64::from(bytes), 0);
                StepOutcome::Moved(bytes)
            }
            Progress::Complete | Progress::ReadRequested => {
                state.carried_out(matches!(progress, Progress::ReadRequested));
                finished = state.take_ended();
                fatal |= this.report(finished.as_ref(), Ok(()));
                count(0, 1);
                StepOutcome::Moved(0)
            }
            Progress::Failed(error) => {
                // Completions stay in order. All failures but the last of these end the connection:
                // * `outstanding` is 0, no request before it awaits the peer: the request completes now, with `error`;
                // * else, without `confirms`: the flush cancels all, unless it is a fault rule that fails the request;
                // * else, unless the request `can_fail_again`: the flush ends it with `error`, and cancels the others;
                // * else the request is tried again when the requests before it have ended.
                fatal = state.outstanding == 0 || !state.confirms || !state.can_fail_again();
                if state.outstanding == 0 {
                    finished = state.finish_oldest();
                    this.report(finished.as_ref(), Err(error));
                } else if fatal && (state.confirms || matches!(state.point, PointState::Fails(_))) {
                    state.failed_request = state.current().map(|(slot, _)| (slot, error));
                }
                StepOutcome::Idle
            }
            Progress::Waiting => StepOutcome::Idle,
            Progress::NoReceive { limited } => {
                Self::begin_wait(this, &mut state, limited);
                StepOutcome::Idle
            }
            Progress::Busy => StepOutcome::Busy,
        };
        let report = Self::unlock_and_flush_after(this, state, fatal);
        drop(finished);
        this.report_to_connector(report);
        outcome
    }

    /// Reports a request, if there is one. True: its completion queue did not take it.
    fn report(&self, ended: Option<&EndedRequest<P>>, status: Status) -> bool {
        ended.is_some_and(|ended| self.complete_request(ended, status).is_err())
    }

    /// Copies the next bytes of this side's data into a frame.
    pub(crate) fn copy_out(&self, to: &mut [u8], data: &StepData, inline: &[u8]) -> Result<(), Error> {
        if let Some(piece) = data.local {
            let bytes = u32::try_from(to.len()).map_err(|_| Error::InternalError)?;
            return runs::copy_out(to, &self.local(piece, bytes, Access::empty())?);
        }
        let done = usize::try_from(data.done).map_err(|_| Error::InternalError)?;
        let next = inline.get(done..).and_then(|rest| rest.get(..to.len())).ok_or(Error::InternalError)?;
        to.copy_from_slice(next);
        Ok(())
    }

    /// Copies the next `bytes` of this side's data to `to`.
    fn copy_to(&self, to: &Memory<P>, data: &StepData, inline: &[u8], bytes: u32) -> Result<(), Error> {
        if let Some(piece) = data.local {
            return runs::copy(to, &self.local(piece, bytes, Access::empty())?, u64::from(bytes));
        }
        let next = usize::try_from(data.done).ok().and_then(|done| inline.get(done..)?.get(..bytes as usize));
        runs::copy_in(to, next.ok_or(Error::InternalError)?)
    }

    pub(crate) fn local(&self, piece: Piece, bytes: u32, right: Access) -> Result<Memory<P>, Error> {
        let range = Range { address: piece.address, length: u64::from(bytes) };
        ProtectionDomain::local(&self.pd, piece.token, range, right)
    }
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

impl StepData {
    pub(crate) fn left(&self) -> u64 {
        u64::from(self.length).saturating_sub(self.done)
    }

    /// The bytes of the current SGE, or of inline data, that one step moves.
    pub(crate) fn step_bytes(&self) -> u32 {
        let left = self.left();
        let piece = if self.inline { self.length } else { self.local.map_or(0, |piece| piece.length) };
        let bytes = piece.min(STEP_BYTES);
        u32::try_from(left).map_or(bytes, |left| bytes.min(left))
    }
}
