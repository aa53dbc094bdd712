//! Deferred calls: never lost, never twice at once, and they keep their object.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use platform::{Arc, DISPATCH_LEVEL, Deferred, Dispatch, Platform, RunDeferred};
use simkernel::{SimKernel, boot, watchdog};

const LIMIT: Duration = Duration::from_secs(60);

/// Copies what is asked for to what is done, when it runs.
#[derive(Default)]
struct Worker {
    deferred: Deferred<SimKernel>,
    asked: AtomicU64,
    done: AtomicU64,
    runs: AtomicU64,
    running: AtomicBool,
    overlaps: AtomicUsize,
    /// How often a run schedules itself again.
    again: AtomicU64,
    /// The IRQL of the last run.
    irql: AtomicU64,
}

impl RunDeferred<SimKernel> for Worker {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        if this.running.swap(true, Ordering::AcqRel) {
            this.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        // Relaxed on purpose: `schedule` has to order what was asked before with the run that follows.
        this.done.store(this.asked.load(Ordering::Relaxed), Ordering::Relaxed);
        this.runs.fetch_add(1, Ordering::Relaxed);
        this.irql.store(SimKernel::irql().into(), Ordering::Relaxed);
        if this.again.load(Ordering::Relaxed) != 0 {
            this.again.fetch_sub(1, Ordering::Relaxed);
            Deferred::schedule(this);
        }
        this.running.store(false, Ordering::Release);
    }
}

impl Worker {
    fn new() -> Arc<Self, SimKernel> {
        let worker = Arc::try_new(Self::default()).unwrap();
        Deferred::initialize(&worker);
        worker
    }

    fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

#[test]
fn schedule_runs_once_at_dispatch_level() {
    let kernel = boot();
    let worker = Worker::new();
    worker.irql.store(99, Ordering::Relaxed);
    Deferred::schedule(&worker);
    kernel.flush_dpcs();
    assert_eq!((worker.runs(), worker.irql.load(Ordering::Relaxed)), (1, DISPATCH_LEVEL.into()));
}

#[test]
fn what_a_run_schedules_runs_later() {
    let kernel = boot();
    let worker = Worker::new();
    worker.again.store(5, Ordering::Relaxed);
    Deferred::schedule(&worker);
    kernel.flush_dpcs();
    assert_eq!((worker.runs(), worker.overlaps.load(Ordering::Relaxed)), (6, 0));
}

#[test]
fn a_queued_call_keeps_its_object() {
    let kernel = boot();
    let worker = Worker::new();
    let weak = Arc::downgrade(&worker);
    worker.again.store(1000, Ordering::Relaxed);
    Deferred::schedule(&worker);
    assert!(Arc::into_inner(worker).is_none_or(|worker| worker.runs() == 1001), "alive, or ran to the end");
    kernel.flush_dpcs();
    assert!(weak.upgrade().is_none());
}

/// A request is made right when the run of the one before begins: that run, or one more, must see it.
#[test]
fn a_request_is_never_lost() {
    let kernel = boot();
    let worker = Worker::new();
    watchdog(LIMIT, || {
        for round in 0..40_000_u64 {
            worker.asked.store(2 * round + 1, Ordering::Relaxed);
            Deferred::schedule(&worker);
            for _ in 0..round % 1000 {
                std::hint::spin_loop();
            }
            worker.asked.store(2 * round + 2, Ordering::Relaxed);
            Deferred::schedule(&worker);
            kernel.flush_dpcs();
            assert_eq!(worker.done.load(Ordering::Relaxed), 2 * round + 2, "round {round}");
        }
    });
}

#[test]
fn many_threads_share_a_deferred_call() {
    let kernel = boot();
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 5_000;
    let worker = Worker::new();
    let start = Barrier::new(THREADS as usize);
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (worker, start) = (worker.clone(), &start);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..ROUNDS {
                        worker.asked.fetch_add(1, Ordering::Relaxed);
                        Deferred::schedule(&worker);
                    }
                });
            }
        });
        kernel.flush_dpcs();
    });
    assert_eq!(worker.overlaps.load(Ordering::Relaxed), 0);
    assert_eq!(worker.done.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert!((1..=THREADS * ROUNDS).contains(&worker.runs()), "{} runs", worker.runs());
    assert_eq!(
        Arc::into_inner(worker).map(|worker| worker.overlaps.load(Ordering::Relaxed)),
        Some(0),
        "no reference is left over"
    );
}
