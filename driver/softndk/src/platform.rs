//! The Windows kernel as a [`Platform`]. IRQLs and failure modes: the ddi pages of the functions named.
#![expect(unsafe_code, reason = "calls into the kernel, on kernel objects that live at fixed addresses")]

use core::{
    alloc::{GlobalAlloc, Layout},
    arch::asm,
    cell::UnsafeCell,
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use lock_api::{GuardNoSend, RawMutex};
use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_SOURCE_IS_NONPAGED_POOL, PAGE_SIZE};
use platform::{DISPATCH_LEVEL, DpcRoutine, Notice, Passive, Platform, RawSpinLock};
use wdk_alloc::WdkAllocator;
use wdk_sys::{
    _EVENT_TYPE::NotificationEvent,
    _KWAIT_REASON::Executive,
    _MEMORY_CACHING_TYPE::MmCached,
    _MM_PAGE_PRIORITY::NormalPagePriority,
    _MODE::KernelMode,
    _WORK_QUEUE_TYPE::DelayedWorkQueue,
    KDPC, KEVENT, KIRQL, KSPIN_LOCK, KTIMER, LARGE_INTEGER, PIO_WORKITEM, PVOID,
    ntddk::{
        IoInitializeWorkItem, IoQueueWorkItemEx, IoSizeofWorkItem, IoUninitializeWorkItem, KeAcquireSpinLockRaiseToDpc,
        KeCancelTimer, KeInitializeDpc, KeInitializeEvent, KeInitializeTimer, KeInsertQueueDpc, KeQueryTimeIncrement,
        KeReleaseSpinLock, KeSetEvent, KeSetTimer, KeTryToAcquireSpinLockAtDpcLevel, KeWaitForSingleObject,
        MmMapLockedPagesSpecifyCache,
    },
};

use crate::{events, wsk::Wsk};

/// Alignment that pool memory smaller than a page has (ddi: nf-wdm-exallocatepool2).
const POOL_ALIGNMENT: usize = 16;

/// `MdlMappingNoExecute` of wdm.h, a macro bit above the page priorities.
const MDL_MAPPING_NO_EXECUTE: u32 = 0x4000_0000;
/// `MdlMappingNoWrite`, another.
const MDL_MAPPING_NO_WRITE: u32 = 0x8000_0000;

/// Bytes of pool allocated now.
static POOL_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of pool allocated now.
pub(crate) fn pool_bytes() -> u64 {
    POOL_BYTES.load(Ordering::Relaxed)
}

/// The kernel this driver is loaded in.
pub(crate) struct Windows;

/// A `KSPIN_LOCK` that keeps the IRQL it was taken at.
pub(crate) struct KernelSpinLock {
    lock: UnsafeCell<KSPIN_LOCK>,
    /// Written and read by the holder only.
    irql: UnsafeCell<KIRQL>,
}

// SAFETY: the lock word is used only by the kernel's functions, which are made for it; the IRQL only by the holder.
unsafe impl Send for KernelSpinLock {}
// SAFETY: as for Send.
unsafe impl Sync for KernelSpinLock {}

// SAFETY: a KSPIN_LOCK excludes; the zero word is an initialised lock (KeInitializeSpinLock stores 0).
unsafe impl RawMutex for KernelSpinLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for the initial value this way")]
    const INIT: Self = Self { lock: UnsafeCell::new(0), irql: UnsafeCell::new(0) };

    /// The IRQL belongs to the thread.
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        // SAFETY: initialised; IRQL <= DISPATCH by contract of Platform::RawSpinLock.
        let irql = unsafe { KeAcquireSpinLockRaiseToDpc(self.lock.get()) };
        // SAFETY: the lock is held, so nobody else touches the cell.
        unsafe { self.irql.get().write(irql) };
    }

    fn try_lock(&self) -> bool {
        let irql = raise_irql(DISPATCH_LEVEL);
        // SAFETY: initialised; the thread is at DISPATCH_LEVEL.
        let taken = unsafe { KeTryToAcquireSpinLockAtDpcLevel(self.lock.get()) } != 0;
        if taken {
            // SAFETY: the lock is held, so nobody else touches the cell.
            unsafe { self.irql.get().write(irql) };
        } else {
            raise_irql(irql);
        }
        taken
    }

    unsafe fn unlock(&self) {
        // SAFETY: the lock is held, so nobody else touches the cell.
        let irql = unsafe { self.irql.get().read() };
        // SAFETY: held by this thread, by contract of RawMutex; the IRQL is that of its taking.
        unsafe { KeReleaseSpinLock(self.lock.get(), irql) };
    }
}

