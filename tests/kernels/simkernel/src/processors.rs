//! Deferred procedure calls and the processors that run them.
#![expect(unsafe_code, reason = "DPC routines are C functions with a context pointer")]

use std::{
    cell::Cell,
    collections::VecDeque,
    ffi::c_void,
    fmt,
    ops::Range,
    ptr::NonNull,
    sync::{Condvar, Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use platform::{DISPATCH_LEVEL, DpcRoutine};

use crate::{irql, ledger, lock_table, schedule, site, violation::Breach, waiters, watchdog};

/// The number of processor threads. More than small machines have cores, for the sake of preemption.
pub const PROCESSOR_COUNT: usize = 4;

static QUEUE: Mutex<Queue> = Mutex::new(Queue { queued: VecDeque::new(), running: Vec::new(), runs: 0 });
static WORK: Condvar = Condvar::new();
static IDLE: Condvar = Condvar::new();
static START: Once = Once::new();

/// The storage of a DPC; the default is uninitialised.
#[derive(Default)]
pub struct Dpc {
    routine: Cell<Option<DpcRoutine>>,
    context: Cell<*mut c_void>,
    queued: Cell<bool>,
}

// SAFETY: the cells are touched with QUEUE locked only; the context is for the routine, which may run on any thread.
unsafe impl Send for Dpc {}
// SAFETY: as for Send.
unsafe impl Sync for Dpc {}

struct Queue {
    queued: VecDeque<Queued>,
    /// The routines that run, each with its thread.
    running: Vec<(DpcRoutine, thread::Thread)>,
    runs: u64,
}

struct Queued(NonNull<Dpc>);

// SAFETY: queue_dpc's caller keeps a queued DPC valid until its routine is entered, on whatever thread.
unsafe impl Send for Queued {}

impl Dpc {
    pub(crate) fn initialize(&self, routine: DpcRoutine, context: *mut c_void) {
        let _queue = lock_table(&QUEUE);
        if self.queued.get() {
            ledger::breach(Breach::InitializedInUse(NonNull::from(self).addr().get()));
        }
        self.routine.set(Some(routine));
        self.context.set(context);
    }
}

/// Queues a DPC; false: it is in the queue already. Its memory may be gone as soon as this returns.
///
/// # Safety
/// The DPC stays valid until its routine has been entered.
pub(crate) unsafe fn queue(dpc: NonNull<Dpc>) -> bool {
    if !schedule::is_active() {
        START.call_once(start);
    }
    let mut queue = lock_table(&QUEUE);
    // SAFETY: the caller keeps it valid until its routine is entered, which cannot be while QUEUE is locked.
    let fields = unsafe { dpc.as_ref() };
    if fields.routine.get().is_none() {
        ledger::breach(Breach::Uninitialized(dpc.addr().get()));
        return true;
    }
    if fields.queued.replace(true) {
        return false;
    }
    queue.queued.push_back(Queued(dpc));
    if schedule::is_active() {
        drop(queue);
        schedule::progress();
        schedule::wake_processor();
    } else {
        WORK.notify_one();
    }
    true
}

fn start() {
    for number in 0..PROCESSOR_COUNT {
        let spawned = thread::Builder::new().name(format!("processor {number}")).spawn(process);
        assert!(spawned.is_ok(), "no thread for processor {number}");
    }
}

/// The life of a processor.
fn process() {
    loop {
        let mut queue = lock_table(&QUEUE);
        while queue.queued.is_empty() || schedule::is_active() {
            queue = WORK.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        // Under the same lock: what is queued later may be a seeded session's.
        run_one(queue, |_| 0);
    }
}

/// Runs the DPC that `choose` names, of so many queued ones. False: there is none.
pub(crate) fn run_any(choose: impl FnOnce(usize) -> usize) -> bool {
    run_one(lock_table(&QUEUE), choose)
}

fn run_one(mut queue: MutexGuard<'_, Queue>, choose: impl FnOnce(usize) -> usize) -> bool {
    if queue.queued.is_empty() {
        return false;
    }
    let chosen = choose(queue.queued.len());
    let Some(Queued(dpc)) = queue.queued.remove(chosen) else { return false };
    // SAFETY: still queued, so still valid.
    let fields = unsafe { dpc.as_ref() };
    fields.queued.set(false);
    let context = fields.context.get();
    let routine = fields.routine.get();
    queue.running.extend(routine.map(|routine| (routine, thread::current())));
    drop(queue);
    schedule::progress();
    schedule::occasion("run DPC", dpc.addr().get());
    if let Some(routine) = routine {
        // SAFETY: the context is the one the DPC was initialised with; the routine is called once for each queueing.
        irql::run_at(DISPATCH_LEVEL, || unsafe { routine(context) });
    }
    let mut queue = lock_table(&QUEUE);
    let own = thread::current().id();
    queue.running.retain(|(_, thread)| thread.id() != own);
    queue.runs += 1;
    if queue.running.is_empty() && queue.queued.is_empty() {
        IDLE.notify_all();
    }
    true
}

/// Waits until no DPC is queued or running. False: it was not to be within `limit`.
pub(crate) fn flush(limit: Duration) -> bool {
    irql::require("flushing DPCs", irql::WAIT_LIMIT);
    let end = Instant::now() + limit;
    let _waiting = waiters::enter("DPCs", 0);
    while schedule::is_active() && !is_idle() {
        if schedule::is_stalled() || Instant::now() > end {
            return false;
        }
        schedule::pause();
    }
    let mut queue = lock_table(&QUEUE);
    while !queue.running.is_empty() || !queue.queued.is_empty() {
        if Instant::now() > end {
            return false;
        }
        queue = IDLE.wait_timeout(queue, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
        if !thread::panicking() {
            watchdog::panic_if_stalled();
        }
    }
    true
}

fn is_idle() -> bool {
    let queue = lock_table(&QUEUE);
    queue.running.is_empty() && queue.queued.is_empty()
}

/// Takes DPCs out of the queue whose memory is about to go; gives the address of one.
pub(crate) fn unqueue_in(range: &Range<usize>) -> Option<usize> {
    let mut queue = lock_table(&QUEUE);
    let dangling = queue.queued.iter().map(|Queued(dpc)| dpc.addr().get()).find(|address| range.contains(address))?;
    queue.queued.retain(|Queued(dpc)| !range.contains(&dpc.addr().get()));
    Some(dangling)
}

/// A DPC that was queued and has not returned.
#[derive(Clone, Debug)]
pub struct OutstandingDpc {
    /// The address of its routine.
    pub routine: usize,
    /// The name of the processor that runs it; none: it is queued.
    pub processor: Option<String>,
}

impl fmt::Display for OutstandingDpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routine = site::function(self.routine);
        match &self.processor {
            None => write!(f, "queued DPC: {routine}"),
            Some(processor) => write!(f, "running DPC on {processor}: {routine}"),
        }
    }
}

/// The DPCs that run or are queued, and the number of those that have run ever.
pub(crate) fn list() -> (Vec<OutstandingDpc>, u64) {
    let queue = lock_table(&QUEUE);
    let address = |routine: DpcRoutine| routine as *const () as usize;
    let name = |thread: &thread::Thread| thread.name().unwrap_or("unnamed").to_owned();
    let running = queue.running.iter().map(|(routine, thread)| (*routine, Some(name(thread))));
    // SAFETY: queued DPCs are valid.
    let queued = queue.queued.iter().filter_map(|Queued(dpc)| Some((unsafe { dpc.as_ref() }.routine.get()?, None)));
    let dpcs =
        running.chain(queued).map(|(routine, processor)| OutstandingDpc { routine: address(routine), processor });
    (dpcs.collect(), queue.runs)
}
