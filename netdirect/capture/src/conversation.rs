//! A connection, as a TCP conversation.

use std::net::SocketAddr;

use iwarp::mpa::{FrameKind, MAX_FRAME, MpaFrame, Revision};

use crate::{
    fpdus::{self, Fpdu, Numbers},
    packet::{self, Flags},
};

/// The sender and the receiver of bytes.
pub(crate) type Direction = (SocketAddr, SocketAddr);

/// Bytes of a stream in one packet, at most.
const SEGMENT: usize = 60_000;

/// A packet to write.
pub(crate) struct Packet {
    pub(crate) time: u64,
    pub(crate) bytes: Vec<u8>,
    /// Its length, with bytes that were not captured.
    pub(crate) length: usize,
    pub(crate) comments: Vec<String>,
}

/// One connection, from its beginning in the capture on.
pub(crate) struct Conversation {
    sides: [Side; 2],
    state: State,
    /// For its next packet.
    comments: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    /// One side has told of the end: the side that ended it, by an error or not. What was sent before may come behind.
    Ending(usize, bool, u64),
}

/// What one side sends.
struct Side {
    address: SocketAddr,
    /// The number of its next byte.
    sequence: u32,
    numbers: Numbers,
    /// Bytes of a stream whose other records are still to come.
    partial: Option<Partial>,
}

struct Partial {
    time: u64,
    total: usize,
    bytes: Vec<u8>,
}

impl Conversation {
    /// The conversation of two addresses.
    pub(crate) fn new((one, other): Direction) -> Self {
        let side = |address| Side { address, sequence: 1, numbers: Numbers::default(), partial: None };
        Self { sides: [side(one), side(other)], state: State::New, comments: Vec::new() }
    }

    fn index(&self, source: SocketAddr) -> usize {
        usize::from(self.sides[0].address != source)
    }

    /// Bytes of the stream from `source`: the first of `total`, with `left` more to come in [`Self::more`].
    pub(crate) fn stream(
        &mut self,
        time: u64,
        source: SocketAddr,
        total: usize,
        bytes: &[u8],
        left: u32,
    ) -> Vec<Packet> {
        let mut packets = self.flush(source);
        if MpaFrame::parse(FrameKind::Request, bytes).is_ok() {
            packets.extend(self.finish());
            packets.extend(self.shake_hands(time, source, None));
        } else {
            packets.extend(self.begin(time, source, false));
        }
        let index = self.index(source);
        self.sides[index].partial = Some(Partial { time, total, bytes: bytes.to_vec() });
        if left == 0 {
            packets.extend(self.flush(source));
        }
        packets
    }

    /// More bytes of the stream from `source`.
    pub(crate) fn more(&mut self, source: SocketAddr, bytes: &[u8], left: u32) -> Vec<Packet> {
        let index = self.index(source);
        if let Some(partial) = &mut self.sides[index].partial {
            partial.bytes.extend_from_slice(bytes);
        }
        if left == 0 { self.flush(source) } else { Vec::new() }
    }

    /// A segment within the adapter.
    pub(crate) fn segment(&mut self, time: u64, source: SocketAddr, total: u32, known: &[u8]) -> Vec<Packet> {
        let mut packets = self.begin(time, source, true);
        let index = self.index(source);
        let receiver = self.sides[1 - index].numbers;
        let fpdus = fpdus::of_segment(known, total, &mut self.sides[index].numbers, &receiver);
        for Fpdu { bytes, length } in fpdus.unwrap_or_default() {
            packets.extend(self.send(time, source, &bytes, length));
        }
        packets
    }

    /// The end of the connection: `source` disconnects (0), or the other side (1), or there was an error (2).
    pub(crate) fn ended(&mut self, time: u64, source: SocketAddr, reason: u32) {
        let index = self.index(source);
        if self.state == State::Open {
            self.state = State::Ending(if reason == 1 { 1 - index } else { index }, reason == 2, time);
        }
    }

    /// Whether it has begun, and no side has told of its end.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Something happened, of which the next packet has to tell.
    pub(crate) fn comment(&mut self, comment: String) {
        self.comments.push(comment);
    }

