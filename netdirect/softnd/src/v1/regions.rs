//! The registered memory of an adapter, by the handles that programs use (ND_MR_HANDLE).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use ndk_abi::status::{NTSTATUS, STATUS_INVALID_HANDLE, STATUS_PENDING};

use crate::core::{lock, memory::Region, overlapped::Overlapped};

/// The regions, and the requests that register or deregister them.
#[derive(Default)]
pub(super) struct Regions {
    table: RwLock<Table>,
    /// The handles of regions that are being registered or deregistered, by the address of the OVERLAPPED.
    changing: Mutex<HashMap<usize, u64>>,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// The number of regions that the slot held before: it makes the handles of freed regions invalid.
    generation: u32,
    region: Option<Arc<Region>>,
}

impl Regions {
    /// Gives a region its handle.
    pub(super) fn add(&self, region: Region) -> u64 {
        let mut table = self.write();
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot { generation: 0, region: None });
            // 32 bits are enough: the driver has far fewer regions.
            (table.slots.len() - 1) as u32
        });
        let slot = &mut table.slots[index as usize];
        slot.region = Some(Arc::new(region));
        // Index + 1: no handle is null.
        u64::from(slot.generation) << 32 | u64::from(index + 1)
    }

    /// Frees a region and its handle. Does nothing if the handle is not valid.
    pub(super) fn remove(&self, handle: u64) {
        let mut table = self.write();
        let Some(slot) = table.slot(handle) else { return };
        let index = handle as u32 - 1;
        let slot = &mut table.slots[slot];
        slot.generation = slot.generation.wrapping_add(1);
        let region = slot.region.take();
        table.free.push(index);
        drop(table);
        // Without the lock: the drop sends a request to the driver.
        drop(region);
    }

    /// The region that a handle names.
    pub(super) fn find(&self, handle: u64) -> Option<Arc<Region>> {
        let table = self.read();
        table.slots[table.slot(handle)?].region.clone()
    }

    /// The local token of a region; 0, which is no token, if there is no such region.
    pub(super) fn local_token(&self, handle: u64) -> u32 {
        // Without the lock: `tokens` may send a request to the driver.
        self.find(handle).map_or(0, |region| region.tokens().LocalToken)
    }

    /// Sends a registration or deregistration of a region. When the request has ended and the region is not registered,
    /// the handle is freed. STATUS_INVALID_HANDLE: no region has the handle.
    pub(super) fn change(
        &self,
        handle: u64,
        overlapped: &Overlapped,
        send: impl FnOnce(&Region) -> NTSTATUS,
    ) -> NTSTATUS {
        let Some(region) = self.find(handle) else { return STATUS_INVALID_HANDLE };
        // If the OVERLAPPED is in the table, its earlier request has ended and the program did not ask for the result.
        self.ended(overlapped.address());
        lock(&self.changing).insert(overlapped.address(), handle);
        let status = send(&region);
        if status != STATUS_PENDING {
            self.ended(overlapped.address());
        }
        status
    }

    /// Called when the request of an OVERLAPPED has ended. The status is not read from the OVERLAPPED: the program may
    /// have used it for other requests since.
    pub(super) fn ended(&self, overlapped: usize) {
        let mut changing = lock(&self.changing);
        let handle = changing.remove(&overlapped);
        // If another request for the region is in the table, the call of this function for that request decides. Either
        // that request is in progress, and the driver has refused this one, or the program did not ask for its result.
        let handle = handle.filter(|handle| changing.values().all(|other| other != handle));
        drop(changing);
        let region = handle.and_then(|handle| Some((handle, self.find(handle)?)));
        if let Some((handle, region)) = region
            && !region.is_registered()
        {
            self.remove(handle);
        }
    }

    /// Cancels the pending requests, which end with STATUS_CANCELLED.
    pub(super) fn cancel(&self) -> Result<(), NTSTATUS> {
        let handles: Vec<_> = lock(&self.changing).values().copied().collect();
        handles.into_iter().filter_map(|handle| self.find(handle)).try_for_each(|region| region.pending().cancel())
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The slot of a region by its handle.
    fn slot(&self, handle: u64) -> Option<usize> {
        let index = (handle as u32).checked_sub(1)? as usize;
        let slot = self.slots.get(index)?;
        (u64::from(slot.generation) == handle >> 32 && slot.region.is_some()).then_some(index)
    }
}
