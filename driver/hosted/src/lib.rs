//! An ordinary process of Linux or Windows as the kernel of the device: a [`Platform`] over the standard library.
//!
//! It needs no start and no registration of threads. Nothing is checked: leaks, IRQL and lock order are for the simulated kernel.
//!
//! * A thread is a processor. DPCs run as on Windows: a DPC runs on the processor that queued it, in the order of queueing,
//!   as soon as the IRQL drops below `DISPATCH_LEVEL`: at once if it is lower already, else at the end of the outermost lock,
//!   DPC or [`at_dispatch`].
//! * DPCs of timers run on one system thread, which begins with the first of them. When a thread has run 64
//!   DPCs in a row, the system thread runs the others of its queue.
//! * [`Tcp`] is the host's, see there.
//! * [`passive`] and [`at_dispatch`] mint the tokens; [`Mdl::lock`] describes any memory.
#![expect(unsafe_code, reason = "implements the unsafe trait Platform: kernel objects live behind raw pointers")]
// With keys instead of thread-locals of the linker (windows-gnu) clippy does not see that they are constants.
#![allow(clippy::missing_const_for_thread_local, reason = "they are")]

mod dpc;
mod event;
mod lock;
mod mdl;
mod processor;
mod system_thread;
mod tcp;

use std::{alloc::Layout, ffi::c_void, hint::black_box, ptr::NonNull};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA};
use platform::{DISPATCH_LEVEL, Dispatch, DpcRoutine, PASSIVE_LEVEL, Passive, Platform};

pub use dpc::Dpc;
pub use event::Event;
pub use lock::RawSpinLock;
pub use mdl::Mdl;
pub use system_thread::Timer;
pub use tcp::{Socket, Tcp};

/// The process as a kernel.
#[derive(Debug)]
pub enum Hosted {}

// SAFETY: memory is std's, zeroed and of the layout asked for; the spin lock excludes; DPCs and events are touched as
// the trait documents only.
unsafe impl Platform for Hosted {
    type RawSpinLock = RawSpinLock;
    type Dpc = Dpc;
    type Event = Event;
    type Timer = Timer;
    type Sockets = Tcp;

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

    /// Nobody does. The compiler is not to know: the driver has to look, and the benchmarks have that in their figures.
    #[inline]
    fn notices_data() -> bool {
        black_box(false)
    }

    fn new_dpc() -> Dpc {
        Dpc::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, and nobody else uses it yet, by contract.
        let dpc = unsafe { &*dpc };
        dpc.initialize(routine, context);
    }

    unsafe fn queue_dpc(dpc: *mut Dpc) {
        // SAFETY: initialised, not queued, and valid until its routine is entered, by contract.
        unsafe { processor::queue(dpc) };
    }

    fn new_timer() -> Timer {
        Timer::default()
    }

    unsafe fn initialize_timer(timer: *mut Timer, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: the caller's timer is valid; it has no unshared parts.
        let timer = unsafe { &*timer };
        timer.dpc().initialize(routine, context);
    }

    unsafe fn set_timer(timer: *mut Timer, microseconds: u32) {
        // SAFETY: the caller's pointer is valid, so not null.
        let timer = unsafe { NonNull::new_unchecked(timer) };
        // SAFETY: the caller keeps it valid until its routine is entered or it is cancelled.
        unsafe { system_thread::set(timer, microseconds) };
    }

    unsafe fn cancel_timer(timer: *mut Timer) -> bool {
        // SAFETY: valid during the call, by contract; it has no unshared parts.
        let timer = unsafe { &*timer };
        system_thread::cancel(timer)
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
        let mdl = mdl.cast::<MDL>();
        // SAFETY: a valid MDL, by contract.
        let flags = unsafe { (*mdl).MdlFlags };
        if flags & MDL_MAPPED_TO_SYSTEM_VA == 0 {
            return None;
        }
        // SAFETY: the same.
        NonNull::new(unsafe { (*mdl).MappedSystemVa }.cast())
    }
}

/// Runs `code` at `DISPATCH_LEVEL`. The DPCs that it queues run at its end, if the thread goes below that level then.
pub fn at_dispatch<R>(code: impl FnOnce(&Dispatch<'_>) -> R) -> R {
    let _restore = processor::Raised::to_dispatch();
    debug_assert!(processor::irql() == DISPATCH_LEVEL);
    // SAFETY: just raised, until `_restore` goes.
    let dispatch = unsafe { Dispatch::assume::<Hosted>() };
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
    unsafe { Passive::assume::<Hosted>() }
}
