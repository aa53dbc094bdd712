//! What the stand-ins promise, group by group, in the order of `protocol::CHECKS`.

use core::{cell::UnsafeCell, ffi::c_void, mem::MaybeUninit, sync::atomic::Ordering};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_PARTIAL, MDL_SOURCE_IS_NONPAGED_POOL};

use crate::{
    deferred::{self, EVENT, RAN, wait_for_event},
    imports::*,
    kmdf, receive,
    text::Text,
    wsk,
};

pub(crate) const TAG: u32 = u32::from_le_bytes(*b"Self");
pub(crate) const NON_PAGED: u64 = 0x40;
pub(crate) const PAGED: u64 = 0x100;
const STATUS_TIMEOUT: i32 = 0x102;

/// Storage of kernel objects that outlives the call; each check uses its own.
pub(crate) struct Storage<T>(UnsafeCell<MaybeUninit<T>>);
// SAFETY: the kernel's functions synchronise; checks run one at a time.
unsafe impl<T> Sync for Storage<T> {}

impl<T> Storage<T> {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0.get().cast()
    }
}

/// Sleeps that many milliseconds, at PASSIVE_LEVEL.
pub(crate) fn sleep(milliseconds: i64) {
    let interval = milliseconds * -10_000;
    // SAFETY: kernel mode, a relative time.
    unsafe { KeDelayExecutionThread(0, 0, &interval) };
}

pub(crate) fn irql() -> u8 {
    // SAFETY: no preconditions.
    unsafe { KeGetCurrentIrql() }
}

/// Runs one group.
pub(crate) fn run(group: u32, text: &mut Text<'_>) {
    // SAFETY: no preconditions.
    let before = unsafe { SoftNdkStandInViolationCount() };
    // SAFETY: each group calls documented functions with valid arguments at valid levels.
    unsafe {
        match group {
            0 => check_irql(text),
            1 => check_cr8(text),
            2 => check_spin_locks(text),
            3 => check_pool(text),
            4 => deferred::check_dpc(text),
            5 => deferred::check_timers(text),
            6 => deferred::check_work_items(text),
            7 => check_mdl(text),
            8 => check_rundown(text),
            9 => check_push_locks(text),
            10 => check_waits(text),
            11 => kmdf::check(text),
            12 => check_mutex(text),
            13 => wsk::checks::streams(text),
            14 => wsk::checks::ends(text),
            15 => wsk::checks::many(text),
            16 => wsk::checks::late_sends(text),
            17 => wsk::checks::ports(text),
            18 => wsk::endings::resets(text),
            19 => wsk::endings::disconnects(text),
            20 => deferred::check_dpc_alone(text),
            21 => wsk::checks::within_calls(text),
            22 => wsk::datagrams::checks::exchange(text),
            23 => wsk::datagrams::checks::retained(text),
            24 => wsk::datagrams::checks::not_accepted(text),
            25 => wsk::datagrams::checks::ends(text),
            26 => receive::checks::returns(text),
            27 => receive::checks::pause(text),
            _ => text.check(false, "no such group"),
        }
    }
    // SAFETY: no preconditions.
    let after = unsafe { SoftNdkStandInViolationCount() };
    text.check(after == before, "violations were counted");
    text.check(irql() == 0, "IRQL is not PASSIVE_LEVEL afterwards");
}

unsafe fn check_irql(text: &mut Text<'_>) {
    // SAFETY: raised and lowered in pairs.
    unsafe {
        text.check(irql() == 0, "a dispatch routine does not run at PASSIVE_LEVEL");
        text.check(KfRaiseIrql(1) == 0, "KfRaiseIrql does not return the old level");
        text.check(KfRaiseIrql(2) == 1, "KfRaiseIrql does not return the old level");
        text.check(irql() == 2, "KfRaiseIrql has no effect");
        KeLowerIrql(1);
        text.check(irql() == 1, "KeLowerIrql has no effect");
        KeLowerIrql(0);
    }
}

/// `mov` from and to CR8, with registers that need the REX prefix's B bit and that do not.
unsafe fn check_cr8(text: &mut Text<'_>) {
    let (mut low, mut high): (u64, u64);
    // SAFETY: privileged instructions, emulated by the stand-in; they change the IRQL only.
    unsafe {
        core::arch::asm!("mov {low}, cr8", low = out(reg) low);
        text.check(low == 0, "CR8 is not 0 at PASSIVE_LEVEL");
        core::arch::asm!("mov r9, 2", "mov cr8, r9", "mov r10, cr8", out("r9") _, out("r10") high);
        text.check(irql() == 2, "a write to CR8 does not raise");
        text.check(high == 2, "CR8 is not what was written");
        core::arch::asm!("mov cr8, {zero}", zero = in(reg) 0_u64);
        text.check(irql() == 0, "a write to CR8 does not lower");
    }
}

