//! Receive segment coalescing ("Rules for Coalescing TCP/IP Segments", "Exception Conditions that Terminate Coalescing"): data segments of one
//! connection that follow one another become one. Acknowledgments and window updates without data are never part of a unit.

use core::ops::Range;

use etherparse::checksum::Sum16BitWords;

use crate::{
    checksum,
    frame::{
        IP, IPV4, IPV4_LENGTH, IPV6_LENGTH, Ip, TCP, TCP_CHECKSUM, TCP_DATA_OFFSET, TCP_FLAGS, TCP_SEQUENCE, field,
        is_fragment, protocol, put, tcp_header,
    },
};

/// Fields of a TCP header, from its start.
const TCP_ACKNOWLEDGMENT: usize = 8;
const TCP_WINDOW: usize = 14;
const TCP_OPTIONS: usize = 20;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// Two NOPs, and the kind and the length of the timestamp option (RFC 7323, appendix A).
const TIMESTAMP: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMP_LENGTH: usize = 12;

/// No IP packet is longer.
const LONGEST_PACKET: usize = 0xFFFF;

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A segment that may be part of a unit.
    Segment(Segment),
    /// TCP, to be indicated by itself.
    Exception,
    /// No TCP.
    Other,
}

/// A segment with data and without an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    is_ipv6: bool,
    /// Where the TCP header begins.
    tcp: usize,
    /// Bytes of all headers.
    headers: usize,
    payload: usize,
    sequence: u32,
    acknowledgment: u32,
}

impl Frame {
    /// What a frame is. Its checksums are not looked at.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        let Some(ip) = Ip::of(frame) else { return Self::Other };
        if protocol(frame, ip) != Some(TCP) {
            return Self::Other;
        }
        Segment::of(frame, ip).map_or(Self::Exception, Self::Segment)
    }
}

impl Segment {
    /// The segment in a packet of TCP. `None`: an exception.
    fn of(frame: &[u8], ip: Ip) -> Option<Self> {
        let is_whole = match ip {
            Ip::V4(header) => header == IPV4 && !is_fragment(frame)?,
            Ip::V6 => true,
        };
        let tcp = IP.saturating_add(ip.length());
        let options = tcp.saturating_add(TCP_OPTIONS);
        let headers = tcp.saturating_add(tcp_header(frame, tcp)?);
        let end = ip.end(frame)?;
        let has_known_options = match headers.saturating_sub(options) {
            0 => true,
            TIMESTAMP_LENGTH => field(frame, options)? == TIMESTAMP,
            _ => false,
        };
        let [reserved, flags] = field(frame, tcp.saturating_add(TCP_DATA_OFFSET))?;
        let has_known_flags = reserved & 0xF == 0 && flags & !PSH == ACK;
        if !is_whole || !has_known_options || !has_known_flags || end <= headers || end > frame.len() {
            return None;
        }
        Some(Self {
            is_ipv6: ip == Ip::V6,
            tcp,
            headers,
            payload: end.saturating_sub(headers),
            sequence: u32::from_be_bytes(field(frame, tcp.saturating_add(TCP_SEQUENCE))?),
            acknowledgment: u32::from_be_bytes(field(frame, tcp.saturating_add(TCP_ACKNOWLEDGMENT))?),
        })
    }

    /// Whether the segment is IPv6's, not IPv4's.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// Where the payload is in the frame. What follows is padding.
    #[must_use]
    pub const fn payload(&self) -> Range<usize> {
        self.headers..self.headers.saturating_add(self.payload)
    }

    /// The sum of the payload, if the checksums of IPv4 and TCP are right.
    fn verified(&self, frame: &[u8]) -> Option<u16> {
        let payload = sum(Sum16BitWords::new().add_slice(frame.get(self.payload())?));
        let headers = Sum16BitWords::new().add_slice(frame.get(self.tcp..self.headers)?);
        let segment = self.pseudo_header(frame, headers, self.payload)?.add_2bytes(payload.to_ne_bytes());
        let is_right = segment.ones_complement() == 0 && (self.is_ipv6 || checksum::is_right(frame, IPV4));
        is_right.then_some(payload)
    }

    /// Adds the pseudo-header of a segment with as much payload.
    fn pseudo_header(&self, frame: &[u8], sum: Sum16BitWords, payload: usize) -> Option<Sum16BitWords> {
        let addresses = if self.is_ipv6 { 22..54 } else { 26..34 };
        let length = self.headers.saturating_sub(self.tcp).saturating_add(payload) as u16;
        Some(sum.add_slice(frame.get(addresses)?).add_2bytes([0, TCP]).add_2bytes(length.to_be_bytes()))
    }

    /// Whether two frames are of one connection.
    fn is_of_connection(&self, one: &[u8], other: &[u8]) -> bool {
        let addresses = if self.is_ipv6 { 22..54 } else { 26..34 };
        let ports = self.tcp..self.tcp.saturating_add(4);
        [addresses, ports].into_iter().all(|field| one.get(field.clone()) == other.get(field))
    }

