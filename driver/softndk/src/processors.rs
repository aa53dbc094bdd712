//! The deferred calls of each processor: a queue of runs, the DPC that takes them at DISPATCH_LEVEL, and the thread that takes them when
//! the DPC has taken too many in a row (`platform::RunQueue`).
//!
//! Windows runs DPCs until none is queued: if each object had a DPC, objects that queue themselves or each other would keep threads from
//! running for as long as there is work (bug check 0x133). The thread has ordinary priority, and shares the processor with other threads.
#![expect(unsafe_code, reason = "calls into the kernel, on kernel objects that live at fixed addresses")]

use core::{
    cell::UnsafeCell,
    ffi::c_void,
    ptr::{self, null_mut},
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use platform::{Arc, CachePadded, Dispatch, Next, Passive, Run, RunQueue, Slice};
use wdk_sys::{
    _EVENT_TYPE::SynchronizationEvent,
    _KWAIT_REASON::Executive,
    _MODE::KernelMode,
    ALL_PROCESSOR_GROUPS, GROUP_AFFINITY, KDPC, KEVENT, LARGE_INTEGER, PROCESSOR_NUMBER, PVOID,
    ntddk::{
        KeDelayExecutionThread, KeFlushQueuedDpcs, KeGetCurrentProcessorNumberEx, KeGetProcessorNumberFromIndex,
        KeInitializeDpc, KeInitializeEvent, KeInsertQueueDpc, KeQueryActiveProcessorCountEx, KeSetEvent,
        KeSetSystemGroupAffinityThread, KeWaitForSingleObject, ObReferenceObjectByHandle, ObfDereferenceObject,
        PsCreateSystemThread, PsTerminateSystemThread, ZwClose,
    },
};

use crate::{irql::at_dispatch, platform::Windows};

/// The priority boost of a processor's thread at each wake-up: `IO_NETWORK_INCREMENT` of wdm.h, for network events. The boost decays as the
/// thread runs.
const BOOST: i32 = 2;

/// The access right to wait for a thread (winnt.h).
const SYNCHRONIZE: u32 = 0x0010_0000;

/// A processor that was active when the driver was loaded. A processor that is added later shares the queue of one of these.
struct Processor {
    queue: RunQueue<Windows>,
    /// Takes one run, then queues itself again, behind the DPCs of other drivers.
    dpc: UnsafeCell<KDPC>,
    /// Signalled when the thread has to take runs, or to end.
    wake: UnsafeCell<KEVENT>,
    ends: AtomicBool,
    /// The thread object, referenced.
    thread: AtomicPtr<c_void>,
    index: u32,
}

// SAFETY: the kernel's objects are used only through the kernel's functions, which any thread may call.
unsafe impl Send for Processor {}
// SAFETY: as for Send.
unsafe impl Sync for Processor {}

type Processors = Slice<CachePadded<Processor>, Windows>;

/// Set from [`start`] to [`stop`].
static PROCESSORS: AtomicPtr<Processors> = AtomicPtr::new(null_mut());

/// Makes the queues and starts the threads of all processors. Called once, before a run is queued.
pub(crate) fn start(passive: &Passive<'_>) -> Result<(), NTSTATUS> {
    // SAFETY: no pointers; any IRQL.
    let count = unsafe { KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS as u16) };
    let made = Slice::from_fn(count as usize, |index| CachePadded::new(Processor::new(index as u32)));
    let made = made.and_then(Arc::<Processors, Windows>::try_new).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
    PROCESSORS.store(Arc::into_raw(made).cast_mut(), Ordering::Release);
    // SAFETY: just stored.
    let all = unsafe { processors() };
    all.iter().for_each(|processor| processor.initialize());
    let started = all.iter().try_for_each(|processor| processor.start_thread(passive));
    if started.is_err() {
        stop(passive);
    }
    started
}

