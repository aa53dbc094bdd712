//! Checksums of a frame that is sent ("Offloading Checksum Tasks").

use core::ops::Range;

use etherparse::checksum::Sum16BitWords;

use crate::frame::{IP, IPV4_CHECKSUM, Ip, TCP_CHECKSUM, field, put, tcp_header};

/// The checksums that a transport leaves to the miniport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Bytes of the IPv4 header whose checksum is wanted, with its options.
    ipv4_header: Option<usize>,
    /// The TCP segment whose checksum is wanted.
    tcp: Option<Range<usize>>,
}

impl Checksums {
    /// The checksums of a frame of `length` bytes that begins with `start`. `tcp`: the bytes before the TCP header, if its checksum is wanted; 0 if
    /// the list does not say. `None`: the frame has no such header, or ends before its segment.
    #[must_use]
    pub fn new(start: &[u8], length: usize, ipv4_header: bool, tcp: Option<usize>) -> Option<Self> {
        let ip = Ip::of(start)?;
        let ipv4_header = match (ipv4_header, ip) {
            (false, _) => None,
            (true, Ip::V4(header)) => Some(header),
            (true, Ip::V6) => return None,
        };
        let tcp = match tcp {
            None => None,
            Some(tcp) => {
                let behind_ip = IP.saturating_add(ip.length());
                let tcp = if tcp == 0 { behind_ip } else { tcp };
                let end = ip.end(start)?;
                let header = tcp_header(start, tcp)?;
                let is_whole = tcp >= behind_ip && end >= tcp.saturating_add(header) && end <= length;
                Some(is_whole.then_some(tcp..end)?)
            }
        };
        Some(Self { ipv4_header, tcp })
    }

    /// Writes them. `None`: `frame` is not the whole frame.
    pub fn write(&self, frame: &mut [u8]) -> Option<()> {
        if let Some(length) = self.ipv4_header {
            ipv4_header(frame, length)?;
        }
        if let Some(segment) = &self.tcp {
            // The transport has put the sum of the pseudo-header, with the segment's length, in the checksum's place.
            let sum = Sum16BitWords::new().add_slice(frame.get(segment.clone())?);
            put(frame, segment.start.saturating_add(TCP_CHECKSUM), sum.ones_complement().to_ne_bytes())?;
        }
        Some(())
    }
}

/// Writes the checksum of an IPv4 header of `length` bytes.
pub(crate) fn ipv4_header(frame: &mut [u8], length: usize) -> Option<()> {
    put(frame, IPV4_CHECKSUM, [0; 2])?;
    let sum = Sum16BitWords::new().add_slice(frame.get(IP..IP.saturating_add(length))?);
    put(frame, IPV4_CHECKSUM, sum.ones_complement().to_ne_bytes())
}

/// Whether the checksum of an IPv4 header of `length` bytes is right.
pub(crate) fn is_right(frame: &[u8], length: usize) -> bool {
    let header = frame.get(IP..IP.saturating_add(length));
    header.is_some_and(|header| Sum16BitWords::new().add_slice(header).ones_complement() == 0)
}

/// Writes the checksum of the TCP segment from `tcp` to the end of the frame. `pseudo_header`: the sum that the transport has put in the checksum's
/// place, without the segment's length.
pub(crate) fn tcp_segment(frame: &mut [u8], tcp: usize, pseudo_header: [u8; 2]) -> Option<()> {
    let at = tcp.saturating_add(TCP_CHECKSUM);
    put(frame, at, [0; 2])?;
    let segment = frame.get(tcp..)?;
    let length = u16::try_from(segment.len()).ok()?;
    let sum = Sum16BitWords::new().add_2bytes(pseudo_header).add_2bytes(length.to_be_bytes()).add_slice(segment);
    put(frame, at, sum.ones_complement().to_ne_bytes())
}

/// The sum that a transport has put in the place of a TCP checksum.
pub(crate) fn pseudo_header(frame: &[u8], tcp: usize) -> Option<[u8; 2]> {
    field(frame, tcp.saturating_add(TCP_CHECKSUM))
}
