//! The simulated kernel without its checks, for benchmarks: what it costs is what a kernel's own primitives cost.
//!
//! [`Unchecked`] is a [`Platform`] beside [`crate::SimKernel`]; the code under test chooses between them by type. It needs no
//! session and no registration of threads. There is no ledger: leaks, IRQL and lock order are for `SimKernel` to check.
//!
//! * A thread is a processor. DPCs run as on Windows: a DPC runs on the processor that queued it, in the order of queueing,
//!   as soon as the IRQL drops below `DISPATCH_LEVEL`: at once if it is lower already, else at the end of the outermost lock,
//!   DPC or [`at_dispatch`].
//! * DPCs in turn, and those of timers, run on one system thread.
//! * [`passive`] and [`at_dispatch`] mint the tokens; [`crate::Mdl::lock`] describes any memory.
#![expect(unsafe_code, reason = "implements the unsafe trait Platform: kernel objects live behind raw pointers")]

mod lock;
mod processor;
mod system_thread;

use std::{alloc::Layout, ffi::c_void, ptr::NonNull};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA};
use platform::{DISPATCH_LEVEL, Dispatch, DpcRoutine, NoSockets, PASSIVE_LEVEL, Passive, Platform};

use crate::{
    event::Event,
    mdl,
    timers::{self, Timer},
};

pub use lock::RawSpinLock;
pub use processor::Dpc;

/// The simulated kernel without its checks.
#[derive(Debug)]
pub enum Unchecked {}

// SAFETY: memory is std's, zeroed and of the layout asked for; the spin lock excludes; DPCs and events are touched as
// the trait documents only.
unsafe impl Platform for Unchecked {
    type RawSpinLock = RawSpinLock;
    type Dpc = Dpc;
    type Event = Event;
    type Timer = Timer<Dpc>;
    type Sockets = NoSockets;

    fn allocate(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0, by contract.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        // SAFETY: allocated with this layout, and not used again, by contract.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }

    fn irql() -> u8 {
        processor::irql()
    }

    fn new_dpc() -> Dpc {
        Dpc::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, and nobody else uses it yet, by contract.
        let dpc = unsafe { &*dpc };
        dpc.initialize(routine, context);
    }

    unsafe fn queue_dpc(dpc: *mut Dpc) -> bool {
        // SAFETY: initialised, and valid until its routine is entered, by contract.
        unsafe { processor::queue(dpc) }
    }

    unsafe fn queue_dpc_in_turn(dpc: *mut Dpc) {
        // SAFETY: the same.
        unsafe { system_thread::queue(dpc) };
    }

    fn new_timer() -> Self::Timer {
        Timer::default()
    }

    unsafe fn initialize_timer(timer: *mut Self::Timer, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: the caller's timer is valid; it has no unshared parts.
        let timer = unsafe { &*timer };
        timer.dpc().initialize(routine, context);
    }

    unsafe fn set_timer(timer: *mut Self::Timer, microseconds: u32) {
        // SAFETY: the caller's pointer is valid, so not null.
        let timer = unsafe { NonNull::new_unchecked(timer) };
        let queue = |dpc: NonNull<Dpc>| {
            // SAFETY: called once, when the timer expires: valid until its routine is entered.
            unsafe { system_thread::queue(dpc.as_ptr()) };
        };
        // SAFETY: the caller keeps it valid until its routine is entered or it is cancelled.
        unsafe { timers::set(timer, microseconds, queue) };
    }

    unsafe fn cancel_timer(timer: *mut Self::Timer) -> bool {
        // SAFETY: valid during the call, by contract; it has no unshared parts.
        let timer = unsafe { &*timer };
        timers::cancel(timer)
    }

    fn timer_granularity() -> u32 {
        0
    }

    fn new_event() -> Event {
        Event::default()
    }

    unsafe fn initialize_event(event: *mut Event) {
        // SAFETY: the caller's event is valid; it has no unshared parts.
        let event = unsafe { &*event };
        event.initialize();
    }

    unsafe fn set_event(event: *mut Event) {
        // SAFETY: the caller keeps the event valid during the call.
        let event = unsafe { &*event };
        event.set();
    }

    unsafe fn wait_event(event: *mut Event, _: &Passive<'_>) {
        // SAFETY: the caller keeps the event valid during the wait.
        let event = unsafe { &*event };
        event.wait();
    }

    unsafe fn mdl_system_address(mdl: *mut c_void) -> Option<NonNull<u8>> {
        let mdl = NonNull::new(mdl.cast::<MDL>())?;
        // SAFETY: a valid MDL, by contract.
        let flags = unsafe { (*mdl.as_ptr()).MdlFlags };
        if flags & MDL_MAPPED_TO_SYSTEM_VA == 0 {
            return mdl::map(mdl);
        }
        // SAFETY: a valid MDL, by contract.
        NonNull::new(unsafe { (*mdl.as_ptr()).MappedSystemVa }.cast())
    }
}

/// Runs `code` at `DISPATCH_LEVEL`. The DPCs that it queues run at its end, if the thread goes below that level then.
pub fn at_dispatch<R>(code: impl FnOnce(&Dispatch<'_>) -> R) -> R {
    let _restore = processor::Raised::to_dispatch();
    debug_assert!(processor::irql() == DISPATCH_LEVEL);
    // SAFETY: just raised, until `_restore` goes.
    let dispatch = unsafe { Dispatch::assume::<Unchecked>() };
    code(&dispatch)
}

/// Proof that the thread runs at `PASSIVE_LEVEL`; all threads start there.
///
/// # Panics
/// If it does not.
pub fn passive() -> Passive<'static> {
    assert_eq!(processor::irql(), PASSIVE_LEVEL, "not at PASSIVE_LEVEL");
    // SAFETY: just checked. A thread that raises the IRQL later and waits nevertheless breaks a rule, not memory: a wait
    // here is a condition variable's.
    unsafe { Passive::assume::<Unchecked>() }
}
