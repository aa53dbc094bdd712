//! What runs later: DPCs, timers, work items.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    checks::{Storage, irql, sleep},
    imports::*,
    miniport,
    text::Text,
    wsk,
};

static DPC: Storage<Kdpc> = Storage::new();
pub(crate) static EVENT: Storage<Kevent> = Storage::new();
pub(crate) static RAN: AtomicU32 = AtomicU32::new(0);
static LEVEL: AtomicU32 = AtomicU32::new(0);
static PROCESSOR: AtomicU32 = AtomicU32::new(0);
static ARGUMENTS: AtomicU64 = AtomicU64::new(0);

unsafe extern "system" fn dpc_routine(_: *mut Kdpc, context: *mut c_void, first: *mut c_void, second: *mut c_void) {
    LEVEL.store(irql().into(), Ordering::Relaxed);
    // SAFETY: no number is asked for.
    PROCESSOR.store(unsafe { KeGetCurrentProcessorNumberEx(core::ptr::null_mut()) }, Ordering::Relaxed);
    ARGUMENTS.store((context.addr() + first.addr() * 10 + second.addr() * 100) as u64, Ordering::Relaxed);
    RAN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: an initialised event.
    unsafe { KeSetEvent(EVENT.get(), 0, 0) };
}

pub(crate) unsafe fn wait_for_event() -> i32 {
    let second = -10_000_000;
    // SAFETY: an initialised event.
    unsafe { KeWaitForSingleObject(EVENT.get().cast(), 0, 0, 0, &second) }
}

pub(crate) unsafe fn check_dpc(text: &mut Text<'_>) {
    let (dpc, none) = (DPC.get(), core::ptr::null_mut());
    // SAFETY: a DPC in static storage, flushed at the end.
    unsafe {
        KeInitializeEvent(EVENT.get(), 1, 0);
        KeInitializeDpc(dpc, dpc_routine, 4 as *mut c_void);
        RAN.store(0, Ordering::Relaxed);
        text.check(KeInsertQueueDpc(dpc, 2 as *mut c_void, 3 as *mut c_void) == 1, "KeInsertQueueDpc");
        text.check(wait_for_event() == 0, "a DPC did not run");
        text.check(LEVEL.load(Ordering::Relaxed) == 2, "a DPC does not run at DISPATCH_LEVEL");
        text.check(ARGUMENTS.load(Ordering::Relaxed) == 324, "a DPC's arguments");

        // While this thread has the processor, a DPC queued on it waits: twice is once, and it can be removed.
        KfRaiseIrql(2);
        let here = KeGetCurrentProcessorNumberEx(core::ptr::null_mut());
        text.check(KeInsertQueueDpc(dpc, none, none) == 1, "KeInsertQueueDpc at DISPATCH_LEVEL");
        text.check(KeInsertQueueDpc(dpc, none, none) == 0, "a queued DPC was queued again");
        text.check(RAN.load(Ordering::Relaxed) == 1, "a DPC ran on a processor that is at DISPATCH_LEVEL");
        text.check(KeRemoveQueueDpc(dpc) == 1, "a queued DPC was not removed");
        text.check(KeRemoveQueueDpc(dpc) == 0, "a DPC was removed twice");
        KeLowerIrql(0);

        // Aimed at each processor in turn.
        let count = KeQueryActiveProcessorCountEx(0xFFFF);
        text.check(count >= 2, "fewer than two processors");
        for target in 0..count {
            let number = [0, 0, target as u8, 0];
            text.check(KeSetTargetProcessorDpcEx(dpc, &number) == 0, "KeSetTargetProcessorDpcEx");
            KeInsertQueueDpc(dpc, none, none);
            text.check(wait_for_event() == 0, "a targeted DPC did not run");
            text.check(PROCESSOR.load(Ordering::Relaxed) == target, "a DPC ran on the wrong processor");
        }
        text.check(KeSetTargetProcessorDpcEx(dpc, &[0, 0, 200, 0]) < 0, "a processor that does not exist was accepted");
        text.check(here < count, "KeGetCurrentProcessorNumberEx");
        RAN.store(0, Ordering::Relaxed);
        KeInsertQueueDpc(dpc, none, none);
        KeFlushQueuedDpcs();
        text.check(RAN.load(Ordering::Relaxed) == 1, "KeFlushQueuedDpcs returned too early");
    }
}