    /// Whether the headers of two frames differ in no other field than lengths, IP's identification, checksums, and TCP's numbers, window and PSH.
    fn is_alike(&self, one: &[u8], other: &[u8]) -> bool {
        let ip: [Range<usize>; 2] = if self.is_ipv6 { [0..18, 20..22] } else { [0..16, 20..24] };
        let options = self.tcp.saturating_add(TCP_OPTIONS)..self.headers;
        ip.into_iter().chain([options]).all(|field| one.get(field.clone()) == other.get(field))
    }
}

/// Segments that are indicated as one.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    first: Segment,
    segments: u16,
    /// Bytes of payload.
    payload: usize,
    /// The sum of the payload, the last segment's window, and PSH if any segment has it: once there are two segments.
    sum: u16,
    window: [u8; 2],
    psh: u8,
    /// The last segment's.
    acknowledgment: u32,
}

/// Why a segment is no part of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The segment is of another connection.
    OtherConnection,
    /// The IP packet would be too long.
    Length,
    /// It does not follow the unit's last segment, differs from it, or one of both has a wrong checksum.
    Exception,
}

impl Unit {
    /// A unit of one segment.
    #[must_use]
    pub const fn new(first: Segment) -> Self {
        let Segment { payload, acknowledgment, .. } = first;
        Self { first, segments: 1, payload, sum: 0, acknowledgment, window: [0; 2], psh: 0 }
    }

    /// How many segments the unit has.
    #[must_use]
    pub const fn segments(&self) -> u16 {
        self.segments
    }

    /// Bytes of the unit's payload.
    #[must_use]
    pub const fn payload(&self) -> usize {
        self.payload
    }

    /// Bytes of the unit's frame.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.first.headers.saturating_add(self.payload)
    }

    /// Makes a segment part of the unit. `first`: the frame of its first segment. `frame`: the segment's.
    pub fn join(&mut self, first: &[u8], frame: &[u8], segment: &Segment) -> Result<(), Refused> {
        let next = self.first.sequence.wrapping_add(self.payload as u32);
        let is_newer = segment.acknowledgment.wrapping_sub(self.acknowledgment) < 1 << 31;
        let is_next = segment.sequence == next && is_newer;
        if segment.is_ipv6 != self.first.is_ipv6 || !segment.is_of_connection(first, frame) {
            return Err(Refused::OtherConnection);
        }
        if !is_next || segment.headers != self.first.headers || !segment.is_alike(first, frame) {
            return Err(Refused::Exception);
        }
        let payload = self.payload.saturating_add(segment.payload);
        if self.first.headers.saturating_sub(IP).saturating_add(payload) > LONGEST_PACKET {
            return Err(Refused::Length);
        }
        if self.segments == 1 {
            self.sum = self.first.verified(first).ok_or(Refused::Exception)?;
            self.psh = field::<1>(first, self.first.tcp.saturating_add(TCP_FLAGS)).map_or(0, |[flags]| flags & PSH);
        }
        let added = segment.verified(frame).ok_or(Refused::Exception)?;
        // A sum of words is swapped if its bytes stand at odd places.
        let added = if self.payload.is_multiple_of(2) { added } else { added.swap_bytes() };
        let both = Sum16BitWords::new().add_2bytes(self.sum.to_ne_bytes()).add_2bytes(added.to_ne_bytes());
        self.sum = sum(both);
        self.payload = payload;
        self.segments = self.segments.saturating_add(1);
        self.acknowledgment = segment.acknowledgment;
        self.window = field(frame, segment.tcp.saturating_add(TCP_WINDOW)).unwrap_or(self.window);
        self.psh |= field::<1>(frame, segment.tcp.saturating_add(TCP_FLAGS)).map_or(0, |[flags]| flags & PSH);
        Ok(())
    }

    /// Writes the headers of a unit of several segments over those of the first one. `None`: `frame` does not have them.
    pub fn write_headers(&self, frame: &mut [u8]) -> Option<()> {
        let Segment { is_ipv6, tcp, headers, .. } = self.first;
        let packet = self.length().saturating_sub(IP);
        if is_ipv6 {
            let payload = packet.saturating_sub(tcp.saturating_sub(IP));
            put(frame, IPV6_LENGTH, u16::try_from(payload).ok()?.to_be_bytes())?;
        } else {
            put(frame, IPV4_LENGTH, u16::try_from(packet).ok()?.to_be_bytes())?;
            checksum::ipv4_header(frame, IPV4)?;
        }
        put(frame, tcp.saturating_add(TCP_ACKNOWLEDGMENT), self.acknowledgment.to_be_bytes())?;
        put(frame, tcp.saturating_add(TCP_FLAGS), [ACK | self.psh])?;
        put(frame, tcp.saturating_add(TCP_WINDOW), self.window)?;
        put(frame, tcp.saturating_add(TCP_CHECKSUM), [0; 2])?;
        let sum = Sum16BitWords::new().add_slice(frame.get(tcp..headers)?).add_2bytes(self.sum.to_ne_bytes());
        let sum = self.first.pseudo_header(frame, sum, self.payload)?;
        put(frame, tcp.saturating_add(TCP_CHECKSUM), sum.ones_complement().to_ne_bytes())
    }
}

/// The sum, folded to a word.
fn sum(words: Sum16BitWords) -> u16 {
    !words.ones_complement()
}
