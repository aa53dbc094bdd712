//! DPCs, events and the watchdog: right use works, each wrong one is caught.
#![expect(unsafe_code, reason = "raw DPCs and events")]

use std::{
    ffi::c_void,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use platform::{APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL, Platform};
use simkernel::{Breach, Dpc, Event, PROCESSOR_COUNT, SimKernel, at_dispatch, at_irql, boot, passive, watchdog};

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

    fn queue(&self) {
        // SAFETY: as above; that it is queued already is seen by the simulated kernel.
        unsafe { SimKernel::queue_dpc(self.dpc()) };
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

/// An address for another thread.
struct SharedMemory<T>(*mut T);

// SAFETY: the tests use it as the platform documents, or rely on its checks.
unsafe impl<T> Sync for SharedMemory<T> {}

impl<T> SharedMemory<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Keeps all processors busy, so that what is queued stays queued.
#[derive(Default)]
struct Occupied {
    running: AtomicU32,
    leave: AtomicBool,
}

impl Occupied {
    /// Calls `code` meanwhile.
    fn with<R>(code: impl FnOnce() -> R) -> R {
        let occupied = Self::default();
        let dpcs: Vec<_> =
            (0..PROCESSOR_COUNT).map(|_| SharedMemory(Box::into_raw(Box::new(Dpc::default())))).collect();
        for dpc in &dpcs {
            // SAFETY: boxed, and freed below.
            unsafe { SimKernel::initialize_dpc(dpc.get(), occupy, ptr::from_ref(&occupied).cast_mut().cast()) };
            // SAFETY: as above, after its routine has been entered.
            unsafe { SimKernel::queue_dpc(dpc.get()) };
        }
        while occupied.running.load(Ordering::Acquire) != dpcs.len() as u32 {
            thread::yield_now();
        }
        let result = code();
        occupied.leave.store(true, Ordering::Release);
        while occupied.running.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: made by Box::into_raw, and not queued.
        dpcs.iter().for_each(|dpc| drop(unsafe { Box::from_raw(dpc.get()) }));
        result
    }
}

/// SAFETY: `context` is an `Occupied`.
unsafe extern "C" fn occupy(context: *mut c_void) {
    // SAFETY: by contract.
    let occupied = unsafe { &*context.cast::<Occupied>() };
    occupied.running.fetch_add(1, Ordering::AcqRel);
    while !occupied.leave.load(Ordering::Acquire) {
        thread::yield_now();
    }
    occupied.running.fetch_sub(1, Ordering::AcqRel);
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
        counting.queue();
        kernel.flush_dpcs();
        assert_eq!(counting.count(), round);
    }
}

#[test]
fn queueing_a_queued_dpc_is_caught() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(count);
    Occupied::with(|| {
        counting.queue();
        counting.queue();
    });
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| *breach == Breach::QueuedTwice(counting.dpc().addr())), "{ledger}");
    assert_eq!(counting.count(), 1);
}

#[test]
fn a_dpc_that_keeps_a_lock_is_caught() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(keep_a_lock);
    counting.queue();
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockStillHeld(_))), "{ledger}");
    assert!(ledger.violations.first().unwrap().thread.starts_with("processor"), "{ledger}");
}

#[test]
fn use_before_initialisation_is_caught() {
    let kernel = boot();
    Counting::new().queue();
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
    let runs = AtomicU32::new(0);
    let dpc = SimKernel::allocate(layout).unwrap();
    // SAFETY: memory for a DPC, zeroed.
    unsafe { SimKernel::initialize_dpc(dpc.cast().as_ptr(), count, ptr::from_ref(&runs).cast_mut().cast()) };
    Occupied::with(|| {
        // SAFETY: initialised. That it is freed is what the test is about; the simulated kernel takes it out of the queue.
        unsafe { SimKernel::queue_dpc(dpc.cast().as_ptr()) };
        // SAFETY: allocated above.
        unsafe { SimKernel::free(dpc, layout) };
    });
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| *breach == Breach::FreedQueuedDpc(dpc.addr().get())));
    assert_eq!(runs.into_inner(), 0);
}

#[test]
fn initialising_a_queued_dpc_is_caught() {
    let kernel = boot();
    let counting = Counting::new();
    counting.initialize(count);
    Occupied::with(|| {
        counting.queue();
        counting.initialize(count);
    });
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| *breach == Breach::InitializedInUse(counting.dpc().addr())));
    assert_eq!(counting.count(), 1);
}

