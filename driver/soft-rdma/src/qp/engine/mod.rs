//! How initiator requests are carried out: in order, one at a time, in bounded steps, without holding a lock while data moves.
//!
//! The engine of a queue pair is its deferred call, so it always runs at DISPATCH_LEVEL and never on a consumer's stack.
//! What the burst limit leaves over goes on in another DPC.

mod batch;
mod here;
mod unready;

pub(crate) use batch::SMALL_SEND_BYTES;

use batch::Batch;
use here::Here;
use platform::{Arc, Deferred, Dispatch, Platform, RunDeferred};

use crate::{
    Access, Error, Flags, Mapping, MemoryRegion, MemoryWindow, ProtectionDomain, QueuePair, Remote, Status, limits,
    memory::region::{Invalidation, Range},
    memory::runs::{self, Memory},
    memory::window::Bind,
    qp::request::{Operation, Piece},
    qp::{Ended, State},
    wire::Wire,
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

/// Where the data of requests goes: to a queue pair of this device ([`Here`]), or into FPDUs for another machine
/// (`Frames` of `wire`).
pub(crate) trait Carrier<P: Platform> {
    /// What is carried is counted by the engine. If not, where it is sent.
    const COUNTED: bool;

    /// Looks at the queue pair, whose lock is held, before a step.
    fn look(&mut self, state: &State<P>);

    /// Carries the next part of the data, without a lock.
    fn carry(&mut self, from: &Arc<QueuePair<P>, P>, part: &Part, inline: &[u8], data: Data) -> Progress;
}

/// A request that has data.
#[derive(Clone, Copy)]
pub(crate) enum Data {
    Send { invalidate: Option<u32>, solicited: bool },
    Read(Remote),
    Write(Remote),
}

/// What the engine does without the lock.
enum Job<P: Platform> {
    Data(Data),
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
    /// The peer is not connected, or a wire has no room or no read to spare: what changes that schedules the engine.
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
                Batch::Other => Self::step(this, &mut Here::default()),
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
    /// One step of the current request, whose data `carrier` takes.
    pub(crate) fn step<C: Carrier<P>>(this: &Arc<Self, P>, carrier: &mut C) -> Step {
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
            None => Job::Data(Data::Send { invalidate: None, solicited }),
            Some(Operation::Send(token)) => Job::Data(Data::Send { invalidate: *token, solicited }),
            Some(Operation::Read(remote)) => Job::Data(Data::Read(*remote)),
            Some(Operation::Write(remote)) => Job::Data(Data::Write(*remote)),
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
        carrier.look(&state);
        state.executing = true;
        drop(state);

        let counts = matches!(job, Job::Data(_)) && C::COUNTED;
        let progress = match job {
            Job::Data(data) => carrier.carry(this, &part, inline, data),
            Job::FastRegister(region, Some(mapping)) => Progress::of(region.install(mapping)),
            Job::FastRegister(_, None) => Progress::Failed(Error::InternalError),
            Job::Bind(bind) => Progress::of_invalidation(bind.run(this)),
            Job::Invalidate(region) => Progress::of_invalidation(region.invalidate()),
            Job::InvalidateWindow(window) => Progress::of_invalidation(window.invalidate()),
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
