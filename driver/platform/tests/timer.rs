//! Timers: each start either expires once or is cancelled, and its reference to the object is dropped exactly once.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use platform::{Arc, DISPATCH_LEVEL, Platform, RunTimer, SpinLock, Timer};
use simkernel::{Session, SimKernel, at_dispatch, boot, watchdog};

const LIMIT: Duration = Duration::from_secs(60);

/// Counts how often its timer has expired.
#[derive(Default)]
struct Alarm {
    timer: Timer<SimKernel>,
    expired: AtomicU64,
    running: AtomicBool,
    overlaps: AtomicUsize,
    irql: AtomicU64,
    /// What [`Timer::has_expired`] says at the end of `expired`.
    of_last_start: AtomicBool,
    /// Tells that `expired` was entered, and waits until it may go on.
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl RunTimer<SimKernel> for Alarm {
    fn timer(&self) -> &Timer<SimKernel> {
        &self.timer
    }

    fn expired(this: &Arc<Self, SimKernel>) {
        if this.running.swap(true, Ordering::AcqRel) {
            this.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        this.irql.store(SimKernel::irql().into(), Ordering::Relaxed);
        if let Some((entered, leave)) = this.gate.lock().unwrap().take() {
            entered.send(()).unwrap();
            leave.recv().unwrap();
        }
        this.of_last_start.store(this.timer.has_expired(), Ordering::Relaxed);
        this.expired.fetch_add(1, Ordering::Relaxed);
        this.running.store(false, Ordering::Release);
    }
}

impl Alarm {
    fn new() -> Arc<Self, SimKernel> {
        let alarm = Arc::try_new(Self::default()).unwrap();
        Timer::initialize(&alarm);
        alarm
    }

    fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }
}

/// Moves the clock on, and lets what expires run.
fn pass(kernel: &Session, microseconds: u64) {
    kernel.advance(Duration::from_micros(microseconds));
    kernel.flush_dpcs();
}

#[test]
fn expires_once_after_the_time_at_dispatch_level() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    Timer::start(&alarm, 100);
    pass(&kernel, 99);
    assert_eq!(alarm.expired(), 0);
    pass(&kernel, 1);
    assert_eq!((alarm.expired(), alarm.irql.load(Ordering::Relaxed)), (1, DISPATCH_LEVEL.into()));
    pass(&kernel, 1000);
    assert_eq!(alarm.expired(), 1);
}

#[test]
fn a_second_start_does_not_move_the_first() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    Timer::start(&alarm, 100);
    pass(&kernel, 60);
    Timer::start(&alarm, 100);
    pass(&kernel, 40);
    assert_eq!(alarm.expired(), 1);
    pass(&kernel, 100);
    assert_eq!(alarm.expired(), 1);
}

#[test]
fn the_set_timer_keeps_its_object() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    let weak = Arc::downgrade(&alarm);
    Timer::start(&alarm, 100);
    assert!(Arc::into_inner(alarm).is_none());
    assert!(weak.upgrade().is_some());
    pass(&kernel, 100);
    assert!(weak.upgrade().is_none());
}

/// With a lock of the object held, as the device does.
#[test]
fn cancel_gives_the_reference_back_at_once() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    let lock = SpinLock::<_, SimKernel>::new(());
    for _ in 0..3 {
        let held = lock.lock();
        Timer::start(&alarm, u32::MAX);
        Timer::cancel(&alarm);
        Timer::cancel(&alarm);
        drop(held);
    }
    assert_eq!(kernel.ledger().set_timers, 0);
    assert_eq!(Arc::into_inner(alarm).map(|alarm| alarm.expired()), Some(0));
}

/// The timer is cancelled when its DPC is queued: the DPC does not call the routine, and drops the reference.
#[test]
fn a_cancel_that_is_late_still_counts() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    at_dispatch(|_| {
        let blocked = Blocked::new();
        Timer::start(&alarm, 10);
        kernel.advance(Duration::from_micros(10));
        Timer::cancel(&alarm);
        drop(blocked);
    });
    kernel.flush_dpcs();
    assert_eq!(Arc::into_inner(alarm).map(|alarm| alarm.expired()), Some(0));
}

