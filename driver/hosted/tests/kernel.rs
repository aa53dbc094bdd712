//! The primitives of a process as a kernel: locks exclude, and DPCs run where and when Windows runs them.
#![expect(unsafe_code, reason = "raw memory")]

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use hosted::{Hosted, at_dispatch, passive};
use platform::{
    Arc, DISPATCH_LEVEL, Deferred, Dispatch, PASSIVE_LEVEL, Platform, RUNS_IN_A_ROW, RunDeferred, RunTimer,
};

type SpinLock<T> = platform::SpinLock<T, Hosted>;
type Event = platform::Event<Hosted>;

/// Notes in a common log when and where it runs.
struct Logger<'a> {
    deferred: Deferred<Hosted>,
    name: &'static str,
    log: &'a Mutex<Vec<(&'static str, u8, thread::ThreadId)>>,
    /// Scheduled by the run of this one.
    next: Option<Arc<Logger<'static>, Hosted>>,
}

impl RunDeferred<Hosted> for Logger<'static> {
    fn deferred(&self) -> &Deferred<Hosted> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Hosted>, _: &Dispatch<'_>) {
        this.log.lock().unwrap().push((this.name, Hosted::irql(), thread::current().id()));
        if let Some(next) = &this.next {
            Deferred::schedule(next);
            assert_eq!(this.log.lock().unwrap().last().unwrap().0, this.name, "not inside of another");
        }
    }
}

struct Log(&'static Mutex<Vec<(&'static str, u8, thread::ThreadId)>>);

impl Log {
    fn new() -> Self {
        Self(Box::leak(Box::default()))
    }

    fn logger(&self, name: &'static str, next: Option<Arc<Logger<'static>, Hosted>>) -> Arc<Logger<'static>, Hosted> {
        let logger = Arc::try_new(Logger { deferred: Deferred::default(), name, log: self.0, next }).unwrap();
        Deferred::initialize(&logger);
        logger
    }

    fn names(&self) -> String {
        self.0.lock().unwrap().iter().map(|entry| entry.0).collect()
    }
}

#[test]
fn at_passive_level_a_dpc_runs_at_once_on_its_processor() {
    let log = Log::new();
    Deferred::schedule(&log.logger("a", None));
    assert_eq!(*log.0.lock().unwrap(), [("a", DISPATCH_LEVEL, thread::current().id())]);
    assert_eq!(Hosted::irql(), PASSIVE_LEVEL);
}

#[test]
fn above_it_runs_at_the_end_of_the_outermost_lock_in_order() {
    let log = Log::new();
    let [a, b] = ["a", "b"].map(|name| log.logger(name, None));
    let c = log.logger("c", Some(log.logger("d", None)));
    let (outer, inner) = (SpinLock::new(()), SpinLock::new(()));
    let guard = outer.lock();
    drop(inner.lock());
    Deferred::schedule(&c);
    Deferred::schedule(&a);
    drop(inner.lock());
    at_dispatch(|_| Deferred::schedule(&b));
    assert_eq!((log.names().as_str(), Hosted::irql()), ("", DISPATCH_LEVEL));
    drop(guard);
    assert_eq!((log.names().as_str(), Hosted::irql()), ("cabd", PASSIVE_LEVEL));
    at_dispatch(|_| {
        Deferred::schedule(&a);
        assert_eq!(log.names(), "cabd");
    });
    assert_eq!(log.names(), "cabda");
}

/// Schedules itself again and again.
struct Endless {
    deferred: Deferred<Hosted>,
    runs: AtomicU64,
    thread: ThreadId,
    /// Runs of all objects on the thread that made them.
    in_a_row: std::sync::Arc<AtomicU64>,
    end: Arc<Event, Hosted>,
}

impl RunDeferred<Hosted> for Endless {
    fn deferred(&self) -> &Deferred<Hosted> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Hosted>, _: &Dispatch<'_>) {
        this.in_a_row.fetch_add((thread::current().id() == this.thread).into(), Ordering::Relaxed);
        if this.runs.fetch_add(1, Ordering::Relaxed) < 1000 {
            Deferred::schedule(this);
        } else {
            this.end.set();
        }
    }
}

/// Objects that reschedule themselves without end do not hold their thread, however many there are.
// Shows T17.
#[test]
fn endless_work_lets_its_thread_go_on() {
    let in_a_row = std::sync::Arc::new(AtomicU64::new(0));
    let endless: Vec<_> = (0..100)
        .map(|_| {
            let endless = Endless {
                deferred: Deferred::default(),
                runs: AtomicU64::new(0),
                thread: thread::current().id(),
                in_a_row: in_a_row.clone(),
                end: Event::new().unwrap(),
            };
            let endless = Arc::<_, Hosted>::try_new(endless).unwrap();
            Deferred::initialize(&endless);
            endless
        })
        .collect();
    at_dispatch(|_| endless.iter().for_each(Deferred::schedule));
    assert_eq!(in_a_row.load(Ordering::Relaxed), RUNS_IN_A_ROW.into(), "runs before the thread went on");
    for endless in &endless {
        endless.end.wait(&passive());
        assert_eq!(endless.runs.load(Ordering::Relaxed), 1001);
    }
}

