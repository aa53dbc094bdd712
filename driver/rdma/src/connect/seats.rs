//! Connections with other machines that nobody here has a use for: silent ones, and such that have still to end. There are so many seats
//! at most. When all are taken, the oldest connection of the peer that has most of them loses its own, so that no peer's connections take
//! the seats of others.
//!
//! Peers are told apart by a remainder of their addresses: so the one that has most is found in constant time, and those with the same
//! remainder count as one.

use core::net::{IpAddr, SocketAddr};

use platform::{Arc, OutOfMemory, Platform, PoolQuota, Slice, SpinLock, Weak};

use crate::{roster::Roster, wire::Wire};

/// Remainders of addresses.
const GROUPS: usize = 64;

/// Seats for connections of one kind.
pub(crate) struct Seats<P: Platform> {
    most: usize,
    /// What its own memory counts against.
    quota: PoolQuota<P>,
    list: SpinLock<List<P>, P>,
}

struct List<P: Platform> {
    members: Roster<Member<P>, P>,
    /// How many there are, those included that were told to go.
    taken: usize,
    /// Those.
    going: usize,
    /// The others, by the addresses of their peers.
    groups: Slice<Group, P>,
}

/// The connections of one group, which are in a chain.
#[derive(Clone, Copy, Default)]
struct Group {
    count: usize,
    oldest: Option<usize>,
    newest: Option<usize>,
}

struct Member<P: Platform> {
    wire: Weak<Wire<P>, P>,
    group: usize,
    /// It was not told to go: it is in the chain of its group.
    stays: bool,
    older: Option<usize>,
    newer: Option<usize>,
}

/// The seat of a connection, until it is closed.
pub(crate) struct Seat<P: Platform> {
    seats: Arc<Seats<P>, P>,
    number: usize,
}

impl<P: Platform> Seats<P> {
    pub(crate) fn new(most: usize, quota: &PoolQuota<P>) -> Result<Arc<Self, P>, OutOfMemory> {
        let groups = Slice::<Group, P>::pool_bytes(GROUPS);
        let charge = quota.charge(Arc::<Self, P>::POOL_BYTES.saturating_add(groups))?;
        let groups = Slice::from_fn(GROUPS, |_| Group::default())?;
        let list = List { members: Roster::new(charge), taken: 0, going: 0, groups };
        Arc::try_new(Self { most, quota: quota.clone(), list: SpinLock::<_, P>::new(list) })
    }

    /// Takes a seat for a connection. If it was the last that was free, another has to go, the oldest of the largest group. `None`: there is
    /// none, as those that have to go are not closed yet, or no memory. IRQL <= DISPATCH.
    pub(crate) fn take(this: &Arc<Self, P>, wire: &Arc<Wire<P>, P>) -> Option<Seat<P>> {
        let group = group(wire.addresses().remote);
        loop {
            let mut list = this.list.lock();
            if list.taken >= this.most {
                return None;
            }
            if let Some(number) = list.join(Arc::downgrade(wire), group) {
                let is_last = list.taken >= this.most;
                let oldest = list.oldest().filter(|&oldest| is_last && oldest != number);
                let oldest = oldest.and_then(|oldest| list.dismiss(oldest));
                drop(list);
                if let Some(oldest) = oldest.as_ref().and_then(Weak::upgrade) {
                    Wire::make_way(&oldest);
                }
                return Some(Seat { seats: this.clone(), number });
            }
            drop(list);
            this.reserve().ok()?;
        }
    }

    /// Has memory for one more. IRQL <= DISPATCH.
    pub(crate) fn reserve(&self) -> Result<(), OutOfMemory> {
        let list = self.list.lock();
        let (has_room, places) = (list.members.has_room(), list.members.places());
        drop(list);
        if !has_room {
            let chunk = Roster::chunk(places, &self.quota)?;
            // Who was faster has made room too.
            let surplus = self.list.lock().members.grow(chunk);
            drop(surplus);
        }
        Ok(())
    }
}

impl<P: Platform> Seats<P> {
    pub(crate) fn are_taken(&self) -> bool {
        self.list.lock().taken >= self.most
    }

    /// There is no memory for one more: the oldest has to go, unless one that has to is not closed yet. False: there is none.
    pub(crate) fn make_room(&self) -> bool {
        let mut list = self.list.lock();
        let any = list.taken > 0;
        let oldest = list.oldest().filter(|_| list.going == 0);
        let oldest = oldest.and_then(|oldest| list.dismiss(oldest));
        drop(list);
        if let Some(oldest) = oldest.as_ref().and_then(Weak::upgrade) {
            Wire::make_way(&oldest);
        }
        any
    }

    /// Has so many of them go. False: there are more.
    pub(crate) fn clear(&self, most: usize) -> bool {
        for _ in 0..most {
            let mut list = self.list.lock();
            let oldest = list.oldest().and_then(|oldest| list.dismiss(oldest));
            drop(list);
            let Some(oldest) = oldest else { return true };
            if let Some(oldest) = oldest.upgrade() {
                Wire::make_way(&oldest);
            }
        }
        false
    }
}

impl<P: Platform> List<P> {
    /// The one that goes first: the oldest of the largest group.
    fn oldest(&self) -> Option<usize> {
        self.groups.iter().max_by_key(|group| group.count)?.oldest
    }

    /// Enters the newest of a group, if the roster has room.
    fn join(&mut self, wire: Weak<Wire<P>, P>, number_of_group: usize) -> Option<usize> {
        let group = self.groups.get_mut(number_of_group)?;
        let older = group.newest;
        let member = Member { wire, group: number_of_group, stays: true, older, newer: None };
        let number = self.members.join(member).ok()?;
        self.taken = self.taken.saturating_add(1);
        group.count = group.count.saturating_add(1);
        group.newest = Some(number);
        match older.and_then(|older| self.members.get_mut(older)) {
            Some(older) => older.newer = Some(number),
            None => group.oldest = Some(number),
        }
        Some(number)
    }

    /// Takes one out of the chain of its group: it has to go.
    fn dismiss(&mut self, number: usize) -> Option<Weak<Wire<P>, P>> {
        let member = self.members.get_mut(number).filter(|member| member.stays)?;
        member.stays = false;
        self.going = self.going.saturating_add(1);
        let (wire, older, newer) = (member.wire.clone(), member.older, member.newer);
        let group = self.groups.get_mut(member.group)?;
        group.count = group.count.saturating_sub(1);
        match older.and_then(|older| self.members.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => group.oldest = newer,
        }
        match newer.and_then(|newer| self.members.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => group.newest = older,
        }
        Some(wire)
    }
}

/// The number of an address's group. Addresses that follow one another are of different ones.
fn group(peer: Option<SocketAddr>) -> usize {
    let sum = |octets: &[u8]| octets.iter().fold(0usize, |sum, &octet| sum.wrapping_mul(31).wrapping_add(octet.into()));
    let sum = peer.map_or(0, |peer| match peer.ip().to_canonical() {
        IpAddr::V4(address) => sum(&address.octets()),
        // Who has one address of a /64 has all.
        IpAddr::V6(address) => sum(&address.octets()[..8]),
    });
    sum % GROUPS
}

impl<P: Platform> Drop for Seat<P> {
    fn drop(&mut self) {
        let mut list = self.seats.list.lock();
        let chained = list.dismiss(self.number);
        let member = list.members.leave(self.number);
        (list.taken, list.going) = (list.taken.saturating_sub(1), list.going.saturating_sub(1));
        drop(list);
        drop((chained, member));
    }
}
