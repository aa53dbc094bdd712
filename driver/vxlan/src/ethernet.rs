//! The addresses of an Ethernet frame (IEEE 802.3).

use core::net::IpAddr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16};

/// Bytes of [`EthernetHeader`].
pub const HEADER: usize = size_of::<EthernetHeader>();

/// The address of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The address of the station at the tunnel end `local`: locally administered, and equal after each start. Two tunnel ends share one as
    /// seldom as two hashes of 40 bits are equal (FNV-1a of 64 bits, folded).
    #[must_use]
    pub fn of_tunnel_end(local: IpAddr) -> Self {
        let octets = match local.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = octets.iter().fold(0xcbf2_9ce4_8422_2325, fold);
        let [.., a, b, c, d, e] = (hash ^ hash >> 40).to_be_bytes();
        Self([0x02, a, b, c, d, e])
    }

    /// Whether the address names a group of stations; broadcast is one.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address is all zero, which no station has.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EthernetHeader {
    /// To which station, or group of stations.
    pub destination: MacAddress,
    /// From which station.
    pub source: MacAddress,
    /// The EtherType.
    pub ether_type: U16,
}

impl EthernetHeader {
    /// Reads the header of `frame`. `None`: the frame is shorter.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        Self::read_from_prefix(frame).ok().map(|(header, _)| header)
    }
}
