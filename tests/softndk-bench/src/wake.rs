//! From arming an idle completion queue to its callback.
#![expect(unsafe_code, reason = "a callback of a C interface, and a bare DPC")]

use std::{
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hosted::Hosted;
use indicatif::ProgressBar;
use ndk_abi::status::NTSTATUS;
use platform::Platform;

use crate::{
    figures::Figure,
    link::Link,
    ndk::{Adapter, Cq},
    sample::{Patience, Round, compare},
};

/// When the last callback began, in nanoseconds since `epoch`.
struct Called {
    epoch: Instant,
    at: AtomicU64,
}

impl Called {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self { epoch: Instant::now(), at: AtomicU64::new(0) }))
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Waits for the callback of something that began at `start`; how long it took.
    fn since(&self, start: u64) -> u64 {
        let mut patience = Patience::default();
        loop {
            match self.at.swap(0, Ordering::Acquire) {
                0 => patience.found(false),
                at => return at.saturating_sub(start),
            }
        }
    }

    fn context(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}

fn called(context: *mut c_void) {
    // SAFETY: the context is a Called that outlives its queue or DPC.
    let called: &Called = unsafe { &*context.cast::<Called>() };
    called.at.store(called.now(), Ordering::Release);
}

unsafe extern "system" fn notified(context: *mut c_void, _status: NTSTATUS) {
    called(context);
}

unsafe extern "C" fn routine(context: *mut c_void) {
    called(context);
}

/// The time from NdkArmCq, over a completion that is already there, to the callback.
fn armed(link: &Link, called: &Called, cq: &Cq, count: usize) -> Duration {
    let mut total = 0;
    for _ in 0..count {
        link.post_receives(0, 1);
        link.post_sends(0, 1);
        let start = called.now();
        cq.arm();
        total += called.since(start);
        cq.take(1, |_| ());
        link.sender.initiator_cq.take(1, |_| ());
    }
    Duration::from_nanos(total)
}

/// The time from a post whose completion satisfies the arm of an idle queue to the callback.
fn satisfied(link: &Link, called: &Called, cq: &Cq, count: usize) -> Duration {
    let mut total = 0;
    for _ in 0..count {
        link.post_receives(0, 1);
        let start = called.now();
        cq.arm();
        link.post_sends(0, 1);
        total += called.since(start);
        cq.take(1, |_| ());
        link.sender.initiator_cq.take(1, |_| ());
    }
    Duration::from_nanos(total)
}

/// The time from queueing a DPC to its routine.
fn bare_dpc(dpc: *mut <Hosted as Platform>::Dpc, called: &Called, count: usize) -> Duration {
    let mut total = 0;
    for _ in 0..count {
        let start = called.now();
        // SAFETY: initialised by the caller, not queued, and valid until its routine has run, which is waited for.
        unsafe { Hosted::queue_dpc(dpc) };
        total += called.since(start);
    }
    Duration::from_nanos(total)
}

/// The time that a condition variable takes to wake another thread.
fn condition_variable(called: &Called, count: usize) -> Duration {
    let (asked, wake) = (Mutex::new(0), Condvar::new());
    let lock = || asked.lock().unwrap_or_else(PoisonError::into_inner);
    let mut total = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..=count {
                let mut asked = lock();
                while *asked < turn {
                    asked = wake.wait(asked).unwrap_or_else(PoisonError::into_inner);
                }
                drop(asked);
                called.at.store(called.now(), Ordering::Release);
            }
        });
        for turn in 1..=count {
            // The other thread goes to sleep.
            thread::sleep(Duration::from_micros(20));
            let start = called.now();
            *lock() = turn;
            wake.notify_one();
            total += called.since(start);
        }
    });
    Duration::from_nanos(total)
}

/// Arm to callback, beside a bare DPC and the wake of a thread.
pub fn latency(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let called = Called::new();
    let cq = Arc::new(adapter.cq_with(16, notified, called));
    let link = Link::notified(&adapter, &listener, 16, &cq);
    let mut dpc = Box::new(Hosted::new_dpc());
    // SAFETY: the DPC stays where it is, and is not queued yet.
    unsafe { Hosted::initialize_dpc(&raw mut *dpc, routine, called.context()) };
    let dpc = &raw mut *dpc;
    let contenders: &mut [(usize, Round<'_>)] = &mut [
        (1000, Box::new(|count| armed(&link, called, &cq, count))),
        (1000, Box::new(|count| satisfied(&link, called, &cq, count))),
        (1000, Box::new(|count| bare_dpc(dpc, called, count))),
        (50, Box::new(|count| condition_variable(called, count))),
    ];
    let costs = compare(bar, 50, contenders);
    let figure = |name: &str, ours: usize, reference: &str, theirs: usize| Figure {
        name: name.to_owned(),
        unit: "ns",
        value: costs[ours].typical,
        reference: reference.to_owned(),
        reference_value: costs[theirs].typical,
        compared: "times its time",
        ratio: costs[ours].typical / costs[theirs].typical,
        target: None,
    };
    vec![
        figure("arm to callback, completion waiting", 0, "bare DPC", 2),
        figure("arm, send and receive to callback", 1, "bare DPC", 2),
        figure("arm, send and receive to callback", 1, "condition variable, other thread", 3),
    ]
}
