//! FPDUs for the wire: parts of requests, responses to the peer's reads, and at the end a Terminate. Each is written
//! whole into the stream's send buffer, if that has room.

use fault_rules::Action;
use iwarp::{
    crc::Crc32c,
    fpdu::{self, Trailer},
    negotiate::RtrKind,
    segment::{MAX_HEADER, ReadRequest, Segment, Send, Tagged, Untagged},
    terminate::{Cause, MAX_BODY, Terminate},
};
use platform::{Arc, Platform};

use super::{
    faults::{Delay, SegmentPoint},
    inbound_reads::{InboundRead, InboundReads},
};
use crate::{
    Access, Error, QueuePair, Remote,
    capture::Tap,
    memory::{region::Range, runs},
    qp::Report,
    qp::engine::{Carrier, Progress, StepData, StepOutcome, Transfer},
};

/// The state of the sending direction.
pub(crate) struct TxStream<P: Platform> {
    pub(super) crc: Option<Crc32c>,
    /// Initiator: the RTR message, until it is sent.
    pub(super) rtr: Option<RtrKind>,
    /// MSN of the next send.
    pub(super) next_send: u32,
    /// MSN of the next read request.
    pub(super) next_read: u32,
    /// ORD: reads that this side may have under way.
    pub(super) reads: u16,
    pub(super) inbound_reads: InboundReads<P>,
    /// Initiator: the RTR message was a read, and its response is due.
    pub(super) awaits_rtr_response: bool,
    /// The sink STag of the wire's zero-length read under way, by whose response the peer confirms the sends and writes before it.
    pub(super) confirmation: Option<u32>,
    /// The last message of the stream.
    pub(super) terminate: Option<TerminateOut>,
    /// The next segment of each kind ([`kind`]), which waits for the end of `delay`, has passed its point for fault rules.
    pub(super) has_passed_point: [bool; 3],
    /// A fault rule delays the next segment.
    pub(super) delay: Option<Delay>,
}

impl<P: Platform> TxStream<P> {
    /// Whether there is something to send besides the queue pair's requests.
    pub(super) fn has_own_work(&self) -> bool {
        self.rtr.is_some() || self.inbound_reads.oldest().is_some() || self.delay.is_some()
    }

    /// Has a segment pass its point, once. Error: a fault rule delays it, or one before it.
    fn pass_point(
        &mut self,
        point: Option<&SegmentPoint<'_, P>>,
        segment: &Segment,
        bytes: u32,
    ) -> Result<Option<Action>, NoFpdu> {
        let Some(has_passed) = self.has_passed_point.get_mut(kind(segment)) else { return Ok(None) };
        let mut action = None;
        if let Some(point) = point {
            if self.delay.is_none() && !core::mem::replace(has_passed, true) {
                action = point.pass(bytes as usize, self.crc.is_some());
            }
            if let Some(Action::Delay(microseconds)) = action {
                self.delay = Some(Delay::new::<P>(microseconds));
            }
            if self.delay.is_some() {
                return Err(NoFpdu::NoRoom);
            }
        }
        *has_passed = false;
        Ok(action)
    }
}

/// Bytes of data in an FPDU, at most. A receiver that places TCP segments without a buffer wants FPDUs of a segment's
/// size (RFC 5044 section 4.5), which is not known here. Each FPDU has a cost, so larger is faster; but the peer needs
/// the whole FPDU before it places any of it.
const MAX_DATA: u32 = 32 << 10;
/// Bytes of data, at least, in an FPDU that ends neither its message nor an SGE. A stream's empty buffer has room for them.
const MIN_DATA: u32 = 2 << 10;
/// Bytes of an FPDU besides its data, at most.
const MAX_OVERHEAD: usize = fpdu::size(MAX_HEADER as u16).saturating_add(3);

/// STag and offset of messages without data. The peer does not check them, but some RNICs do not like 0 (siw).
const ZERO_LENGTH_TARGET: (u32, u64) = (1, 0);

