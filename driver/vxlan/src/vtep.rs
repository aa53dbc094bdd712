//! The tunnel end (VTEP): the adapter's frames out to the peers, the peers' frames in to the adapter.

use core::net::IpAddr;

use crate::{
    circular,
    ethernet::{self, EthernetHeader, MacAddress},
    fdb::{Fdb, Set},
    header::{self, Vni},
    peers::{PeerIndex, Peers},
};

/// The EtherTypes of VLAN tags (IEEE 802.1Q).
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Why a frame or a datagram goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The sender is no peer.
    Stranger,
    /// No VXLAN header, or one without a VNI.
    NotVxlan,
    /// Another network's.
    OtherVni,
    /// Shorter than an Ethernet header.
    Short,
    /// Longer than the MTU allows.
    Long,
    /// It has a VLAN tag (RFC 7348 section 6.1).
    VlanTag,
    /// The source is a group or zero: no station.
    InvalidSource,
    /// The source is the adapter itself: the frame has come round in a loop, or a peer has taken the adapter's address.
    OwnAddress,
    /// The frame's IP packet is for a peer's address: a route leads the cable's datagrams into the cable.
    CircularRoute,
}

impl Dropped {
    /// All reasons, in their order.
    pub const ALL: [Self; 9] = [
        Self::Stranger,
        Self::NotVxlan,
        Self::OtherVni,
        Self::Short,
        Self::Long,
        Self::VlanTag,
        Self::InvalidSource,
        Self::OwnAddress,
        Self::CircularRoute,
    ];
}

/// To which peers a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One, behind which the station is.
    One(PeerIndex),
    /// All (head-end replication): the frame is for a group, or nothing is known of the station.
    All,
}

impl Destination {
    /// Whether the frame goes to the peer with this place in the list.
    #[must_use]
    pub fn is(self, place: usize) -> bool {
        match self {
            Self::One(peer) => peer.get() == place,
            Self::All => true,
        }
    }
}

/// A tunnel end.
#[derive(Debug)]
pub struct Vtep<S> {
    vni: Vni,
    adapter: MacAddress,
    longest_frame: usize,
    peers: Peers,
    fdb: Fdb<S>,
}

impl<S: AsRef<[Set]> + AsMut<[Set]>> Vtep<S> {
    /// `adapter`: the adapter's address; `mtu`: bytes of a frame's payload, at most.
    #[must_use]
    pub fn new(vni: Vni, adapter: MacAddress, mtu: usize, peers: Peers, fdb: Fdb<S>) -> Self {
        Self { vni, adapter, longest_frame: mtu.saturating_add(ethernet::HEADER), peers, fdb }
    }

    /// The header to put before each frame.
    #[must_use]
    pub fn header(&self) -> [u8; header::HEADER] {
        header::emit(self.vni)
    }

    /// To which peers the adapter's frame of `length` bytes goes. `start` holds [`circular::START`] bytes of it, or all.
    pub fn destination(&self, start: &[u8], length: usize, now: u32) -> Result<Destination, Dropped> {
        let header = self.check(start, length)?;
        if self.is_circular(start) {
            return Err(Dropped::CircularRoute);
        }
        if header.destination.is_group() {
            return Ok(Destination::All);
        }
        Ok(self.fdb.lookup(header.destination, now).map_or(Destination::All, Destination::One))
    }

    /// Checks the datagram that `from` has sent, learns where its station is, and returns its frame.
    pub fn decapsulate<'a>(&mut self, from: IpAddr, datagram: &'a [u8], now: u32) -> Result<&'a [u8], Dropped> {
        let peer = self.peers.find(from).ok_or(Dropped::Stranger)?;
        let (vni, frame) = header::parse(datagram).ok_or(Dropped::NotVxlan)?;
        if vni != self.vni {
            return Err(Dropped::OtherVni);
        }
        let header = self.check(frame, frame.len())?;
        if header.source.is_group() || header.source.is_zero() {
            return Err(Dropped::InvalidSource);
        }
        if header.source == self.adapter {
            return Err(Dropped::OwnAddress);
        }
        self.fdb.learn(header.source, peer, now);
        Ok(frame)
    }

    /// Whether the adapter's frame may be a datagram of the cable, which a route leads into the cable. `start`: as for [`Self::destination`].
    #[must_use]
    pub fn is_circular(&self, start: &[u8]) -> bool {
        let packet = start.get(ethernet::HEADER..).unwrap_or_default();
        let to = EthernetHeader::of(start).and_then(|header| circular::ip_destination(&header, packet));
        to.is_some_and(|to| self.peers.find(to).is_some())
    }

    /// Checks a frame, whichever way it goes.
    fn check(&self, start: &[u8], length: usize) -> Result<EthernetHeader, Dropped> {
        let header = EthernetHeader::of(start).ok_or(Dropped::Short)?;
        if length > self.longest_frame {
            return Err(Dropped::Long);
        }
        if VLAN_TAGS.contains(&header.ether_type.get()) {
            return Err(Dropped::VlanTag);
        }
        Ok(header)
    }

    /// The peers.
    #[must_use]
    pub const fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The forwarding database.
    #[must_use]
    pub const fn fdb(&self) -> &Fdb<S> {
        &self.fdb
    }
}