unsafe fn check_spin_locks(text: &mut Text<'_>) {
    let mut lock = 0;
    let mut handle = QueueHandle([0; 3]);
    let (lock, handle) = (&raw mut lock, &raw mut handle);
    // SAFETY: an initialised lock, taken and released in pairs.
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(lock);
        text.check(old == 0 && irql() == 2, "KeAcquireSpinLockRaiseToDpc");
        text.check(KeTryToAcquireSpinLockAtDpcLevel(lock) == 0, "a held lock was taken");
        KeReleaseSpinLock(lock, old);
        text.check(irql() == 0, "KeReleaseSpinLock does not lower");
        KfRaiseIrql(2);
        KeAcquireSpinLockAtDpcLevel(lock);
        KeReleaseSpinLockFromDpcLevel(lock);
        text.check(KeTryToAcquireSpinLockAtDpcLevel(lock) == 1, "a free lock was not taken");
        KeReleaseSpinLockFromDpcLevel(lock);
        KeLowerIrql(0);
        KeAcquireInStackQueuedSpinLock(lock, handle);
        text.check(irql() == 2, "KeAcquireInStackQueuedSpinLock does not raise");
        KeReleaseInStackQueuedSpinLock(handle);
        text.check(irql() == 0, "KeReleaseInStackQueuedSpinLock does not lower");
    }
}

unsafe fn check_pool(text: &mut Text<'_>) {
    // SAFETY: blocks are used within their size and freed once.
    unsafe {
        for size in [1, 16, 100, 4000, 4096, 5000] {
            let block = ExAllocatePool2(NON_PAGED, size, TAG);
            let zeroed = (0..size).all(|i| block.add(i).read() == 0);
            text.check(zeroed, "ExAllocatePool2 does not zero");
            let alignment = if size >= 4096 { 4096 } else { 16 };
            text.check(block.addr().is_multiple_of(alignment), "alignment of a pool block");
            text.check(size >= 4096 || block.addr() / 4096 == (block.addr() + size - 1) / 4096, "a block across pages");
            block.write_bytes(1, size);
            ExFreePoolWithTag(block, TAG);
        }
        text.check(ExAllocatePool2(NON_PAGED, 16, 0).is_null(), "a tag of 0 was accepted");
        text.check(ExAllocatePool2(NON_PAGED | PAGED, 16, TAG).is_null(), "two pools at once were accepted");
        text.check(ExAllocatePool2(NON_PAGED | 0x10, 16, TAG).is_null(), "an unknown flag was accepted");
        text.check(ExAllocatePool2(0, 16, TAG).is_null(), "no pool was accepted");
        KfRaiseIrql(2);
        let block = ExAllocatePool2(NON_PAGED, 64, TAG);
        ExFreePoolWithTag(block, TAG);
        KeLowerIrql(0);
    }
}

unsafe fn check_mdl(text: &mut Text<'_>) {
    const SIZE: usize = 3 * 4096;
    let none = core::ptr::null_mut();
    // SAFETY: descriptors of one pool block, freed before it.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, SIZE, TAG);
        let start = block.add(100);
        let mdl = IoAllocateMdl(start.cast(), 5000, 0, 0, none);
        text.check((*mdl).ByteOffset == 100 && (*mdl).ByteCount == 5000, "IoAllocateMdl: offset or count");
        text.check((*mdl).StartVa == block.cast(), "IoAllocateMdl: StartVa");
        MmBuildMdlForNonPagedPool(mdl);
        let built = (*mdl).MdlFlags & MDL_SOURCE_IS_NONPAGED_POOL != 0 && (*mdl).MappedSystemVa == start.cast();
        text.check(built, "MmBuildMdlForNonPagedPool");

        let part = IoAllocateMdl(start.cast(), 5000, 0, 0, none);
        IoBuildPartialMdl(mdl, part, start.add(4000).cast(), 0);
        let partial: &MDL = &*part;
        text.check(partial.MdlFlags & MDL_PARTIAL != 0 && partial.ByteCount == 1000, "IoBuildPartialMdl");
        text.check(partial.MappedSystemVa == start.add(4000).cast(), "IoBuildPartialMdl: mapping");
        IoFreeMdl(part);
        IoFreeMdl(mdl);

        let mdl = IoAllocateMdl(block.cast(), SIZE as u32, 0, 0, none);
        MmProbeAndLockPages(mdl, 0, 1);
        text.check((*mdl).MdlFlags & MDL_PAGES_LOCKED != 0, "MmProbeAndLockPages");
        let mapped = MmMapLockedPagesSpecifyCache(mdl, 0, 1, none, 0, 16).cast::<u8>();
        text.check((*mdl).MdlFlags & MDL_MAPPED_TO_SYSTEM_VA != 0, "MmMapLockedPagesSpecifyCache");
        mapped.add(4096).write(0x5A);
        text.check(block.add(4096).read() == 0x5A, "a locked page is not the same memory");
        MmUnlockPages(mdl);
        text.check((*mdl).MdlFlags & (MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA) == 0, "MmUnlockPages");
        IoFreeMdl(mdl);
        ExFreePoolWithTag(block, TAG);
    }
}