/// The Terminate of this side: its body while it is to be sent.
#[derive(Clone, Copy)]
pub(super) enum TerminateOut {
    Due([u8; MAX_BODY], usize),
    Sent,
}

impl TerminateOut {
    /// The Terminate for `cause`, which was found in `ulpdu`.
    pub(super) fn new(cause: Cause, ulpdu: &[u8]) -> Self {
        let mut body = [0; MAX_BODY];
        // The body has room for any Terminate.
        let bytes = Terminate::of(cause, ulpdu).emit(&mut body).unwrap_or(0);
        Self::Due(body, bytes)
    }

    /// The cause, until the Terminate is sent.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self {
            Self::Due(body, bytes) => Some(Terminate::parse(body.get(..*bytes)?)?.cause),
            Self::Sent => None,
        }
    }

    /// The Terminate for a read of the peer whose source may not be read.
    fn of_read(cause: Cause, read: &InboundRead) -> Self {
        let mut ulpdu = [0; MAX_HEADER];
        let segment = Segment::ReadRequest(Untagged { last: true, msn: read.msn, mo: 0 }, read.request);
        let bytes = segment.emit(&mut ulpdu).unwrap_or(0);
        Self::new(cause, ulpdu.get(..bytes).unwrap_or_default())
    }
}

/// The source of a peer's read was refused: the connection ends.
pub(super) struct ReadSourceRefused;

/// FPDUs that are being written into `room`, a stream's send buffer.
pub(crate) struct WireCarrier<'a, P: Platform> {
    tx: &'a mut TxStream<P>,
    tap: Option<&'a Tap<P>>,
    point: Option<&'a SegmentPoint<'a, P>>,
    room: &'a mut [u8],
    used: usize,
    /// An FPDU did not fit.
    full: bool,
    /// Bytes of consumers' data in the FPDUs, and messages with consumers' data that end in these FPDUs.
    data: (u64, u64),
}

/// The kind of a segment: only segments of other kinds can be sent before one that is delayed.
fn kind(segment: &Segment) -> usize {
    match segment {
        Segment::ReadResponse(_) => 0,
        Segment::ReadRequest(..) => 1,
        Segment::Write(_) | Segment::Send(..) | Segment::Terminate(_) => 2,
    }
}

/// Why there is no FPDU.
enum NoFpdu {
    /// There is no room now, or a fault rule delays the segment.
    NoRoom,
    Failed(Error),
}

impl<P: Platform> Carrier<P> for WireCarrier<'_, P> {
    const COUNTED: bool = false;

    fn carry(&mut self, from: &Arc<QueuePair<P>, P>, data: &StepData, inline: &[u8], transfer: Transfer) -> Progress {
        match transfer {
            Transfer::Send { invalidate, solicited } => self.send(from, data, inline, invalidate, solicited),
            Transfer::Read(remote) => self.read_request(data, remote),
            Transfer::Write(remote) => self.write(from, data, inline, remote),
        }
    }
}

impl<'a, P: Platform> WireCarrier<'a, P> {
    pub(super) fn new(
        tx: &'a mut TxStream<P>,
        room: &'a mut [u8],
        tap: Option<&'a Tap<P>>,
        point: Option<&'a SegmentPoint<'a, P>>,
    ) -> Self {
        Self { tx, tap, point, room, used: 0, full: false, data: (0, 0) }
    }

    /// Whether an FPDU did not fit into the room.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Bytes of the FPDUs that were written.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of consumers' data in the FPDUs, and messages with consumers' data that end in these FPDUs.
    pub(super) fn data(&self) -> (u64, u64) {
        self.data
    }

