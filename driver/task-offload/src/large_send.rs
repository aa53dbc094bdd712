//! Large sends, version 2 ("Offloading the Segmentation of Large TCP Packets").

use crate::{
    checksum,
    frame::{
        IP, IPV4_IDENTIFICATION, IPV4_LENGTH, IPV6, IPV6_LENGTH, Ip, TCP_FLAGS, TCP_SEQUENCE, field, put, tcp_header,
    },
};

/// Bytes of headers, at most: Ethernet's, an IPv6 header with 128 bytes of extensions ("Combining Types of Task Offloads"), and the longest of TCP.
pub const MAX_HEADERS: usize = 14 + 40 + 128 + 60;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
/// ECN's Congestion Window Reduced (RFC 3168).
const CWR: u8 = 0x80;

/// Segments have IP identifications up to this; NDIS reserves the others for TCP chimneys.
const IDENTIFICATIONS: u16 = 0x7FFF;

/// A large TCP segment.
pub struct LargeSend<'a> {
    /// The headers of the first segment, as the transport has written them.
    headers: &'a [u8],
    ip: Ip,
    /// Where the TCP header begins.
    tcp: usize,
    /// Bytes of payload in each segment but the last.
    mss: usize,
    payload: usize,
    pseudo_header: [u8; 2],
}

impl<'a> LargeSend<'a> {
    /// A frame of `length` bytes that begins with `start`, which has [`MAX_HEADERS`] bytes of it, or all. `tcp`: the bytes before the TCP header.
    /// `None`: the frame is no TCP segment of IPv4, or of IPv6 if so said, that may be divided.
    #[must_use]
    pub fn new(start: &'a [u8], length: usize, tcp: usize, mss: usize, is_ipv6: bool) -> Option<Self> {
        let ip = Ip::of(start)?;
        let is_behind_ip = match ip {
            Ip::V4(header) => !is_ipv6 && tcp == IP.saturating_add(header),
            Ip::V6 => is_ipv6 && tcp >= IP.saturating_add(IPV6),
        };
        let headers = start.get(..tcp.saturating_add(tcp_header(start, tcp)?))?;
        let [flags] = field(headers, tcp.saturating_add(TCP_FLAGS))?;
        let payload = length.checked_sub(headers.len())?;
        let pseudo_header = checksum::pseudo_header(headers, tcp)?;
        let is_whole = is_behind_ip && mss > 0 && payload > 0 && flags & (SYN | RST | URG) == 0;
        is_whole.then_some(Self { headers, ip, tcp, mss, payload, pseudo_header })
    }

    /// Bytes of headers in each segment.
    #[must_use]
    pub fn headers(&self) -> usize {
        self.headers.len()
    }

    /// How many segments there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.payload.div_ceil(self.mss)
    }

    /// Bytes of all segments, with their headers.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.segments().saturating_mul(self.headers.len()).saturating_add(self.payload)
    }

    /// Bytes of payload in a segment.
    #[must_use]
    pub fn payload(&self, segment: usize) -> usize {
        self.payload.saturating_sub(segment.saturating_mul(self.mss)).min(self.mss)
    }

    /// Writes the headers of a segment, whose payload stands behind them in `frame`. `None`: `frame` is not as long.
    pub fn write_headers(&self, segment: usize, frame: &mut [u8]) -> Option<()> {
        if frame.len() != self.headers.len().saturating_add(self.payload(segment)) {
            return None;
        }
        frame.get_mut(..self.headers.len())?.copy_from_slice(self.headers);
        let ip_length = frame.len().saturating_sub(IP);
        match self.ip {
            Ip::V4(header) => {
                put(frame, IPV4_LENGTH, u16::try_from(ip_length).ok()?.to_be_bytes())?;
                let identification = u16::from_be_bytes(field(frame, IPV4_IDENTIFICATION)?);
                let identification = identification.wrapping_add(segment as u16) & IDENTIFICATIONS;
                put(frame, IPV4_IDENTIFICATION, identification.to_be_bytes())?;
                checksum::ipv4_header(frame, header)?;
            }
            Ip::V6 => put(frame, IPV6_LENGTH, u16::try_from(ip_length.saturating_sub(IPV6)).ok()?.to_be_bytes())?,
        }
        let at = self.tcp.saturating_add(TCP_SEQUENCE);
        let sent = segment.saturating_mul(self.mss) as u32;
        let sequence = u32::from_be_bytes(field(frame, at)?).wrapping_add(sent);
        put(frame, at, sequence.to_be_bytes())?;
        let at = self.tcp.saturating_add(TCP_FLAGS);
        let [mut flags] = field(frame, at)?;
        if segment > 0 {
            flags &= !CWR;
        }
        if segment.saturating_add(1) < self.segments() {
            flags &= !(FIN | PSH);
        }
        put(frame, at, [flags])?;
        checksum::tcp_segment(frame, self.tcp, self.pseudo_header)
    }
}