// SAFETY: KeAcquireSpinLockRaiseToDpc and KeReleaseSpinLock do that.
unsafe impl RawSpinLock for KernelSpinLock {}

/// Room for an IO_WORKITEM, whose size only the kernel knows.
const WORK_ITEM_BYTES: usize = 128;

/// A KDPC with the routine it stands for, and a work item for when it runs in turn.
#[repr(C)]
pub(crate) struct Dpc {
    kernel: KDPC,
    work: WorkItem,
    routine: Option<DpcRoutine>,
    context: *mut c_void,
}

/// Storage of an IO_WORKITEM. It is initialised for each use, so that it needs no end of its own.
#[repr(C, align(16))]
struct WorkItem([u8; WORK_ITEM_BYTES]);

/// The driver object: work items keep it, and with it this image, until their routines have returned.
static DRIVER_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Prepares for work items. Once, in DriverEntry. False: this kernel's are larger than there is room for.
pub(crate) fn initialize(driver: *mut c_void) -> bool {
    DRIVER_OBJECT.store(driver, Ordering::Release);
    // SAFETY: a constant of the kernel.
    let needed = unsafe { IoSizeofWorkItem() };
    needed as usize <= WORK_ITEM_BYTES
}

// SAFETY: plain storage; it is used only through the platform's calls, under their contracts.
unsafe impl Send for Dpc {}
// SAFETY: as for Send.
unsafe impl Sync for Dpc {}

/// A KTIMER and the DPC that it queues.
#[repr(C)]
pub(crate) struct Timer {
    kernel: KTIMER,
    dpc: Dpc,
}

// SAFETY: plain storage; it is used only through the platform's calls, under their contracts.
unsafe impl Send for Timer {}
// SAFETY: as for Send.
unsafe impl Sync for Timer {}

/// A KEVENT.
#[repr(transparent)]
pub(crate) struct Event(KEVENT);

// SAFETY: plain storage; it is used only through the platform's calls, which are safe from any thread.
unsafe impl Send for Event {}
// SAFETY: as for Send.
unsafe impl Sync for Event {}

/// The kernel's view of a [`Dpc`].
unsafe extern "C" fn run_dpc(_dpc: *mut KDPC, dpc: PVOID, _argument1: PVOID, _argument2: PVOID) {
    // SAFETY: initialize_dpc made the Dpc itself the context, and its owner keeps it until the routine is entered.
    let dpc = unsafe { &*dpc.cast::<Dpc>() };
    let context = dpc.context;
    if let Some(routine) = dpc.routine {
        // SAFETY: the pair was given to initialize_dpc as belonging together; this is DISPATCH_LEVEL.
        unsafe { routine(context) };
    }
}

/// The routine of a [`Dpc`] that runs in turn: on a system thread, at PASSIVE_LEVEL.
unsafe extern "C" fn run_in_turn(_driver: PVOID, dpc: PVOID, item: PIO_WORKITEM) {
    // SAFETY: initialised before it was queued; IoQueueWorkItemEx leaves it to its routine.
    unsafe { IoUninitializeWorkItem(item) };
    // SAFETY: queue_dpc_in_turn made the Dpc the context, and its owner keeps it until the routine is entered.
    at_dispatch(|| unsafe { run_dpc(null_mut(), dpc, null_mut(), null_mut()) });
}