static TIMER: Storage<Ktimer> = Storage::new();

unsafe extern "system" fn ex_timer_routine(_timer: *mut c_void, context: *mut c_void) {
    LEVEL.store(irql().into(), Ordering::Relaxed);
    RAN.fetch_add(context.addr() as u32, Ordering::Relaxed);
}

pub(crate) unsafe fn check_timers(text: &mut Text<'_>) {
    let (timer, dpc) = (TIMER.get(), DPC.get());
    // SAFETY: timer and DPC in static storage, cancelled and flushed at the end.
    unsafe {
        KeInitializeEvent(EVENT.get(), 1, 0);
        KeInitializeTimerEx(timer, 0);
        KeInitializeDpc(dpc, dpc_routine, core::ptr::null_mut());
        LEVEL.store(9, Ordering::Relaxed);
        text.check(KeSetTimerEx(timer, -50_000, 0, dpc) == 0, "KeSetTimer says it was set");
        text.check(wait_for_event() == 0, "a timer's DPC did not run");
        text.check(LEVEL.load(Ordering::Relaxed) == 2, "a timer's DPC does not run at DISPATCH_LEVEL");
        text.check(KeCancelTimer(timer) == 0, "an expired timer was cancelled");
        text.check(KeSetTimerEx(timer, -600_000_000, 0, dpc) == 0, "KeSetTimer says it was set");
        text.check(KeSetTimerEx(timer, -600_000_000, 0, dpc) == 1, "KeSetTimer says it was not set");
        text.check(KeCancelTimer(timer) == 1, "a timer was not cancelled");
        RAN.store(0, Ordering::Relaxed);
        KeSetTimerEx(timer, -10_000, 5, dpc);
        sleep(200);
        KeCancelTimer(timer);
        KeFlushQueuedDpcs();
        let ran = RAN.load(Ordering::Relaxed);
        text.check((3..=100).contains(&ran), "a periodic timer");
        sleep(30);
        text.check(RAN.load(Ordering::Relaxed) == ran, "a cancelled timer goes on");
        // Set again and again just when it expires: it must not wait for itself.
        for _ in 0..20_000 {
            KeSetTimerEx(timer, -1, 0, dpc);
        }
        KeCancelTimer(timer);
        KeFlushQueuedDpcs();

        RAN.store(0, Ordering::Relaxed);
        let ex = ExAllocateTimer(ex_timer_routine, 7 as *mut c_void, 0);
        ExSetTimer(ex, -10_000, 0, core::ptr::null());
        sleep(100);
        text.check(RAN.load(Ordering::Relaxed) == 7, "an EX_TIMER did not fire once");
        ExSetTimer(ex, -600_000_000, 0, core::ptr::null());
        text.check(ExDeleteTimer(ex, 1, 1, core::ptr::null()) == 1, "ExDeleteTimer did not cancel");
    }
}

unsafe extern "system" fn work_routine(_device: *mut c_void, context: *mut c_void) {
    LEVEL.store(irql().into(), Ordering::Relaxed);
    // SAFETY: the item is freed once, in its own routine.
    unsafe {
        IoFreeWorkItem(context);
        KeSetEvent(EVENT.get(), 0, 0);
    }
}

pub(crate) unsafe fn check_work_items(text: &mut Text<'_>) {
    // SAFETY: an item of the adapter's device, freed in its routine.
    unsafe {
        KeInitializeEvent(EVENT.get(), 1, 0);
        LEVEL.store(9, Ordering::Relaxed);
        KfRaiseIrql(2);
        let item = IoAllocateWorkItem(miniport::device_object());
        IoQueueWorkItem(item, work_routine, 1, item);
        KeLowerIrql(0);
        text.check(wait_for_event() == 0, "a work item did not run");
        text.check(LEVEL.load(Ordering::Relaxed) == 0, "a work item does not run at PASSIVE_LEVEL");
    }
}

