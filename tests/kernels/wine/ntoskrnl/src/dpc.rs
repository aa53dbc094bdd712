//! Deferred procedure calls: one queue and one thread per simulated processor; routines run at DISPATCH_LEVEL.

use std::{
    collections::VecDeque,
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, OnceLock, mpsc},
};

use crate::{
    base::{self, status},
    irql::{self, DISPATCH_LEVEL, PASSIVE_LEVEL},
    report::{self, violation},
};

type Routine = unsafe extern "system" fn(*mut Kdpc, *mut c_void, *mut c_void, *mut c_void);

/// `KDPC` (wdm.h), 0x40 bytes.
#[repr(C)]
pub(crate) struct Kdpc {
    kind: u8,
    importance: u8,
    /// 0: the processor on which it is inserted; else that processor's index plus one.
    number: u16,
    list_entry: usize,
    processor_history: usize,
    routine: Option<Routine>,
    context: *mut c_void,
    argument1: *mut c_void,
    argument2: *mut c_void,
    /// Non-null while queued.
    data: *mut c_void,
}

const _: () = assert!(size_of::<Kdpc>() == 0x40);

const DPC_OBJECT: u8 = 0x13;
const THREADED_DPC_OBJECT: u8 = 0x18;
const MEDIUM_IMPORTANCE: u8 = 1;
const HIGH_IMPORTANCE: u8 = 2;
/// Kind of object in the report.
const QUEUED: &str = "queued DPC";

enum Entry {
    Dpc(*mut Kdpc),
    /// Of `KeFlushQueuedDpcs`: dropped when everything queued before it has run.
    Marker(#[expect(dead_code, reason = "dropping it is the signal")] mpsc::Sender<()>),
}

// SAFETY: a queued KDPC belongs to the queue (only these functions touch it, under the queues' lock), on whatever thread.
unsafe impl Send for Entry {}

/// The queue of a processor.
#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// A routine runs. The thread that runs it lets go of the processor while it completes an IRP (`irql::without_processor`): no other
    /// thread that takes the processor then may run the next one.
    running: bool,
}

/// The queues of all processors. One lock for all: a KDPC may be inserted from one processor and removed from another.
struct Queues {
    queues: Mutex<Vec<Queue>>,
    wake: Vec<Condvar>,
}

fn queues() -> &'static Arc<Queues> {
    static QUEUES: OnceLock<Arc<Queues>> = OnceLock::new();
    QUEUES.get_or_init(|| {
        let count = irql::processor_count();
        let queues = Arc::new(Queues {
            queues: Mutex::new((0..count).map(|_| Queue::default()).collect()),
            wake: (0..count).map(|_| Condvar::new()).collect(),
        });
        for processor in 0..count {
            let queues = Arc::clone(&queues);
            std::thread::spawn(move || run(&queues, processor));
        }
        queues
    })
}

/// The thread of one processor: runs one routine after the other, each at DISPATCH_LEVEL on that processor.
fn run(queues: &Queues, processor: usize) {
    irql::bind_processor(processor);
    loop {
        let waits = |all: &mut Vec<Queue>| all[processor].entries.is_empty() || all[processor].running;
        let all = report::lock(&queues.queues);
        drop(queues.wake[processor].wait_while(all, waits).unwrap_or_else(|e| e.into_inner()));
        // The processor first, the entry then: until the processor is free a DPC stays queued, and can be removed.
        irql::set(DISPATCH_LEVEL, true);
        run_next(queues, processor);
        irql::set(PASSIVE_LEVEL, true);
    }
}