/// Does something at DISPATCH_LEVEL. IRQL <= DISPATCH. A thread in there keeps the processor: an unloading driver that calls
/// KeFlushQueuedDpcs waits for it, as it does for DPCs.
pub(crate) fn at_dispatch(body: impl FnOnce()) {
    let irql = raise_irql(DISPATCH_LEVEL);
    body();
    raise_irql(irql);
}

/// `KeGetCurrentIrql`, which is inline on x64: the task priority register.
fn current_irql() -> u8 {
    let irql: u64;
    // SAFETY: reading CR8 has no effect.
    unsafe { asm!("mov {}, cr8", out(reg) irql, options(nomem, nostack, preserves_flags)) };
    irql as u8
}

/// `KeRaiseIrql` and `KeLowerIrql`, which are inline on x64: sets the IRQL and returns the one before.
fn raise_irql(irql: u8) -> u8 {
    let before = current_irql();
    // SAFETY: callers raise and then restore. Memory accesses stay on their side of the change.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(irql), options(nostack, preserves_flags)) };
    before
}

/// Maps the pages of an MDL, which is not mapped yet, until they are unlocked: so that they cannot be written, unless `write`. IRQL <=
/// DISPATCH.
///
/// # Safety
/// A valid MDL, whose pages are locked.
pub(crate) unsafe fn map(mdl: *mut MDL, write: bool) -> Option<NonNull<u8>> {
    let no_write = if write { 0 } else { MDL_MAPPING_NO_WRITE };
    let priority = NormalPagePriority as u32 | MDL_MAPPING_NO_EXECUTE | no_write;
    // SAFETY: the pages are locked, by contract; a kernel-mode mapping without a bug check on failure.
    let address =
        unsafe { MmMapLockedPagesSpecifyCache(mdl.cast(), KernelMode as i8, MmCached, null_mut(), 0, priority as _) };
    NonNull::new(address.cast())
}

// SAFETY: each item is one documented kernel function with the contract asked for.
unsafe impl Platform for Windows {
    type RawSpinLock = KernelSpinLock;
    type Dpc = Dpc;
    type Event = Event;
    type Timer = Timer;
    type Sockets = Wsk;

    fn allocate(layout: Layout) -> Option<NonNull<u8>> {
        // WdkAllocator ignores the alignment: what the pool does not promise is refused.
        let promised = if layout.size() >= PAGE_SIZE { PAGE_SIZE } else { POOL_ALIGNMENT };
        if layout.align() > promised {
            return None;
        }
        // SAFETY: the size is not 0, by contract.
        let memory = NonNull::new(unsafe { WdkAllocator.alloc_zeroed(layout) })?;
        POOL_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        Some(memory)
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: by contract the memory came from allocate() with this layout.
        unsafe { WdkAllocator.dealloc(memory.as_ptr(), layout) };
        POOL_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
    }

    fn irql() -> u8 {
        current_irql()
    }

    fn new_dpc() -> Dpc {
        Dpc { kernel: KDPC::default(), work: WorkItem([0; WORK_ITEM_BYTES]), routine: None, context: null_mut() }
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid and not yet in use, by contract.
        let storage = unsafe { &mut *dpc };
        storage.routine = Some(routine);
        storage.context = context;
        // SAFETY: non-paged memory that stays where it is, by contract.
        unsafe { KeInitializeDpc(&raw mut storage.kernel, Some(run_dpc), dpc.cast()) };
    }

    unsafe fn queue_dpc(dpc: *mut Dpc) -> bool {
        // SAFETY: initialised and kept, by contract.
        let kernel = unsafe { &raw mut (*dpc).kernel };
        // SAFETY: the same.
        unsafe { KeInsertQueueDpc(kernel, null_mut(), null_mut()) != 0 }
    }

