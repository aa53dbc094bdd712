//! The addresses of a frame's IP packet, and a changed bit that TCP's checksum finds, for fault rules.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::frame::{IP, Ip, TCP, field, is_fragment, protocol, tcp_header};

/// The IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Port 0: the packet is no TCP segment.
    pub source: SocketAddr,
    /// As for `source`.
    pub destination: SocketAddr,
    /// Where a TCP segment ends in the frame.
    tcp_end: Option<usize>,
}

impl Packet {
    /// `None`: the frame has no whole header of IP.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let ip = Ip::of(frame)?;
        let (source, destination): (IpAddr, IpAddr) = match ip {
            Ip::V4(_) => (Ipv4Addr::from(field(frame, 26)?).into(), Ipv4Addr::from(field(frame, 30)?).into()),
            Ip::V6 => (Ipv6Addr::from(field(frame, 22)?).into(), Ipv6Addr::from(field(frame, 38)?).into()),
        };
        let tcp = IP.saturating_add(ip.length());
        let end = ip.end(frame).filter(|&end| end <= frame.len() && is_segment(frame, ip, tcp, end));
        let ports = end.and_then(|_| Some([field(frame, tcp)?, field(frame, tcp.saturating_add(2))?]));
        let [from, to] = ports.unwrap_or_default().map(u16::from_be_bytes);
        let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
        Some(Self { source, destination, tcp_end: end })
    }

    /// Whether the packet is a TCP segment, whose checksum finds a changed bit.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.tcp_end.is_some()
    }

    /// Changes bits of the segment's last byte. `frame`: the packet's.
    pub fn corrupt(&self, frame: &mut [u8], bits: u8) {
        let last = self.tcp_end.and_then(|end| frame.get_mut(..end)?.last_mut());
        last.into_iter().for_each(|last| *last ^= bits);
    }
}

/// Whether a packet is a whole TCP segment, whose header begins at `tcp`.
fn is_segment(frame: &[u8], ip: Ip, tcp: usize, end: usize) -> bool {
    let is_whole = ip == Ip::V6 || is_fragment(frame) == Some(false);
    let header = tcp_header(frame, tcp);
    is_whole && protocol(frame, ip) == Some(TCP) && header.is_some_and(|header| tcp.saturating_add(header) <= end)
}