/// Runs the next routine of a processor, which the calling thread holds. False: there was none, or another thread is running one.
fn run_next(queues: &Queues, processor: usize) -> bool {
    let mut all = report::lock(&queues.queues);
    let queue = &mut all[processor];
    if queue.running {
        return false;
    }
    let Some(entry) = queue.entries.pop_front() else { return false };
    queue.running = true;
    let call = match entry {
        Entry::Dpc(dpc) => {
            // SAFETY: a queued KDPC is valid until it is removed, and the lock is held.
            let object = unsafe { &mut *dpc };
            object.data = std::ptr::null_mut();
            report::object(QUEUED, -1);
            Some((dpc, object.routine, object.context, object.argument1, object.argument2))
        }
        Entry::Marker(_) => None,
    };
    drop(all);
    if let Some((dpc, Some(routine), context, argument1, argument2)) = call {
        let place = base::Place(routine as usize);
        // SAFETY: the driver gave this routine for these arguments. The KDPC may be freed by the routine: it is not used again.
        irql::balanced(format_args!("the DPC routine at {place}"), || unsafe {
            routine(dpc, context, argument1, argument2);
        });
    }
    report::lock(&queues.queues)[processor].running = false;
    // The processor's thread may wait for that.
    queues.wake[processor].notify_one();
    true
}

/// Runs at most `most` DPCs of the processor that the calling thread holds, as Windows does when a thread lowers the IRQL. A stand-in's
/// thread calls this before it lowers it, and holds no lock.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInRunDpcs(most: u32) {
    irql::at_least(DISPATCH_LEVEL, "SoftNdkStandInRunDpcs");
    let queues = queues();
    for _ in 0..most {
        if !run_next(queues, irql::current_processor()) {
            return;
        }
    }
}

/// Reports queued DPCs whose storage lies in memory that is being freed.
pub(crate) fn check_freed(start: usize, length: usize) {
    let all = report::lock(&queues().queues);
    let inside = |entry: &Entry| matches!(entry, Entry::Dpc(dpc) if (start..start + length).contains(&(*dpc as usize)));
    let found = all.iter().flat_map(|queue| &queue.entries).any(inside);
    drop(all);
    if found {
        violation("pool freed with a queued DPC in it");
    }
}

/// Queues `dpc`; false if it is queued already.
///
/// # Safety
/// `dpc` is an initialised KDPC that stays valid until it has run or been removed.
pub(crate) unsafe fn insert(dpc: *mut Kdpc, argument1: *mut c_void, argument2: *mut c_void) -> bool {
    let queues = queues();
    let mut all = report::lock(&queues.queues);
    // SAFETY: passed on to the caller; the lock is held.
    let object = unsafe { &mut *dpc };
    if !object.data.is_null() {
        return false;
    }
    if object.kind != DPC_OBJECT && object.kind != THREADED_DPC_OBJECT {
        violation("KeInsertQueueDpc: the DPC is not initialised");
        return false;
    }
    object.data = dpc.cast();
    object.argument1 = argument1;
    object.argument2 = argument2;
    let target = match object.number {
        0 => irql::current_processor(),
        number => usize::from(number - 1) % all.len(),
    };
    if object.importance == HIGH_IMPORTANCE {
        all[target].entries.push_front(Entry::Dpc(dpc));
    } else {
        all[target].entries.push_back(Entry::Dpc(dpc));
    }
    report::object(QUEUED, 1);
    drop(all);
    queues.wake[target].notify_one();
    true
}

/// # Safety
/// `dpc` is the storage of a KDPC.
pub(crate) unsafe fn initialize(dpc: *mut Kdpc, kind: u8, routine: Option<Routine>, context: *mut c_void) {
    let object = Kdpc {
        kind,
        importance: MEDIUM_IMPORTANCE,
        number: 0,
        list_entry: 0,
        processor_history: 0,
        routine,
        context,
        argument1: std::ptr::null_mut(),
        argument2: std::ptr::null_mut(),
        data: std::ptr::null_mut(),
    };
    // SAFETY: passed on to the caller.
    unsafe { dpc.write(object) };
}

/// wdm/nf-wdm-keinitializedpc: any IRQL.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn KeInitializeDpc(dpc: *mut Kdpc, routine: Option<Routine>, context: *mut c_void) {
    // SAFETY: the caller gives the storage of a KDPC.
    unsafe { initialize(dpc, DPC_OBJECT, routine, context) };
}

/// wdm/nf-wdm-keinitializethreadeddpc: any IRQL. Run at DISPATCH_LEVEL, as when threaded DPCs are disabled.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeInitializeThreadedDpc(dpc: *mut Kdpc, routine: Option<Routine>, context: *mut c_void) {
    // SAFETY: the caller gives the storage of a KDPC.
    unsafe { initialize(dpc, THREADED_DPC_OBJECT, routine, context) };
}

