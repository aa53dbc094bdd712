//! A thread as a processor: its IRQL, and its queue of DPCs.
#![expect(
    unsafe_code,
    reason = "DPCs are linked by address, and their routines are C functions with a context pointer"
)]

use std::{
    cell::Cell,
    ffi::c_void,
    ptr::null,
    sync::atomic::{AtomicBool, Ordering},
};

use platform::{DISPATCH_LEVEL, DpcRoutine, PASSIVE_LEVEL};

struct Processor {
    irql: Cell<u8>,
    first: Cell<*const Dpc>,
    last: Cell<*const Dpc>,
}

thread_local! {
    static PROCESSOR: Processor = const {
        Processor { irql: Cell::new(PASSIVE_LEVEL), first: Cell::new(null()), last: Cell::new(null()) }
    };
}

/// The storage of a DPC; the default is uninitialised.
pub struct Dpc {
    routine: Cell<Option<DpcRoutine>>,
    context: Cell<*mut c_void>,
    queued: AtomicBool,
    /// The next one of the processor's queue.
    next: Cell<*const Dpc>,
}

impl Default for Dpc {
    fn default() -> Self {
        Self {
            routine: Cell::default(),
            context: Cell::new(std::ptr::null_mut()),
            queued: AtomicBool::new(false),
            next: Cell::new(null()),
        }
    }
}

// SAFETY: the routine and the context are written before the DPC is first queued; `next` by who set `queued` only.
unsafe impl Send for Dpc {}
// SAFETY: as for Send.
unsafe impl Sync for Dpc {}

impl Dpc {
    pub(super) fn initialize(&self, routine: DpcRoutine, context: *mut c_void) {
        self.routine.set(Some(routine));
        self.context.set(context);
    }

    /// False: it is queued already.
    pub(super) fn enqueue(&self) -> bool {
        // Release: what the caller did before is seen by the routine, even if another queueing made it run.
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Calls the routine of a DPC that was taken out of its queue, at `DISPATCH_LEVEL`.
    ///
    /// # Safety
    /// The DPC is valid until the routine is entered.
    pub(super) unsafe fn run(dpc: *const Self) {
        // SAFETY: valid, by contract; the reference is not used after the routine is entered.
        let fields = unsafe { &*dpc };
        let (routine, context) = (fields.routine.get(), fields.context.get());
        fields.queued.swap(false, Ordering::AcqRel);
        if let Some(routine) = routine {
            // SAFETY: the context is the one the DPC was initialised with; once for each queueing.
            unsafe { routine(context) };
        }
    }
}

#[inline]
pub(super) fn irql() -> u8 {
    PROCESSOR.with(|processor| processor.irql.get())
}

/// Raises to `DISPATCH_LEVEL`; gives the level before.
#[inline]
pub(super) fn raise() -> u8 {
    PROCESSOR.with(|processor| processor.irql.replace(DISPATCH_LEVEL))
}

/// Goes back to the level that `raise` gave, after the DPCs that are due then.
#[inline]
pub(super) fn lower(before: u8) {
    PROCESSOR.with(|processor| {
        if before < DISPATCH_LEVEL && !processor.first.get().is_null() {
            processor.drain();
        }
        processor.irql.set(before);
    });
}

/// The thread is at `DISPATCH_LEVEL` as long as this lives.
pub(super) struct Raised(u8);

impl Raised {
    pub(super) fn to_dispatch() -> Self {
        Self(raise())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        lower(self.0);
    }
}

/// Queues a DPC for this processor.
///
/// # Safety
/// It was initialised, and stays valid until its routine has been entered.
pub(super) unsafe fn queue(dpc: *const Dpc) -> bool {
    // SAFETY: valid, by contract.
    let fields = unsafe { &*dpc };
    if !fields.enqueue() {
        return false;
    }
    fields.next.set(null());
    PROCESSOR.with(|processor| {
        let last = processor.last.replace(dpc);
        if last.is_null() {
            processor.first.set(dpc);
        } else {
            // SAFETY: queued, so valid.
            let last = unsafe { &*last };
            last.next.set(dpc);
        }
    });
    if irql() < DISPATCH_LEVEL {
        drop(Raised::to_dispatch());
    }
    true
}

impl Processor {
    /// Runs DPCs until none is queued, at `DISPATCH_LEVEL`.
    #[cold]
    fn drain(&self) {
        loop {
            let dpc = self.first.get();
            if dpc.is_null() {
                return;
            }
            // SAFETY: queued, so valid.
            let next = unsafe { (*dpc).next.get() };
            self.first.set(next);
            if next.is_null() {
                self.last.set(null());
            }
            // SAFETY: it was queued until now, so it is valid until its routine is entered.
            unsafe { Dpc::run(dpc) };
        }
    }
}
