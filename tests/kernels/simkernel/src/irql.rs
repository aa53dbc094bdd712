//! The IRQL of each thread.
#![expect(unsafe_code, reason = "minting platform::{Passive, Dispatch} is a claim about the IRQL, which is known here")]

use std::{
    cell::Cell,
    ops::{Range, RangeInclusive},
    panic::Location,
};

use platform::{APC_LEVEL, DISPATCH_LEVEL, Dispatch, PASSIVE_LEVEL, Passive};

use crate::{
    SimKernel,
    held::{self, held_locks},
    ledger,
    violation::Breach,
};

thread_local! {
    static IRQL: Cell<u8> = const { Cell::new(PASSIVE_LEVEL) };
}

pub(crate) fn current() -> u8 {
    IRQL.get()
}

/// Notes a breach if the thread is above `limit`.
pub(crate) fn require(call: &'static str, limit: u8) {
    if current() > limit {
        ledger::breach(Breach::IrqlTooHigh { call, limit });
    }
}

/// What blocks may be called up to this level: KeWaitForSingleObject, wdm.h.
pub(crate) const WAIT_LIMIT: u8 = APC_LEVEL;

/// The first lock held in a range of addresses.
pub(crate) fn held_in(range: &Range<usize>) -> Option<usize> {
    held_locks().into_iter().find(|lock| range.contains(lock))
}

/// Raises to the level of spin locks; gives the level before.
pub(crate) fn raise_to_dispatch() -> u8 {
    let before = current();
    IRQL.set(before.max(DISPATCH_LEVEL));
    before
}

/// Goes back to the level that `raise_to_dispatch` gave.
pub(crate) fn lower_to(before: u8) {
    IRQL.set(before);
}

#[track_caller]
pub(crate) fn push_held(lock: usize, before: u8) {
    held::push(lock, Location::caller(), before, current());
}

/// Takes a lock off the list; gives the level to go back to.
pub(crate) fn pop_held(lock: usize) -> u8 {
    held::pop(lock, current(), ledger::breach)
}

/// Runs `code` at `level`, and checks that it comes back there with no more locks held than before.
pub(crate) fn run_at<R>(level: u8, code: impl FnOnce() -> R) -> R {
    let before = current();
    let locks = held::count();
    let _restore = Restore { before, locks };
    IRQL.set(level);
    let result = code();
    if current() != level {
        ledger::breach(Breach::IrqlChanged { entered: level, left: current() });
    }
    if let Some(&lock) = held_locks().get(locks) {
        ledger::breach(Breach::LockStillHeld(lock));
    }
    result
}

/// Runs `code`, which is a consumer's `callback`, after checking that the driver called it at one of `levels` and with no
/// lock held. It has to come back at the same level, with no lock held either.
pub fn in_callback<R>(callback: &'static str, levels: RangeInclusive<u8>, code: impl FnOnce() -> R) -> R {
    if !levels.contains(&current()) {
        let (lowest, highest) = levels.into_inner();
        ledger::breach(Breach::CallbackIrql { callback, lowest, highest });
    }
    for lock in held_locks() {
        ledger::breach(Breach::CallbackUnderLock { callback, lock });
    }
    run_at(current(), code)
}

/// Puts a thread back in order, also when a panic passes.
struct Restore {
    before: u8,
    locks: usize,
}

impl Drop for Restore {
    fn drop(&mut self) {
        IRQL.set(self.before);
        held::truncate(self.locks);
    }
}

/// A session ends on this thread, where it should be at `PASSIVE_LEVEL` and hold nothing.
pub(crate) fn check_at_end() {
    if current() != PASSIVE_LEVEL {
        ledger::breach(Breach::IrqlChanged { entered: PASSIVE_LEVEL, left: current() });
    }
    if let Some(&lock) = held_locks().first() {
        ledger::breach(Breach::LockStillHeld(lock));
    }
    reset();
}

/// A new session begins on this thread.
pub(crate) fn reset() {
    IRQL.set(PASSIVE_LEVEL);
    held::truncate(0);
}

/// Runs `code` with the thread's IRQL raised to `level`, as a caller of the driver may be.
///
/// # Panics
/// If `level` is below the thread's IRQL.
pub fn at_irql<R>(level: u8, code: impl FnOnce() -> R) -> R {
    assert!(level >= current(), "cannot raise from IRQL {} to {level}", current());
    run_at(level, code)
}

/// Runs `code` at `DISPATCH_LEVEL`.
pub fn at_dispatch<R>(code: impl FnOnce(&Dispatch<'_>) -> R) -> R {
    at_irql(DISPATCH_LEVEL, || {
        // SAFETY: the level was just set, and this crate alone changes it.
        let dispatch = unsafe { Dispatch::assume::<SimKernel>() };
        code(&dispatch)
    })
}

/// Proof that the thread runs at `PASSIVE_LEVEL`; all threads start there.
///
/// # Panics
/// If it does not.
pub fn passive() -> Passive<'static> {
    assert_eq!(current(), PASSIVE_LEVEL, "not at PASSIVE_LEVEL");
    // SAFETY: just checked. A test that raises the IRQL later and waits nevertheless breaks a rule, not memory: a wait
    // here is a condition variable's.
    unsafe { Passive::assume::<SimKernel>() }
}
