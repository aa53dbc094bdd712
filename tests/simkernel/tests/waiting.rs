//! DPCs, events and the watchdog: right use works, each wrong one is caught.
#![expect(unsafe_code, reason = "raw DPCs and events")]

use std::{
    ffi::c_void,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use platform::{APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL, Platform};
use simkernel::{Breach, Dpc, Event, SimKernel, at_dispatch, at_irql, boot, passive, watchdog};

const LIMIT: Duration = Duration::from_secs(10);

type SpinLock<T> = platform::SpinLock<T, SimKernel>;
type SharedEvent = platform::Arc<platform::Event<SimKernel>, SimKernel>;

/// A DPC whose routine counts.
struct Counting {
    dpc: Dpc,
    count: AtomicU32,
}

impl Counting {
    fn new() -> Box<Self> {
        Box::new(Self { dpc: Dpc::default(), count: AtomicU32::new(0) })
    }

    fn dpc(&self) -> *mut Dpc {
        ptr::from_ref(&self.dpc).cast_mut()
    }

    fn initialize(&self, routine: platform::DpcRoutine) {
        let context = ptr::from_ref(&self.count).cast_mut().cast();
        // SAFETY: the DPC is boxed, and outlives the session's flush in each test.
        unsafe { SimKernel::initialize_dpc(self.dpc(), routine, context) };
    }

    fn queue(&self) -> bool {
        // SAFETY: as above.
        unsafe { SimKernel::queue_dpc(self.dpc()) }
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// SAFETY: `context` is the count of a `Counting`.
unsafe extern "C" fn count(context: *mut c_void) {
    // SAFETY: by contract.
    let count = unsafe { &*context.cast::<AtomicU32>() };
    assert_eq!(SimKernel::irql(), DISPATCH_LEVEL);
    count.fetch_add(1, Ordering::Relaxed);
}

static TRAP: SpinLock<()> = SpinLock::new(());

unsafe extern "C" fn keep_a_lock(_: *mut c_void) {
    let _never_dropped = ManuallyDrop::new(TRAP.lock());
}

#[test]
fn a_dpc_runs_once_for_each_queueing() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(count);
    for round in 1..=100 {
        assert!(counting.queue());
        kernel.flush_dpcs();
        assert_eq!(counting.count(), round);
    }
}

#[test]
fn a_queued_dpc_is_not_queued_again() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(count);
    let queued = (0..10_000).filter(|_| counting.queue()).count();
    kernel.flush_dpcs();
    assert_eq!(counting.count() as usize, queued);
}

#[test]
fn a_dpc_that_keeps_a_lock_is_caught() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(keep_a_lock);
    assert!(counting.queue());
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockStillHeld(_))), "{ledger}");
    assert!(ledger.violations.first().unwrap().thread.starts_with("processor"), "{ledger}");
}

#[test]
fn use_before_initialisation_is_caught() {
    let kernel = boot();
    assert!(!Counting::new().queue());
    let mut event = Event::default();
    // SAFETY: not initialised, which is what the test is about; the simulated kernel sees it.
    unsafe { SimKernel::set_event(&raw mut event) };
    let ledger = kernel.finish();
    assert_eq!(ledger.violations.len(), 2, "{ledger}");
    assert!(ledger.violations.iter().all(|violation| matches!(violation.breach, Breach::Uninitialized(_))));
}

#[test]
fn freeing_a_queued_dpc_is_caught() {
    let kernel = boot();
    let layout = std::alloc::Layout::new::<Dpc>();
    let count_of_runs = AtomicU32::new(0);
    let context: *mut c_void = ptr::from_ref(&count_of_runs).cast_mut().cast();
    // The DPCs may run before they are freed, so until it happens.
    let caught = (0..10_000).any(|_| {
        let dpc = SimKernel::allocate(layout).unwrap();
        // SAFETY: memory for a DPC, zeroed.
        unsafe { SimKernel::initialize_dpc(dpc.cast().as_ptr(), count, context) };
        // SAFETY: initialised. That it is freed is what the test is about; the simulated kernel takes it out of the queue.
        unsafe { SimKernel::queue_dpc(dpc.cast().as_ptr()) };
        // SAFETY: allocated above.
        unsafe { SimKernel::free(dpc, layout) };
        kernel.ledger().broke(|breach| *breach == Breach::FreedQueuedDpc(dpc.addr().get()))
    });
    assert!(caught);
    drop(kernel.finish());
}

#[test]
fn an_event_releases_its_waiters() {
    let _kernel = boot();
    let event = platform::Event::<SimKernel>::new().unwrap();
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| event.wait(&passive()))).collect();
            thread::sleep(Duration::from_millis(20));
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
            at_dispatch(|_| event.set());
        });
        event.wait(&passive());
    });
}

#[test]
fn waiting_above_apc_level_is_caught() {
    let kernel = boot();
    let event = platform::Event::<SimKernel>::new().unwrap();
    event.set();
    let token = passive();
    at_irql(APC_LEVEL, || event.wait(&token));
    assert!(kernel.ledger().violations.is_empty());
    at_irql(DISPATCH_LEVEL, || event.wait(&token));
    drop(event);
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::IrqlTooHigh { call: "waiting", .. })));
}

#[test]
fn passive_code_needs_passive_level() {
    let _kernel = boot();
    assert!(catch_unwind(|| at_irql(APC_LEVEL, || _ = passive())).is_err());
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL);
}

#[test]
fn the_watchdog_leaves_good_code_alone() {
    let _kernel = boot();
    assert_eq!(watchdog(LIMIT, || 42), 42);
}

#[test]
fn the_watchdog_ends_a_wait() {
    let _kernel = boot();
    let event: SharedEvent = platform::Event::new().unwrap();
    let stalled = catch_unwind(AssertUnwindSafe(|| watchdog(Duration::from_millis(50), || event.wait(&passive()))));
    let message = *stalled.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("stalled"), "{message}");
}

#[test]
fn the_watchdog_ends_a_deadlock() {
    let _kernel = boot();
    let lock = SpinLock::new(());
    let stalled = thread::scope(|scope| {
        let guard = lock.lock();
        let waiter = scope.spawn(|| watchdog(Duration::from_millis(200), || drop(lock.lock())));
        let stalled = waiter.join().is_err();
        drop(guard);
        stalled
    });
    assert!(stalled);
}

#[test]
fn waiting_threads_are_in_the_ledger() {
    let kernel = boot();
    let event: SharedEvent = platform::Event::new().unwrap();
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            let named = thread::Builder::new().name("the waiter".into());
            named.spawn_scoped(scope, || event.wait(&passive())).unwrap();
            while !kernel.ledger().to_string().contains("the waiter waits for event") {
                thread::yield_now();
            }
            event.set();
        });
    });
    assert!(kernel.ledger().waiting.is_empty());
}
