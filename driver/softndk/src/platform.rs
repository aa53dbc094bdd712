//! The Windows kernel as a [`Platform`]. The ddi pages of the called functions have their IRQLs and failures.
#![expect(unsafe_code, reason = "calls into the kernel, on kernel objects that live at fixed addresses")]

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicU64, Ordering},
};

use lock_api::{GuardNoSend, RawMutex};
use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_SOURCE_IS_NONPAGED_POOL, PAGE_SIZE};
use platform::{DpcRoutine, Notice, Passive, Platform, RawSpinLock, Run};
use wdk_alloc::WdkAllocator;
use wdk_sys::{
    _EVENT_TYPE::NotificationEvent,
    _KWAIT_REASON::Executive,
    _MEMORY_CACHING_TYPE::MmCached,
    _MM_PAGE_PRIORITY::NormalPagePriority,
    _MODE::KernelMode,
    KDPC, KEVENT, KIRQL, KSPIN_LOCK, KTIMER, LARGE_INTEGER, PVOID,
    ntddk::{
        KeAcquireSpinLockRaiseToDpc, KeCancelTimer, KeInitializeDpc, KeInitializeEvent, KeInitializeTimer,
        KeQuerySystemTimePrecise, KeQueryTimeIncrement, KeReleaseSpinLock, KeSetEvent, KeSetTimer,
        KeTryToAcquireSpinLockAtDpcLevel, KeWaitForSingleObject, MmMapLockedPagesSpecifyCache,
    },
};

use crate::{events, irql, processors, wsk::Wsk};

/// The alignment of pool memory that is smaller than a page (ddi: nf-wdm-exallocatepool2).
const POOL_ALIGNMENT: usize = 16;

/// `MdlMappingNoExecute` of wdm.h, a macro bit above the page priorities.
const MDL_MAPPING_NO_EXECUTE: u32 = 0x4000_0000;
/// `MdlMappingNoWrite` of wdm.h, another such bit.
const MDL_MAPPING_NO_WRITE: u32 = 0x8000_0000;

/// Bytes of pool allocated now.
static POOL_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of pool allocated now.
pub(crate) fn pool_bytes() -> u64 {
    POOL_BYTES.load(Ordering::Relaxed)
}

/// The kernel in which the driver is loaded.
pub(crate) struct Windows;

/// A `KSPIN_LOCK`, and the IRQL at which the holder took it.
pub(crate) struct KernelSpinLock {
    lock: UnsafeCell<KSPIN_LOCK>,
    /// The IRQL at which the holder took the lock. Only the holder reads and writes the cell.
    irql: UnsafeCell<KIRQL>,
}

// SAFETY: only the kernel's functions use the lock word, and only the holder uses the IRQL.
unsafe impl Send for KernelSpinLock {}
// SAFETY: as for Send.
unsafe impl Sync for KernelSpinLock {}

// SAFETY: a KSPIN_LOCK excludes other threads; 0 is an initialised lock (KeInitializeSpinLock stores 0).
unsafe impl RawMutex for KernelSpinLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for the initial value this way")]
    const INIT: Self = Self { lock: UnsafeCell::new(0), irql: UnsafeCell::new(0) };

    /// The IRQL belongs to the thread.
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        // SAFETY: initialised; IRQL <= DISPATCH by contract of Platform::RawSpinLock.
        let irql = unsafe { KeAcquireSpinLockRaiseToDpc(self.lock.get()) };
        // SAFETY: this thread holds the lock, so no other thread accesses the cell.
        unsafe { self.irql.get().write(irql) };
    }

    fn try_lock(&self) -> bool {
        let irql = irql::raise();
        // SAFETY: initialised; the thread is at DISPATCH_LEVEL.
        let taken = unsafe { KeTryToAcquireSpinLockAtDpcLevel(self.lock.get()) } != 0;
        if taken {
            // SAFETY: this thread holds the lock, so no other thread accesses the cell.
            unsafe { self.irql.get().write(irql) };
        } else {
            // SAFETY: raised above; the lock was not taken.
            unsafe { irql::lower(irql) };
        }
        taken
    }

    unsafe fn unlock(&self) {
        // SAFETY: this thread holds the lock, so no other thread accesses the cell.
        let irql = unsafe { self.irql.get().read() };
        // SAFETY: this thread holds the lock, by contract of RawMutex, and took it at this IRQL.
        unsafe { KeReleaseSpinLock(self.lock.get(), irql) };
    }
}

// SAFETY: KeAcquireSpinLockRaiseToDpc raises the IRQL to DISPATCH_LEVEL, and KeReleaseSpinLock restores it.
unsafe impl RawSpinLock for KernelSpinLock {}

/// A KTIMER, the DPC that it queues, and the routine that the DPC calls.
#[repr(C)]
pub(crate) struct Timer {
    kernel: KTIMER,
    dpc: KDPC,
    routine: Option<DpcRoutine>,
    context: *mut c_void,
}

