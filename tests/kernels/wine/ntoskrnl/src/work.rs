//! Work items, run at PASSIVE_LEVEL by a pool of threads that grows when all are busy: a work item may wait for another.

use std::{
    collections::VecDeque,
    ffi::c_void,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    base::{self, status},
    irql::{self, DISPATCH_LEVEL, PASSIVE_LEVEL},
    report::{self, violation},
};

base::wine! {
    fn ObfReferenceObject(object: *mut c_void) -> isize;
    fn ObfDereferenceObject(object: *mut c_void) -> isize;
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    idle: usize,
    busy: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), idle: 0, busy: 0 });
static WAKE: Condvar = Condvar::new();
static DONE: Condvar = Condvar::new();
/// How long an unloaded driver's last work items may take to return.
const PATIENCE: Duration = Duration::from_secs(12);

/// Runs `job` on a thread of the pool.
fn submit(job: Job) {
    let mut pool = report::lock(&POOL);
    pool.jobs.push_back(job);
    if pool.idle < pool.jobs.len() {
        std::thread::spawn(work);
    } else {
        WAKE.notify_one();
    }
}

fn work() {
    let mut pool = report::lock(&POOL);
    loop {
        while let Some(job) = pool.jobs.pop_front() {
            pool.busy += 1;
            drop(pool);
            irql::balanced("a work item", job);
            pool = report::lock(&POOL);
            pool.busy -= 1;
            DONE.notify_all();
        }
        pool.idle += 1;
        pool = WAKE.wait(pool).unwrap_or_else(PoisonError::into_inner);
        pool.idle -= 1;
    }
}

/// Waits for the work items that are queued or running: each keeps its driver in memory until its routine has returned.
pub(crate) fn wait_idle() {
    let (pool, _) = DONE
        .wait_timeout_while(report::lock(&POOL), PATIENCE, |pool| pool.busy > 0 || !pool.jobs.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    let left = pool.busy + pool.jobs.len();
    drop(pool);
    if left > 0 {
        violation(&format!("{left} work items of the unloaded driver have not returned"));
    }
}

type Routine = unsafe extern "system" fn(*mut c_void, *mut c_void);
type RoutineEx = unsafe extern "system" fn(*mut c_void, *mut c_void, *mut WorkItem);
/// Kind of object in the report.
const WORK_ITEM: &str = "work item";

/// `IO_WORKITEM`: opaque to drivers.
struct WorkItem {
    /// The device or driver object that the item keeps alive while it is queued.
    object: *mut c_void,
    queued: AtomicBool,
}

#[derive(Clone, Copy)]
enum Call {
    Plain(Routine),
    Ex(RoutineEx),
}

/// Pointers for another thread: the driver keeps what they point to valid until the routine has run.
struct Parcel {
    item: *mut WorkItem,
    object: *mut c_void,
    context: *mut c_void,
    call: Call,
}

// SAFETY: see above.
unsafe impl Send for Parcel {}

impl Parcel {
    fn run(self) {
        // SAFETY: the item is valid until its routine has run. Cleared first: the routine may queue it again or free it.
        unsafe { &*self.item }.queued.store(false, Ordering::Release);
        match self.call {
            // SAFETY: the driver gave this routine for this context.
            Call::Plain(routine) => unsafe { routine(self.object, self.context) },
            // SAFETY: as above.
            Call::Ex(routine) => unsafe { routine(self.object, self.context, self.item) },
        }
        // SAFETY: referenced when the item was queued.
        unsafe { ObfDereferenceObject(self.object) };
    }
}

/// # Safety
/// `item` is a work item that stays valid until its routine has run.
unsafe fn queue(item: *mut WorkItem, call: Call, context: *mut c_void, function: &str) {
    irql::at_most(DISPATCH_LEVEL, function);
    // SAFETY: passed on to the caller.
    let object = unsafe { &*item };
    if object.queued.swap(true, Ordering::AcqRel) {
        violation(&format!("{function}: the work item is queued already"));
        return;
    }
    // SAFETY: the item names an object that is alive.
    unsafe { ObfReferenceObject(object.object) };
    let parcel = Parcel { item, object: object.object, context, call };
    submit(Box::new(move || parcel.run()));
}

/// wdm/nf-wdm-ioallocateworkitem: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn IoAllocateWorkItem(device: *mut c_void) -> *mut WorkItem {
    irql::at_most(DISPATCH_LEVEL, "IoAllocateWorkItem");
    report::object(WORK_ITEM, 1);
    Box::into_raw(Box::new(WorkItem { object: device, queued: AtomicBool::new(false) }))
}