    /// What is left: bytes that wait for more, the end, and comments that had no packet.
    pub(crate) fn finish(&mut self) -> Vec<Packet> {
        let mut packets: Vec<_> = [0, 1].into_iter().flat_map(|index| self.flush(self.sides[index].address)).collect();
        if let State::Ending(first, by_error, time) = self.state {
            if by_error {
                packets.push(self.control(time, first, Flags { rst: true, ack: true, ..Flags::default() }));
            } else {
                for index in [first, 1 - first] {
                    packets.push(self.control(time, index, Flags { fin: true, ack: true, ..Flags::default() }));
                }
            }
        }
        self.state = State::New;
        packets
    }

    /// The comments for which there was no packet.
    pub(crate) fn left_comments(&mut self) -> Vec<String> {
        let [one, other] = self.sides.each_ref().map(|side| side.address);
        self.comments.drain(..).map(|comment| format!("{one}, {other}: {comment}")).collect()
    }

    /// The capture goes on in another file, which needs a beginning.
    pub(crate) fn go_on(&mut self) {
        if self.state == State::Open {
            self.state = State::New;
        }
    }

    /// The bytes from `source` that wait for more, which was dropped.
    fn flush(&mut self, source: SocketAddr) -> Vec<Packet> {
        let index = self.index(source);
        match self.sides[index].partial.take() {
            Some(Partial { time, total, bytes }) => self.send(time, source, &bytes, total),
            None => Vec::new(),
        }
    }

    /// Begins the conversation, unless it has begun: with handshakes that were not captured, so that Wireshark knows what the stream is.
    fn begin(&mut self, time: u64, source: SocketAddr, crc: bool) -> Vec<Packet> {
        if self.state != State::New {
            return Vec::new();
        }
        let made_up = "the connection began before this file: handshakes are made up";
        let mut packets = self.shake_hands(time, source, Some(made_up.to_owned()));
        let index = self.index(source);
        for (index, kind) in [(index, FrameKind::Request), (1 - index, FrameKind::Reply)] {
            let revision = Revision::One;
            let frame = MpaFrame { kind, markers: false, crc, reject: false, revision, private_data: &[] };
            let mut bytes = [0; MAX_FRAME];
            if let Some(bytes) = frame.emit(&mut bytes).and_then(|length| bytes.get(..length)) {
                packets.extend(self.send(time, self.sides[index].address, bytes, bytes.len()));
            }
        }
        packets
    }

    /// TCP's handshake. Without a comment the connection is new, and counts its messages from 1.
    fn shake_hands(&mut self, time: u64, source: SocketAddr, comment: Option<String>) -> Vec<Packet> {
        if comment.is_none() {
            self.sides.iter_mut().for_each(|side| side.numbers = Numbers::default());
        }
        self.state = State::Open;
        self.comments.extend(comment);
        let index = self.index(source);
        let syn = Flags { syn: true, ..Flags::default() };
        let steps =
            [(index, syn), (1 - index, Flags { ack: true, ..syn }), (index, Flags { ack: true, ..Flags::default() })];
        steps.into_iter().map(|(index, flags)| self.control(time, index, flags)).collect()
    }

    /// Sends `length` bytes of the stream, of which `bytes` are known.
    fn send(&mut self, time: u64, source: SocketAddr, bytes: &[u8], length: usize) -> Vec<Packet> {
        let index = self.index(source);
        let mut packets = Vec::new();
        for start in (0..length).step_by(SEGMENT) {
            let total = SEGMENT.min(length - start);
            let known = bytes.get(start.min(bytes.len())..bytes.len().min(start + total)).unwrap_or_default();
            packets.push(self.packet(time, index, Flags { ack: true, ..Flags::default() }, known, total));
        }
        packets
    }

    fn control(&mut self, time: u64, index: usize, flags: Flags) -> Packet {
        self.packet(time, index, flags, &[], 0)
    }

    fn packet(&mut self, time: u64, index: usize, flags: Flags, known: &[u8], total: usize) -> Packet {
        let direction = (self.sides[index].address, self.sides[1 - index].address);
        let acknowledged = if flags.ack { self.sides[1 - index].sequence } else { 0 };
        let mut bytes = packet::headers(direction, flags, (self.sides[index].sequence, acknowledged), known, total);
        let length = bytes.len() + total;
        bytes.extend_from_slice(known);
        // A conversation that was captured for long begins with 0 again, as in TCP.
        let used = total as u32 + u32::from(flags.syn) + u32::from(flags.fin);
        self.sides[index].sequence = self.sides[index].sequence.wrapping_add(used);
        Packet { time, bytes, length, comments: std::mem::take(&mut self.comments) }
    }
}
