//! Registered memory of an adapter, by the handles that programs have of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use ndk_abi::status::{NTSTATUS, STATUS_INVALID_HANDLE, STATUS_PENDING};

use crate::core::{lock, memory::Region, overlapped::Overlapped};

/// The regions, and which of them are being registered or deregistered.
#[derive(Default)]
pub(super) struct Regions {
    table: RwLock<Table>,
    /// By where their OVERLAPPED are.
    changing: Mutex<HashMap<usize, Change>>,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// How many regions it has held, so that the handle of one is not that of the next.
    generation: u32,
    region: Option<Arc<Region>>,
}

/// What a region that is changing will be.
#[derive(Clone, Copy)]
enum Change {
    Registers(u64),
    Deregisters(u64),
}

impl Change {
    fn handle(self) -> u64 {
        match self {
            Self::Registers(handle) | Self::Deregisters(handle) => handle,
        }
    }
}

impl Regions {
    /// Gives a region its handle.
    pub(super) fn add(&self, region: Region) -> u64 {
        let mut table = self.write();
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot { generation: 0, region: None });
            // The driver has far fewer regions.
            (table.slots.len() - 1) as u32
        });
        let slot = &mut table.slots[index as usize];
        slot.region = Some(Arc::new(region));
        // Counted from 1: no handle is null.
        u64::from(slot.generation) << 32 | u64::from(index + 1)
    }

    /// Frees a region and its handle; nothing if it has gone already.
    pub(super) fn remove(&self, handle: u64) {
        let mut table = self.write();
        let Some(slot) = table.slot(handle) else { return };
        let index = handle as u32 - 1;
        let slot = &mut table.slots[slot];
        slot.generation = slot.generation.wrapping_add(1);
        let region = slot.region.take();
        table.free.push(index);
        drop(table);
        // The driver frees it, without the lock.
        drop(region);
    }

    /// The region that a handle names.
    pub(super) fn find(&self, handle: u64) -> Option<Arc<Region>> {
        let table = self.read();
        table.slots[table.slot(handle)?].region.clone()
    }

    /// Calls `each` with a function that gives the local token of a region by its handle; 0, which is none, for others.
    pub(super) fn with_tokens<R>(&self, each: impl FnOnce(&dyn Fn(u64) -> u32) -> R) -> R {
        let table = self.read();
        each(&|handle| {
            let region = table.slot(handle).and_then(|slot| table.slots[slot].region.as_ref());
            region.map_or(0, |region| region.tokens().LocalToken)
        })
    }

    /// Sends the registration of a new region. If that is refused, its handle is gone.
    pub(super) fn register(
        &self,
        handle: u64,
        overlapped: &Overlapped,
        send: impl FnOnce(&Region) -> NTSTATUS,
    ) -> NTSTATUS {
        self.change(Change::Registers(handle), overlapped, send)
    }

    /// Sends the deregistration of a region, whose handle is gone when that has succeeded. STATUS_INVALID_HANDLE: no region has
    /// it.
    pub(super) fn deregister(&self, handle: u64, overlapped: &Overlapped) -> NTSTATUS {
        self.change(Change::Deregisters(handle), overlapped, |region| region.deregister(overlapped))
    }

    fn change(&self, change: Change, overlapped: &Overlapped, send: impl FnOnce(&Region) -> NTSTATUS) -> NTSTATUS {
        let Some(region) = self.find(change.handle()) else { return STATUS_INVALID_HANDLE };
        let before = lock(&self.changing).insert(overlapped.address(), change);
        // That OVERLAPPED is used again, so its request is over; but nobody asked how it ended.
        if let Some(unseen) =
            before.filter(|before| self.find(before.handle()).is_some_and(|region| !is_registered(&region)))
        {
            self.remove(unseen.handle());
        }
        let status = send(&region);
        if status != STATUS_PENDING {
            self.ended(overlapped.address(), status);
        }
        status
    }

    /// A request of an adapter has ended: if it was one of these, its region may be gone.
    pub(super) fn ended(&self, overlapped: usize, status: NTSTATUS) {
        let change = lock(&self.changing).remove(&overlapped);
        match change {
            Some(Change::Registers(handle)) if !status.is_success() => self.remove(handle),
            Some(Change::Deregisters(handle)) if status.is_success() => self.remove(handle),
            _ => {}
        }
    }

    /// Ends what pends with STATUS_CANCELLED.
    pub(super) fn cancel(&self) -> Result<(), NTSTATUS> {
        let handles: Vec<_> = lock(&self.changing).values().map(|change| change.handle()).collect();
        handles.into_iter().filter_map(|handle| self.find(handle)).try_for_each(|region| region.pending().cancel())
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_registered(region: &Region) -> bool {
    region.tokens().LocalToken != 0
}

impl Table {
    /// The slot of a region by its handle.
    fn slot(&self, handle: u64) -> Option<usize> {
        let index = (handle as u32).checked_sub(1)? as usize;
        let slot = self.slots.get(index)?;
        (u64::from(slot.generation) == handle >> 32 && slot.region.is_some()).then_some(index)
    }
}
