//! Where the fields of a frame are: an Ethernet header without a tag, IPv4 (RFC 791) or IPv6 (RFC 8200), TCP (RFC 9293).

/// Bytes before the IP header.
pub(crate) const IP: usize = 14;
/// Bytes in an IPv6 header, and in IPv4's and TCP's without options.
pub(crate) const IPV6: usize = 40;
pub(crate) const IPV4: usize = 20;
const TCP_HEADER: usize = 20;
/// The protocol's number.
pub(crate) const TCP: u8 = 6;

const ETHER_TYPE: usize = 12;
const ETHER_TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_TYPE_IPV6: [u8; 2] = [0x86, 0xDD];

/// Fields of an IPv4 header, from the start of the frame.
pub(crate) const IPV4_LENGTH: usize = 16;
pub(crate) const IPV4_IDENTIFICATION: usize = 18;
const IPV4_FRAGMENT: usize = 20;
const IPV4_PROTOCOL: usize = 23;
pub(crate) const IPV4_CHECKSUM: usize = 24;
/// The payload's length in an IPv6 header.
pub(crate) const IPV6_LENGTH: usize = 18;
const IPV6_NEXT_HEADER: usize = 20;

/// Fields of a TCP header, from its start.
pub(crate) const TCP_SEQUENCE: usize = 4;
pub(crate) const TCP_DATA_OFFSET: usize = 12;
pub(crate) const TCP_FLAGS: usize = 13;
pub(crate) const TCP_CHECKSUM: usize = 16;

/// The IP header of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    /// With the bytes of the header and its options.
    V4(usize),
    V6,
}

impl Ip {
    /// `None`: the frame has no whole header of IP.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let first = *frame.get(IP)?;
        let has = |length: usize| frame.len() >= IP.saturating_add(length);
        match (field(frame, ETHER_TYPE)?, first >> 4) {
            (ETHER_TYPE_IPV4, 4) => {
                let length = usize::from(first & 0xF).saturating_mul(4);
                (length >= IPV4 && has(length)).then_some(Self::V4(length))
            }
            (ETHER_TYPE_IPV6, 6) => has(IPV6).then_some(Self::V6),
            _ => None,
        }
    }

    /// Bytes of the header, without IPv6's extensions.
    pub(crate) const fn length(self) -> usize {
        match self {
            Self::V4(length) => length,
            Self::V6 => IPV6,
        }
    }

    /// Where the packet ends, by its header.
    pub(crate) fn end(self, frame: &[u8]) -> Option<usize> {
        let (at, before) = match self {
            Self::V4(_) => (IPV4_LENGTH, 0),
            Self::V6 => (IPV6_LENGTH, IPV6),
        };
        Some(usize::from(u16::from_be_bytes(field(frame, at)?)).saturating_add(before).saturating_add(IP))
    }
}

/// The protocol behind the header.
pub(crate) fn protocol(frame: &[u8], ip: Ip) -> Option<u8> {
    frame.get(if ip == Ip::V6 { IPV6_NEXT_HEADER } else { IPV4_PROTOCOL }).copied()
}

/// Whether an IPv4 packet is a fragment; `None`: the frame ends before.
pub(crate) fn is_fragment(frame: &[u8]) -> Option<bool> {
    /// More fragments, and the fragment's offset (RFC 791, section 3.1).
    const FRAGMENTED: u16 = 0x3FFF;
    Some(u16::from_be_bytes(field(frame, IPV4_FRAGMENT)?) & FRAGMENTED != 0)
}

/// Bytes of the TCP header that begins at `tcp`, with its options. `None`: the frame does not have it whole.
pub(crate) fn tcp_header(frame: &[u8], tcp: usize) -> Option<usize> {
    let length = usize::from(*frame.get(tcp.saturating_add(TCP_DATA_OFFSET))? >> 4).saturating_mul(4);
    (length >= TCP_HEADER && frame.len() >= tcp.saturating_add(length)).then_some(length)
}

/// The bytes of a field.
pub(crate) fn field<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

/// Writes a field.
pub(crate) fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    *frame.get_mut(at..)?.first_chunk_mut()? = bytes;
    Some(())
}
