//! The simulated kernel as a platform.
#![expect(unsafe_code, reason = "implements the unsafe trait Platform: kernel objects live behind raw pointers")]

use std::{alloc::Layout, ffi::c_void, ptr::NonNull};

use ndk_abi::wdm::MDL;
use platform::{DISPATCH_LEVEL, DpcRoutine, Notice, Passive, Platform};

use crate::{
    event::Event,
    fault, irql,
    ledger::{self, Purpose},
    lock::RawSpinLock,
    mdl,
    network::Network,
    notices, pool,
    processors::{self, Dpc},
    schedule,
    timers::{self, Timer},
    violation::Breach,
};

/// The simulated kernel. Its functions want a session: see [`crate::boot`].
#[derive(Debug)]
pub enum SimKernel {}

// SAFETY: memory is std's, zeroed and of the layout asked for; the spin lock excludes; DPCs and events are touched as
// the trait documents only.
unsafe impl Platform for SimKernel {
    type RawSpinLock = RawSpinLock;
    type Dpc = Dpc;
    type Event = Event;
    type Timer = Timer;
    type Sockets = Network;

    fn allocate(layout: Layout) -> Option<NonNull<u8>> {
        irql::require("allocating", DISPATCH_LEVEL);
        if layout.size() == 0 {
            ledger::breach(Breach::EmptyAllocation);
            return None;
        }
        schedule::occasion("allocate", 0);
        if fault::strikes(fault::Point::Allocation) { None } else { pool::allocate(layout, Purpose::Pool) }
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        irql::require("freeing", DISPATCH_LEVEL);
        schedule::occasion("free", memory.addr().get());
        pool::free(memory, layout);
    }

    fn irql() -> u8 {
        irql::current()
    }

    fn claim_irql(level: u8) {
        if irql::current() != level {
            ledger::breach(Breach::FalseClaim { claimed: level });
        }
    }

    fn new_dpc() -> Dpc {
        Dpc::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: the caller's DPC is valid; it has no unshared parts.
        let dpc = unsafe { &*dpc };
        dpc.initialize(routine, context);
    }

    /// Processors are threads here, and threads of the test run beside them: they always have their turn.
    unsafe fn queue_dpc(dpc: *mut Dpc) {
        // SAFETY: the caller's pointer is valid, so not null.
        let dpc = unsafe { NonNull::new_unchecked(dpc) };
        // SAFETY: the caller keeps it valid until the routine is entered.
        if !unsafe { processors::queue(dpc) } {
            ledger::breach(Breach::QueuedTwice(dpc.addr().get()));
        }
        schedule::occasion("queue DPC", dpc.addr().get());
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
        irql::require("setting a timer", DISPATCH_LEVEL);
        // SAFETY: the caller's pointer is valid, so not null.
        let timer = unsafe { NonNull::new_unchecked(timer) };
        // SAFETY: the caller keeps it valid until its routine is entered or it is cancelled.
        unsafe { timers::set(timer, microseconds) };
        schedule::occasion("set timer", timer.addr().get());
    }

    unsafe fn cancel_timer(timer: *mut Self::Timer) -> bool {
        // SAFETY: valid during the call, by contract; it has no unshared parts.
        let timer = unsafe { &*timer };
        schedule::occasion("cancel timer", std::ptr::from_ref(timer).addr());
        timers::cancel(timer)
    }

    fn timer_granularity() -> u32 {
        timers::granularity()
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
        irql::require("mapping an MDL", DISPATCH_LEVEL);
        mdl::map(NonNull::new(mdl.cast::<MDL>())?)
    }

    fn system_time() -> u64 {
        // In 2025; the clock of the timers, which a test may hold.
        const BOOT: u64 = 134_000_000_000_000_000;
        BOOT + timers::now().as_nanos() as u64 / 100
    }

    fn notice(notice: &Notice) {
        notices::add(notice);
    }

    fn notices_data() -> bool {
        notices::wants_data()
    }
}
