//! Queue pairs that were freed before their completions had been taken from the CQ.
//!
//! These are for nobody any more. But a receive that came by the ring of a shared queue keeps its slot there until it is reported. So
//! the slot of such a queue pair's handle tells which queue that is, until the NDK queue pair is closed and its CQ was found empty
//! after that. It holds no reference, and the limit of handles is that of such slots too.

use ndk_abi::status::NTSTATUS;

use super::{Handles, Object, Table, Typed};
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::{Host, Ref};

/// In the place of a queue pair.
pub(crate) struct Freed {
    /// The handle of its shared queue.
    srq: u64,
    /// The next of a chain.
    next: Option<u64>,
}

/// The handles of freed queue pairs, each of which has the next one: the first and the last.
pub(crate) struct Chain {
    first: u64,
    last: u64,
}

impl Chain {
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

/// Who is concerned by the completions of a queue pair.
pub(crate) enum Reporter<H: Host> {
    Qp(Ref<Qp<H>, H>),
    /// It was freed; its receives came by the ring of this.
    Srq(Ref<Srq<H>, H>),
}

impl<H: Host> Table<H> {
    fn freed(&mut self, handle: u64) -> Option<&mut Freed> {
        match self.objects.get(handle) {
            Some(Object::Freed(freed)) => Some(freed),
            _ => None,
        }
    }

    /// Has a slot that was forgotten, if there is one, used again.
    pub(super) fn reuse(&mut self) {
        if let Some(handle) = self.forgotten {
            self.forgotten = self.freed(handle).and_then(|freed| freed.next);
            let nothing_referred_to = self.objects.remove(handle);
            drop(nothing_referred_to);
        }
    }
}

impl<H: Host> Handles<H> {
    /// Takes a queue pair from its handle. Errors: [`Handles::get`].
    pub(crate) fn free_qp(&self, handle: u64) -> Result<Ref<Qp<H>, H>, NTSTATUS> {
        let mut table = self.table.lock();
        let qp = table.find::<Qp<H>>(handle)?.clone();
        let held = match (qp.shared_ring(), table.objects.get(handle)) {
            (Some(srq), Some(object)) => Some(core::mem::replace(object, Object::Freed(Freed { srq, next: None }))),
            _ => table.objects.remove(handle),
        };
        drop(table);
        drop(held);
        Ok(qp)
    }

    /// Who is concerned by the completions of a queue pair. `None`: nobody any more.
    pub(crate) fn reporter(&self, handle: u64) -> Option<Reporter<H>> {
        let mut table = self.table.lock();
        let srq = match table.objects.get(handle)? {
            Object::Freed(freed) => freed.srq,
            object => return Qp::of(object).cloned().map(Reporter::Qp),
        };
        table.find::<Srq<H>>(srq).ok().cloned().map(Reporter::Srq)
    }

    /// Appends a freed queue pair to a chain; false: it is none, or was freed without a trace.
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

    /// Forgets the queue pairs of a chain up to `last`: their slots are used again.
    pub(crate) fn forget_freed(&self, chain: &mut Option<Chain>, last: u64) {
        let Some(Chain { first, last: end }) = chain.take() else { return };
        let mut table = self.table.lock();
        let forgotten = table.forgotten;
        // Not there any more: the file has been cleaned up.
        let Some(place) = table.freed(last) else { return };
        let rest = core::mem::replace(&mut place.next, forgotten);
        table.forgotten = Some(first);
        *chain = rest.map(|first| Chain { first, last: end });
    }
}
