//! Seeded sessions: the same seed has the same things happen in the same order, and what is wrong in some order is found.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use platform::{Arc, Deferred, Dispatch, RunDeferred};
use simkernel::{Session, SimKernel, Trace, boot_seeded, lock_paused, passive, pause, scope, seeds};

type SpinLock<T> = platform::SpinLock<T, SimKernel>;
type Event = platform::Event<SimKernel>;

/// Adds what it is told to, later.
struct Adder {
    deferred: Deferred<SimKernel>,
    number: u64,
    order: Arc<SpinLock<Vec<u64>>, SimKernel>,
}

impl RunDeferred<SimKernel> for Adder {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        this.order.lock().push(this.number);
    }
}

/// Threads and DPCs that write down the order they come in.
fn contest() -> Vec<u64> {
    let order = Arc::<_, SimKernel>::try_new(SpinLock::new(Vec::new())).unwrap();
    scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let order = order.clone();
                scope.spawn(move || {
                    for round in 0..4 {
                        let number = 10 * thread + round;
                        let adder = Adder { deferred: Deferred::default(), number: 100 + number, order: order.clone() };
                        let adder = Arc::<_, SimKernel>::try_new(adder).unwrap();
                        Deferred::initialize(&adder);
                        Deferred::schedule(&adder);
                        order.lock().push(number);
                    }
                    thread
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results, [0, 1, 2]);
    });
    while order.lock().len() < 24 {
        pause();
    }
    order.lock().clone()
}

fn play(seed: u64) -> (Vec<u64>, Trace) {
    let kernel = boot_seeded(seed);
    let order = contest();
    kernel.flush_dpcs();
    let trace = kernel.trace().unwrap();
    (order, trace)
}

/// Processors that were woken in a session without a seed, and come too late, leave the DPCs of the next one alone.
#[test]
fn late_processors_stay_out_of_the_next_session() {
    for seed in 0..500 {
        let kernel = simkernel::boot();
        contest();
        kernel.flush_dpcs();
        drop(kernel);
        let kernel = boot_seeded(seed);
        contest();
        kernel.flush_dpcs();
    }
}

#[test]
fn a_seed_replays() {
    let mut orders = Vec::new();
    for seed in 0..20 {
        let (order, trace) = play(seed);
        let again = play(seed);
        assert_eq!(order, again.0, "seed {seed}");
        assert_eq!(trace, again.1, "seed {seed}");
        assert!(trace.count > 100 && trace.steps.len() == trace.count as usize, "{trace}");
        orders.push(order);
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 15, "only {} different orders of 20 seeds", orders.len());
}

/// Adds up without a lock over the whole of it: some orders lose an addition.
fn racy_sum() -> u64 {
    let sum = SpinLock::new(0);
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let read = *sum.lock();
                *sum.lock() = read + 1;
            });
        }
    });
    sum.into_inner()
}

#[test]
fn a_race_is_found_and_replayed() {
    let lost = (0..200).find(|&seed| {
        let _kernel = boot_seeded(seed);
        racy_sum() != 2
    });
    let seed = lost.expect("no seed loses an addition");
    for _ in 0..5 {
        let _kernel = boot_seeded(seed);
        assert_eq!(racy_sum(), 1, "seed {seed} loses it every time");
    }
    let right = (0..200).filter(|&seed| {
        let _kernel = boot_seeded(seed);
        racy_sum() == 2
    });
    assert!(right.count() > 0, "some seeds do not");
}

/// A deferred call without the care of `Deferred`: a request during a run is forgotten.
struct Forgetful {
    deferred: Deferred<SimKernel>,
    asked: SpinLock<u64>,
    done: AtomicU64,
    running: AtomicBool,
}

impl RunDeferred<SimKernel> for Forgetful {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        this.running.store(true, Ordering::SeqCst);
        let asked = *this.asked.lock();
        this.done.store(asked, Ordering::SeqCst);
        drop(this.asked.lock());
        this.running.store(false, Ordering::SeqCst);
    }
}

fn ask_twice(_: &Session) {
    let forgetful = Forgetful {
        deferred: Deferred::default(),
        asked: SpinLock::new(0),
        done: AtomicU64::new(0),
        running: AtomicBool::new(false),
    };
    let forgetful = Arc::<_, SimKernel>::try_new(forgetful).unwrap();
    Deferred::initialize(&forgetful);
    for request in 1..=2 {
        *forgetful.asked.lock() = request;
        // The bug: the run that is under way may have looked already.
        if !forgetful.running.load(Ordering::SeqCst) {
            Deferred::schedule(&forgetful);
        }
    }
    while forgetful.done.load(Ordering::SeqCst) != 2 {
        pause();
    }
}

