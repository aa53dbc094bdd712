//! The data of requests whose peer is a queue pair of this device: copied from memory to memory.

use platform::{Arc, Platform};

use super::{Carrier, Progress, StepData, Transfer};
use crate::{
    Access, Error, ProtectionDomain, QueuePair, Remote,
    memory::region::{Invalidation, Range},
    memory::runs::{self, Memory},
    qp::Report,
    qp::request::Piece,
    watch,
};

/// The peer, a queue pair of this device; `None`: the peer is closed, or the step has used it.
pub(super) struct LocalCarrier<P: Platform>(pub(super) Option<Arc<QueuePair<P>, P>>);

impl<P: Platform> Carrier<P> for LocalCarrier<P> {
    const COUNTED: bool = true;

    fn carry(&mut self, from: &Arc<QueuePair<P>, P>, data: &StepData, inline: &[u8], transfer: Transfer) -> Progress {
        // The reference is dropped before the request is reported: after that the consumer may close the peer.
        let Some(peer) = self.0.take() else { return Progress::Waiting };
        let progress = match transfer {
            Transfer::Send { invalidate, solicited } => {
                QueuePair::send(from, &peer, data, inline, invalidate, solicited)
            }
            Transfer::Read(remote) => from.read(&peer, data, remote),
            Transfer::Write(remote) => from.write(&peer, data, inline, remote),
        };
        if watch::any() {
            from.capture(data, inline, transfer, &progress);
        }
        progress
    }
}

impl<P: Platform> QueuePair<P> {
    fn write(&self, peer: &Arc<Self, P>, data: &StepData, inline: &[u8], remote: Remote) -> Progress {
        Self::move_remote(peer, data, remote, Access::REMOTE_WRITE, |target, bytes| {
            self.copy_to(target, data, inline, bytes)
        })
    }

    fn read(&self, peer: &Arc<Self, P>, data: &StepData, remote: Remote) -> Progress {
        if data.left() == 0
            && let Some(token) = data.invalidate
        {
            return Progress::of_invalidation(ProtectionDomain::invalidate(&self.pd, token));
        }
        Self::move_remote(peer, data, remote, Access::REMOTE_READ, |source, bytes| {
            let piece = data.local.ok_or(Error::AccessViolation)?;
            runs::copy(&self.local(piece, bytes, Access::LOCAL_WRITE)?, source, u64::from(bytes))
        })
    }

    /// One step of a read or write. `copy` moves the bytes between the peer's memory and this side's.
    fn move_remote(
        peer: &Arc<Self, P>,
        data: &StepData,
        remote: Remote,
        right: Access,
        copy: impl FnOnce(&Memory<P>, u32) -> Result<(), Error>,
    ) -> Progress {
        if data.left() == 0 {
            return Progress::Complete;
        }
        if !peer.state.lock().begin_placing() {
            return Progress::Waiting;
        }
        let bytes = data.step_bytes();
        let moved = (|| {
            let address = remote.address.checked_add(data.done).ok_or(Error::AccessViolation)?;
            // The whole rest is checked: a range that is too short fails before its first byte.
            let range = Range { address, length: data.left() };
            let memory = Self::open_for_peer(peer, remote.token, range, right)?;
            copy(&memory, bytes)
        })();
        Self::end_placing(peer, Report::default());
        match moved {
            Ok(()) => Progress::Bytes(bytes),
            Err(error) => Progress::Failed(error),
        }
    }

    /// Ends an access to this side's memory. `report.fatal`: the access met an error that ends the connection.
    pub(crate) fn end_placing(this: &Arc<Self, P>, report: Report) {
        let mut state = this.state.lock();
        state.placing = false;
        this.report_to_connector(Self::unlock_and_flush_after(this, state, report.fatal));
    }

    fn send(
        this: &Arc<Self, P>,
        peer: &Arc<Self, P>,
        data: &StepData,
        inline: &[u8],
        invalidate: Option<u32>,
        solicited: bool,
    ) -> Progress {
        let target = match Self::begin_receive(peer, this, data) {
            ReceiveClaim::Into(target) => target,
            ReceiveClaim::Waiting => return Progress::Waiting,
            ReceiveClaim::None => return this.awaits_receive(peer),
            ReceiveClaim::TooSmall => return Self::fail_receive(peer, Error::BufferOverflow),
        };
        if data.left() == 0 {
            return Self::end_receive(peer, data.length, invalidate, solicited);
        }
        let Some(target) = target else { return Self::fail_receive(peer, Error::BufferOverflow) };
        let bytes = data.step_bytes().min(target.length);
        let to = match peer.local(target, bytes, Access::LOCAL_WRITE) {
            Ok(to) => to,
            Err(error) => return Self::fail_receive(peer, error),
        };
        let result = this.copy_to(&to, data, inline, bytes);
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

    /// Claims the oldest receive of `receiver` for one step of a send of `sender`.
    fn begin_receive(receiver: &Arc<Self, P>, sender: &Arc<Self, P>, data: &StepData) -> ReceiveClaim {
        let mut state = receiver.state.lock();
        if !state.begin_placing() {
            return ReceiveClaim::Waiting;
        }
        if state.receive.is_none() {
            state.receive = receiver.next_receive(&mut state, sender);
        }
        match &mut state.receive {
            Some(receive) if receive.room < u64::from(data.length) => ReceiveClaim::TooSmall,
            Some(receive) => ReceiveClaim::Into(receive.cursor.piece(receive.sges.as_slice())),
            None => {
                drop(state);
                Self::end_placing(receiver, Report::default());
                ReceiveClaim::None
            }
        }
    }

    /// Completes the receive, which cannot take the data, with `error`. The result, DataError, is for a send within the device; over a wire the
    /// caller has a Terminate sent.
    pub(crate) fn fail_receive(receiver: &Arc<Self, P>, error: Error) -> Progress {
        if let Some(receive) = receiver.state.lock().receive.take() {
            // The connection ends in any case, even if the completion queue is dead.
            let _queue_may_be_dead = receiver.complete_receive(&receive, Err(error), 0, None, false);
        }
        Self::end_placing(receiver, Report::default());
        Progress::Failed(Error::DataError)
    }

    /// All data is placed: carries out the sender's invalidation, then reports the receive.
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
                    let completed = receiver.complete_receive(&receive, Ok(()), length, invalidate, solicited);
                    report.fatal = completed.is_err();
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

/// What a step of a send found at the receiver.
enum ReceiveClaim {
    /// The part of the receive to fill; `None`: it is full.
    Into(Option<Piece>),
    /// There is no connection yet, or it has ended. `connect` schedules the sender.
    Waiting,
    /// There is no receive. The post of one schedules the sender.
    None,
    /// The receive has less room than the send has bytes.
    TooSmall,
}
