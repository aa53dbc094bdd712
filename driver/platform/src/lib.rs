//! [`Platform`], the services that the virtual RDMA device needs of a kernel, and the primitives built on that trait.
//!
//! * [`Platform`]: memory, spin locks, deferred procedure calls, timers, events, IRQL, and, as [`Sockets`], TCP. The
//!   driver (Windows), the simulated kernel (tests) and `driver/hosted` (a process) implement it. Everything is chosen
//!   at compile time: there is no virtual call on a hot path.
//! * [`Passive`], [`Dispatch`]: proofs of the execution context, as types.
//! * [`Arc`], [`Weak`]: fallible shared ownership. The *only* rundown primitive: an object is closed when its last
//!   strong reference is dropped, see [`Arc::into_inner`].
//! * [`Deferred`]: a serialised, coalescing deferred call embedded in an object.
//! * [`RunQueue`]: the DPCs of one processor, for a kernel that does not bound how many it runs in a row.
//! * [`Timer`]: a one-shot timer embedded in an object.
//! * [`Stream`]: a TCP connection, or a listener, embedded in an object.
//! * [`CachePadded`]: a value with cache lines of its own.
//! * [`Notice`]: an event of the driver, for tracing.
//! * [`planted`]: the bugs that tests plant in the driver, to see that their checks find them.
//! * [`prefetch`]: a hint to fetch memory that will be used soon.
//! * [`Slice`]: a fixed-length array from non-paged pool.
//! * [`PoolQuota`], [`Charge`]: non-paged pool, counted against the limit of one user, such as a process.
//!
//! No kernel crate links `alloc`: a failed allocation is an error value, never a panic.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod arc;
mod buffer;
mod cache_padded;
mod context;
mod deferred;
mod event;
mod lock;
mod notice;
pub mod planted;
mod prefetch;
mod quota;
mod run_queue;
mod slice;
mod socket;
mod stream;
mod timer;

pub use arc::{Arc, Last, Weak};
pub use cache_padded::CachePadded;
pub use context::{AsDispatch, Dispatch, Passive};
pub use deferred::{Deferred, RunDeferred};
pub use event::Event;
pub use lock::{SpinLock, SpinLockGuard};
pub use notice::{Addresses, Cause, Ending, Notice};
pub use prefetch::{CACHE_LINE, prefetch};
pub use quota::{Charge, PoolQuota};
pub use run_queue::{Next, RUNS_IN_A_ROW, Run, RunQueue};
pub use slice::Slice;
pub use socket::{
    Completion, LARGEST_TRANSFER, NoSockets, SENDS, SHARED, SocketError, SocketRoutine, Sockets, WrittenShared,
};
pub use stream::{Read, RunStream, Stream, Taken};
pub use timer::{RunTimer, Timer};

use core::{alloc::Layout, ffi::c_void, ptr::NonNull};
// loom's types for the models that explore this crate (tests/random/loom-models), else the real ones.
#[cfg(not(loom))]
use core::{hint, sync::atomic};
#[cfg(loom)]
use loom::{hint, sync::atomic};

/// Allocation from non-paged pool failed. NTSTATUS: `STATUS_INSUFFICIENT_RESOURCES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// `PASSIVE_LEVEL` of wdm.h.
pub const PASSIVE_LEVEL: u8 = 0;
/// `APC_LEVEL` of wdm.h.
pub const APC_LEVEL: u8 = 1;
/// `DISPATCH_LEVEL` of wdm.h.
pub const DISPATCH_LEVEL: u8 = 2;

/// The routine of a deferred procedure call. It runs at `DISPATCH_LEVEL`.
pub type DpcRoutine = unsafe extern "C" fn(context: *mut c_void);

/// A spin lock of a kernel.
///
/// # Safety
/// `lock`, and `try_lock` if it succeeds, raise to `DISPATCH_LEVEL`. The thread stays at that level at least until
/// `unlock`, which restores the IRQL from before.
#[allow(unsafe_code, reason = "guards of such a lock prove the IRQL")]
pub unsafe trait RawSpinLock: lock_api::RawMutex<GuardMarker = lock_api::GuardNoSend> + Send + Sync {}

