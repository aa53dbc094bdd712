//! Deferred procedure calls, and queues of them.
#![expect(
    unsafe_code,
    reason = "DPCs are linked by address, and their routines are C functions with a context pointer"
)]

use std::{
    cell::Cell,
    ffi::c_void,
    ptr::{null, null_mut},
};

use platform::DpcRoutine;

/// The storage of a DPC; the default is uninitialised.
pub struct Dpc {
    routine: Cell<Option<DpcRoutine>>,
    context: Cell<*mut c_void>,
    /// The next DPC of the queue.
    next: Cell<*const Dpc>,
}

impl Default for Dpc {
    fn default() -> Self {
        Self { routine: Cell::default(), context: Cell::new(null_mut()), next: Cell::new(null()) }
    }
}

// SAFETY: the routine and the context are written before the DPC is first queued; `next` only by the thread that owns
// the queue, or holds the lock of the system thread's queue.
unsafe impl Send for Dpc {}
// SAFETY: as for Send.
unsafe impl Sync for Dpc {}

impl Dpc {
    pub(crate) fn initialize(&self, routine: DpcRoutine, context: *mut c_void) {
        self.routine.set(Some(routine));
        self.context.set(context);
    }

    /// Calls the routine, at `DISPATCH_LEVEL`.
    ///
    /// # Safety
    /// `dpc` was initialised, was taken out of its queue, and is valid until the routine is entered.
    pub(crate) unsafe fn run(dpc: *const Self) {
        // SAFETY: valid, by contract; the reference is not used after the routine is entered.
        let fields = unsafe { &*dpc };
        let (routine, context) = (fields.routine.get(), fields.context.get());
        if let Some(routine) = routine {
            // SAFETY: the context is the one that the DPC was initialised with; called once each time that the DPC is
            // queued.
            unsafe { routine(context) };
        }
    }
}

/// A first-in, first-out queue of DPCs.
pub(crate) struct Queue {
    first: Cell<*const Dpc>,
    last: Cell<*const Dpc>,
}

// SAFETY: the DPCs may be used on any thread, and only the thread that owns the queue, or holds its lock, uses it.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { first: Cell::new(null()), last: Cell::new(null()) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// # Safety
    /// `dpc` was initialised, is in no queue, and stays valid until its routine has been entered.
    pub(crate) unsafe fn push(&self, dpc: *const Dpc) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*dpc };
        fields.next.set(null());
        self.link(dpc, dpc);
    }

    /// Moves all DPCs of `other` to the end of this queue.
    pub(crate) fn append(&self, other: &Self) {
        let (first, last) = (other.first.replace(null()), other.last.replace(null()));
        if !first.is_null() {
            self.link(first, last);
        }
    }

    /// Appends DPCs that are linked from `first` to `last`.
    fn link(&self, first: *const Dpc, last: *const Dpc) {
        let before = self.last.replace(last);
        if before.is_null() {
            self.first.set(first);
        } else {
            // SAFETY: queued, so valid.
            let before = unsafe { &*before };
            before.next.set(first);
        }
    }

    pub(crate) fn pop(&self) -> Option<*const Dpc> {
        let dpc = self.first.get();
        if dpc.is_null() {
            return None;
        }
        // SAFETY: queued, so valid.
        let next = unsafe { (*dpc).next.get() };
        self.first.set(next);
        if next.is_null() {
            self.last.set(null());
        }
        Some(dpc)
    }
}