/// wdm/nf-wdm-keinsertqueuedpc: any IRQL; FALSE if already queued, in which case the arguments are not replaced.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeInsertQueueDpc(dpc: *mut Kdpc, argument1: *mut c_void, argument2: *mut c_void) -> u8 {
    // SAFETY: the caller gives an initialised KDPC and keeps it valid while it is queued.
    unsafe { insert(dpc, argument1, argument2) }.into()
}

/// wdm/nf-wdm-keremovequeuedpc: any IRQL; FALSE if not queued (it may be running).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn KeRemoveQueueDpc(dpc: *mut Kdpc) -> u8 {
    let mut all = report::lock(&queues().queues);
    let mut removed = false;
    for Queue { entries, .. } in all.iter_mut() {
        let before = entries.len();
        entries.retain(|entry| !matches!(entry, Entry::Dpc(queued) if *queued == dpc));
        removed |= entries.len() < before;
    }
    if removed {
        // SAFETY: it was queued, so it is valid; the lock is held.
        unsafe { (*dpc).data = std::ptr::null_mut() };
        report::object(QUEUED, -1);
    }
    removed.into()
}

/// wdm/nf-wdm-kesetimportancedpc: any IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeSetImportanceDpc(dpc: *mut Kdpc, importance: i32) {
    // SAFETY: the caller gives an initialised KDPC that is not queued.
    unsafe { (*dpc).importance = importance as u8 };
}

/// wdm/nf-wdm-kesettargetprocessordpc: any IRQL; processors of group 0.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeSetTargetProcessorDpc(dpc: *mut Kdpc, number: i8) {
    if usize::try_from(number).is_ok_and(|n| n < irql::processor_count()) {
        // SAFETY: the caller gives an initialised KDPC that is not queued.
        unsafe { (*dpc).number = number as u16 + 1 };
    } else {
        violation("KeSetTargetProcessorDpc: no such processor");
    }
}

/// `PROCESSOR_NUMBER` (ntdef.h).
#[repr(C)]
pub(crate) struct ProcessorNumber {
    pub(crate) group: u16,
    pub(crate) number: u8,
    pub(crate) reserved: u8,
}

/// wdm/nf-wdm-kesettargetprocessordpcex: any IRQL; STATUS_INVALID_PARAMETER for a processor that does not exist.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeSetTargetProcessorDpcEx(dpc: *mut Kdpc, processor: *const ProcessorNumber) -> i32 {
    // SAFETY: the caller gives a PROCESSOR_NUMBER.
    let processor = unsafe { &*processor };
    if processor.group != 0 || processor.reserved != 0 || usize::from(processor.number) >= irql::processor_count() {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the caller gives an initialised KDPC that is not queued.
    unsafe { (*dpc).number = u16::from(processor.number) + 1 };
    status::SUCCESS
}

/// wdm/nf-wdm-keflushqueueddpcs: PASSIVE_LEVEL; returns when all DPCs queued before the call have run, on all processors.
#[unsafe(no_mangle)]
extern "system" fn KeFlushQueuedDpcs() {
    irql::at_most(PASSIVE_LEVEL, "KeFlushQueuedDpcs");
    if irql::current() >= DISPATCH_LEVEL {
        return; // Reported; waiting for a processor while holding one could last for ever.
    }
    let queues = queues();
    let (sender, receiver) = mpsc::channel::<()>();
    for queue in report::lock(&queues.queues).iter_mut() {
        queue.entries.push_back(Entry::Marker(sender.clone()));
    }
    for wake in &queues.wake {
        wake.notify_one();
    }
    drop(sender);
    // Nothing is ever sent: the channel ends when the last marker has been taken from its queue.
    let _ = receiver.recv();
}

/// wdm/nf-wdm-keshouldyieldprocessor: at DISPATCH_LEVEL; nonzero asks the caller to leave soon. There is no limit here.
#[unsafe(no_mangle)]
extern "system" fn KeShouldYieldProcessor() -> u32 {
    irql::at_least(DISPATCH_LEVEL, "KeShouldYieldProcessor");
    0
}
