//! The order in which spin locks are taken. Two threads that take two locks in different orders deadlock when they meet;
//! here it is enough that both orders occur in a session, as in Linux's lockdep.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Mutex,
};

use crate::{
    held::held_locks,
    ledger, lock_table, pool,
    violation::{Breach, Violation},
};

#[derive(Default)]
struct Order {
    /// For each lock those that were taken while it was held, with what to report if that turns out to be wrong.
    after: BTreeMap<usize, BTreeMap<usize, Violation>>,
    /// For each lock those that it was taken after.
    before: BTreeMap<usize, BTreeSet<usize>>,
}

static ORDER: Mutex<Order> = Mutex::new(Order { after: BTreeMap::new(), before: BTreeMap::new() });

/// The current thread is about to wait for `lock`.
///
/// Only locks in memory of the platform count: the address of another one may belong to a new lock by now.
pub(crate) fn check(lock: usize) {
    for held in held_locks() {
        let mut order = lock_table(&ORDER);
        if order.after.get(&held).is_some_and(|after| after.contains_key(&lock)) {
            continue;
        }
        let (Some(held_place), Some(taken)) = (pool::place(held), pool::place(lock)) else { continue };
        let this = Violation::here(Breach::LockCycle { held: held_place, taken });
        if let Some(earlier) = first_step(&order, lock, held) {
            ledger::note(earlier.clone());
            ledger::note(this.clone());
        }
        order.after.entry(held).or_default().insert(lock, this);
        order.before.entry(lock).or_default().insert(held);
    }
}

/// The first of the steps by which `to` is taken after `from`, through however many other locks.
fn first_step(order: &Order, from: usize, to: usize) -> Option<&Violation> {
    let reaches = |start: usize| {
        let (mut seen, mut open) = (vec![start], vec![start]);
        while let Some(lock) = open.pop() {
            if lock == to {
                return true;
            }
            for next in order.after.get(&lock).into_iter().flat_map(BTreeMap::keys) {
                if !seen.contains(next) {
                    seen.push(*next);
                    open.push(*next);
                }
            }
        }
        false
    };
    order.after.get(&from)?.iter().find_map(|(next, step)| reaches(*next).then_some(step))
}

/// Forgets the locks in memory that is freed.
pub(crate) fn forget(range: &Range<usize>) {
    let order = &mut *lock_table(&ORDER);
    while let Some((&lock, _)) = order.after.range(range.clone()).next() {
        for (taken, _) in order.after.remove(&lock).into_iter().flatten() {
            order.before.entry(taken).and_modify(|before| _ = before.remove(&lock));
        }
    }
    while let Some((&lock, _)) = order.before.range(range.clone()).next() {
        for held in order.before.remove(&lock).into_iter().flatten() {
            order.after.entry(held).and_modify(|after| _ = after.remove(&lock));
        }
    }
}

/// A new session begins.
pub(crate) fn reset() {
    *lock_table(&ORDER) = Order::default();
}
