//! The system thread: it runs the DPCs of timers, and DPCs that other threads have left to it.
#![expect(unsafe_code, reason = "DPCs and timers are passed to another thread by address")]

use std::{
    cell::Cell,
    collections::BTreeMap,
    ptr::NonNull,
    sync::{Condvar, Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    dpc::{Dpc, Queue},
    processor::Raised,
};

static WORK: Mutex<Work> = Mutex::new(Work { left: Queue::new(), timers: BTreeMap::new(), number: 0, waits: false });
static CHANGED: Condvar = Condvar::new();

struct Work {
    left: Queue,
    /// The timers that are set.
    timers: BTreeMap<Key, Set>,
    /// The number of the timer that was set last.
    number: u64,
    /// The system thread waits for [`CHANGED`].
    waits: bool,
}

/// The time of expiry, and a number that distinguishes timers with the same time.
type Key = (Instant, u64);

/// A timer that is set.
struct Set(NonNull<Timer>);

// SAFETY: the timer is valid, on any thread, until its routine is entered or it is cancelled.
unsafe impl Send for Set {}

/// The storage of a timer and its DPC; the default is uninitialised.
#[derive(Default)]
pub struct Timer {
    /// The timer's key in `Work::timers`, while the timer is set.
    key: Cell<Option<Key>>,
    dpc: Dpc,
}

// SAFETY: the cell is used with WORK locked only.
unsafe impl Send for Timer {}
// SAFETY: as for Send.
unsafe impl Sync for Timer {}

impl Timer {
    pub(crate) fn dpc(&self) -> &Dpc {
        &self.dpc
    }
}

fn lock() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the work, and wakes the system thread, which the first call starts.
fn add(change: impl FnOnce(&mut Work)) {
    static START: Once = Once::new();
    START.call_once(|| {
        let spawned = thread::Builder::new().name("system thread".to_owned()).spawn(run);
        assert!(spawned.is_ok(), "no system thread");
    });
    let mut work = lock();
    change(&mut work);
    let waits = std::mem::take(&mut work.waits);
    drop(work);
    if waits {
        CHANGED.notify_one();
    }
}

/// Moves all DPCs of a queue to the system thread.
pub(crate) fn queue(dpcs: &Queue) {
    add(|work| work.left.append(dpcs));
}

/// Sets a timer.
///
/// # Safety
/// `timer` was initialised, is not set, and stays valid until its routine has been entered, or [`cancel`] has returned
/// true.
pub(crate) unsafe fn set(timer: NonNull<Timer>, microseconds: u32) {
    let due = Instant::now() + Duration::from_micros(microseconds.into());
    add(|work| {
        work.number += 1;
        let key = (due, work.number);
        // SAFETY: valid, by contract.
        let fields = unsafe { timer.as_ref() };
        fields.key.set(Some(key));
        work.timers.insert(key, Set(timer));
    });
}

/// Cancels a timer; false: its routine was entered, or will be.
pub(crate) fn cancel(timer: &Timer) -> bool {
    let mut work = lock();
    timer.key.take().is_some_and(|key| work.timers.remove(&key).is_some())
}

impl Work {
    /// The DPC to run next: the DPC of a timer that is due, else the oldest DPC that another thread has left here.
    fn next(&mut self) -> Option<*const Dpc> {
        if let Some(first) = self.timers.first_entry()
            && first.key().0 <= Instant::now()
        {
            let Set(timer) = first.remove();
            // SAFETY: the timer's routine was not entered and the timer was not cancelled, so the timer is valid.
            let fields = unsafe { timer.as_ref() };
            fields.key.set(None);
            return Some(&raw const fields.dpc);
        }
        self.left.pop()
    }
}

fn run() {
    loop {
        let dpc = wait();
        // The drop lowers the IRQL after each DPC, so that the DPCs that its routine has queued run before the next one.
        let _raised = Raised::to_dispatch();
        // SAFETY: the DPC was queued, or its timer set, until now, so it is valid until its routine is entered.
        unsafe { Dpc::run(dpc) };
    }
}

/// Waits until there is a DPC to run.
fn wait() -> *const Dpc {
    let mut work = lock();
    loop {
        if let Some(dpc) = work.next() {
            return dpc;
        }
        work.waits = true;
        work = match work.timers.first_key_value() {
            Some((&(due, _), _)) => {
                let left = due.saturating_duration_since(Instant::now());
                CHANGED.wait_timeout(work, left).unwrap_or_else(PoisonError::into_inner).0
            }
            None => CHANGED.wait(work).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