static REFERENCE: Storage<usize> = Storage::new();

unsafe extern "system" fn release_later(_context: *mut c_void) {
    sleep(30);
    RAN.fetch_add(1, Ordering::Release);
    // SAFETY: acquired by the check that started this thread.
    unsafe { ExReleaseRundownProtection(REFERENCE.get()) };
}

unsafe fn check_rundown(text: &mut Text<'_>) {
    let (reference, none) = (REFERENCE.get(), core::ptr::null_mut());
    // SAFETY: protection in static storage.
    unsafe {
        ExInitializeRundownProtection(reference);
        text.check(ExAcquireRundownProtection(reference) == 1, "ExAcquireRundownProtection");
        RAN.store(0, Ordering::Relaxed);
        let mut thread = 0;
        PsCreateSystemThread(&mut thread, 0x1F_FFFF, none, 0, none, release_later, none);
        ZwClose(thread);
        ExWaitForRundownProtectionRelease(reference);
        text.check(RAN.load(Ordering::Acquire) == 1, "rundown did not wait for the holder");
        text.check(ExAcquireRundownProtection(reference) == 0, "acquired after rundown");
    }
}

unsafe fn check_push_locks(text: &mut Text<'_>) {
    let mut lock = 0;
    let lock = &raw mut lock;
    // SAFETY: taken and released in pairs, in a critical region.
    unsafe {
        KeEnterCriticalRegion();
        ExAcquirePushLockSharedEx(lock, 0);
        ExAcquirePushLockSharedEx(lock, 0);
        ExReleasePushLockSharedEx(lock, 0);
        ExReleasePushLockSharedEx(lock, 0);
        ExAcquirePushLockExclusiveEx(lock, 0);
        ExReleasePushLockExclusiveEx(lock, 0);
        KeLeaveCriticalRegion();
        text.check(*lock == 0, "a push lock is not free after its release");
    }
}

static MUTEX: Storage<[u64; 7]> = Storage::new();

/// Adds to a counter that only the mutex protects.
unsafe extern "system" fn contend(counter: *mut c_void) {
    // SAFETY: an initialised mutex; the counter outlives the threads, which are waited for.
    unsafe {
        for _ in 0..2000 {
            KeWaitForSingleObject(MUTEX.get().cast(), 0, 0, 0, core::ptr::null());
            let counter = counter.cast::<u32>();
            counter.write_volatile(counter.read_volatile() + 1);
            KeReleaseMutex(MUTEX.get(), 0);
        }
    }
    RAN.fetch_add(1, Ordering::Release);
}

unsafe fn check_mutex(text: &mut Text<'_>) {
    let (mutex, none, zero) = (MUTEX.get(), core::ptr::null_mut(), 0);
    let mut counter = 0_u32;
    // SAFETY: an initialised mutex, taken and released in pairs.
    unsafe {
        KeInitializeMutex(mutex, 0);
        KeWaitForSingleObject(mutex.cast(), 0, 0, 0, core::ptr::null());
        text.check(KeWaitForSingleObject(mutex.cast(), 0, 0, 0, &zero) == 0, "a mutex is not recursive");
        text.check(KeReleaseMutex(mutex, 0) != 0, "a mutex is free after its first release of two");
        RAN.store(0, Ordering::Relaxed);
        for _ in 0..3 {
            let mut thread = 0;
            PsCreateSystemThread(&mut thread, 0x1F_FFFF, none, 0, none, contend, (&raw mut counter).cast());
            ZwClose(thread);
        }
        sleep(20);
        text.check((&raw const counter).read_volatile() == 0, "a held mutex was taken");
        text.check(KeReleaseMutex(mutex, 0) == 0, "a mutex is not free after its last release");
        for _ in 0..5000 {
            if RAN.load(Ordering::Acquire) == 3 {
                break;
            }
            sleep(1);
        }
        text.check((&raw const counter).read_volatile() == 6000, "a mutex does not exclude");
    }
}

unsafe fn check_waits(text: &mut Text<'_>) {
    let zero = 0;
    // SAFETY: an initialised event.
    unsafe {
        KeInitializeEvent(EVENT.get(), 1, 0);
        KfRaiseIrql(2);
        let polled = KeWaitForSingleObject(EVENT.get().cast(), 0, 0, 0, &zero);
        text.check(polled == STATUS_TIMEOUT, "polling an event at DISPATCH_LEVEL");
        text.check(KeSetEvent(EVENT.get(), 0, 0) == 0, "KeSetEvent: previous state");
        KeLowerIrql(0);
        text.check(wait_for_event() == 0, "a set event");
    }
}
