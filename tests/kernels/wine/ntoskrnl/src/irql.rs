//! IRQL, per thread, and simulated processors.
//!
//! A thread at DISPATCH_LEVEL or above owns a processor until it lowers again: no more threads than there are processors can be
//! at that level at once, and no DPC runs on a processor that a thread holds. That keeps the guarantee of the real system which
//! per-processor data relies on. What is missing is preemption: a thread at PASSIVE_LEVEL goes on running meanwhile.

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use windows_sys::Win32::System::Threading::{
    AcquireSRWLockExclusive, ReleaseSRWLockExclusive, SRWLOCK, TryAcquireSRWLockExclusive,
};

use crate::report::violation;

pub(crate) const PASSIVE_LEVEL: u8 = 0;
pub(crate) const APC_LEVEL: u8 = 1;
pub(crate) const DISPATCH_LEVEL: u8 = 2;

/// A processor: held by the thread that is at DISPATCH_LEVEL or above on it. The slim lock has no owner, so it may be released
/// from another call than the one that took it.
struct Processor {
    lock: std::cell::UnsafeCell<SRWLOCK>,
    /// Threads in [`Self::acquire`]: this processor is theirs, or they found no other free.
    waiting: AtomicUsize,
}

// SAFETY: a slim lock is made to be used by several threads at once, through the functions below only.
unsafe impl Sync for Processor {}
// SAFETY: a slim lock may be moved before its first use, and is not moved after.
unsafe impl Send for Processor {}

impl Processor {
    fn acquire(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the lock lives for ever and is zero-initialised, which is its documented initial state.
        unsafe { AcquireSRWLockExclusive(self.lock.get()) };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes it if it is free, and no thread waits for it: a thread that comes back again and again would keep that one from it, as the lock
    /// has no order.
    fn try_acquire(&self) -> bool {
        // SAFETY: as in `acquire`.
        self.waiting.load(Ordering::Relaxed) == 0 && unsafe { TryAcquireSRWLockExclusive(self.lock.get()) }
    }

    fn release(&self) {
        // SAFETY: as in `acquire`; only called by the thread that holds the processor.
        unsafe { ReleaseSRWLockExclusive(self.lock.get()) };
    }
}

fn processors() -> &'static [Processor] {
    static PROCESSORS: OnceLock<Vec<Processor>> = OnceLock::new();
    PROCESSORS.get_or_init(|| {
        // At least two, so that code which needs another processor to make progress is exercised everywhere.
        let count = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 64));
        let processor = |_| Processor { lock: SRWLOCK::default().into(), waiting: AtomicUsize::new(0) };
        (0..count).map(processor).collect()
    })
}

/// Number of simulated processors, 2 to 64.
pub(crate) fn processor_count() -> usize {
    processors().len()
}

struct ThreadState {
    irql: Cell<u8>,
    /// Index of the processor the thread is on; meaningful to the driver at DISPATCH_LEVEL only.
    processor: Cell<Option<usize>>,
    /// It stays on that processor.
    stays: Cell<bool>,
    /// It is in [`without_processor`].
    lets_go: Cell<bool>,
    /// Spin locks held: the level must not drop below DISPATCH_LEVEL before they are released.
    spin_locks: Cell<u32>,
    /// Spin locks that the thread has taken so far.
    taken: Cell<u64>,
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            irql: Cell::new(PASSIVE_LEVEL),
            processor: Cell::new(None),
            stays: Cell::new(false),
            lets_go: Cell::new(false),
            spin_locks: Cell::new(0),
            taken: Cell::new(0),
        }
    };
}

/// The calling thread's IRQL.
pub(crate) fn current() -> u8 {
    THREAD.with(|t| t.irql.get())
}

/// The processor of the calling thread.
pub(crate) fn current_processor() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    THREAD.with(|t| {
        t.processor.get().unwrap_or_else(|| {
            let home = NEXT.fetch_add(1, Ordering::Relaxed) % processor_count();
            t.processor.set(Some(home));
            home
        })
    })
}

/// Makes `index` the processor of the calling thread: for the thread that runs its DPCs.
pub(crate) fn bind_processor(index: usize) {
    THREAD.with(|t| t.processor.set(Some(index)));
}

/// As [`bind_processor`], for good: the thread takes no other. Not at DISPATCH_LEVEL.
pub(crate) fn stay_on_processor(index: usize) {
    bind_processor(index);
    THREAD.with(|t| t.stays.set(true));
}