/// Sets its event when it expires, the third time.
struct Clock {
    timer: platform::Timer<Hosted>,
    began: Instant,
    expired: AtomicU64,
    end: Arc<Event, Hosted>,
}

impl RunTimer<Hosted> for Clock {
    fn timer(&self) -> &platform::Timer<Hosted> {
        &self.timer
    }

    fn expired(this: &Arc<Self, Hosted>) {
        assert_eq!(Hosted::irql(), DISPATCH_LEVEL);
        if this.expired.fetch_add(1, Ordering::Relaxed) < 2 {
            platform::Timer::start(this, 2000);
        } else {
            this.end.set();
        }
    }
}

fn clock() -> Arc<Clock, Hosted> {
    let (began, expired) = (Instant::now(), AtomicU64::new(0));
    let clock = Clock { timer: platform::Timer::default(), began, expired, end: Event::new().unwrap() };
    let clock = Arc::try_new(clock).unwrap();
    platform::Timer::initialize(&clock);
    clock
}

#[test]
fn timers_expire_not_before_their_time_unless_taken_back() {
    let clocks = [5000, 1000, 3000].map(|microseconds| {
        let clock = clock();
        platform::Timer::start(&clock, microseconds);
        (clock, Duration::from_micros(microseconds.into()))
    });
    let taken_back = clock();
    platform::Timer::start(&taken_back, 3_600_000_000);
    for (clock, first) in &clocks {
        clock.end.wait(&passive());
        assert!(clock.began.elapsed() >= *first + Duration::from_millis(4));
    }
    platform::Timer::cancel(&taken_back);
    assert_eq!(taken_back.expired.load(Ordering::Relaxed), 0);
    assert!(Arc::into_inner(taken_back).is_some(), "no reference is left");
}

/// A timer that is due late must not delay one that is set later and due sooner.
#[test]
fn a_timer_may_be_due_before_those_that_are_set() {
    let [late, soon] = [3_600_000_000, 1000].map(|microseconds| {
        let clock = clock();
        platform::Timer::start(&clock, microseconds);
        clock
    });
    soon.end.wait(&passive());
    platform::Timer::cancel(&late);
}

/// A ring that one thread fills and one empties.
struct Ring {
    slots: SpinLock<VecDeque<[u64; 8]>>,
    deferred: Deferred<Hosted>,
    /// Set by each run.
    notified: AtomicU64,
}

impl RunDeferred<Hosted> for Ring {
    fn deferred(&self) -> &Deferred<Hosted> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Hosted>, _: &Dispatch<'_>) {
        this.notified.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn two_threads_pass_messages() {
    const MESSAGES: u64 = 200_000;
    const DEPTH: usize = 64;
    let slots = SpinLock::new(VecDeque::with_capacity(DEPTH));
    let ring = Ring { slots, deferred: Deferred::default(), notified: AtomicU64::new(0) };
    let ring = Arc::<_, Hosted>::try_new(ring).unwrap();
    Deferred::initialize(&ring);
    let sender = ring.clone();
    let sender = thread::spawn(move || {
        for number in 0..MESSAGES {
            loop {
                let mut slots = sender.slots.lock();
                if slots.len() < DEPTH {
                    slots.push_back([number; 8]);
                    Deferred::schedule(&sender);
                    break;
                }
                drop(slots);
                thread::yield_now();
            }
        }
    });
    for number in 0..MESSAGES {
        let message = loop {
            if let Some(message) = ring.slots.lock().pop_front() {
                break message;
            }
            thread::yield_now();
        };
        assert_eq!(message, [number; 8]);
    }
    sender.join().unwrap();
    // A run that is queued or under way holds a reference.
    let mut ring = ring;
    while at_dispatch(|_| Arc::get_mut(&mut ring).is_none()) {
        thread::yield_now();
    }
    assert!((1..=MESSAGES).contains(&ring.notified.load(Ordering::Acquire)));
    assert_eq!(Hosted::irql(), PASSIVE_LEVEL);
}

#[test]
fn locks_exclude() {
    const EACH: u64 = 100_000;
    let count = SpinLock::new(0_u64);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut count = count.lock();
                    let read = *count;
                    *count = read + 1;
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 3 * EACH);
}

/// The allocator zeroes memory that a freed allocation wrote.
#[test]
fn memory_is_zeroed_and_aligned() {
    for _ in 0..100 {
        let mut lines = platform::Slice::<_, Hosted>::filled(3, [0xFF_u8; 100]).unwrap();
        lines[1].fill(7);
        drop(lines);
        let layout = std::alloc::Layout::from_size_align(300, 128).unwrap();
        let memory = Hosted::allocate(layout).unwrap();
        assert_eq!(memory.addr().get() % 128, 0);
        // SAFETY: 300 bytes, that nobody else uses.
        let bytes = unsafe { std::slice::from_raw_parts(memory.as_ptr(), 300) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: as allocated.
        unsafe { Hosted::free(memory, layout) };
    }
}
