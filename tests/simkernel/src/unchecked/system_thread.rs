//! The system thread, on which DPCs take turns with everything else.
#![expect(unsafe_code, reason = "DPCs are passed to another thread by address")]

use std::{
    sync::{
        Mutex, OnceLock,
        mpsc::{self, Sender},
    },
    thread,
};

use super::processor::{Dpc, Raised};
use crate::lock_table;

static SYSTEM_THREAD: OnceLock<Mutex<Sender<Queued>>> = OnceLock::new();

struct Queued(*const Dpc);

// SAFETY: whoever queues a DPC keeps it valid until its routine is entered, on whatever thread.
unsafe impl Send for Queued {}

/// Has a DPC run on the system thread.
///
/// # Safety
/// It was initialised, is not queued, and stays valid until its routine has been entered.
pub(super) unsafe fn queue(dpc: *const Dpc) {
    // SAFETY: valid, by contract.
    if !unsafe { (*dpc).enqueue() } {
        return;
    }
    let sender = SYSTEM_THREAD.get_or_init(start);
    assert!(lock_table(sender).send(Queued(dpc)).is_ok(), "the system thread has ended");
}

fn start() -> Mutex<Sender<Queued>> {
    let (sender, queue) = mpsc::channel::<Queued>();
    let work = move || {
        for Queued(dpc) in queue {
            // Below this level between two of them, so that the DPCs that one queues run before the next.
            let _raised = Raised::to_dispatch();
            // SAFETY: it was queued until now, so it is valid until its routine is entered.
            unsafe { Dpc::run(dpc) };
        }
    };
    let spawned = thread::Builder::new().name("system thread".to_owned()).spawn(work);
    assert!(spawned.is_ok(), "no system thread");
    Mutex::new(sender)
}