/// Waits until no run is queued or running, then ends the threads. From this call on only running routines queue runs.
pub(crate) fn stop(passive: &Passive<'_>) {
    let stored = PROCESSORS.load(Ordering::Acquire);
    // SAFETY: stored by `start`.
    let all = unsafe { processors() };
    // SAFETY: PASSIVE_LEVEL, by the token.
    unsafe { KeFlushQueuedDpcs() };
    while !are_idle(all) {
        // 1 ms, in which the threads run.
        let mut interval = LARGE_INTEGER { QuadPart: -10_000 };
        // SAFETY: a valid interval; PASSIVE_LEVEL, by the token.
        let _success = unsafe { KeDelayExecutionThread(KernelMode as i8, 0, &raw mut interval) };
    }
    all.iter().for_each(|processor| processor.stop_thread(passive));
    // The DPC that took the last run may not have returned.
    // SAFETY: PASSIVE_LEVEL, by the token.
    unsafe { KeFlushQueuedDpcs() };
    PROCESSORS.store(null_mut(), Ordering::Release);
    // SAFETY: from `Arc::into_raw`, and out of use.
    drop(unsafe { Arc::<Processors, Windows>::from_raw(stored) });
}

/// Whether no run is queued or running on any processor. A run may queue another run on a processor that was already found idle. So all
/// processors are checked twice, and the number of runs ever queued has to be the same.
fn are_idle(all: &[CachePadded<Processor>]) -> bool {
    let pushed = || all.iter().try_fold(0_u64, |sum, processor| Some(sum.wrapping_add(processor.queue.idle()?)));
    let first = pushed();
    first.is_some() && pushed() == first
}

/// # Safety
/// Between `start` and the end of `stop`.
unsafe fn processors() -> &'static [CachePadded<Processor>] {
    // SAFETY: stored by `start`, by contract.
    unsafe { &*PROCESSORS.load(Ordering::Acquire) }
}

/// Queues a run on this processor. IRQL <= DISPATCH.
///
/// # Safety
/// As for [`RunQueue::push`]; between `start` and the end of `stop`.
pub(crate) unsafe fn queue(run: *const Run) {
    // SAFETY: by contract.
    let all = unsafe { processors() };
    // A thread below DISPATCH_LEVEL may move to another processor after this call. The run stays in this queue, whose DPC then runs on the
    // other processor.
    // SAFETY: null, as only the returned index is used; any IRQL.
    let index = unsafe { KeGetCurrentProcessorNumberEx(null_mut()) } as usize;
    let index = index.checked_rem(all.len()).unwrap_or(0);
    let Some(processor) = all.get(index) else { return };
    // SAFETY: by contract.
    unsafe { processor.queue.push(run, || processor.queue_dpc()) };
}

impl Processor {
    fn new(index: u32) -> Self {
        Self {
            queue: RunQueue::default(),
            dpc: UnsafeCell::new(KDPC::default()),
            wake: UnsafeCell::new(KEVENT::default()),
            ends: AtomicBool::new(false),
            thread: AtomicPtr::new(null_mut()),
            index,
        }
    }