/// Sets the IRQL without any check, taking or giving back a processor as the level crosses DISPATCH_LEVEL.
/// `exact`: wait for the thread's own processor instead of taking any that is free.
pub(crate) fn set(level: u8, exact: bool) {
    let old = current();
    if old < DISPATCH_LEVEL && level >= DISPATCH_LEVEL {
        let home = current_processor();
        let all = processors();
        let free = if exact || THREAD.with(|t| t.stays.get()) {
            None
        } else {
            (0..all.len()).map(|i| (home + i) % all.len()).find(|i| all[*i].try_acquire())
        };
        let taken = free.unwrap_or_else(|| {
            all[home].acquire();
            home
        });
        bind_processor(taken);
    }
    THREAD.with(|t| t.irql.set(level));
    if old >= DISPATCH_LEVEL && level < DISPATCH_LEVEL {
        processors()[current_processor()].release();
    }
}

/// Raises to `level` and returns the old level; raising to a lower one is a violation.
pub(crate) fn raise(level: u8) -> u8 {
    let old = current();
    if level < old {
        violation(&format!("raise of IRQL from {old} to the lower level {level}"));
    }
    set(level, false);
    old
}

/// Lowers to `level`; "lowering" to a higher level, or below DISPATCH_LEVEL with a spin lock held, is a violation.
pub(crate) fn lower(level: u8) {
    let old = current();
    if level > old {
        violation(&format!("lowering of IRQL from {old} to the higher level {level}"));
    }
    let held = THREAD.with(|t| t.spin_locks.get());
    if level < DISPATCH_LEVEL && held > 0 {
        violation(&format!("IRQL lowered to {level} with {held} spin lock(s) held"));
    }
    set(level, false);
}

/// Counts spin locks held by this thread.
pub(crate) fn spin_lock_taken(taken: bool) {
    THREAD.with(|t| {
        let held = t.spin_locks.get();
        t.spin_locks.set(if taken { held + 1 } else { held.saturating_sub(1) });
        t.taken.set(t.taken.get() + u64::from(taken));
    });
}

/// How many spin locks the calling thread has taken so far: for another stand-in that calls what must take none.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInSpinLocksTaken() -> u64 {
    THREAD.with(|t| t.taken.get())
}

/// Runs code of Wine that takes a lock, at DISPATCH_LEVEL without the thread's processor: who holds that lock may wait for one,
/// as the cancel routines do that Wine calls with its lock of completions held. With a spin lock held the processor is kept, as
/// others may wait for that lock on it. Such code may come to itself: a completion routine of a driver completes another IRP.
pub(crate) fn without_processor<T>(code: impl FnOnce() -> T) -> T {
    let (holds_lock, lets_go) = THREAD.with(|t| (t.spin_locks.get() > 0, t.lets_go.get()));
    if current() < DISPATCH_LEVEL || holds_lock || lets_go {
        return code();
    }
    let processor = &processors()[current_processor()];
    processor.release();
    THREAD.with(|t| t.lets_go.set(true));
    let result = code();
    THREAD.with(|t| t.lets_go.set(false));
    processor.acquire();
    result
}

/// Reports a call of `function` above its documented maximum IRQL.
pub(crate) fn at_most(maximum: u8, function: &str) {
    if current() > maximum {
        violation(&format!("{function} called above IRQL {maximum}"));
    }
}

/// Reports a call of `function` below its documented minimum IRQL.
pub(crate) fn at_least(minimum: u8, function: &str) {
    if current() < minimum {
        violation(&format!("{function} called below IRQL {minimum}"));
    }
}

/// Runs a callback of the driver and reports it if it returns at another IRQL than it was called at.
pub(crate) fn balanced<T>(what: impl std::fmt::Display, callback: impl FnOnce() -> T) -> T {
    let before = current();
    let result = callback();
    let after = current();
    if after != before {
        violation(&format!("{what} was called at IRQL {before} and returned at {after}"));
        set(before, false);
    }
    result
}

/// wdm/nf-wdm-kegetcurrentirql: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn KeGetCurrentIrql() -> u8 {
    current()
}

/// wdm/nf-wdm-kfraiseirql: any IRQL; the new level must not be below the current one.
#[unsafe(no_mangle)]
extern "system" fn KfRaiseIrql(level: u8) -> u8 {
    raise(level)
}

/// wdm/nf-wdm-keraiseirqltodpclevel: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn KeRaiseIrqlToDpcLevel() -> u8 {
    at_most(DISPATCH_LEVEL, "KeRaiseIrqlToDpcLevel");
    raise(DISPATCH_LEVEL)
}

/// wdm/nf-wdm-kelowerirql: any IRQL; the new level must not be above the current one.
#[unsafe(no_mangle)]
extern "system" fn KeLowerIrql(level: u8) {
    lower(level);
}

/// The name under which some kits call `KeLowerIrql`.
#[unsafe(no_mangle)]
extern "system" fn KfLowerIrql(level: u8) {
    lower(level);
}
