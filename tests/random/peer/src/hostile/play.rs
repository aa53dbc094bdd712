//! Plays a script.

use std::{collections::VecDeque, ops::Range, time::Duration};

use iwarp::segment::{Segment, Tagged, Untagged};
use iwarp::terminate::{Cause, MAX_BODY, Terminate};
use simkernel::{Session, SimKernel};
use soft_rdma::{
    Access, Connector, Error, MemoryRegion, OperationKind, Outcome, Post, ProtectionDomain, QueuePair, Remote, Status,
};

use super::{
    Outcomes, Script,
    operation::{Near, Operation, Place, Seldom, Tag},
};
use crate::{
    Arc, Finding,
    device::{BASE, Inbox},
    ensure,
    establish::Scene,
    frames,
};

/// A byte that no access may change.
const CANARY: u8 = 0xEE;
/// Bytes of a receive, and from one to the next.
const RECEIVE: usize = 0x100;
const STRIDE: usize = 0x200;
/// Where reads of the device put what they get.
const SINK: Range<usize> = 0x3000..0x3100;
/// What the peer may write to.
const OPEN: Range<usize> = 0x4000..0x8000;
/// What the device writes to and reads from: its peer's.
const REMOTE: Remote = Remote { address: 0x5000, token: 0x1234 };
/// Requests and receives that are posted at a time: what the queues have room for.
const POSTED: usize = 8;
/// Bytes of the sends and writes of the device, at most.
const SENT: u16 = 0x4000;

type Region = Arc<MemoryRegion<SimKernel>>;

struct Play<'a> {
    kernel: &'a Session,
    scene: &'a Scene,
    open: Region,
    read: Region,
    written: Region,
    foreign: Region,
    fast: Region,
    /// MSNs of the next send and read.
    next_send: u32,
    next_read: u32,
    /// Bytes of the send that is not at its end.
    sent: u32,
    /// Reads of the device that are not answered: tag and size.
    asked: VecDeque<(u32, u32)>,
    /// Bytes of the oldest that are sent.
    answered: u32,
    /// The bytes that the peer sends next.
    unsent: Vec<u8>,
    flip: Option<u16>,
    /// Contexts of what is posted: receives from 1000 on.
    posted: Vec<usize>,
    last_context: usize,
    statuses: Vec<Status>,
    /// What the device ended the stream with.
    terminate: Option<String>,
    disconnected: bool,
}

pub(super) fn play(kernel: &Session, script: &Script) -> Result<Outcomes, Finding> {
    let scene = Scene::new(script.by, script.crc);
    let side = scene.side();
    side.pages.write(0, &vec![CANARY; side.pages.size()]);
    let other = ProtectionDomain::new(&scene.adapter).expect("memory");
    let at = |pd, access| side.region_at(pd, Access::LOCAL_WRITE | access, OPEN).expect("a region");
    let fast = MemoryRegion::new(&side.pd, true).expect("memory");
    MemoryRegion::initialize_fast(&fast, 4, true).expect("memory");
    let mut play = Play {
        kernel,
        scene: &scene,
        open: at(&side.pd, Access::REMOTE_READ | Access::REMOTE_WRITE),
        read: at(&side.pd, Access::REMOTE_READ),
        written: at(&side.pd, Access::REMOTE_WRITE),
        foreign: at(&other, Access::REMOTE_READ | Access::REMOTE_WRITE),
        fast,
        next_send: 1,
        next_read: 1,
        sent: 0,
        asked: VecDeque::new(),
        answered: 0,
        unsent: Vec::new(),
        flip: None,
        posted: Vec::new(),
        last_context: 0,
        statuses: Vec::new(),
        terminate: None,
        disconnected: false,
    };
    for (number, operation) in script.operations.iter().enumerate() {
        let done = play.perform(operation);
        done.map_err(|Finding(what)| Finding(format!("operation {number}, {operation:?}: {what}")))?;
    }
    play.end()
}