    /// Writes the FPDUs that are due, in `most` rounds at most: each has a part of a response to the peer, maybe a read that asks for
    /// confirmation, and a step of the queue pair. So neither responses nor requests starve. True: there may be more to do at once.
    pub(super) fn fill(&mut self, queue_pair: &Arc<QueuePair<P>, P>, most: u32) -> Result<bool, ReadSourceRefused> {
        if self.tx.terminate.is_some() || !self.send_rtr() {
            return Ok(false);
        }
        for _ in 0..most {
            let responded = match self.send_read_response(queue_pair) {
                Ok(responded) => responded,
                Err((cause, read)) => {
                    self.tx.terminate = Some(TerminateOut::of_read(cause, &read));
                    return Err(ReadSourceRefused);
                }
            };
            if queue_pair.send_timeout > 0 {
                self.ask_for_confirmation(queue_pair);
            }
            match QueuePair::step(queue_pair, self) {
                StepOutcome::Moved(_) => {}
                StepOutcome::Busy => return Ok(true),
                StepOutcome::Idle if responded => {}
                StepOutcome::Idle => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Writes the RTR message, if it is still to be sent. False: there is no room.
    fn send_rtr(&mut self) -> bool {
        let Some(rtr) = self.tx.rtr else { return true };
        let (stag, offset) = ZERO_LENGTH_TARGET;
        let untagged = Untagged { last: true, msn: 1, mo: 0 };
        let segment = match rtr {
            RtrKind::Write => Segment::Write(Tagged { last: true, stag, offset }),
            RtrKind::Send => Segment::Send(untagged, Send::default()),
            RtrKind::Read => {
                let request =
                    ReadRequest { sink_stag: stag, sink_offset: 0, size: 0, source_stag: stag, source_offset: offset };
                Segment::ReadRequest(untagged, request)
            }
        };
        let sent = self.write_fpdu(&segment, 0, |_| Ok(())).is_ok();
        if sent {
            self.tx.rtr = None;
            match rtr {
                RtrKind::Write => {}
                RtrKind::Send => self.tx.next_send = 2,
                RtrKind::Read => self.tx.next_read = 2,
            }
        }
        sent
    }

    fn send(
        &mut self,
        queue_pair: &QueuePair<P>,
        data: &StepData,
        inline: &[u8],
        invalidate: Option<u32>,
        solicited: bool,
    ) -> Progress {
        // A send is not longer than 2^30 bytes.
        let mo = u32::try_from(data.done).unwrap_or(u32::MAX);
        let msn = self.tx.next_send;
        let progress = self.next_fpdu(queue_pair, data, inline, |last| {
            Segment::Send(Untagged { last, msn, mo }, Send { solicited, invalidate })
        });
        if matches!(progress, Progress::Complete) {
            self.tx.next_send = msn.wrapping_add(1);
        }
        progress
    }

    fn write(&mut self, queue_pair: &QueuePair<P>, data: &StepData, inline: &[u8], remote: Remote) -> Progress {
        let Some(offset) = remote.address.checked_add(data.done) else {
            return Progress::Failed(Error::AccessViolation);
        };
        self.next_fpdu(queue_pair, data, inline, |last| Segment::Write(Tagged { last, stag: remote.token, offset }))
    }

    /// Writes the next FPDU of a message.
    fn next_fpdu(
        &mut self,
        queue_pair: &QueuePair<P>,
        data: &StepData,
        inline: &[u8],
        segment: impl FnOnce(bool) -> Segment,
    ) -> Progress {
        let framed = self.room_for(data.step_bytes()).and_then(|bytes| {
            let last = u64::from(bytes) == data.left();
            self.write_fpdu(&segment(last), bytes, |to| queue_pair.copy_out(to, data, inline))?;
            Ok(if last { Progress::Complete } else { Progress::Bytes(bytes) })
        });
        match framed {
            Ok(progress) => progress,
            Err(NoFpdu::NoRoom) => Progress::Waiting,
            Err(NoFpdu::Failed(error)) => Progress::Failed(error),
        }
    }

    /// Writes a read request, if ORD allows it.
    fn read_request(&mut self, data: &StepData, remote: Remote) -> Progress {
        if !self.may_read(data.open_reads) {
            return Progress::Waiting;
        }
        match self.write_read_request(data.length, remote.token, remote.address) {
            Ok(_) => Progress::ReadRequested,
            Err(NoFpdu::NoRoom) => Progress::Waiting,
            Err(NoFpdu::Failed(error)) => Progress::Failed(error),
        }
    }

    /// Whether ORD allows one more read, beside the wire's own reads.
    fn may_read(&self, open_reads: u32) -> bool {
        let own = u32::from(self.tx.awaits_rtr_response).saturating_add(self.tx.confirmation.is_some().into());
        open_reads.saturating_add(own) < self.tx.reads.into()
    }

    /// Writes a read request. Returns its sink STag, which is its MSN: responses are matched by it with the reads under way.
    fn write_read_request(&mut self, size: u32, source_stag: u32, source_offset: u64) -> Result<u32, NoFpdu> {
        let msn = self.tx.next_read;
        let request = ReadRequest { sink_stag: msn, sink_offset: 0, size, source_stag, source_offset };
        let segment = Segment::ReadRequest(Untagged { last: true, msn, mo: 0 }, request);
        self.write_fpdu(&segment, 0, |_| Ok(()))?;
        self.tx.next_read = msn.wrapping_add(1);
        Ok(msn)
    }

    /// Sends a zero-length read behind sends and writes that await the peer's confirmation: its response says that the
    /// peer has placed them (RFC 5040 section 5.5). One such read is under way at a time.
    fn ask_for_confirmation(&mut self, queue_pair: &QueuePair<P>) {
        let state = queue_pair.state.lock();
        // Not between two segments of a message (RFC 5041 section 5.2).
        let due = state.unconfirmed && state.done == 0;
        let open_reads = state.open_reads;
        drop(state);
        if !due || self.tx.confirmation.is_some() || !self.may_read(open_reads) {
            return;
        }
        let (stag, offset) = ZERO_LENGTH_TARGET;
        if let Ok(tag) = self.write_read_request(0, stag, offset) {
            self.tx.confirmation = Some(tag);
            queue_pair.state.lock().await_confirmation();
        }
    }

    /// Writes the next FPDU of the response to the oldest inbound read. False: no response is due, there is no room, or the connection is over.
    /// Error: the source is refused.
    fn send_read_response(&mut self, queue_pair: &Arc<QueuePair<P>, P>) -> Result<bool, (Cause, InboundRead)> {
        let Some(read) = self.tx.inbound_reads.oldest() else { return Ok(false) };
        let InboundRead { request, done, .. } = read;
        let left = request.size.saturating_sub(done);
        let Ok(bytes) = self.room_for(left) else { return Ok(false) };
        let last = bytes == left;
        let sink = Tagged { last, stag: request.sink_stag, offset: request.sink_offset.wrapping_add(done.into()) };
        if !queue_pair.state.lock().begin_placing() {
            return Ok(false);
        }
        let framed = self.write_read_response(queue_pair, &read, left, bytes, &Segment::ReadResponse(sink));
        QueuePair::end_placing(queue_pair, Report::default());
        match framed? {
            Ok(()) => {
                self.tx.inbound_reads.sent(bytes, last);
                Ok(true)
            }
            Err(NoFpdu::NoRoom) => Ok(false),
            Err(NoFpdu::Failed(_)) => Err((Cause::LOCAL, read)),
        }
    }

    fn write_read_response(
        &mut self,
        queue_pair: &Arc<QueuePair<P>, P>,
        read: &InboundRead,
        left: u32,
        bytes: u32,
        segment: &Segment,
    ) -> Result<Result<(), NoFpdu>, (Cause, InboundRead)> {
        let InboundRead { request, done, .. } = *read;
        Ok(if left == 0 {
            self.write_fpdu(segment, 0, |_| Ok(()))
        } else {
            let address = request.source_offset.wrapping_add(done.into());
            let range = Range { address, length: left.into() };
            let token = request.source_stag;
            let source = QueuePair::open_for_peer(queue_pair, token, range, Access::REMOTE_READ).map_err(|_| {
                (QueuePair::remote_access_error(queue_pair, token, range, Access::REMOTE_READ).of_read(), *read)
            })?;
            self.write_fpdu(segment, bytes, |to| runs::copy_out(to, &source))
        })
    }

    /// Writes the Terminate, if it is due and there is room.
    pub(super) fn terminate(&mut self) {
        if let Some(TerminateOut::Due(body, bytes)) = self.tx.terminate {
            let segment = Segment::Terminate(Untagged { last: true, msn: 1, mo: 0 });
            let body = body.get(..bytes).unwrap_or_default();
            let framed = self.write_fpdu(&segment, u32::try_from(bytes).unwrap_or(0), |to| {
                to.copy_from_slice(body);
                Ok(())
            });
            if framed.is_ok() {
                self.tx.terminate = Some(TerminateOut::Sent);
            }
        }
    }

    /// Bytes of data in the next FPDU, if its message, or the current SGE, has `bytes` left: as many as fit, [`MAX_DATA`] at most. Error: fewer
    /// than [`MIN_DATA`] fit, and fewer than `bytes`.
    fn room_for(&mut self, bytes: u32) -> Result<u32, NoFpdu> {
        let most = bytes.min(MAX_DATA);
        let room = self.room.len().saturating_sub(self.used).saturating_sub(MAX_OVERHEAD);
        let bytes = u32::try_from(room).map_or(most, |room| most.min(room));
        if bytes >= most.min(MIN_DATA) {
            return Ok(bytes);
        }
        self.full = true;
        Err(NoFpdu::NoRoom)
    }

    /// Writes an FPDU with `bytes` of data, which `fill` provides.
    fn write_fpdu(
        &mut self,
        segment: &Segment,
        bytes: u32,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), NoFpdu> {
        const FAILED: NoFpdu = NoFpdu::Failed(Error::InternalError);
        let mut header = [0; MAX_HEADER];
        let header_bytes = segment.emit(&mut header).ok_or(FAILED)?;
        let header = header.get(..header_bytes).ok_or(FAILED)?;
        let ulpdu =
            header_bytes.checked_add(bytes as usize).and_then(|ulpdu| u16::try_from(ulpdu).ok()).ok_or(FAILED)?;
        let frame = self.room.get_mut(self.used..).ok_or(FAILED)?;
        let Some(frame) = frame.get_mut(..fpdu::size(ulpdu)) else {
            self.full = true;
            return Err(NoFpdu::NoRoom);
        };
        let (length, rest) = frame.split_at_mut_checked(fpdu::LENGTH).ok_or(FAILED)?;
        let (head, rest) = rest.split_at_mut_checked(header_bytes).ok_or(FAILED)?;
        let (data, trailer) = rest.split_at_mut_checked(bytes as usize).ok_or(FAILED)?;
        length.copy_from_slice(&fpdu::length(ulpdu));
        head.copy_from_slice(header);
        fill(data).map_err(NoFpdu::Failed)?;
        let action = self.tx.pass_point(self.point, segment, bytes)?;
        let digest = self.tx.crc.map(|crc| {
            let mut digest = crc.digest();
            for part in [&*length, &*head, &*data] {
                digest.update(part);
            }
            digest
        });
        trailer.copy_from_slice(Trailer::new(ulpdu, digest).as_bytes());
        if action == Some(Action::Corrupt) {
            // The CRC covers both; a segment may have no data.
            let bytes = if data.is_empty() { head } else { data };
            bytes.last_mut().into_iter().for_each(|last| *last ^= 1);
        }
        if let Some(tap) = self.tap {
            tap.fpdu(tap.sent, frame);
        }
        self.used = self.used.saturating_add(fpdu::size(ulpdu));
        if let Some(ends) = segment.ends_data(bytes as usize) {
            self.data.0 = self.data.0.saturating_add(bytes.into());
            self.data.1 = self.data.1.saturating_add(ends.into());
        }
        Ok(())
    }
}
