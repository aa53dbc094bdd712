//! FPDUs from the wire: each is checked, and its data placed in the consumer's memory straight from the receive buffer.
//!
//! The checks, their order and the causes of the Terminate: RFC 5044 section 8, RFC 5041 section 7, RFC 5040 section 7.

use fault_rules::Action;
use iwarp::{
    crc::Crc32c,
    fpdu::{self, ParsedFpdu},
    negotiate::RtrKind,
    segment::{ReadRequest, Segment, Send, Tagged, Untagged},
    terminate::{Cause, Terminate},
};
use platform::{Arc, Platform};

use super::{
    faults::{Delay, SegmentPoint},
    inbound_reads::InboundReads,
    outbound_reads::OutboundRead,
    terminate::TerminatedMessage,
    transmit::TxStream,
};
use crate::{
    Access, Error, ProtectionDomain, QueuePair,
    memory::{
        region::{Invalidation, Range},
        runs,
    },
    qp::Report,
    qp::engine::Progress,
    qp::request::{Cursor, SgeList},
};

/// The state of the receiving direction.
pub(super) struct RxStream {
    pub(super) crc: Option<Crc32c>,
    /// Responder: the RTR message that the initiator has to send.
    pub(super) rtr: Option<RtrKind>,
    /// No FPDU was taken yet.
    pub(super) awaits_first_fpdu: bool,
    /// The segment that is due, which waits for a receive, an access or the end of `delay`, has passed its point for fault rules.
    has_passed_point: bool,
    /// A fault rule delays the segment that is due.
    pub(super) delay: Option<Delay>,
    /// MSN of the peer's send that is due, or is being received.
    pub(super) next_send: u32,
    /// MSN of the peer's read request that is due.
    pub(super) next_read: u32,
    /// Bytes of the send `next_send` that are placed.
    pub(super) send_done: u32,
    /// The last segment of the send is placed; the invalidation that it asks for found the memory busy.
    pub(super) send_placed: bool,
    /// A segment of a write was received, and the write's last segment is due.
    pub(super) write_open: bool,
    /// The sink STag of the read whose response is due.
    pub(super) next_response: u32,
    /// Bytes of that response that are placed, and the place in the read's SGEs behind them.
    pub(super) read_done: u32,
    pub(super) read_cursor: Cursor,
    /// The whole response is placed; the invalidation that the read asks for found the memory busy.
    pub(super) read_placed: bool,
    /// The peer has sent a Terminate.
    pub(super) terminate_received: bool,
    /// The cause in the peer's Terminate, until `Notice::TerminateReceived` reports it; `None` if the Terminate cannot be parsed.
    pub(super) terminate_cause: Option<Cause>,
}

/// The outcome of an FPDU.
pub(super) enum FpduOutcome<'a> {
    /// The FPDU is taken: its data is placed or dropped, or its read request is queued. The number is the size of the FPDU.
    Used(usize),
    /// More bytes are needed: the size of the FPDU, if its length field has arrived.
    Incomplete(Option<usize>),
    /// The ULPDU waits for a receive.
    AwaitsReceive(&'a [u8]),
    /// An access on another processor must end first: the engine tries again in another run.
    Busy,
    /// A fault rule delays the segment.
    Delayed,
    /// The connection is over: it has ended here, or the peer has sent a Terminate.
    Failed,
}

impl FpduOutcome<'_> {
    /// Whether the FPDU has no other outcome later.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Used(_) | Self::Failed)
    }
}

/// An FPDU that breaks a rule of the protocols, and why.
pub(super) struct ProtocolError<'a> {
    pub(super) cause: Cause,
    pub(super) ulpdu: &'a [u8],
}

/// The outcome of a segment.
enum SegmentOutcome {
    Done,
    /// The segment belongs to the response to the read that asks for confirmation. Its data, if any, is no consumer's, and is not placed.
    Dropped,
    AwaitsReceive,
    Busy,
    Failed,
}

/// Why a part of a read's response is not placed.
enum ResponseError {
    Protocol(Cause),
    /// The error is this side's: the status of the read, and the cause for the peer.
    Local(Error, Cause),
}

