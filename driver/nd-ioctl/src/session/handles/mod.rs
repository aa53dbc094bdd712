//! The handles of a file: typed references to its objects.

mod freed;

pub(crate) use freed::{Chain, Reporter};

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_HANDLE};
use platform::{Arc, Passive, PoolQuota, SpinLock};

use crate::objects::connector::Connector;
use crate::objects::cq::Cq;
use crate::objects::listener::Listener;
use crate::objects::mr::Mr;
use crate::objects::mw::Mw;
use crate::objects::pd::Pd;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::session::slab::Slab;
use crate::{Host, Ref};
use freed::Freed;
use ndk_consumer::Adapter;

/// At most 2^21 handles a file: all objects that the adapter says it has (`soft_rdma::limits`), and some.
const CHUNK: u32 = 256;
const CHUNKS: usize = 8192;

macro_rules! objects {
    ($($(#[$meta:meta])* $kind:ident($object:ty),)*) => {
        /// What a handle can name.
        pub(crate) enum Object<H: Host> {
            $($(#[$meta])* $kind(Arc<$object, H::Platform>),)*
            /// What is left of a queue pair.
            Freed(Freed),
        }

        $(
            impl<H: Host> Typed<H> for $object {
                fn wrap(object: Ref<Self, H>) -> Object<H> {
                    Object::$kind(object)
                }
                fn of(object: &Object<H>) -> Option<&Ref<Self, H>> {
                    match object {
                        Object::$kind(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

/// A type of object that handles name.
pub(crate) trait Typed<H: Host>: Sized {
    fn wrap(object: Ref<Self, H>) -> Object<H>;
    fn of(object: &Object<H>) -> Option<&Ref<Self, H>>;
}

objects! {
    Adapter(Adapter<H::Platform>),
    Pd(Pd<H>),
    Cq(Cq<H>),
    Mr(Mr<H>),
    Mw(Mw<H>),
    Srq(Srq<H>),
    Qp(Qp<H>),
    Connector(Connector<H>),
    Listener(Listener<H>),
}

struct Table<H: Host> {
    objects: Slab<Object<H>, H::Platform, CHUNK, CHUNKS>,
    closed: bool,
    /// The first of the slots of freed queue pairs that need not be kept any more.
    forgotten: Option<u64>,
}

/// The handle table of one file.
pub(crate) struct Handles<H: Host> {
    table: SpinLock<Table<H>, H::Platform>,
}

impl<H: Host> Table<H> {
    fn find<T: Typed<H>>(&mut self, handle: u64) -> Result<&Ref<T, H>, NTSTATUS> {
        if self.closed {
            return Err(STATUS_DEVICE_REMOVED);
        }
        self.objects.get(handle).and_then(|object| T::of(object)).ok_or(STATUS_INVALID_HANDLE)
    }
}

impl<H: Host> Handles<H> {
    pub(crate) fn new(quota: &PoolQuota<H::Platform>) -> Self {
        let table = Table { objects: Slab::new(quota.no_charge()), closed: false, forgotten: None };
        Self { table: SpinLock::<_, H::Platform>::new(table) }
    }

    /// The object of a handle. STATUS_INVALID_HANDLE: no such handle in this file, or of another type.
    /// STATUS_DEVICE_REMOVED: the table is closed.
    pub(crate) fn get<T: Typed<H>>(&self, handle: u64) -> Result<Ref<T, H>, NTSTATUS> {
        self.table.lock().find(handle).cloned()
    }

    /// The object in the slot of this index, if it is of this type. `None`: there is no such slot, nor one behind it.
    pub(crate) fn at<T: Typed<H>>(&self, index: u32) -> Option<Option<Ref<T, H>>> {
        let mut table = self.table.lock();
        table.objects.at(index).map(|object| object.and_then(|object| T::of(object)).cloned())
    }

    /// A handle for an object that is about to be made.
    pub(crate) fn reserve(&self) -> Result<Reserved<'_, H>, NTSTATUS> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(STATUS_DEVICE_REMOVED);
        }
        table.reuse();
        let handle = table.objects.reserve()?;
        Ok(Reserved { handles: self, handle })
    }

    /// Takes an object from its handle.
    pub(crate) fn remove<T: Typed<H>>(&self, handle: u64) -> Result<Ref<T, H>, NTSTATUS> {
        let mut table = self.table.lock();
        let object = table.find::<T>(handle)?.clone();
        let held = table.objects.remove(handle);
        drop(table);
        drop(held);
        Ok(object)
    }

    /// From now on there are no new handles.
    pub(crate) fn close(&self) {
        self.table.lock().closed = true;
    }

    /// Whether its file is being closed, or is.
    pub(crate) fn are_closed(&self) -> bool {
        self.table.lock().closed
    }

    /// Takes each object that `wanted` accepts from its handle and gives it to `each`.
    pub(crate) fn drain(&self, wanted: impl Fn(&Object<H>) -> bool, mut each: impl FnMut(Object<H>)) {
        let mut cursor = 0;
        loop {
            let next = self.table.lock().objects.remove_next(&mut cursor, &wanted);
            match next {
                Some(Some(object)) => each(object),
                Some(None) => {}
                None => return,
            }
        }
    }

    /// Frees the memory of a table that is closed and drained. Here, and not where the last reference goes: that may be a DPC.
    pub(crate) fn free(&self, _: &Passive<'_>) {
        let nothing = Slab::new(PoolQuota::UNLIMITED.no_charge());
        let objects = core::mem::replace(&mut self.table.lock().objects, nothing);
        drop(objects);
    }
}

/// A handle without an object yet; it goes if none comes.
pub(crate) struct Reserved<'a, H: Host> {
    handles: &'a Handles<H>,
    handle: u64,
}

impl<H: Host> Reserved<'_, H> {
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Gives the handle its object.
    pub(crate) fn fill<T: Typed<H>>(self, object: Ref<T, H>) -> Result<u64, NTSTATUS> {
        let mut table = self.handles.table.lock();
        if table.closed {
            drop(table);
            return Err(STATUS_DEVICE_REMOVED);
        }
        table.objects.fill(self.handle, T::wrap(object));
        drop(table);
        let handle = self.handle;
        core::mem::forget(self);
        Ok(handle)
    }
}

impl<H: Host> Drop for Reserved<'_, H> {
    fn drop(&mut self) {
        let held = self.handles.table.lock().objects.remove(self.handle);
        drop(held);
    }
}