/// What is never woken up is a stall, which is seen without waiting for it.
#[test]
fn a_lost_wake_up_is_a_stall() {
    let stalls = |seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| ask_twice(&boot_seeded(seed))));
        outcome.err().map(|panic| panic.downcast::<&str>().map(|text| text.to_string()).unwrap_or_default())
    };
    let (seed, message) = (0..300).find_map(|seed| Some((seed, stalls(seed)?))).expect("no seed loses the request");
    assert!(message.contains("nobody can go on"), "{message}");
    assert!(stalls(seed).is_some(), "seed {seed} again");
}

#[test]
fn a_deadlock_is_a_stall() {
    let stalls = |seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _kernel = boot_seeded(seed);
            let locks = [SpinLock::new(()), SpinLock::new(())];
            scope(|scope| {
                for (outer, inner) in [(0, 1), (1, 0)] {
                    let locks = &locks;
                    scope.spawn(move || {
                        let _outer = locks[outer].lock();
                        let _inner = locks[inner].lock();
                    });
                }
            });
        }));
        outcome.is_err()
    };
    assert!((0..300).any(stalls), "no seed runs into the deadlock");
    assert!(!(0..300).all(stalls), "some do not");
}

#[test]
fn events_and_mutexes_let_others_run() {
    for seed in seeds(30) {
        let _kernel = boot_seeded(seed);
        let event = Event::new().unwrap();
        let mutex = Mutex::new(0);
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    event.wait(&passive());
                    let mut count = lock_paused(&mutex);
                    pause();
                    *count += 1;
                });
            }
            event.set();
        });
        assert_eq!(mutex.into_inner().unwrap(), 3);
    }
}

/// Simulated time goes by only while everybody waits.
#[test]
fn timers_expire_in_their_order_without_waiting() {
    struct Alarm {
        timer: platform::Timer<SimKernel>,
        rung: AtomicBool,
    }
    impl platform::RunTimer<SimKernel> for Alarm {
        fn timer(&self) -> &platform::Timer<SimKernel> {
            &self.timer
        }
        fn expired(this: &Arc<Self, SimKernel>) {
            this.rung.store(true, Ordering::SeqCst);
        }
    }
    for seed in seeds(20) {
        let _kernel = boot_seeded(seed);
        let alarm = || {
            let alarm = Alarm { timer: platform::Timer::default(), rung: AtomicBool::new(false) };
            let alarm = Arc::<_, SimKernel>::try_new(alarm).unwrap();
            platform::Timer::initialize(&alarm);
            alarm
        };
        let (soon, late) = (alarm(), alarm());
        platform::Timer::start(&late, Duration::from_secs(2000).as_micros() as u32);
        platform::Timer::start(&soon, 1);
        while !soon.rung.load(Ordering::SeqCst) {
            pause();
        }
        while !late.rung.load(Ordering::SeqCst) {
            pause();
        }
    }
}

#[test]
fn threads_outside_of_the_schedule_are_refused() {
    let _kernel = boot_seeded(0);
    let lock = SpinLock::new(());
    let outside = std::thread::scope(|scope| scope.spawn(|| drop(lock.lock())).join());
    let message = *outside.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("start it with simkernel::scope"), "{message}");
}

/// In a process of its own: a failure says which seed it was, and the environment replaces the seed.
#[test]
fn a_failure_names_its_seed() {
    const FAIL: &str = "SIMKERNEL_TEST_FAIL";
    if std::env::var_os(FAIL).is_some() {
        for seed in seeds(9) {
            let _kernel = boot_seeded(seed);
            assert!(seed < 7, "failed on purpose");
        }
        return;
    }
    let run = |variable: Option<(&str, &str)>| {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "a_failure_names_its_seed"]).env(FAIL, "1");
        again.env_remove("SOFTNDK_SEED").env_remove("SOFTNDK_SEEDS_FROM");
        again.envs(variable);
        let output = again.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(None).contains("SOFTNDK_SEED=7 replays"), "{}", run(None));
    assert!(run(Some(("SOFTNDK_SEED", "123"))).contains("SOFTNDK_SEED=123 replays"));
    // Where a run begins that tries other seeds.
    assert!(run(Some(("SOFTNDK_SEEDS_FROM", "5"))).contains("SOFTNDK_SEED=7 replays"));
}
