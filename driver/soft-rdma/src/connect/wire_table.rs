//! A bounded table of wires that no consumer needs: half-open wires, refused wires, and ended wires that still send. When a wire takes the last
//! slot, the oldest wire of the peer with the most wires is reset, so that one peer's wires do not take the slots of others.
//!
//! A peer's group is a hash of its address: so the table finds the group with the most wires in constant time, and the
//! peers of one group count as one peer.

use core::net::{IpAddr, SocketAddr};

use platform::{Arc, OutOfMemory, Platform, PoolQuota, Slice, SpinLock, Weak};

use crate::{slot_map::SlotMap, wire::Wire};

/// Groups of peers.
const GROUPS: usize = 64;

/// The wires of one kind. `most` is the number of slots.
pub(crate) struct WireTable<P: Platform> {
    most: usize,
    /// The quota that the table's own memory counts against.
    quota: PoolQuota<P>,
    list: SpinLock<List<P>, P>,
}

struct List<P: Platform> {
    wires: SlotMap<WireEntry<P>, P>,
    /// Slots in use, including those of wires that are being reset.
    taken: usize,
    /// Wires that are being reset.
    resetting: usize,
    /// The wires that are not being reset, by group.
    groups: Slice<Group, P>,
}

/// The wires of one group, as a list.
#[derive(Clone, Copy, Default)]
struct Group {
    count: usize,
    oldest: Option<usize>,
    newest: Option<usize>,
}

struct WireEntry<P: Platform> {
    wire: Weak<Wire<P>, P>,
    group: usize,
    /// The wire is not being reset, and is in the list of its group.
    in_group: bool,
    older: Option<usize>,
    newer: Option<usize>,
}

/// A wire's slot in a table, freed when dropped. A refused or ended wire drops its slot when its stream is closed; a half-open wire drops it when
/// the MPA Request has arrived, or with the wire.
pub(crate) struct WireSlot<P: Platform> {
    table: Arc<WireTable<P>, P>,
    number: usize,
}

impl<P: Platform> WireTable<P> {
    pub(crate) fn new(most: usize, quota: &PoolQuota<P>) -> Result<Arc<Self, P>, OutOfMemory> {
        let groups = Slice::<Group, P>::pool_bytes(GROUPS);
        let charge = quota.charge(Arc::<Self, P>::POOL_BYTES.saturating_add(groups))?;
        let groups = Slice::from_fn(GROUPS, |_| Group::default())?;
        let list = List { wires: SlotMap::new(charge), taken: 0, resetting: 0, groups };
        Arc::try_new(Self { most, quota: quota.clone(), list: SpinLock::<_, P>::new(list) })
    }

    /// Takes a slot for a wire. If it was the last free slot, resets the oldest wire of the largest group. `None`: all
    /// slots are in use, as wires that were reset are not closed yet, or there is no memory. IRQL <= DISPATCH.
    pub(crate) fn take(this: &Arc<Self, P>, wire: &Arc<Wire<P>, P>) -> Option<WireSlot<P>> {
        let group = group(wire.addresses().remote);
        loop {
            let mut list = this.list.lock();
            if list.taken >= this.most {
                return None;
            }
            if let Some(number) = list.join(Arc::downgrade(wire), group) {
                let is_last = list.taken >= this.most;
                let oldest = list.oldest().filter(|&oldest| is_last && oldest != number);
                let oldest = oldest.and_then(|oldest| list.leave_group(oldest));
                drop(list);
                if let Some(oldest) = oldest.as_ref().and_then(Weak::upgrade) {
                    Wire::make_way(&oldest);
                }
                return Some(WireSlot { table: this.clone(), number });
            }
            drop(list);
            this.reserve().ok()?;
        }
    }