#[test]
fn misusing_a_waited_for_event_is_caught() {
    let kernel = boot();
    let layout = std::alloc::Layout::new::<Event>();
    let memory = SimKernel::allocate(layout).unwrap();
    let address = memory.addr().get();
    let event = SharedMemory(memory.cast::<Event>().as_ptr());
    // SAFETY: memory for an event.
    unsafe { SimKernel::initialize_event(event.get()) };
    thread::scope(|scope| {
        // SAFETY: initialised, and the simulated kernel keeps freed memory for a while.
        scope.spawn(|| unsafe { SimKernel::wait_event(event.get(), &passive()) });
        while kernel.ledger().waiting.is_empty() {
            thread::yield_now();
        }
        // SAFETY: that it is in use is what the test is about.
        unsafe { SimKernel::initialize_event(event.get()) };
        // SAFETY: as above.
        unsafe { SimKernel::free(memory, layout) };
        // SAFETY: as above; it releases the thread.
        unsafe { SimKernel::set_event(event.get()) };
    });
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| *breach == Breach::InitializedInUse(address)), "{ledger}");
    assert!(ledger.broke(|breach| *breach == Breach::FreedWhileWaiting(address)), "{ledger}");
    assert!(ledger.broke(|breach| matches!(breach, Breach::UseAfterFree(_))), "{ledger}");
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
fn the_watchdog_aborts_what_does_not_wait_in_the_kernel() {
    const STALL: &str = "SIMKERNEL_TEST_STALL";
    if std::env::var_os(STALL).is_some() {
        let _kernel = boot();
        let lock = SpinLock::new(());
        let _held = lock.lock();
        watchdog(Duration::from_millis(10), || thread::sleep(LIMIT));
        return;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "the_watchdog_aborts_what_does_not_wait_in_the_kernel"]).env(STALL, "1");
    let output = again.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), None, "{errors}");
    assert!(errors.contains("Outstanding:") && errors.contains("holds spin lock"), "{errors}");
    assert!(errors.contains("stalled outside of the simulated kernel"), "{errors}");
}

/// What the watchdog prints.
#[test]
fn the_ledger_says_what_is_outstanding() {
    let kernel = boot();
    let event: SharedEvent = platform::Event::new().unwrap();
    let lock = platform::Arc::<_, SimKernel>::try_new(SpinLock::new(())).unwrap();
    let _pages = simkernel::Pages::new(3);
    let counting = Counting::new();
    counting.initialize(count);
    let seen = Occupied::with(|| {
        counting.queue();
        let guard = lock.lock();
        thread::scope(|scope| {
            let name = |name: &str| thread::Builder::new().name(name.to_owned());
            name("the waiter").spawn_scoped(scope, || event.wait(&passive())).unwrap();
            name("the spinner").spawn_scoped(scope, || drop(lock.lock())).unwrap();
            while kernel.ledger().waiting.len() < 2 {
                thread::yield_now();
            }
            let seen = kernel.ledger().to_string();
            event.set();
            drop(guard);
            seen
        })
    });
    // The names of functions come from the program's file, which a build may have replaced meanwhile.
    let named = std::env::current_exe().is_ok_and(|file| file.exists());
    let name = |what: &str, name: &str| format!("{what}: {}", if named { name } else { "0x" });
    for expected in [
        &name("running DPC on processor 0", "occupy (waiting.rs:"),
        &name("running DPC on processor 3", "occupy (waiting.rs:"),
        &name("queued DPC", "count (waiting.rs:"),
        "live: Pool, 1 of ",
        "live: Pages, 1 of 12288 bytes from tests/kernels/simkernel/tests/waiting.rs:",
        "the_ledger_says_what_is_outstanding holds spin lock 0x",
        "(#2+0x10) since tests/kernels/simkernel/tests/waiting.rs:",
        "thread the waiter waits for event 0x",
        "thread the spinner waits for spin lock 0x",
        "allocations: 3 of 3 live",
    ] {
        assert!(seen.contains(expected), "{expected:?} is not in\n{seen}");
    }
    let after = kernel.ledger();
    kernel.flush_dpcs();
    assert!(after.held_locks.is_empty() && after.waiting.is_empty(), "{after}");
    assert!(kernel.ledger().dpcs.is_empty());
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