impl RxStream {
    /// The state of a connection whose initiator has to send `rtr`.
    pub(super) fn new(crc: Option<Crc32c>, rtr: Option<RtrKind>, is_initiator: bool) -> Self {
        let sends_rtr_read = is_initiator && rtr == Some(RtrKind::Read);
        Self {
            crc,
            rtr: rtr.filter(|_| !is_initiator),
            write_open: false,
            awaits_first_fpdu: true,
            has_passed_point: false,
            delay: None,
            next_send: 1,
            next_read: 1,
            send_done: 0,
            send_placed: false,
            next_response: if sends_rtr_read { 2 } else { 1 },
            read_done: 0,
            read_cursor: Cursor::default(),
            read_placed: false,
            terminate_received: false,
            terminate_cause: None,
        }
    }

    /// Whether the stream may end here: no message is half received.
    pub(super) fn is_between_messages(&self) -> bool {
        self.send_done == 0 && self.read_done == 0 && !self.write_open
    }

    /// Takes the next FPDU. `point`: a fault rule is for the segments.
    pub(super) fn receive<'a, P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        tx: &mut TxStream<P>,
        bytes: &'a [u8],
        point: Option<&SegmentPoint<'_, P>>,
    ) -> Result<FpduOutcome<'a>, ProtocolError<'a>> {
        let (ulpdu, size) = match fpdu::parse(bytes, self.crc) {
            Ok(ParsedFpdu::Whole { ulpdu, size }) => (ulpdu, size),
            Ok(ParsedFpdu::Incomplete(size)) => return Ok(FpduOutcome::Incomplete(size)),
            Err(cause) => return Err(ProtocolError { cause, ulpdu: &[] }),
        };
        let error = |cause| ProtocolError { cause, ulpdu };
        let (segment, data) = Segment::parse(ulpdu).map_err(error)?;
        let ends_data = segment.ends_data(data.len());
        if let Some(point) = point
            && !core::mem::replace(&mut self.has_passed_point, true)
            && !matches!(segment, Segment::Terminate(_))
        {
            match point.pass(data.len(), self.crc.is_some()) {
                Some(Action::Terminate(cause)) => return Err(error(cause)),
                Some(Action::Delay(microseconds)) => {
                    self.delay = Some(Delay::new::<P>(microseconds));
                    return Ok(FpduOutcome::Delayed);
                }
                // The parser takes no other rule.
                Some(_) | None => {}
            }
        }
        let placed = match segment {
            Segment::Write(to) => self.write(queue_pair, to, data),
            Segment::ReadRequest(untagged, request) => {
                self.read_request(queue_pair, &mut tx.inbound_reads, untagged, request, data)
            }
            Segment::ReadResponse(to) => self.read_response(queue_pair, tx, to, data),
            Segment::Send(untagged, send) => self.send(queue_pair, untagged, send, data),
            Segment::Terminate(_) => {
                self.terminate_received = true;
                self.terminate_cause = Terminate::parse(data).map(|terminate| terminate.cause);
                QueuePair::note_terminated(queue_pair, TerminatedMessage::parse(data), tx, self.next_response);
                Ok(SegmentOutcome::Failed)
            }
        };
        Ok(match placed.map_err(error)? {
            placed @ (SegmentOutcome::Done | SegmentOutcome::Dropped) => {
                (self.awaits_first_fpdu, self.has_passed_point) = (false, false);
                if let (SegmentOutcome::Done, Some(ends)) = (placed, ends_data) {
                    let counters = queue_pair.pd.adapter().device().counters();
                    counters.received(queue_pair.counter_shard, data.len() as u64, ends.into());
                }
                FpduOutcome::Used(size)
            }
            SegmentOutcome::AwaitsReceive => FpduOutcome::AwaitsReceive(ulpdu),
            SegmentOutcome::Busy => FpduOutcome::Busy,
            SegmentOutcome::Failed => FpduOutcome::Failed,
        })
    }

    fn write<P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        to: Tagged,
        data: &[u8],
    ) -> Result<SegmentOutcome, Cause> {
        self.write_open = !to.last;
        // A write without data may be the RTR message, whose STag means nothing: it is not checked.
        if data.is_empty() {
            return Ok(SegmentOutcome::Done);
        }
        if !queue_pair.state.lock().begin_placing() {
            return Ok(SegmentOutcome::Failed);
        }
        let range = Range { address: to.offset, length: data.len() as u64 };
        let placed = QueuePair::open_for_peer(queue_pair, to.stag, range, Access::REMOTE_WRITE)
            .and_then(|memory| runs::copy_in(&memory, data));
        QueuePair::end_placing(queue_pair, Report::default());
        match placed {
            Ok(()) => Ok(SegmentOutcome::Done),
            Err(_) => Err(QueuePair::remote_access_error(queue_pair, to.stag, range, Access::REMOTE_WRITE).of_write()),
        }
    }

    fn read_request<P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        inbound_reads: &mut InboundReads<P>,
        untagged: Untagged,
        request: ReadRequest,
        data: &[u8],
    ) -> Result<SegmentOutcome, Cause> {
        if untagged.msn != self.next_read {
            return Err(Cause::MESSAGE_NUMBER);
        }
        if untagged.mo != 0 {
            return Err(Cause::MESSAGE_OFFSET);
        }
        // The buffers of the read request queue have room for one request each.
        if !untagged.last || !data.is_empty() {
            return Err(Cause::UNTAGGED_TOO_LONG);
        }
        if !queue_pair.state.lock().is_open() {
            return Ok(SegmentOutcome::Failed);
        }
        // The source is checked when the response is made: sends and writes before this request may still change it.
        if !inbound_reads.push(request) {
            return Err(Cause::NO_BUFFER);
        }
        self.next_read = self.next_read.wrapping_add(1);
        Ok(SegmentOutcome::Done)
    }

    /// Data of the response to the oldest read.
    fn read_response<P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        tx: &mut TxStream<P>,
        to: Tagged,
        data: &[u8],
    ) -> Result<SegmentOutcome, Cause> {
        // The response to the RTR message, which was a read.
        if tx.awaits_rtr_response && to.last && data.is_empty() {
            tx.awaits_rtr_response = false;
            return Ok(SegmentOutcome::Done);
        }
        if tx.confirmation == Some(self.next_response) {
            if to.stag != self.next_response {
                return Err(Cause::TAGGED_STAG);
            }
            // Linux siw, while it sends, responds to a read of no bytes with the bytes of its last send or write: its siw_qp_sq_proc_tx takes the
            // SGE that is left from that request. These bytes are dropped.
            if to.last {
                tx.confirmation = None;
                self.next_response = self.next_response.wrapping_add(1);
                QueuePair::confirm(queue_pair, |state| state.to_confirm > 0);
            }
            return Ok(SegmentOutcome::Dropped);
        }
        let Some(read) = QueuePair::begin_response(queue_pair)? else { return Ok(SegmentOutcome::Failed) };
        let placed = self.place_response(queue_pair, &read, to, data);
        let (ended, placed) = match placed {
            Ok(SegmentOutcome::Done) if to.last => (Some(Ok(())), Ok(SegmentOutcome::Done)),
            Ok(placed) => (None, Ok(placed)),
            Err(ResponseError::Protocol(cause)) => (None, Err(cause)),
            Err(ResponseError::Local(error, cause)) => (Some(Err(error)), Err(cause)),
        };
        if ended.is_some() {
            (self.read_done, self.read_cursor) = (0, Cursor::default());
            self.next_response = self.next_response.wrapping_add(1);
        }
        QueuePair::end_response(queue_pair, ended);
        placed
    }

    fn place_response<P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        read: &OutboundRead,
        to: Tagged,
        data: &[u8],
    ) -> Result<SegmentOutcome, ResponseError> {
        if to.stag != self.next_response {
            return Err(ResponseError::Protocol(Cause::TAGGED_STAG));
        }
        if !self.read_placed {
            let done = u64::from(self.read_done).saturating_add(data.len() as u64);
            let size = u64::from(read.size);
            if to.offset != u64::from(self.read_done) || done > size || to.last != (done == size) {
                return Err(ResponseError::Protocol(Cause::TAGGED_BOUNDS));
            }
            place(queue_pair, &read.sges, &mut self.read_cursor, data)
                .map_err(|error| ResponseError::Local(error, Cause::DDP_LOCAL))?;
            self.read_done = u32::try_from(done).unwrap_or(u32::MAX);
        }
        let invalidate = read.invalidate.filter(|_| to.last);
        let invalidated =
            invalidate.map_or(Ok(Invalidation::Done), |token| ProtectionDomain::invalidate(&queue_pair.pd, token));
        self.read_placed = matches!(invalidated, Ok(Invalidation::Busy));
        match invalidated {
            Ok(Invalidation::Done) => Ok(SegmentOutcome::Done),
            Ok(Invalidation::Busy) => Ok(SegmentOutcome::Busy),
            Err(error) => Err(ResponseError::Local(error, Cause::LOCAL)),
        }
    }

    fn send<P: Platform>(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        untagged: Untagged,
        send: Send,
        data: &[u8],
    ) -> Result<SegmentOutcome, Cause> {
        if untagged.msn != self.next_send {
            return Err(Cause::MESSAGE_NUMBER);
        }
        if self.awaits_first_fpdu && self.rtr == Some(RtrKind::Send) && data.is_empty() && untagged.last {
            self.next_send = self.next_send.wrapping_add(1);
            return Ok(SegmentOutcome::Done);
        }
        let mut state = queue_pair.state.lock();
        if !state.begin_placing() {
            return Ok(SegmentOutcome::Failed);
        }
        if state.receive.is_none() && self.send_done == 0 {
            state.receive = queue_pair.next_receive(&mut state, queue_pair);
        }
        let receive = state.receive.as_ref().map(|receive| (receive.sges, receive.cursor, receive.room));
        drop(state);
        let Some((sges, mut cursor, room)) = receive else {
            QueuePair::end_placing(queue_pair, Report::default());
            // No receive: a flush has taken it from the half-received message, or none is posted for a new message.
            return Ok(if self.send_done > 0 { SegmentOutcome::Failed } else { SegmentOutcome::AwaitsReceive });
        };
        if !self.send_placed {
            if untagged.mo != self.send_done {
                QueuePair::end_placing(queue_pair, Report::default());
                return Err(Cause::MESSAGE_OFFSET);
            }
            let done = u64::from(self.send_done).saturating_add(data.len() as u64);
            if done > room {
                let _its_connection_ends = QueuePair::fail_receive(queue_pair, Error::BufferOverflow);
                return Err(Cause::UNTAGGED_TOO_LONG);
            }
            if let Err(error) = place(queue_pair, &sges, &mut cursor, data) {
                let _its_connection_ends = QueuePair::fail_receive(queue_pair, error);
                return Err(Cause::DDP_LOCAL);
            }
            if let Some(receive) = &mut queue_pair.state.lock().receive {
                receive.cursor = cursor;
            }
            self.send_done = u32::try_from(done).unwrap_or(u32::MAX);
        }
        if !untagged.last {
            QueuePair::end_placing(queue_pair, Report::default());
            return Ok(SegmentOutcome::Done);
        }
        let ended = QueuePair::end_receive(queue_pair, self.send_done, send.invalidate, send.solicited);
        self.send_placed = matches!(ended, Progress::Busy);
        match ended {
            Progress::Complete => {
                self.send_done = 0;
                self.next_send = self.next_send.wrapping_add(1);
                Ok(SegmentOutcome::Done)
            }
            Progress::Busy => Ok(SegmentOutcome::Busy),
            _ if send.invalidate.is_some_and(|token| QueuePair::is_anothers(queue_pair, token)) => {
                Err(Cause::PROTECTED_FROM_INVALIDATION)
            }
            _ => Err(Cause::NOT_INVALIDATED),
        }
    }
}

/// Places `data` from `cursor` on. Errors: this side's memory, or SGEs with fewer bytes than `data`, which the callers have excluded.
fn place<P: Platform>(
    queue_pair: &Arc<QueuePair<P>, P>,
    sges: &SgeList,
    cursor: &mut Cursor,
    mut data: &[u8],
) -> Result<(), Error> {
    while !data.is_empty() {
        let piece = cursor.piece(sges.as_slice()).ok_or(Error::BufferOverflow)?;
        let bytes = u32::try_from(data.len()).map_or(piece.length, |left| piece.length.min(left));
        let (now, later) = data.split_at_checked(bytes as usize).ok_or(Error::InternalError)?;
        runs::copy_in(&queue_pair.local(piece, bytes, Access::LOCAL_WRITE)?, now)?;
        cursor.advance(bytes);
        data = later;
    }
    Ok(())
}