impl Play<'_> {
    fn perform(&mut self, operation: &Operation) -> Result<(), Finding> {
        let side = self.scene.side();
        match *operation {
            Operation::Send { message, offset, length, last, invalidate } => {
                let send = iwarp::segment::Send { solicited: last, invalidate: invalidate.map(|tag| self.tag(tag)) };
                let mo = offset.of_number(self.sent);
                let untagged = Untagged { last, msn: message.of_number(self.next_send), mo };
                // Most fit, in one part or a few.
                let length = if length < 0xF000 { length % (RECEIVE as u16 + 2) } else { length % 0x4000 };
                self.frame(&frames::ulpdu(&Segment::Send(untagged, send), &vec![length as u8; length.into()]));
                self.sent = if last { 0 } else { self.sent.wrapping_add(length.into()) };
                self.next_send = self.next_send.wrapping_add(last.into());
            }
            Operation::Write { tag, place, length, last } => {
                let length = length % (OPEN.len() as u16 + 2);
                let tagged = Tagged { last, stag: self.tag(tag), offset: address(place, length) };
                self.frame(&frames::ulpdu(&Segment::Write(tagged), &vec![length as u8; length.into()]));
            }
            Operation::Read { message, tag, place, size } => {
                let size = u32::from(size) % (OPEN.len() as u32 + 2);
                let message = message.of_number(self.next_read);
                self.frame(&frames::read(message, size, self.tag(tag), address(place, size)));
                self.next_read = self.next_read.wrapping_add(1);
            }
            Operation::Answer { tag, offset, length, in_parts, last } => {
                self.drain()?;
                if self.asked.is_empty() && tag.0 < 250 {
                    return Ok(());
                }
                let (stag, size) = self.asked.front().copied().unwrap_or_default();
                let left = size - self.answered.min(size);
                let part = if in_parts { left / 2 } else { left };
                let is_last = (last.of(0) == 0) == (part == left);
                let part = length.of_number(part) % 0x8000;
                let offset = offset.of(self.answered.into());
                self.frame(&frames::answer(is_last, tag.of_number(stag), offset, &vec![part as u8; part as usize]));
                self.answered = self.answered.wrapping_add(part);
                if is_last {
                    self.answered = 0;
                    self.asked.pop_front();
                }
            }
            Operation::Seldom(0..24, ref seldom) => self.seldom(seldom)?,
            Operation::Seldom(..) => {}
            Operation::Flip(bit) => self.flip = Some(bit),
            Operation::Flush => {}
            Operation::Drain => self.drain()?,
            Operation::Receive => {
                let receives = self.posted.iter().filter(|context| **context >= 1000).count();
                if receives < POSTED && !self.disconnected {
                    self.last_context += 1;
                    let offset = self.last_context % POSTED * STRIDE;
                    let sge = side.sge(offset, RECEIVE as u32);
                    let posted = side.queue_pair().post_receive(1000 + self.last_context, &[sge]);
                    self.note(posted, 1000 + self.last_context)?;
                }
            }
            Operation::PostSend(length) => self.post((length % SENT).into(), Post::Send(None))?,
            Operation::PostWrite(length) => {
                self.post((length % SENT).into(), Post::Write(REMOTE))?;
            }
            Operation::PostRead(length) => {
                self.post(length.into(), Post::Read(REMOTE))?;
            }
            Operation::Pause(times) => (0..times).for_each(|_| simkernel::pause()),
            Operation::Wait(hundredths) => self.kernel.advance(Duration::from_millis(10 * u64::from(hundredths))),
            Operation::Limit(bytes) => self.kernel.limit_in_flight(1 + usize::from(bytes)),
        }
        // Some frames go together.
        if matches!(operation, Operation::Flush | Operation::Drain | Operation::Pause(_)) {
            self.send();
        }
        self.look()
    }

    fn seldom(&mut self, seldom: &Seldom) -> Result<(), Finding> {
        let raw = self.scene.raw();
        match seldom {
            Seldom::Terminate(body) => {
                let body = match *body.as_slice() {
                    [kind, read, cause, length, ..] if kind % 2 == 0 => self.refusal(Near(read), cause, length)?,
                    _ => body.clone(),
                };
                let head = Untagged { last: true, msn: 1, mo: 0 };
                self.frame(&frames::ulpdu(&Segment::Terminate(head), &body));
            }
            Seldom::Frame(ulpdu) => self.frame(ulpdu),
            Seldom::Bytes(bytes) => self.unsent.extend(bytes),
            Seldom::Finish => {
                self.send();
                raw.finish();
            }
            Seldom::Reset => raw.reset(),
            Seldom::FlushQueue => QueuePair::flush(self.scene.side().queue_pair()),
            Seldom::Disconnect => self.disconnect()?,
        }
        Ok(())
    }

    /// The body of a Terminate because of the oldest read of the device, or another; mostly a right one.
    fn refusal(&mut self, read: Near, cause: u8, length: u8) -> Result<Vec<u8>, Finding> {
        self.drain()?;
        let (stag, size) = self.asked.front().copied().unwrap_or((1, 16));
        let mut request = frames::read(stag, size, REMOTE.token, REMOTE.address);
        request[18..22].copy_from_slice(&read.of_number(stag).to_be_bytes());
        let right = [Cause::STAG, Cause::BOUNDS, Cause::ACCESS, Cause::NOT_OF_STREAM, Cause::WRAP];
        let (any, _) = Cause::ALL[usize::from(cause) % Cause::ALL.len()];
        let cause = if cause < 200 { right[usize::from(cause) % right.len()] } else { any };
        let mut body = [0; MAX_BODY];
        let count = Terminate::of(cause, &request).emit(&mut body).expect("room for any");
        let count = if length < 200 { count } else { count.min((length - 200).into()) };
        Ok(body[..count].to_vec())
    }

    fn tag(&self, tag: Tag) -> u32 {
        match tag {
            Tag::Open => self.open.token(),
            Tag::Read => self.read.token(),
            Tag::Written => self.written.token(),
            Tag::Foreign => self.foreign.token(),
            Tag::Fast => self.fast.token(),
            Tag::Local => self.scene.side().sge(0, 0).token,
            Tag::Other(tag) => tag,
        }
    }

    fn frame(&mut self, ulpdu: &[u8]) {
        let mut frame = frames::fpdu(ulpdu, self.scene.raw().crc.get());
        if let Some(bit) = self.flip.take() {
            let place = usize::from(bit / 8) % frame.len();
            frame[place] ^= 1 << (bit % 8);
        }
        self.unsent.extend(frame);
    }

    /// Sends, as long as the device takes some of it.
    fn send(&mut self) {
        let mut idle = 0;
        while !self.unsent.is_empty() && idle < 100 {
            let sent = self.scene.raw().send_some(&self.unsent);
            self.unsent.drain(..sent);
            idle = if sent == 0 { idle + 1 } else { 0 };
            simkernel::pause();
        }
    }

    fn post(&mut self, length: usize, what: Post<'_, SimKernel>) -> Result<(), Finding> {
        let requests = self.posted.iter().filter(|context| **context < 1000).count();
        if requests >= POSTED || self.disconnected || self.last_context >= 999 {
            return Ok(());
        }
        self.last_context += 1;
        let from = if matches!(what, Post::Read(_)) { SINK.start } else { OPEN.start };
        let sge = self.scene.side().sge(from, length as u32);
        let posted = self.scene.side().post(self.last_context, &[sge], what);
        self.note(posted, self.last_context)
    }

    fn note(&mut self, posted: Status, context: usize) -> Result<(), Finding> {
        match posted {
            Ok(()) => self.posted.push(context),
            Err(error) => ensure!(error == Error::ConnectionInvalid, "a post ends with {error:?}"),
        }
        Ok(())
    }

    /// Takes what the device has sent: whole frames, and none behind a Terminate.
    fn drain(&mut self) -> Result<(), Finding> {
        while let Some(ulpdu) = self.scene.raw().ulpdu_that_has_come() {
            ensure!(self.terminate.is_none(), "{ulpdu:02x?} comes behind a Terminate");
            let (segment, data) = Segment::parse(&ulpdu).map_err(|cause| Finding(format!("{cause}: {ulpdu:02x?}")))?;
            match segment {
                Segment::ReadRequest(_, request) => self.asked.push_back((request.sink_stag, request.size)),
                Segment::Terminate(_) => {
                    let terminate =
                        Terminate::parse(data).ok_or_else(|| Finding(format!("a Terminate of {data:x?}")))?;
                    self.terminate = Some(terminate.cause.to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes completions, of what was posted.
    fn look(&mut self) -> Result<(), Finding> {
        for completion in self.scene.side().completions() {
            let context = completion.request_context;
            let place = self.posted.iter().position(|posted| *posted == context);
            ensure!(place.is_some(), "{context} is reported, which was not posted, or twice");
            self.posted.swap_remove(place.unwrap_or_default());
            let own: &[_] = match completion.kind {
                OperationKind::Receive | OperationKind::ReceiveAndInvalidate => &[Error::BufferOverflow],
                // The peer may say so.
                OperationKind::Read => &[Error::AccessViolation, Error::RemoteResources],
                OperationKind::Write => &[Error::AccessViolation],
                _ => &[Error::DataError],
            };
            let status = completion.status;
            let allowed = status.err().is_none_or(|error| error == Error::Canceled || own.contains(&error));
            ensure!(allowed, "{context} ends with {status:?}");
            self.statuses.push(status);
        }
        Ok(())
    }

    fn disconnect(&mut self) -> Result<(), Finding> {
        let done = Inbox::default();
        match Connector::disconnect(self.scene.side().connector(), done.callback()) {
            Ok(Outcome::Pending) => {
                let status = done.wait("the disconnect");
                ensure!(status == Ok(()), "the disconnect ends with {status:?}");
            }
            Ok(Outcome::Done) => {}
            Err(error) => ensure!(error == Error::ConnectionInvalid && self.disconnected, "a disconnect: {error:?}"),
        }
        self.disconnected = true;
        Ok(())
    }

    /// Ends the connection, in any state.
    fn end(mut self) -> Result<Outcomes, Finding> {
        let (raw, side) = (self.scene.raw(), self.scene.side());
        self.send();
        self.kernel.flush_dpcs();
        self.drain()?;
        // For what waits for a receive.
        for _ in 0..12 {
            self.kernel.advance(Duration::from_secs(1));
            self.kernel.flush_dpcs();
            self.drain()?;
        }
        self.look()?;
        let reason = side.disconnects.take();
        ensure!(reason.is_none_or(|reason| reason <= 1), "reason {reason:?}");
        self.disconnect()?;
        self.kernel.flush_dpcs();
        self.look()?;
        ensure!(self.posted.is_empty(), "{:?} is not reported", self.posted);
        ensure!(side.disconnects.take().is_none(), "a second disconnect event, or one of this side's own act");
        self.drain()?;
        raw.reset();
        self.kernel.flush_dpcs();
        self.check_memory()?;
        let mut outcomes = Outcomes::new();
        let terminate = self.terminate.unwrap_or_else(|| "no Terminate".to_owned());
        *outcomes.entry(format!("{terminate}, reason {reason:?}")).or_default() += 1;
        for status in self.statuses {
            *outcomes.entry(format!("{status:?}")).or_default() += 1;
        }
        Ok(outcomes)
    }

    fn check_memory(&self) -> Result<(), Finding> {
        let pages = &self.scene.side().pages;
        let memory = pages.read(0, pages.size());
        let may_change = |place: usize| {
            let in_receive = place < POSTED * STRIDE && place % STRIDE < RECEIVE;
            in_receive || SINK.contains(&place) || OPEN.contains(&place)
        };
        let changed = memory.iter().enumerate().find(|&(place, byte)| *byte != CANARY && !may_change(place));
        changed.map_or(Ok(()), |(place, byte)| Err(Finding(format!("byte {place:#x} of the memory is {byte:#x}"))))
    }
}

/// A place, as the peer names it.
fn address(place: Place, length: impl Into<u64>) -> u64 {
    let distance = u64::from(place.distance) % (OPEN.len() as u64 / 2);
    let right = if place.from_end { (BASE + OPEN.len() as u64).saturating_sub(length.into()) } else { BASE + distance };
    place.near.of(right)
}