// SAFETY: plain storage, used only through the platform's functions, under their contracts.
unsafe impl Send for Timer {}
// SAFETY: as for Send.
unsafe impl Sync for Timer {}

/// A KEVENT.
#[repr(transparent)]
pub(crate) struct Event(KEVENT);

// SAFETY: plain storage, used only through the platform's functions, which any thread may call.
unsafe impl Send for Event {}
// SAFETY: as for Send.
unsafe impl Sync for Event {}

/// The DPC of a [`Timer`].
unsafe extern "C" fn expired(_dpc: *mut KDPC, timer: PVOID, _argument1: PVOID, _argument2: PVOID) {
    // SAFETY: initialize_timer made the Timer the context; its owner keeps it until the routine is entered.
    let routine = unsafe { (*timer.cast::<Timer>()).routine };
    // SAFETY: as above.
    let context = unsafe { (*timer.cast::<Timer>()).context };
    if let Some(routine) = routine {
        // SAFETY: initialize_timer got the routine with this context; this is DISPATCH_LEVEL.
        unsafe { routine(context) };
    }
}

/// Maps the pages of an MDL that is not mapped yet; the mapping lasts until they are unlocked, and is writable if `write`. IRQL <=
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

// SAFETY: each function calls kernel functions, within the contracts that are documented for them and for the trait. A DPC is a run, whose
// routine `processors` calls at DISPATCH_LEVEL, once each time it is queued.
unsafe impl Platform for Windows {
    type RawSpinLock = KernelSpinLock;
    type Dpc = Run;
    type Event = Event;
    type Timer = Timer;
    type Sockets = Wsk;

    fn allocate(layout: Layout) -> Option<NonNull<u8>> {
        // WdkAllocator ignores the alignment, so a layout that needs more than the pool's is refused.
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
        irql::current()
    }

    fn new_dpc() -> Run {
        Run::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Run, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid and not yet in use, by contract.
        let run = unsafe { &*dpc };
        run.initialize(routine, context);
    }

    unsafe fn queue_dpc(dpc: *mut Run) {
        // SAFETY: initialised, not queued, and kept, by contract; `processors` works from DriverEntry to the unload.
        unsafe { processors::queue(dpc) };
    }

    fn new_timer() -> Timer {
        Timer { kernel: KTIMER::default(), dpc: KDPC::default(), routine: None, context: null_mut() }
    }

    unsafe fn initialize_timer(timer: *mut Timer, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid and not yet in use, by contract.
        let storage = unsafe { &mut *timer };
        (storage.routine, storage.context) = (Some(routine), context);
        // SAFETY: non-paged memory that does not move and is not in use.
        unsafe { KeInitializeTimer(&raw mut storage.kernel) };
        // SAFETY: as above.
        unsafe { KeInitializeDpc(&raw mut storage.dpc, Some(expired), timer.cast()) };
    }

    unsafe fn set_timer(timer: *mut Timer, microseconds: u32) {
        // SAFETY: valid, by contract.
        let kernel = unsafe { &raw mut (*timer).kernel };
        // SAFETY: valid, by contract.
        let dpc = unsafe { &raw mut (*timer).dpc };
        // Negative: relative to now, in units of 100 ns.
        let due = LARGE_INTEGER { QuadPart: i64::from(microseconds).saturating_mul(-10) };
        // SAFETY: initialised, not set, and kept until the routine is entered or the timer is cancelled, by contract.
        let _was_set = unsafe { KeSetTimer(kernel, due, dpc) };
    }

    unsafe fn cancel_timer(timer: *mut Timer) -> bool {
        // SAFETY: valid, by contract.
        let kernel = unsafe { &raw mut (*timer).kernel };
        // SAFETY: initialised, by contract. TRUE: the timer was set, so its DPC was not queued.
        unsafe { KeCancelTimer(kernel) != 0 }
    }

    fn timer_granularity() -> u32 {
        // SAFETY: no preconditions. The unit is 100 ns.
        unsafe { KeQueryTimeIncrement() }.div_ceil(10)
    }

    fn new_event() -> Event {
        Event(KEVENT::default())
    }

    unsafe fn initialize_event(event: *mut Event) {
        // SAFETY: non-paged memory that does not move and is not in use, by contract.
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
        // A kernel consumer's MDL is mapped writable: no flag tells for each kind of MDL whether its memory may be written. A program's
        // memory for reading only was mapped, not writable, when it was locked (pin.rs).
        // SAFETY: locked, by contract, and not mapped.
        unsafe { map(mdl.cast(), true) }
    }

    fn system_time() -> u64 {
        let mut time = LARGE_INTEGER::default();
        // SAFETY: a local.
        unsafe { KeQuerySystemTimePrecise(&raw mut time) };
        // SAFETY: both views are the same eight bytes.
        let time = unsafe { time.QuadPart };
        time.cast_unsigned()
    }

    fn notice(notice: &Notice) {
        events::write(notice);
    }

    #[inline]
    fn notices_data() -> bool {
        events::wants_data()
    }
}