/// The services of a kernel. Each environment of the device has one implementation.
///
/// # Safety
/// The implementer promises what each item documents; the device's memory safety rests on it.
#[allow(unsafe_code, reason = "a trait over kernel objects that live at fixed addresses")]
pub unsafe trait Platform: Sized + Send + Sync + 'static {
    /// A spin lock. Callable at <= DISPATCH.
    type RawSpinLock: RawSpinLock;

    /// Storage of a deferred procedure call (`KDPC`). All-zero bytes are a valid, uninitialised value.
    type Dpc: Send + Sync;

    /// Storage of a notification event (`KEVENT`). All-zero bytes are a valid, uninitialised value.
    type Event: Send + Sync;

    /// Storage of a one-shot timer and its DPC (`KTIMER`, `KDPC`). All-zero bytes are a valid, uninitialised value.
    type Timer: Send + Sync;

    /// The TCP of the kernel; [`NoSockets`] if it has none.
    type Sockets: Sockets;

    /// Non-paged, zeroed memory, or `None`. IRQL <= DISPATCH. `layout.size()` is not 0.
    ///
    /// All functions between the driver's code and this one are `#[track_caller]`, so that a platform that records
    /// allocations can name the line that allocates.
    #[track_caller]
    fn allocate(layout: Layout) -> Option<NonNull<u8>>;

    /// Frees memory of [`Platform::allocate`]. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `memory` came from `allocate(layout)` and is not used again.
    unsafe fn free(memory: NonNull<u8>, layout: Layout);

    /// The current IRQL.
    fn irql() -> u8;

    /// Checks that the thread is at `level`, as a context token claims. Debug builds panic if it is not; a platform may
    /// record the error instead.
    fn claim_irql(level: u8) {
        debug_assert!(Self::irql() == level, "a context token for another IRQL");
    }

    /// A new, uninitialised DPC: all-zero storage.
    fn new_dpc() -> Self::Dpc;

    /// Initialises a DPC. IRQL: any.
    ///
    /// # Safety
    /// `dpc` stays at its address, and is not initialised again, until it is freed; it is not queued.
    unsafe fn initialize_dpc(dpc: *mut Self::Dpc, routine: DpcRoutine, context: *mut c_void);

    /// Queues a DPC: its routine runs once at `DISPATCH_LEVEL`, on any processor. When a processor has run
    /// [`RUNS_IN_A_ROW`] routines and more are queued, a system thread calls the rest, raising the IRQL for each one,
    /// so that other threads get processor time.
    ///
    /// # Safety
    /// `dpc` was initialised, and is not queued; it and its context stay valid until the routine has been entered.
    unsafe fn queue_dpc(dpc: *mut Self::Dpc);

    /// A new, uninitialised timer: all-zero storage.
    fn new_timer() -> Self::Timer;

    /// Initialises a timer. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `timer` stays at its address, and is not initialised again, until it is freed; it is not set.
    unsafe fn initialize_timer(timer: *mut Self::Timer, routine: DpcRoutine, context: *mut c_void);

    /// Sets a timer: its routine runs once at `DISPATCH_LEVEL` after `microseconds`, or up to
    /// [`Platform::timer_granularity`] later. IRQL <= DISPATCH; spin locks may be held.
    ///
    /// # Safety
    /// `timer` was initialised, and is not set; it and its context stay valid until the routine has been entered or
    /// [`Platform::cancel_timer`] has returned `true`.
    unsafe fn set_timer(timer: *mut Self::Timer, microseconds: u32);

    /// Cancels a timer. `true`: its routine will not run. `false`: the routine was entered, or will be. IRQL <=
    /// DISPATCH; spin locks may be held.
    ///
    /// # Safety
    /// `timer` was initialised and is valid during the call.
    unsafe fn cancel_timer(timer: *mut Self::Timer) -> bool;

    /// The most microseconds by which a timer expires late: the time between two clock interrupts.
    fn timer_granularity() -> u32;

    /// A new, uninitialised event: all-zero storage.
    fn new_event() -> Self::Event;

    /// Initialises a notification event, not signalled.
    ///
    /// # Safety
    /// `event` stays at its address until it is freed, and no thread waits for it.
    unsafe fn initialize_event(event: *mut Self::Event);

    /// Signals an event. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `event` was initialised and stays valid until this call has returned.
    unsafe fn set_event(event: *mut Self::Event);

    /// Waits, without a time limit, until an event is signalled.
    ///
    /// # Safety
    /// `event` was initialised and stays valid during the wait.
    unsafe fn wait_event(event: *mut Self::Event, passive: &Passive<'_>);

    /// The system address of the pages that one MDL (not its chain) describes, mapped if they are not yet; `None` if
    /// the mapping fails. IRQL <= DISPATCH. The mapping lasts until the pages are unlocked by their owner.
    /// `MmGetSystemAddressForMdlSafe`, wdm.h.
    ///
    /// # Safety
    /// `mdl` is a valid MDL whose pages are locked or non-paged.
    unsafe fn mdl_system_address(mdl: *mut c_void) -> Option<NonNull<u8>>;

    /// The time, in units of 100 ns since the year 1601 in UTC. IRQL: any. `KeQuerySystemTimePrecise`.
    fn system_time() -> u64;

    /// Passes an event of the driver to the trace. IRQL: any; locks may be held. By default there is no trace.
    fn notice(_notice: &Notice) {}

    /// Whether a trace wants the data notices, which each request makes. Every post calls this function, so it must
    /// cost no more than a load. IRQL: any.
    fn notices_data() -> bool;
}
