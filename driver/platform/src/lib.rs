//! What the virtual RDMA device needs of a kernel, as one trait, and the small set of primitives built on it.
//!
//! * [`Platform`]: memory, spin locks, deferred procedure calls, timers, events, IRQL, and, as [`Sockets`], TCP. Implemented by the
//!   driver (Windows) and by the simulated kernel (tests). Everything is chosen at compile time: there is no virtual call on a hot path.
//! * [`Passive`], [`Dispatch`]: proofs of the execution context, as types.
//! * [`Arc`], [`Weak`]: fallible shared ownership. The *only* rundown primitive: an object is closed when its last strong
//!   reference goes, see [`Arc::into_inner`].
//! * [`Deferred`]: a serialised, coalescing deferred call embedded in an object.
//! * [`RunQueue`]: what waits to run on one processor, for a kernel that does not bound it.
//! * [`Timer`]: a one-shot timer embedded in an object.
//! * [`Stream`]: a TCP connection, or a listener, embedded in an object.
//! * [`CachePadded`]: a value with cache lines of its own.
//! * [`Notice`]: what has happened, for whoever traces the driver.
//! * [`prefetch`]: a hint to fetch memory that will be used soon.
//! * [`Slice`]: a fixed-length array from non-paged pool.
//! * [`PoolQuota`], [`Charge`]: non-paged pool, counted against what one user may take.
//!
//! No crate of the kernel side links `alloc`: memory that cannot be had is an error value, never a panic.
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
pub use socket::{Completion, LARGEST_TRANSFER, NoSockets, SENDS, SocketError, SocketRoutine, Sockets};
pub use stream::{Read, RunStream, Stream, Taken};
pub use timer::{RunTimer, Timer};

use core::{alloc::Layout, ffi::c_void, ptr::NonNull};
// Those of the models that explore this crate (tests/random/loom-models), or the real ones.
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
/// `lock`, and `try_lock` if it succeeds, raise to `DISPATCH_LEVEL`, where the thread stays at least until `unlock`, which
/// restores the IRQL that the lock was taken at.
#[allow(unsafe_code, reason = "guards of such a lock prove the IRQL")]
pub unsafe trait RawSpinLock: lock_api::RawMutex<GuardMarker = lock_api::GuardNoSend> + Send + Sync {}

/// The services of a kernel. One implementation for each place the device runs in.
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

    /// Its TCP; [`NoSockets`] if it has none.
    type Sockets: Sockets;

    /// Non-paged, zeroed memory, or `None`. IRQL <= DISPATCH. `layout.size()` is not 0.
    ///
    /// Callers on the way from the driver to here are `#[track_caller]`: a platform that keeps a ledger names who asked.
    #[track_caller]
    fn allocate(layout: Layout) -> Option<NonNull<u8>>;

    /// Frees what [`Platform::allocate`] gave. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `memory` came from `allocate(layout)` and is not used again.
    unsafe fn free(memory: NonNull<u8>, layout: Layout);

    /// The current IRQL.
    fn irql() -> u8;

    /// Checks the claim of a context token that the thread is at `level`: debug builds panic if it is not. A platform may
    /// note it instead.
    fn claim_irql(level: u8) {
        debug_assert!(Self::irql() == level, "a context token for another IRQL");
    }

    /// A new, uninitialised DPC: all-zero storage.
    fn new_dpc() -> Self::Dpc;

    /// Prepares a DPC for use. IRQL: any.
    ///
    /// # Safety
    /// `dpc` stays at its address, and is not initialised again, until it is freed; it is not queued.
    unsafe fn initialize_dpc(dpc: *mut Self::Dpc, routine: DpcRoutine, context: *mut c_void);

    /// Queues a DPC: its routine will run once at `DISPATCH_LEVEL`, on any processor. When a processor has run [`RUNS_IN_A_ROW`], and
    /// more are queued, its threads have their turn: a system thread, which raises the IRQL for each, calls the routines of the others.
    ///
    /// # Safety
    /// `dpc` was initialised, and is not queued; it and its context stay valid until the routine has been entered.
    unsafe fn queue_dpc(dpc: *mut Self::Dpc);

    /// A new, uninitialised timer: all-zero storage.
    fn new_timer() -> Self::Timer;

    /// Prepares a timer for use. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `timer` stays at its address, and is not initialised again, until it is freed; it is not set.
    unsafe fn initialize_timer(timer: *mut Self::Timer, routine: DpcRoutine, context: *mut c_void);

    /// Has the routine run once at `DISPATCH_LEVEL` when `microseconds` are over, or up to [`Platform::timer_granularity`]
    /// later. IRQL <= DISPATCH; spin locks may be held.
    ///
    /// # Safety
    /// `timer` was initialised, and is not set; it and its context stay valid until the routine has been entered or
    /// [`Platform::cancel_timer`] has returned `true`.
    unsafe fn set_timer(timer: *mut Self::Timer, microseconds: u32);

    /// Takes a set timer back. `true`: its routine will not run. `false`: it was entered, or will be. IRQL <= DISPATCH; spin
    /// locks may be held.
    ///
    /// # Safety
    /// `timer` was initialised and is valid during the call.
    unsafe fn cancel_timer(timer: *mut Self::Timer) -> bool;

    /// How much later than asked for a timer may expire, in microseconds: the time between two ticks of the clock.
    fn timer_granularity() -> u32;

    /// A new, uninitialised event: all-zero storage.
    fn new_event() -> Self::Event;

    /// Prepares a notification event, not signalled.
    ///
    /// # Safety
    /// `event` stays at its address until it is freed, and nothing waits on it.
    unsafe fn initialize_event(event: *mut Self::Event);

    /// Signals an event. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `event` was initialised and stays valid until this call has returned.
    unsafe fn set_event(event: *mut Self::Event);

    /// Waits, without end, until an event is signalled.
    ///
    /// # Safety
    /// `event` was initialised and stays valid during the wait.
    unsafe fn wait_event(event: *mut Self::Event, passive: &Passive<'_>);

    /// The system address of the pages that one MDL (not its chain) describes, mapped if they are not yet; `None` if the
    /// mapping fails. IRQL <= DISPATCH. The mapping lasts until the pages are unlocked by their owner.
    /// `MmGetSystemAddressForMdlSafe`, wdm.h.
    ///
    /// # Safety
    /// `mdl` is a valid MDL whose pages are locked or non-paged.
    unsafe fn mdl_system_address(mdl: *mut c_void) -> Option<NonNull<u8>>;

    /// Tells whoever traces the driver that something has happened. IRQL: any; locks may be held. By default nobody does.
    fn notice(_notice: &Notice) {}

    /// Whether somebody wants the notices of data, which come with each request. No more than a load: every post asks. IRQL: any.
    fn notices_data() -> bool;
}
