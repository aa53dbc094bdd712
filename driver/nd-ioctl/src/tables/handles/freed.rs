//! Queue pairs that were freed before their completions were polled from the CQ.
//!
//! No program gets these completions. But a receive from the ring of an SRQ keeps its slot there until the receive is reported. So the slot
//! of the freed queue pair's handle names the SRQ, until the NDK queue pair is closed and its CQ was found empty after that. The slot holds
//! no reference, and counts against the limit of handles.

use ndk_abi::status::NTSTATUS;
use platform::{Arc, Platform};

use super::{Entry, Handles, Table, Typed};

/// The entry that replaces a freed queue pair.
pub(crate) struct Freed {
    /// The handle of the queue pair's SRQ.
    left: u64,
    /// The handle of the next entry in a chain.
    next: Option<u64>,
}

/// A linked list of freed queue pairs: the handles of the first and the last.
pub(crate) struct Chain {
    first: u64,
    last: u64,
}

impl Chain {
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

impl<T, P: Platform> Table<T, P> {
    fn freed(&mut self, handle: u64) -> Option<&mut Freed> {
        match self.entries.get(handle) {
            Some(Entry::Freed(freed)) => Some(freed),
            _ => None,
        }
    }

    /// Frees one slot of the `forgotten` list, if there is one.
    pub(super) fn reuse(&mut self) {
        if let Some(handle) = self.forgotten {
            self.forgotten = self.freed(handle).and_then(|freed| freed.next);
            let nothing_referred_to = self.entries.remove(handle);
            drop(nothing_referred_to);
        }
    }
}

impl<T, P: Platform> Handles<T, P> {
    /// Removes an object from its handle. If `leaves` returns a handle, of another object, that handle stays in the slot. Errors:
    /// [`Handles::get`].
    pub(crate) fn remove_leaving<U: Typed<T, P>>(
        &self,
        handle: u64,
        leaves: impl FnOnce(&U) -> Option<u64>,
    ) -> Result<Arc<U, P>, NTSTATUS> {
        let mut table = self.table.lock();
        let object = table.find::<U>(handle)?.clone();
        let held = match (leaves(&object), table.entries.get(handle)) {
            (Some(left), Some(entry)) => Some(core::mem::replace(entry, Entry::Freed(Freed { left, next: None }))),
            _ => table.entries.remove(handle),
        };
        drop(table);
        drop(held);
        Ok(object)
    }

    /// The object of a handle; if it was freed, the object whose handle it left in the slot. `None`: neither exists.
    pub(crate) fn get_or_left(&self, handle: u64) -> Option<T>
    where
        T: Clone,
    {
        let mut table = self.table.lock();
        let left = match table.entries.get(handle)? {
            Entry::Object(object) => return Some(object.clone()),
            Entry::Freed(freed) => freed.left,
        };
        let closed = table.closed;
        table.entries.get(left).filter(|_| !closed)?.object().cloned()
    }

    /// Appends a freed queue pair to a chain. False: the slot of `handle` has no freed queue pair.
    pub(crate) fn append_freed(&self, chain: &mut Option<Chain>, handle: u64) -> bool {
        let mut table = self.table.lock();
        if table.freed(handle).is_none() {
            return false;
        }
        match chain {
            Some(chain) => {
                if let Some(last) = table.freed(chain.last) {
                    last.next = Some(handle);
                }
                chain.last = handle;
            }
            None => *chain = Some(Chain { first: handle, last: handle }),
        }
        true
    }

    /// Moves the queue pairs of a chain, up to `last`, to the `forgotten` list: their slots can be used again.
    pub(crate) fn forget_freed(&self, chain: &mut Option<Chain>, last: u64) {
        let Some(Chain { first, last: end }) = chain.take() else { return };
        let mut table = self.table.lock();
        let forgotten = table.forgotten;
        // Without a slot the provider context has ended, and its table is freed.
        let Some(place) = table.freed(last) else { return };
        let rest = core::mem::replace(&mut place.next, forgotten);
        table.forgotten = Some(first);
        *chain = rest.map(|first| Chain { first, last: end });
    }
}