/// wdm/nf-wdm-iofreeworkitem: at most DISPATCH_LEVEL; not while it is queued.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoFreeWorkItem(item: *mut WorkItem) {
    irql::at_most(DISPATCH_LEVEL, "IoFreeWorkItem");
    report::object(WORK_ITEM, -1);
    // SAFETY: the caller gives an item of IoAllocateWorkItem.
    if unsafe { &*item }.queued.load(Ordering::Acquire) {
        violation("IoFreeWorkItem: the work item is queued");
        return; // Left allocated: its routine is still to run.
    }
    // SAFETY: as above, and it is not used again.
    drop(unsafe { Box::from_raw(item) });
}

/// wdm/nf-wdm-iosizeofworkitem: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn IoSizeofWorkItem() -> u32 {
    size_of::<WorkItem>() as u32
}

/// wdm/nf-wdm-ioinitializeworkitem: any IRQL; `item` is storage of `IoSizeofWorkItem` bytes.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoInitializeWorkItem(object: *mut c_void, item: *mut WorkItem) {
    report::object(WORK_ITEM, 1);
    // SAFETY: the caller gives the storage.
    unsafe { item.write(WorkItem { object, queued: AtomicBool::new(false) }) };
}

/// wdm/nf-wdm-iouninitializeworkitem: at most DISPATCH_LEVEL; not while it is queued.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoUninitializeWorkItem(item: *mut WorkItem) {
    irql::at_most(DISPATCH_LEVEL, "IoUninitializeWorkItem");
    report::object(WORK_ITEM, -1);
    // SAFETY: the caller gives an item of IoInitializeWorkItem.
    if unsafe { &*item }.queued.load(Ordering::Acquire) {
        violation("IoUninitializeWorkItem: the work item is queued");
    }
}

/// wdm/nf-wdm-ioqueueworkitem: at most DISPATCH_LEVEL; not while it is queued.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoQueueWorkItem(item: *mut WorkItem, routine: Routine, _queue: i32, context: *mut c_void) {
    // SAFETY: the caller keeps the item valid until the routine has run.
    unsafe { queue(item, Call::Plain(routine), context, "IoQueueWorkItem") };
}

/// wdm/nf-wdm-ioqueueworkitemex: as `IoQueueWorkItem`; the routine gets the item too and may free it.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoQueueWorkItemEx(
    item: *mut WorkItem,
    routine: RoutineEx,
    _queue: i32,
    context: *mut c_void,
) {
    // SAFETY: the caller keeps the item valid until the routine has run.
    unsafe { queue(item, Call::Ex(routine), context, "IoQueueWorkItemEx") };
}

type ThreadRoutine = unsafe extern "system" fn(*mut c_void);

base::wine! {
    fn PsCreateSystemThread(
        handle: *mut usize,
        access: u32,
        attributes: *const c_void,
        process: usize,
        client: *mut c_void,
        routine: ThreadRoutine,
        context: *mut c_void,
    ) -> i32;
}

/// wdm/nf-wdm-iocreatesystemthread: PASSIVE_LEVEL; as `PsCreateSystemThread`. Wine unloads no driver under a thread of its own.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCreateSystemThread(
    _object: *mut c_void,
    handle: *mut usize,
    access: u32,
    attributes: *const c_void,
    process: usize,
    client: *mut c_void,
    routine: ThreadRoutine,
    context: *mut c_void,
) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "IoCreateSystemThread");
    if handle.is_null() {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the caller keeps the contract of PsCreateSystemThread.
    unsafe { PsCreateSystemThread(handle, access, attributes, process, client, routine, context) }
}
