//! The forwarding database: behind which peer each station is, learned from the frames that the peers have sent.
//!
//! It holds [`CAPACITY`] addresses in sets of four; a lookup reads one set. A new address takes the place of the oldest in its set, so that
//! a flood of addresses neither grows the database nor takes longer: frames to an address that was displaced go to all peers.

use crate::{ethernet::MacAddress, peers::PeerIndex};

/// Addresses, at most.
pub const CAPACITY: usize = SETS * WAYS;
/// Sets of the database.
pub const SETS: usize = 64;
/// A set with no address.
pub const EMPTY: Set = [None; WAYS];
/// Seconds after which an address is forgotten if its station has sent nothing: what Linux and 802.1Q have.
pub const AGEING_SECONDS: u32 = 300;

const WAYS: usize = 4;

/// A station, the peer behind which it is, and when it has last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// The station.
    pub address: MacAddress,
    /// The peer.
    pub peer: PeerIndex,
    /// When the peer sent the station's last frame, in seconds.
    pub updated: u32,
}

impl FdbEntry {
    /// Seconds since the peer sent the station's last frame. The clock may wrap.
    #[must_use]
    pub const fn age(&self, now: u32) -> u32 {
        now.wrapping_sub(self.updated)
    }
}

/// The places of the addresses with one hash.
pub type Set = [Option<FdbEntry>; WAYS];

/// The database, in memory of the caller's.
#[derive(Debug)]
pub struct Fdb<S> {
    sets: S,
}

impl<S: AsRef<[Set]> + AsMut<[Set]>> Fdb<S> {
    /// An empty database, if each of the [`SETS`] sets is [`EMPTY`].
    pub const fn new(sets: S) -> Self {
        Self { sets }
    }

    /// The peer behind which `address` is. `None`: unknown, or too old.
    #[must_use]
    pub fn lookup(&self, address: MacAddress, now: u32) -> Option<PeerIndex> {
        let set = self.sets.as_ref().get(set_of(address))?;
        let entry = set.iter().flatten().find(|entry| entry.address == address)?;
        (entry.age(now) < AGEING_SECONDS).then_some(entry.peer)
    }

    /// `peer` has sent a frame of `address`, which may have been behind another peer.
    pub fn learn(&mut self, address: MacAddress, peer: PeerIndex, now: u32) {
        let Some(set) = self.sets.as_mut().get_mut(set_of(address)) else { return };
        let known = set.iter().position(|entry| entry.is_some_and(|entry| entry.address == address));
        // An empty place is as old as can be.
        let age = |entry: &Option<FdbEntry>| entry.as_ref().map_or(u32::MAX, |entry| entry.age(now));
        let place = match known {
            Some(place) => set.get_mut(place),
            None => set.iter_mut().max_by_key(|entry| age(entry)),
        };
        if let Some(place) = place {
            *place = Some(FdbEntry { address, peer, updated: now });
        }
    }

    /// The address at a place, which is below [`CAPACITY`]. `None`: the place is empty, or its address too old.
    #[must_use]
    pub fn at(&self, place: usize, now: u32) -> Option<FdbEntry> {
        let entry = self.sets.as_ref().get(place / WAYS)?.get(place % WAYS).copied().flatten()?;
        (entry.age(now) < AGEING_SECONDS).then_some(entry)
    }

    /// The addresses that are not too old.
    pub fn entries(&self, now: u32) -> impl Iterator<Item = FdbEntry> + '_ {
        (0..CAPACITY).filter_map(move |place| self.at(place, now))
    }
}

/// FNV-1a. A peer can choose addresses that share a set: it then displaces the addresses of that set.
fn set_of(address: MacAddress) -> usize {
    let hash = address.0.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash ^ hash >> 16) as usize % SETS
}
