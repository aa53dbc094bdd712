//! Circular routes: a route of this machine leads the cable's datagrams, which go to the peers' addresses, into the cable again.

use core::net::IpAddr;

use etherparse::{EtherType, Ipv4HeaderSlice, Ipv6HeaderSlice, ether_type};

use crate::ethernet::{self, EthernetHeader};

/// Bytes at the start of a frame by which its IP packet's destination is known: the longest header of IPv4 is longer than IPv6's.
pub const START: usize = ethernet::HEADER + 60;

/// Where the IP packet in a frame goes: whatever is in the packet, as the cable's datagrams may be fragmented, or IPsec's. `packet`: what
/// follows the frame's header.
pub(crate) fn ip_destination(header: &EthernetHeader, packet: &[u8]) -> Option<IpAddr> {
    match EtherType(header.ether_type.get()) {
        ether_type::IPV4 => Some(Ipv4HeaderSlice::from_slice(packet).ok()?.destination_addr().into()),
        ether_type::IPV6 => Some(Ipv6HeaderSlice::from_slice(packet).ok()?.destination_addr().into()),
        _ => None,
    }
}
