//! A thread as a processor: its IRQL, and its queue of DPCs.
#![expect(unsafe_code, reason = "DPCs are known by their addresses")]

use std::cell::Cell;

use platform::{DISPATCH_LEVEL, PASSIVE_LEVEL, RUNS_IN_A_ROW};

use crate::{
    dpc::{Dpc, Queue},
    system_thread,
};

struct Processor {
    irql: Cell<u8>,
    queue: Queue,
}

thread_local! {
    static PROCESSOR: Processor =
        const { Processor { irql: Cell::new(PASSIVE_LEVEL), queue: Queue::new() } };
}

#[inline]
pub(crate) fn irql() -> u8 {
    PROCESSOR.with(|processor| processor.irql.get())
}

/// Raises to `DISPATCH_LEVEL`; returns the level from before.
#[inline]
pub(crate) fn raise() -> u8 {
    PROCESSOR.with(|processor| processor.irql.replace(DISPATCH_LEVEL))
}

/// Restores the level that `raise` returned. If that is below `DISPATCH_LEVEL`, runs the queued DPCs first.
#[inline]
pub(crate) fn lower(before: u8) {
    PROCESSOR.with(|processor| {
        if before < DISPATCH_LEVEL && !processor.queue.is_empty() {
            processor.drain();
        }
        processor.irql.set(before);
    });
}

/// The thread is at `DISPATCH_LEVEL` as long as this lives.
pub(crate) struct Raised(u8);

impl Raised {
    pub(crate) fn to_dispatch() -> Self {
        Self(raise())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        lower(self.0);
    }
}

/// Queues a DPC on this processor. Below `DISPATCH_LEVEL` the DPC runs before this returns.
///
/// # Safety
/// `dpc` was initialised, is not queued, and stays valid until its routine has been entered.
pub(crate) unsafe fn queue(dpc: *const Dpc) {
    PROCESSOR.with(|processor| {
        // SAFETY: the caller's contract.
        unsafe { processor.queue.push(dpc) };
        if processor.irql.get() < DISPATCH_LEVEL {
            drop(Raised::to_dispatch());
        }
    });
}

impl Processor {
    /// Runs queued DPCs at `DISPATCH_LEVEL`, at most RUNS_IN_A_ROW of them; the rest goes to the system thread.
    #[cold]
    fn drain(&self) {
        for _ in 0..RUNS_IN_A_ROW {
            let Some(dpc) = self.queue.pop() else { return };
            // SAFETY: the DPC was queued until now, so it is valid until its routine is entered.
            unsafe { Dpc::run(dpc) };
        }
        if !self.queue.is_empty() {
            system_thread::queue(&self.queue);
        }
    }
}
