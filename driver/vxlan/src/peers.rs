//! The list of peers.

use core::net::IpAddr;

/// Peers, at most: a frame to all is sent as often.
pub const MAX_PEERS: usize = 32;

/// The place of a peer in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIndex(u8);

impl PeerIndex {
    /// The place, from 0.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Why a list is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// Not an IP address.
    NotAnAddress(&'a str),
    /// Unspecified, broadcast, a group or link-local of IPv6, which needs an interface besides: not the address of one machine.
    NotOneMachine(IpAddr),
    /// Not of the family of the address before it.
    OtherFamily(IpAddr),
    /// Twice in the list.
    Twice(IpAddr),
    /// More than [`MAX_PEERS`].
    TooMany,
}

/// The peers: tunnel ends of other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    addresses: [Option<IpAddr>; MAX_PEERS],
}

impl Peers {
    /// Reads addresses with commas or spaces between them.
    pub fn parse(text: &str) -> Result<Self, Refusal<'_>> {
        let mut peers = Self::default();
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        for word in words {
            peers.push(word.parse().map_err(|_| Refusal::NotAnAddress(word))?)?;
        }
        Ok(peers)
    }

    /// Adds a peer.
    pub fn push(&mut self, address: IpAddr) -> Result<(), Refusal<'static>> {
        let address = address.to_canonical();
        self.check(address)?;
        let mut places = self.addresses.iter_mut();
        *places.find(|place| place.is_none()).ok_or(Refusal::TooMany)? = Some(address);
        Ok(())
    }

    fn check(&self, address: IpAddr) -> Result<(), Refusal<'static>> {
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if address.is_unspecified() || address.is_multicast() || is_broadcast || is_link_local {
            return Err(Refusal::NotOneMachine(address));
        }
        if self.iter().any(|(_, other)| other.is_ipv4() != address.is_ipv4()) {
            return Err(Refusal::OtherFamily(address));
        }
        if self.find(address).is_some() {
            return Err(Refusal::Twice(address));
        }
        Ok(())
    }

    /// Whether a machine with this address can have these peers: it is none of them, and of their family.
    #[must_use]
    pub fn may_have(&self, local: IpAddr) -> bool {
        self.check(local.to_canonical()).is_ok()
    }

    /// The peer with this address.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<PeerIndex> {
        let address = address.to_canonical();
        self.iter().find(|(_, peer)| *peer == address).map(|(index, _)| index)
    }

    /// The peers and their places.
    pub fn iter(&self) -> impl Iterator<Item = (PeerIndex, IpAddr)> + '_ {
        (0u8..).map(PeerIndex).zip(self.addresses.iter().map_while(|address| *address))
    }

    /// The address of a peer.
    #[must_use]
    pub fn get(&self, index: PeerIndex) -> Option<IpAddr> {
        self.addresses.get(index.get()).copied().flatten()
    }
}