    fn context(&self) -> PVOID {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn initialize(&self) {
        // SAFETY: non-paged memory that does not move and is not in use.
        unsafe { KeInitializeEvent(self.wake.get(), SynchronizationEvent, 0) };
        // SAFETY: as above.
        unsafe { KeInitializeDpc(self.dpc.get(), Some(run_dpc), self.context()) };
    }

    /// Starts the thread. DriverEntry runs in the system process, so the handle is in the kernel's table.
    fn start_thread(&self, _passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let mut handle = null_mut();
        // SAFETY: an out parameter that outlives the call; PASSIVE_LEVEL, by the token; `stop` waits for the thread, whose context this is.
        let status = NTSTATUS(unsafe {
            PsCreateSystemThread(
                &raw mut handle,
                SYNCHRONIZE,
                null_mut(),
                null_mut(),
                null_mut(),
                Some(run_thread),
                self.context(),
            )
        });
        if status != STATUS_SUCCESS {
            return Err(status);
        }
        let mut thread = null_mut();
        // SAFETY: the kernel's handle, and an out parameter that outlives the call; PASSIVE_LEVEL, by the token. This cannot fail.
        let _success = unsafe {
            ObReferenceObjectByHandle(handle, SYNCHRONIZE, null_mut(), KernelMode as i8, &raw mut thread, null_mut())
        };
        self.thread.store(thread, Ordering::Release);
        // SAFETY: opened above, and not used again; PASSIVE_LEVEL, by the token.
        let _success = unsafe { ZwClose(handle) };
        Ok(())
    }

    /// Ends the thread, if it was started, and waits for its end.
    fn stop_thread(&self, _passive: &Passive<'_>) {
        let thread = self.thread.swap(null_mut(), Ordering::AcqRel);
        if thread.is_null() {
            return;
        }
        self.ends.store(true, Ordering::Release);
        self.wake();
        // SAFETY: a thread, referenced; PASSIVE_LEVEL, by the token. Without a timeout the only outcome is success.
        let _success = unsafe { KeWaitForSingleObject(thread, Executive, KernelMode as i8, 0, null_mut()) };
        // SAFETY: referenced when it was started.
        unsafe { ObfDereferenceObject(thread) };
    }

    fn queue_dpc(&self) {
        // SAFETY: initialised, and kept until no DPC is queued. The DPC is not queued: the run queue requests it again only after its
        // routine was entered.
        unsafe { KeInsertQueueDpc(self.dpc.get(), null_mut(), null_mut()) };
    }

    /// IRQL <= DISPATCH.
    fn wake(&self) {
        // SAFETY: initialised, and kept until the thread has ended; no wait follows (third argument FALSE).
        let _was_set = unsafe { KeSetEvent(self.wake.get(), BOOST, 0) };
    }

    /// Binds the current thread to this processor, so that its runs queue further runs in this processor's queue.
    fn stay(&self) {
        let mut number = PROCESSOR_NUMBER::default();
        // SAFETY: an out parameter that outlives the call; any IRQL.
        if unsafe { KeGetProcessorNumberFromIndex(self.index, &raw mut number) } != STATUS_SUCCESS.0 {
            return;
        }
        let mask = 1_u64.checked_shl(number.Number.into()).unwrap_or(0);
        let mut affinity = GROUP_AFFINITY { Mask: mask, Group: number.Group, ..GROUP_AFFINITY::default() };
        // SAFETY: an active processor; null, as the previous affinity is not used; IRQL <= DISPATCH.
        unsafe { KeSetSystemGroupAffinityThread(&raw mut affinity, null_mut()) };
    }
}

/// The DPC of a processor. DISPATCH_LEVEL.
unsafe extern "C" fn run_dpc(_dpc: *mut KDPC, context: PVOID, _argument1: PVOID, _argument2: PVOID) {
    // SAFETY: `initialize` made the processor the context; `stop` waits for this DPC.
    let processor = unsafe { &*context.cast::<Processor>() };
    // SAFETY: the kernel calls DPC routines at DISPATCH_LEVEL.
    let dispatch = unsafe { Dispatch::assume::<Windows>() };
    match processor.queue.run_next(&dispatch) {
        Next::Idle => {}
        Next::Dpc => processor.queue_dpc(),
        Next::Thread => processor.wake(),
    }
}

/// The thread of a processor. It is at PASSIVE_LEVEL between two runs, so that other threads get the processor.
unsafe extern "C" fn run_thread(context: PVOID) {
    // SAFETY: `start_thread` made the processor the context; `stop` waits for this thread.
    let processor = unsafe { &*context.cast::<Processor>() };
    processor.stay();
    while !processor.ends.load(Ordering::Acquire) {
        // SAFETY: initialised; PASSIVE_LEVEL. Without a timeout the only outcome is success.
        let _success =
            unsafe { KeWaitForSingleObject(processor.wake.get().cast(), Executive, KernelMode as i8, 0, null_mut()) };
        let mut next = processor.queue.next();
        while next == Next::Thread {
            at_dispatch(|| {
                // SAFETY: `at_dispatch` has raised the IRQL, until this returns.
                let dispatch = unsafe { Dispatch::assume::<Windows>() };
                next = processor.queue.run_next(&dispatch);
            });
        }
    }
    // SAFETY: a thread of PsCreateSystemThread, at PASSIVE_LEVEL.
    let _does_not_return = unsafe { PsTerminateSystemThread(STATUS_SUCCESS.0) };
}
