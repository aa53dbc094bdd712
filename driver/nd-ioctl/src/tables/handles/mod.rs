//! The handles of a provider context: typed references to its objects.

mod freed;

pub(crate) use freed::Chain;

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE};
use platform::{Arc, Charge, OutOfMemory, Passive, Platform, PoolQuota, SpinLock};

use crate::shared;
use crate::tables::slab::Slab;
use freed::Freed;

/// At most 2^21 handles of a provider context: more than the adapter's limits of all kinds of objects together (`soft_rdma::limits`).
const CHUNK: u32 = 256;
const CHUNKS: usize = 8192;

/// A type of object that handles name. `T` is a reference to an object of any of these types.
pub(crate) trait Typed<T, P: Platform>: Sized {
    fn wrap(object: Arc<Self, P>) -> T;
    fn of(object: &T) -> Option<&Arc<Self, P>>;
}

enum Entry<T> {
    Object(T),
    /// A freed queue pair, whose completions may still be in its CQ.
    Freed(Freed),
}

struct Table<T, P: Platform> {
    entries: Slab<Entry<T>, P, CHUNK, CHUNKS>,
    closed: bool,
    /// The first entry of the list of freed queue pairs whose slots can be used again.
    forgotten: Option<u64>,
}

/// The handle table of one provider context. `T`: a reference to an object.
pub(crate) struct Handles<T, P: Platform> {
    table: SpinLock<Table<T, P>, P>,
    _charge: Charge<P>,
}

impl<T> Entry<T> {
    fn object(&self) -> Option<&T> {
        match self {
            Self::Object(object) => Some(object),
            Self::Freed(_) => None,
        }
    }
}

impl<T, P: Platform> Table<T, P> {
    fn find<U: Typed<T, P>>(&mut self, handle: u64) -> Result<&Arc<U, P>, NTSTATUS> {
        if self.closed {
            return Err(STATUS_DEVICE_REMOVED);
        }
        self.entries.get(handle).and_then(|entry| U::of(entry.object()?)).ok_or(STATUS_INVALID_HANDLE)
    }
}

impl<T, P: Platform> Handles<T, P> {
    pub(crate) fn new(quota: &PoolQuota<P>) -> Result<Arc<Self, P>, NTSTATUS> {
        let charge = quota.charge(Arc::<Self, P>::POOL_BYTES).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let table = Table { entries: Slab::new(quota.no_charge()), closed: false, forgotten: None };
        shared(Self { table: SpinLock::<_, P>::new(table), _charge: charge })
    }

    /// The object of a handle. STATUS_INVALID_HANDLE: the table has no such handle, or its object has another type. STATUS_DEVICE_REMOVED:
    /// the table is closed.
    pub(crate) fn get<U: Typed<T, P>>(&self, handle: u64) -> Result<Arc<U, P>, NTSTATUS> {
        self.table.lock().find(handle).cloned()
    }

    /// The object in the slot with this index; `Some(None)`: the slot has no object of this type; `None`: this index and all above it have
    /// no slot.
    pub(crate) fn at<U: Typed<T, P>>(&self, index: u32) -> Option<Option<Arc<U, P>>> {
        let mut table = self.table.lock();
        table.entries.at(index).map(|entry| entry.and_then(|entry| U::of(entry.object()?)).cloned())
    }

    /// Reserves a handle for an object that is about to be made.
    pub(crate) fn reserve(&self) -> Result<Reserved<'_, T, P>, NTSTATUS> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(STATUS_DEVICE_REMOVED);
        }
        table.reuse();
        let handle = table.entries.reserve()?;
        Ok(Reserved { handles: self, handle })
    }

    /// Removes an object from its handle. Errors: [`Handles::get`].
    pub(crate) fn remove<U: Typed<T, P>>(&self, handle: u64) -> Result<Arc<U, P>, NTSTATUS> {
        self.remove_leaving(handle, |_| None)
    }

    /// Closes the table: from now on no handle is made, and [`Handles::get`] fails.
    pub(crate) fn close(&self) {
        self.table.lock().closed = true;
    }

    /// Whether the table is closed: its provider context is ending or has ended.
    pub(crate) fn are_closed(&self) -> bool {
        self.table.lock().closed
    }

    /// Removes each object that `wanted` accepts from its handle and passes it to `each`. Entries of freed queue pairs stay until
    /// [`Handles::free`].
    pub(crate) fn drain(&self, wanted: impl Fn(&T) -> bool, mut each: impl FnMut(T)) {
        let mut cursor = 0;
        let wanted = |entry: &Entry<T>| entry.object().is_some_and(&wanted);
        loop {
            let next = self.table.lock().entries.remove_next(&mut cursor, wanted);
            match next {
                Some(Some(Entry::Object(object))) => each(object),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Frees the memory of a table that is closed and has no objects. Called at PASSIVE_LEVEL, and not left to the drop of the table: its
    /// last reference may go in a DPC.
    pub(crate) fn free(&self, _: &Passive<'_>) {
        let nothing = Slab::new(PoolQuota::UNLIMITED.no_charge());
        let entries = core::mem::replace(&mut self.table.lock().entries, nothing);
        drop(entries);
    }
}

/// A handle whose object is not made yet. The drop frees the handle.
pub(crate) struct Reserved<'a, T, P: Platform> {
    handles: &'a Handles<T, P>,
    handle: u64,
}

impl<T, P: Platform> Reserved<'_, T, P> {
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Sets the handle's object.
    pub(crate) fn fill<U: Typed<T, P>>(self, object: Arc<U, P>) -> Result<u64, NTSTATUS> {
        let mut table = self.handles.table.lock();
        if table.closed {
            drop(table);
            return Err(STATUS_DEVICE_REMOVED);
        }
        table.entries.fill(self.handle, Entry::Object(U::wrap(object)));
        drop(table);
        let handle = self.handle;
        core::mem::forget(self);
        Ok(handle)
    }
}

impl<T, P: Platform> Drop for Reserved<'_, T, P> {
    fn drop(&mut self) {
        let held = self.handles.table.lock().entries.remove(self.handle);
        drop(held);
    }
}
