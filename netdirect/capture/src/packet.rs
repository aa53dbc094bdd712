//! A packet: IP and TCP headers before bytes of a stream.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};

/// A TCP segment of a conversation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
}

/// The headers of a TCP segment with `total` bytes, of which `payload` are known. The checksum is 0 unless all are.
pub(crate) fn headers(
    (source, destination): (SocketAddr, SocketAddr),
    flags: Flags,
    (sequence, acknowledged): (u32, u32),
    payload: &[u8],
    total: usize,
) -> Vec<u8> {
    let mut tcp = TcpHeader::new(source.port(), destination.port(), sequence, u16::MAX);
    tcp.acknowledgment_number = acknowledged;
    (tcp.syn, tcp.ack, tcp.fin, tcp.rst, tcp.psh) = (flags.syn, flags.ack, flags.fin, flags.rst, total > 0);
    // A stream is cut into segments that fit.
    let length = u16::try_from(tcp.header_len() + total).unwrap_or(u16::MAX);
    let whole = payload.len() == total;
    let mut bytes = Vec::new();
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = Ipv4Header::new(length, 64, IpNumber::TCP, source.octets(), destination.octets());
            let Ok(mut ip) = ip else { return bytes };
            ip.header_checksum = ip.calc_header_checksum();
            tcp.checksum = if whole { tcp.calc_checksum_ipv4(&ip, payload).unwrap_or(0) } else { 0 };
            bytes.extend_from_slice(&ip.to_bytes());
        }
        (source, destination) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: length,
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: octets(source),
                destination: octets(destination),
            };
            tcp.checksum = if whole { tcp.calc_checksum_ipv6(&ip, payload).unwrap_or(0) } else { 0 };
            bytes.extend_from_slice(&ip.to_bytes());
        }
    }
    bytes.extend_from_slice(&tcp.to_bytes());
    bytes
}