    unsafe fn queue_dpc_in_turn(dpc: *mut Dpc) {
        // SAFETY: initialised and kept, by contract.
        let item = unsafe { &raw mut (*dpc).work }.cast();
        // SAFETY: enough storage (`initialize`), not in use: the last run uninitialised it.
        unsafe { IoInitializeWorkItem(DRIVER_OBJECT.load(Ordering::Acquire), item) };
        // SAFETY: just initialised; kept, with its context, until the routine is entered.
        unsafe { IoQueueWorkItemEx(item, Some(run_in_turn), DelayedWorkQueue, dpc.cast()) };
    }

    fn new_timer() -> Timer {
        Timer { kernel: KTIMER::default(), dpc: Self::new_dpc() }
    }

    unsafe fn initialize_timer(timer: *mut Timer, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, by contract.
        let kernel = unsafe { &raw mut (*timer).kernel };
        // SAFETY: non-paged memory that stays where it is and is not in use, by contract.
        unsafe { KeInitializeTimer(kernel) };
        // SAFETY: valid, by contract.
        let dpc = unsafe { &raw mut (*timer).dpc };
        // SAFETY: the same.
        unsafe { Self::initialize_dpc(dpc, routine, context) };
    }

    unsafe fn set_timer(timer: *mut Timer, microseconds: u32) {
        // SAFETY: valid, by contract.
        let kernel = unsafe { &raw mut (*timer).kernel };
        // SAFETY: valid, by contract.
        let dpc = unsafe { &raw mut (*timer).dpc.kernel };
        // Negative: from now on, in units of 100 ns.
        let due = LARGE_INTEGER { QuadPart: i64::from(microseconds).saturating_mul(-10) };
        // SAFETY: initialised, not set, and kept until the routine is entered or the timer cancelled, by contract.
        let _was_set = unsafe { KeSetTimer(kernel, due, dpc) };
    }

    unsafe fn cancel_timer(timer: *mut Timer) -> bool {
        // SAFETY: valid, by contract.
        let kernel = unsafe { &raw mut (*timer).kernel };
        // SAFETY: initialised, by contract. TRUE: it was set, so its DPC was not queued.
        unsafe { KeCancelTimer(kernel) != 0 }
    }

    fn timer_granularity() -> u32 {
        // SAFETY: a constant of the kernel, in units of 100 ns.
        unsafe { KeQueryTimeIncrement() }.div_ceil(10)
    }

    fn new_event() -> Event {
        Event(KEVENT::default())
    }

    unsafe fn initialize_event(event: *mut Event) {
        // SAFETY: non-paged memory that stays where it is and is not in use, by contract.
        unsafe { KeInitializeEvent(event.cast(), NotificationEvent, 0) };
    }

    unsafe fn set_event(event: *mut Event) {
        // SAFETY: initialised and kept during the call, by contract; no wait follows (third argument FALSE).
        let _was_set = unsafe { KeSetEvent(event.cast(), 0, 0) };
    }

    unsafe fn wait_event(event: *mut Event, _passive: &Passive<'_>) {
        // Not alertable, kernel mode, no timeout: the only outcome is success.
        // SAFETY: initialised and kept during the wait, by contract; PASSIVE_LEVEL by the token.
        let _success = unsafe { KeWaitForSingleObject(event.cast(), Executive, KernelMode as i8, 0, null_mut()) };
    }

    /// `MmGetSystemAddressForMdlSafe`, which is inline in wdm.h.
    unsafe fn mdl_system_address(mdl: *mut c_void) -> Option<NonNull<u8>> {
        // SAFETY: a valid MDL, by contract.
        let header = unsafe { &*mdl.cast::<MDL>() };
        if header.MdlFlags & (MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL) != 0 {
            return NonNull::new(header.MappedSystemVa.cast());
        }
        // What a consumer in the kernel has locked may be written: no flag tells for each kind of MDL. What a program has for reading
        // only was mapped so when it was locked (pin.rs).
        // SAFETY: locked, by contract, and not mapped.
        unsafe { map(mdl.cast(), true) }
    }

    fn notice(notice: &Notice) {
        events::write(notice);
    }

    #[inline]
    fn notices_data() -> bool {
        events::wants_data()
    }
}
