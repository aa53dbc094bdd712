//! The IRQL of each thread, and the spin locks it holds.
#![expect(unsafe_code, reason = "minting platform::{Passive, Dispatch} is a claim about the IRQL, which is known here")]

use std::{
    cell::{Cell, RefCell},
    ops::RangeInclusive,
};

use platform::{APC_LEVEL, DISPATCH_LEVEL, Dispatch, PASSIVE_LEVEL, Passive};

use crate::{SimKernel, ledger, violation::Breach};

thread_local! {
    static IRQL: Cell<u8> = const { Cell::new(PASSIVE_LEVEL) };
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// A spin lock that this thread holds.
struct Held {
    lock: usize,
    /// The level to go back to.
    before: u8,
    /// The level it was taken at.
    during: u8,
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

pub(crate) fn holds(lock: usize) -> bool {
    HELD.with_borrow(|held| held.iter().any(|held| held.lock == lock))
}

/// The spin locks that the current thread holds, by address, in the order it took them.
#[must_use]
pub fn held() -> Vec<usize> {
    HELD.with_borrow(|held| held.iter().map(|held| held.lock).collect())
}

/// The first lock held in a range of addresses.
pub(crate) fn held_in(range: &std::ops::Range<usize>) -> Option<usize> {
    HELD.with_borrow(|held| held.iter().map(|held| held.lock).find(|lock| range.contains(lock)))
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

pub(crate) fn push_held(lock: usize, before: u8) {
    let during = current();
    HELD.with_borrow_mut(|held| held.push(Held { lock, before, during }));
}

/// Takes a lock off the list; gives the level to go back to.
pub(crate) fn pop_held(lock: usize) -> u8 {
    let popped = HELD.with_borrow_mut(|held| {
        let position = held.iter().rposition(|held| held.lock == lock)?;
        let last = position + 1 == held.len();
        Some((held.remove(position), last))
    });
    let Some((held, last)) = popped else {
        ledger::breach(Breach::LockNotHeld(lock));
        return current();
    };
    if !last {
        ledger::breach(Breach::LockOrder(lock));
    }
    if current() != held.during {
        ledger::breach(Breach::UnlockIrql(lock));
    }
    held.before
}

/// Runs `code` at `level`, and checks that it comes back there with no more locks held than before.
pub(crate) fn run_at<R>(level: u8, code: impl FnOnce() -> R) -> R {
    let before = current();
    let locks = HELD.with_borrow(Vec::len);
    let _restore = Restore { before, locks };
    IRQL.set(level);
    let result = code();
    if current() != level {
        ledger::breach(Breach::IrqlChanged { entered: level, left: current() });
    }
    if let Some(lock) = HELD.with_borrow(|held| held.get(locks).map(|held| held.lock)) {
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
    for lock in held() {
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
        HELD.with_borrow_mut(|held| held.truncate(self.locks));
    }
}

/// A session ends on this thread, where it should be at `PASSIVE_LEVEL` and hold nothing.
pub(crate) fn check_at_end() {
    if current() != PASSIVE_LEVEL {
        ledger::breach(Breach::IrqlChanged { entered: PASSIVE_LEVEL, left: current() });
    }
    if let Some(lock) = HELD.with_borrow(|held| held.first().map(|held| held.lock)) {
        ledger::breach(Breach::LockStillHeld(lock));
    }
    reset();
}

/// A new session begins on this thread.
pub(crate) fn reset() {
    IRQL.set(PASSIVE_LEVEL);
    HELD.with_borrow_mut(Vec::clear);
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
