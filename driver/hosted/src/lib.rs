//! [`Hosted`]: the [`Platform`] of an ordinary process of Linux or Windows, over the standard library.
//!
//! A program neither starts the platform nor registers threads. `Hosted` checks nothing: the simulated kernel checks
//! leaks, IRQL and lock order.
//!
//! * A thread is a processor. As on Windows, a DPC runs on the processor that queued it, in order of queueing, as soon
//!   as the IRQL is below `DISPATCH_LEVEL`: at once on a thread below that level, else at the end of the outermost
//!   lock, DPC or [`at_dispatch`].
//! * DPCs of timers run on one system thread, which starts when it is first needed. When a thread has run 64 DPCs in a
//!   row, the system thread runs the rest of that thread's queue.
//! * [`Tcp`]: the sockets of the host (`tcp/mod.rs`).
//! * [`passive`] and [`at_dispatch`] make the IRQL tokens; [`Mdl::lock`] describes any memory of the process.
#![expect(unsafe_code, reason = "implements the unsafe trait Platform: kernel objects live behind raw pointers")]
// On windows-gnu thread-locals use keys, and clippy does not see that their initial values are constants.
#![allow(clippy::missing_const_for_thread_local, reason = "they are")]

mod dpc;
mod event;
mod lock;
mod mdl;
mod processor;
mod system_thread;
mod tcp;

use std::{
    alloc::Layout,
    ffi::c_void,
    hint::black_box,
    io::{self, Write as _},
    ptr::NonNull,
};

use ndk_abi::{
    status::NTSTATUS,
    wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA},
};
use platform::{Addresses, DISPATCH_LEVEL, Dispatch, DpcRoutine, Notice, PASSIVE_LEVEL, Passive, Platform};

pub use dpc::Dpc;
pub use event::Event;
pub use lock::RawSpinLock;
pub use mdl::Mdl;
pub use system_thread::Timer;
pub use tcp::{Socket, Tcp, serve_until, share_memory, wake_leader};

/// The process as the device's kernel.
#[derive(Debug)]
pub enum Hosted {}

// SAFETY: memory is std's, zeroed and of the requested layout; one thread at a time holds a spin lock; DPCs and events
// are used only as the trait documents.
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

    fn system_time() -> u64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        since_1970.as_nanos() as u64 / 100 + 116_444_736_000_000_000
    }

    /// There is no trace: a fault that a rule has caused is told on standard error.
    #[inline]
    fn notice(notice: &Notice) {
        if let Notice::Fault { rule, addresses, queue_pair, status } = *notice {
            tell_fault(rule, addresses, queue_pair, status);
        }
    }

    /// There are no data notices. `black_box` hides the constant, so that benchmarks measure the check that the driver has.
    #[inline]
    fn notices_data() -> bool {
        black_box(false)
    }

    fn new_dpc() -> Dpc {
        Dpc::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, and not in use yet, by contract.
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
        // SAFETY: the caller's timer is valid; all code uses it by shared reference.
        let timer = unsafe { &*timer };
        timer.dpc().initialize(routine, context);
    }

    unsafe fn set_timer(timer: *mut Timer, microseconds: u32) {
        // SAFETY: the caller's pointer is valid, so not null.
        let timer = unsafe { NonNull::new_unchecked(timer) };
        // SAFETY: the caller keeps the timer valid until its routine is entered or it is cancelled.
        unsafe { system_thread::set(timer, microseconds) };
    }

    unsafe fn cancel_timer(timer: *mut Timer) -> bool {
        // SAFETY: valid during the call, by contract; all code uses the timer by shared reference.
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
        // SAFETY: the caller's event is valid; all code uses it by shared reference.
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
        // SAFETY: a valid MDL, by contract.
        NonNull::new(unsafe { (*mdl).MappedSystemVa }.cast())
    }
}

#[cold]
fn tell_fault(rule: u32, addresses: Addresses, queue_pair: Option<u32>, status: u32) {
    let status = if status == 0 { String::new() } else { format!(" with {}", NTSTATUS::from_u32(status)) };
    let addresses = [(" from ", addresses.local), (" to ", addresses.remote)];
    let addresses =
        addresses.map(|(word, address)| address.map_or(String::new(), |address| format!("{word}{address}")));
    let queue_pair = queue_pair.map_or(String::new(), |number| format!(" of queue pair {number}"));
    // A process whose standard error is closed is not told.
    let _untold =
        writeln!(io::stderr(), "SoftNDK: fault rule {rule} has fired{status}{queue_pair}{}", addresses.concat());
}

/// Runs `code` at `DISPATCH_LEVEL`. DPCs that `code` queues run after it, if the IRQL then drops below that level.
pub fn at_dispatch<R>(code: impl FnOnce(&Dispatch<'_>) -> R) -> R {
    let _restore = processor::Raised::to_dispatch();
    debug_assert!(processor::irql() == DISPATCH_LEVEL);
    // SAFETY: just raised, until `_restore` is dropped.
    let dispatch = unsafe { Dispatch::assume::<Hosted>() };
    code(&dispatch)
}

/// Proof that the thread runs at `PASSIVE_LEVEL`; all threads start there.
///
/// # Panics
/// If the thread is at another level.
pub fn passive() -> Passive<'static> {
    assert_eq!(processor::irql(), PASSIVE_LEVEL, "not at PASSIVE_LEVEL");
    // SAFETY: just checked. A thread that later raises the IRQL and waits nevertheless breaks a rule, but not memory
    // safety: a wait here is a wait for a condition variable.
    unsafe { Passive::assume::<Hosted>() }
}
