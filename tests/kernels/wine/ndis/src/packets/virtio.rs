//! struct virtio_net_hdr (linux/virtio_net.h), which Linux puts before the frames of a TAP interface: what Linux leaves to the interface, as a
//! transport of Windows says it ("Offloading Checksum Tasks", "Offloading the Segmentation of Large TCP Packets").

use ndk_abi::ndis::*;

use super::{
    batch::{HEADER as ETHERNET, Info},
    coalesced::Unit,
};
use crate::offload::{IPV4, IPV6, Offloads};

/// Bytes of the header.
pub(super) const HEADER: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// The place of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;
const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;

/// The fields that matter here.
pub(super) struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    headers: usize,
    mss: usize,
    /// Where the checksum that is wanted begins to sum, and its place from there on.
    start: usize,
    offset: usize,
}

impl VirtioHeader {
    /// The header, and the frame behind it.
    pub(super) fn of(read: &[u8]) -> Option<(Self, &[u8])> {
        let (header, frame) = read.split_first_chunk::<HEADER>()?;
        let [flags, gso_type, a, b, c, d, e, f, g, h] = *header;
        let number = |low, high| usize::from(u16::from_le_bytes([low, high]));
        let [headers, mss, start, offset] = [number(a, b), number(c, d), number(e, f), number(g, h)];
        Some((Self { flags, gso_type, headers, mss, start, offset }, frame))
    }

    /// Makes of the frame what a transport of Windows gives a miniport that does these offloads.
    pub(super) fn info(&self, frame: &mut [u8], offloads: &Offloads) -> Info {
        type Checksums = NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO;
        if frame.len() < ETHERNET + 20 {
            return Info::default();
        }
        let (version, is_tcp) = match [frame[12], frame[13]] {
            [0x08, 0x00] => (IPV4, frame[ETHERNET + 9] == TCP),
            [0x86, 0xDD] if frame.len() >= ETHERNET + IPV6_HEADER => (IPV6, frame[ETHERNET + 6] == TCP),
            _ => return Info::default(),
        };
        let is_large = self.gso_type != GSO_NONE;
        let is_checksum = self.flags & NEEDS_CSUM != 0;
        if is_checksum && !is_large && !(is_tcp && offloads.tcp_checksum[version]) {
            self.complete(frame);
        }
        let asks_tcp = is_checksum && is_tcp && offloads.tcp_checksum[version] && !is_large;
        let asks_ip = version == IPV4 && offloads.ipv4_checksum;
        let mut info = Info::default();
        if asks_ip || is_large {
            // Of a large send the miniport writes it, whatever else it is asked.
            if version == IPV4 {
                frame[ETHERNET + 10..ETHERNET + 12].fill(0);
            }
        }
        if asks_ip || asks_tcp {
            info.checksums = if version == IPV4 { Checksums::IS_IPV4 } else { Checksums::IS_IPV6 };
            if asks_ip {
                info.checksums |= Checksums::IP_HEADER_CHECKSUM;
            }
            if asks_tcp {
                info.checksums |= Checksums::TCP_CHECKSUM | (self.start as u32) << Checksums::TCP_HEADER_OFFSET_SHIFT;
            }
        }
        if is_large {
            let place = self.start + self.offset;
            let sum = pseudo_header(frame, version);
            frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
            let ip = if version == IPV4 { NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4 } else { NDIS_TCP_LARGE_SEND_OFFLOAD_IPv6 };
            info.large_send =
                NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO::new(self.mss as u32, self.start as u32, ip).0;
            info.headers = Some(self.headers);
        }
        info
    }

    /// Writes the checksum that Linux has left: it has put the sum of the pseudo-header in its place.
    fn complete(&self, frame: &mut [u8]) {
        let place = self.start + self.offset;
        let Some(rest) = frame.get(self.start..) else { return };
        let checksum = match !sum(rest) {
            // UDP's 0 says that there is none.
            0 => 0xFFFF,
            checksum => checksum,
        };
        if let Some(place) = frame.get_mut(place..place + 2) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// The header of a unit that Linux gets, which Linux may take for several segments, with the sum of the pseudo-header in the place of the checksum, as
/// `start`, the start of its frame of `length` bytes, has it then.
pub(super) fn to_linux(unit: &Unit, start: &mut [u8], length: usize) -> [u8; HEADER] {
    let Unit { version, tcp, headers, mss, .. } = unit;
    let length = length - tcp;
    let sum = sum(&[pseudo_header(start, *version).to_be_bytes(), (length as u16).to_be_bytes()].concat());
    start[tcp + TCP_CHECKSUM..tcp + TCP_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    let gso_type = if *version == IPV4 { GSO_TCPV4 } else { GSO_TCPV6 };
    let numbers = [*headers, *mss, *tcp, TCP_CHECKSUM].map(|number| (number as u16).to_le_bytes());
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&[NEEDS_CSUM, gso_type]);
    header[2..].copy_from_slice(numbers.as_flattened());
    header
}

/// Whether the checksums of IPv4 and TCP are right.
pub(super) fn has_right_checksums(frame: &[u8], version: usize, tcp: usize) -> bool {
    let segment = &frame[tcp..];
    let pseudo_header = [pseudo_header(frame, version).to_be_bytes(), (segment.len() as u16).to_be_bytes()].concat();
    let ip = version != IPV4 || sum(&frame[ETHERNET..tcp]) == 0xFFFF;
    ip && sum(&[&pseudo_header, segment].concat()) == 0xFFFF
}

/// Bytes of the packet, by its header.
pub(super) fn packet_length(frame: &[u8], version: usize) -> usize {
    let (at, before) = if version == IPV4 { (ETHERNET + 2, 0) } else { (ETHERNET + 4, IPV6_HEADER) };
    usize::from(u16::from_be_bytes([frame[at], frame[at + 1]])) + before
}

/// The sum over the addresses and the protocol, without the length.
fn pseudo_header(frame: &[u8], version: usize) -> u16 {
    let addresses = if version == IPV4 { 12..20 } else { 8..40 };
    let addresses = &frame[ETHERNET..][addresses];
    sum(&[addresses, &[0, TCP]].concat())
}

/// The one's complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)));
    let mut sum: u64 = words.map(u64::from).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}