/// As above, but started again before the routine is entered: the whole new time counts.
#[test]
fn a_start_after_a_late_cancel_takes_its_whole_time() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    at_dispatch(|_| {
        let blocked = Blocked::new();
        Timer::start(&alarm, 10);
        kernel.advance(Duration::from_micros(10));
        Timer::cancel(&alarm);
        Timer::start(&alarm, 50);
        drop(blocked);
    });
    kernel.flush_dpcs();
    pass(&kernel, 49);
    assert_eq!(alarm.expired(), 0);
    pass(&kernel, 1);
    assert_eq!(Arc::into_inner(alarm).map(|alarm| alarm.expired()), Some(1));
}

#[test]
fn a_start_while_expiring_expires_later_and_not_at_once_twice() {
    let kernel = boot();
    kernel.hold_clock();
    let alarm = Alarm::new();
    let (entered, enter) = channel();
    let (leave, left) = channel();
    *alarm.gate.lock().unwrap() = Some((entered, left));
    Timer::start(&alarm, 10);
    kernel.advance(Duration::from_micros(10));
    enter.recv().unwrap();
    Timer::start(&alarm, 5);
    kernel.advance(Duration::from_micros(50));
    leave.send(()).unwrap();
    kernel.flush_dpcs();
    assert_eq!(alarm.expired(), 1);
    pass(&kernel, 5);
    assert_eq!((alarm.expired(), alarm.overlaps.load(Ordering::Relaxed)), (2, 0));
    assert!(Arc::into_inner(alarm).is_some());
}

/// An expiry that was entered before the timer was taken back, or started for something else, finds that out.
#[test]
fn an_expiry_knows_whether_it_is_of_the_last_start() {
    type Meanwhile = fn(&Arc<Alarm, SimKernel>);
    let cases: [(bool, Meanwhile); 4] = [
        (true, |_| {}),
        (false, Timer::cancel),
        (false, |alarm| Timer::start(alarm, 50)),
        (false, |alarm| {
            Timer::cancel(alarm);
            Timer::start(alarm, 50);
        }),
    ];
    for (is_last, meanwhile) in cases {
        let kernel = boot();
        kernel.hold_clock();
        let alarm = Alarm::new();
        let (entered, enter) = channel();
        let (leave, left) = channel();
        *alarm.gate.lock().unwrap() = Some((entered, left));
        assert!(!alarm.timer.has_expired());
        Timer::start(&alarm, 10);
        assert!(!alarm.timer.has_expired());
        kernel.advance(Duration::from_micros(10));
        enter.recv().unwrap();
        meanwhile(&alarm);
        leave.send(()).unwrap();
        kernel.flush_dpcs();
        assert_eq!(alarm.of_last_start.load(Ordering::Relaxed), is_last);
        Timer::cancel(&alarm);
    }
}

/// Threads start and cancel timers while the real clock runs: no timer is left over, and no two routines overlap.
#[test]
fn starts_and_cancels_race_with_the_clock() {
    let kernel = boot();
    let alarm = Alarm::new();
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            for thread in 0..3_u32 {
                let alarm = alarm.clone();
                scope.spawn(move || {
                    for round in 0..4_000_u32 {
                        Timer::start(&alarm, (round * 7 + thread) % 40);
                        if round % 3 == thread {
                            Timer::cancel(&alarm);
                        }
                        (0..round % 300).for_each(|_| std::hint::spin_loop());
                    }
                });
            }
        });
        Timer::cancel(&alarm);
        kernel.flush_dpcs();
    });
    assert_eq!((kernel.ledger().set_timers, alarm.overlaps.load(Ordering::Relaxed)), (0, 0));
    println!("expired {} times", alarm.expired());
    assert!(Arc::into_inner(alarm).is_some(), "no reference is left over");
}

/// Other alarms that keep all processors in their `expired`.
struct Blocked(Vec<Sender<()>>);

impl Blocked {
    fn new() -> Self {
        let leave = (0..simkernel::PROCESSOR_COUNT).map(|_| {
            let alarm = Alarm::new();
            let (entered, enter) = channel();
            let (leave, left) = channel();
            *alarm.gate.lock().unwrap() = Some((entered, left));
            // Not by the clock, which is held.
            Timer::start(&alarm, 0);
            (enter, leave)
        });
        let (entered, leave): (Vec<_>, Vec<_>) = leave.unzip();
        let blocked = Self(leave);
        entered.iter().for_each(|entered| entered.recv().unwrap());
        blocked
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.iter().for_each(|leave| leave.send(()).unwrap());
    }
}