/// An IRP of this driver's own.
static IRP: Storage<[u64; wsk::IRP_BYTES / 8]> = Storage::new();
static TWICE: Storage<Kdpc> = Storage::new();
/// Calls of `completing_routine` that have not returned, and how many those were at most.
static INSIDE: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);

/// Has itself queued again, and completes an IRP, in which the stand-in lets others have the processor.
unsafe extern "system" fn completing_routine(dpc: *mut Kdpc, _: *mut c_void, none: *mut c_void, _: *mut c_void) {
    MOST.fetch_max(INSIDE.fetch_add(1, Ordering::AcqRel) + 1, Ordering::Relaxed);
    if RAN.fetch_add(1, Ordering::AcqRel) == 0 {
        let irp = IRP.get().cast::<u8>();
        // SAFETY: an IRP of one location, which is made the current one.
        unsafe {
            KeInsertQueueDpc(dpc, none, none);
            IoInitializeIrp(irp.cast(), wsk::IRP_BYTES as u16, 1);
            wsk::set_routine(irp, linger as *mut c_void, none);
            *irp.add(0x43) -= 1;
            let current = irp.add(0xB8).cast::<*mut u8>();
            *current = (*current).sub(0x48);
            IofCompleteRequest(irp.cast(), 0);
        }
    }
    INSIDE.fetch_sub(1, Ordering::AcqRel);
}

/// Gives others the time to go wrong.
unsafe extern "system" fn linger(_device: *mut c_void, _irp: *mut c_void, _context: *mut c_void) -> i32 {
    (0..3_000_000).for_each(|_| core::hint::spin_loop());
    wsk::KEPT
}

/// Flushes while the first DPC runs.
unsafe extern "system" fn flush(inside: *mut c_void) {
    while RAN.load(Ordering::Acquire) == 0 {
        sleep(0);
    }
    // SAFETY: the place for what is found, and an initialised event.
    unsafe {
        KeFlushQueuedDpcs();
        inside.cast::<u32>().write(INSIDE.load(Ordering::Acquire));
        KeSetEvent(EVENT.get(), 0, 0);
    }
}

/// The DPCs of a processor run one after the other, also when one of them completes an IRP.
pub(crate) unsafe fn check_dpc_alone(text: &mut Text<'_>) {
    let (dpc, none) = (TWICE.get(), core::ptr::null_mut());
    let (mut thread, mut inside) = (0, u32::MAX);
    // SAFETY: a DPC in static storage; the thread ends before this function.
    unsafe {
        KeInitializeEvent(EVENT.get(), 1, 0);
        KeInitializeDpc(dpc, completing_routine, none);
        RAN.store(0, Ordering::Relaxed);
        MOST.store(0, Ordering::Relaxed);
        PsCreateSystemThread(&mut thread, 0x1F_FFFF, none, 0, none, flush, (&raw mut inside).cast());
        ZwClose(thread);
        KfRaiseIrql(2);
        KeInsertQueueDpc(dpc, none, none);
        SoftNdkStandInRunDpcs(1);
        KeLowerIrql(0);
        let timeout = -100_000_000;
        let flushed = KeWaitForSingleObject(EVENT.get().cast(), 0, 0, 0, &timeout);
        text.check(flushed == 0, "KeFlushQueuedDpcs does not return");
        text.check((&raw const inside).read_volatile() == 0, "KeFlushQueuedDpcs returned while a DPC ran");
        text.check(RAN.load(Ordering::Acquire) == 2, "a DPC that queues itself did not run twice");
        text.check(MOST.load(Ordering::Relaxed) == 1, "two DPCs of a processor ran at once");
    }
}
