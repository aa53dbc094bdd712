//! A thread as a processor: its IRQL, and its queue of DPCs.
#![expect(unsafe_code, reason = "DPCs are known by their addresses")]

use std::cell::Cell;

use platform::{DISPATCH_LEVEL, PASSIVE_LEVEL};

use crate::dpc::{Dpc, Queue};

/// DPCs after which a thread that runs them is to go on with what it did.
const LONG: u32 = 64;

struct Processor {
    irql: Cell<u8>,
    queue: Queue,
    /// DPCs that have run since the thread began to run them; 0 while it runs none.
    run: Cell<u32>,
}

thread_local! {
    static PROCESSOR: Processor =
        const { Processor { irql: Cell::new(PASSIVE_LEVEL), queue: Queue::new(), run: Cell::new(0) } };
}

#[inline]
pub(crate) fn irql() -> u8 {
    PROCESSOR.with(|processor| processor.irql.get())
}

/// Raises to `DISPATCH_LEVEL`; gives the level before.
#[inline]
pub(crate) fn raise() -> u8 {
    PROCESSOR.with(|processor| processor.irql.replace(DISPATCH_LEVEL))
}

/// Goes back to the level that `raise` gave, after the DPCs that are due then.
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

/// Queues a DPC for this processor.
///
/// # Safety
/// It was initialised, and stays valid until its routine has been entered.
pub(crate) unsafe fn queue(dpc: *const Dpc) -> bool {
    PROCESSOR.with(|processor| {
        // SAFETY: the caller's contract.
        if !unsafe { processor.queue.push(dpc) } {
            return false;
        }
        if processor.irql.get() < DISPATCH_LEVEL {
            drop(Raised::to_dispatch());
        }
        true
    })
}

/// Whether this thread has run many DPCs without going on with what it did.
pub(crate) fn is_held_up() -> bool {
    PROCESSOR.with(|processor| processor.run.get() > LONG)
}

impl Processor {
    /// Runs DPCs until none is queued, at `DISPATCH_LEVEL`.
    #[cold]
    fn drain(&self) {
        while let Some(dpc) = self.queue.pop() {
            self.run.set(self.run.get().saturating_add(1));
            // SAFETY: it was queued until now, so it is valid until its routine is entered.
            unsafe { Dpc::run(dpc) };
        }
        self.run.set(0);
    }
}