    /// Allocates room for one more wire. IRQL <= DISPATCH.
    pub(crate) fn reserve(&self) -> Result<(), OutOfMemory> {
        let list = self.list.lock();
        let (has_room, slots) = (list.wires.has_room(), list.wires.slots());
        drop(list);
        if !has_room {
            let chunk = SlotMap::chunk(slots, &self.quota)?;
            // Another thread may have added a chunk first.
            let surplus = self.list.lock().wires.grow(chunk);
            drop(surplus);
        }
        Ok(())
    }
}

impl<P: Platform> WireTable<P> {
    pub(crate) fn are_taken(&self) -> bool {
        self.list.lock().taken >= self.most
    }

    /// Called when there is no memory for one more wire: resets the oldest wire of the largest group, unless a reset
    /// wire is still to be closed. False: the table is empty.
    pub(crate) fn make_room(&self) -> bool {
        let mut list = self.list.lock();
        let any = list.taken > 0;
        let oldest = list.oldest().filter(|_| list.resetting == 0);
        let oldest = oldest.and_then(|oldest| list.leave_group(oldest));
        drop(list);
        if let Some(oldest) = oldest.as_ref().and_then(Weak::upgrade) {
            Wire::make_way(&oldest);
        }
        any
    }

    /// Resets up to `most` wires. True: each remaining wire is being reset already.
    pub(crate) fn clear(&self, most: usize) -> bool {
        for _ in 0..most {
            let mut list = self.list.lock();
            let oldest = list.oldest().and_then(|oldest| list.leave_group(oldest));
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
    /// The wire to reset next: the oldest of the largest group.
    fn oldest(&self) -> Option<usize> {
        self.groups.iter().max_by_key(|group| group.count)?.oldest
    }

    /// Enters a wire as the newest of its group; `None`: no slot is free.
    fn join(&mut self, wire: Weak<Wire<P>, P>, number_of_group: usize) -> Option<usize> {
        let group = self.groups.get_mut(number_of_group)?;
        let older = group.newest;
        let entry = WireEntry { wire, group: number_of_group, in_group: true, older, newer: None };
        let number = self.wires.insert(entry).ok()?;
        self.taken = self.taken.saturating_add(1);
        group.count = group.count.saturating_add(1);
        group.newest = Some(number);
        match older.and_then(|older| self.wires.get_mut(older)) {
            Some(older) => older.newer = Some(number),
            None => group.oldest = Some(number),
        }
        Some(number)
    }

    /// Takes a wire out of the list of its group, because the wire is to be reset or its slot to be freed. `None`: the wire is in no list.
    fn leave_group(&mut self, number: usize) -> Option<Weak<Wire<P>, P>> {
        let entry = self.wires.get_mut(number).filter(|entry| entry.in_group)?;
        entry.in_group = false;
        self.resetting = self.resetting.saturating_add(1);
        let (wire, older, newer) = (entry.wire.clone(), entry.older, entry.newer);
        let group = self.groups.get_mut(entry.group)?;
        group.count = group.count.saturating_sub(1);
        match older.and_then(|older| self.wires.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => group.oldest = newer,
        }
        match newer.and_then(|newer| self.wires.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => group.newest = older,
        }
        Some(wire)
    }
}

/// The group of a peer's address. Consecutive IPv4 addresses are in different groups.
fn group(peer: Option<SocketAddr>) -> usize {
    let sum = |octets: &[u8]| octets.iter().fold(0usize, |sum, &octet| sum.wrapping_mul(31).wrapping_add(octet.into()));
    let sum = peer.map_or(0, |peer| match peer.ip().to_canonical() {
        IpAddr::V4(address) => sum(&address.octets()),
        // A host that has one address of a /64 can have all of them.
        IpAddr::V6(address) => sum(&address.octets()[..8]),
    });
    sum % GROUPS
}

impl<P: Platform> Drop for WireSlot<P> {
    fn drop(&mut self) {
        let mut list = self.table.list.lock();
        let chained = list.leave_group(self.number);
        let entry = list.wires.remove(self.number);
        (list.taken, list.resetting) = (list.taken.saturating_sub(1), list.resetting.saturating_sub(1));
        drop(list);
        drop((chained, entry));
    }
}
