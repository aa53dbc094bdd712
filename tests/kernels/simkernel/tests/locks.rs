//! IRQL and spin locks: right use is clean, each wrong one is caught.

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use platform::{Arc, DISPATCH_LEVEL, PASSIVE_LEVEL, Platform};
use simkernel::{Breach, SimKernel, at_dispatch, at_irql, boot, held_locks, in_callback};

type SpinLock<T> = platform::SpinLock<T, SimKernel>;

#[test]
fn a_lock_raises_and_restores() {
    let _kernel = boot();
    let (outer, inner) = (SpinLock::new(1), SpinLock::new(2));
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL);
    {
        let _outer = outer.lock();
        assert_eq!(SimKernel::irql(), DISPATCH_LEVEL);
        assert!(outer.try_lock().is_none());
        let inner = inner.try_lock();
        assert_eq!(inner.as_deref(), Some(&2));
        drop(inner);
        assert_eq!(SimKernel::irql(), DISPATCH_LEVEL);
    }
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL);
    assert!(outer.try_lock().is_some());
    at_irql(1, || {
        drop(outer.lock());
        assert_eq!(SimKernel::irql(), 1);
    });
    at_dispatch(|_| {
        drop(outer.lock());
        assert_eq!(SimKernel::irql(), DISPATCH_LEVEL);
    });
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL);
}

#[test]
fn a_lock_excludes() {
    let _kernel = boot();
    let lock = SpinLock::new(0_u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut count = lock.lock();
                    let before = *count;
                    std::hint::black_box(&mut count);
                    *count = before + 1;
                }
            });
        }
    });
    assert_eq!(*lock.lock(), 80_000);
}

#[test]
fn recursion_is_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    let recursion = catch_unwind(AssertUnwindSafe(|| {
        let _once = lock.lock();
        let _twice = lock.lock();
    }));
    assert!(recursion.is_err());
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockRecursion(_))));
    assert_eq!(ledger.violations.len(), 1, "{ledger}");
}

#[test]
#[should_panic(expected = "taken twice by one thread")]
fn recursion_fails_the_test() {
    let _kernel = boot();
    let lock = SpinLock::new(());
    let _once = lock.lock();
    let _twice = lock.lock();
}

#[test]
fn a_lock_above_dispatch_is_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    at_irql(DISPATCH_LEVEL + 1, || drop(lock.lock()));
    at_irql(DISPATCH_LEVEL + 1, || drop(lock.try_lock()));
    let ledger = kernel.finish();
    let expected = Breach::IrqlTooHigh { call: "taking a spin lock", limit: DISPATCH_LEVEL };
    assert_eq!(ledger.violations.iter().filter(|violation| violation.breach == expected).count(), 2);
    assert_eq!(ledger.violations.len(), 2, "{ledger}");
    assert_eq!(ledger.violations.first().unwrap().irql, DISPATCH_LEVEL + 1);
}

/// A lock in memory of the platform, where their order is watched.
fn shared_lock() -> Arc<SpinLock<()>, SimKernel> {
    Arc::try_new(SpinLock::new(())).unwrap()
}

// Shows S1207.
#[test]
fn two_orders_are_caught() {
    let kernel = boot();
    let (first, second) = (shared_lock(), shared_lock());
    let take = |outer: &SpinLock<()>, inner: &SpinLock<()>| {
        let _outer = outer.lock();
        let _inner = inner.lock();
    };
    take(&first, &second);
    take(&first, &second);
    assert!(kernel.ledger().violations.is_empty());
    // Not at the same time: no deadlock happens.
    let other = thread::Builder::new().name("other".into());
    thread::scope(|scope| other.spawn_scoped(scope, || take(&second, &first)).unwrap().join().unwrap());
    drop((first, second));
    let ledger = kernel.finish();
    let [forth, back] = ledger.violations.as_slice() else { panic!("{ledger}") };
    let (Breach::LockCycle { held, taken }, Breach::LockCycle { held: then_held, taken: then_taken }) =
        (&forth.breach, &back.breach)
    else {
        panic!("{ledger}")
    };
    assert_eq!((held, taken), (then_taken, then_held));
    assert_eq!((held.allocation, taken.allocation), (1, 2));
    assert_ne!(forth.thread, "other");
    assert_eq!(back.thread, "other");
}

#[test]
fn a_circle_of_orders_is_caught() {
    let kernel = boot();
    let locks = [shared_lock(), shared_lock(), shared_lock()];
    for [outer, inner] in [[0, 1], [1, 2], [2, 0]] {
        assert!(kernel.ledger().violations.is_empty());
        let _outer = locks[outer].lock();
        let _inner = locks[inner].lock();
    }
    drop(locks);
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::LockCycle { .. })));
}

#[test]
fn a_new_lock_at_an_old_address_has_no_order_yet() {
    let _kernel = boot();
    let first = shared_lock();
    let mut orders = Vec::new();
    // More memory than is kept after it was freed, so that addresses come again.
    for _ in 0..300 {
        let second = Arc::<_, SimKernel>::try_new((SpinLock::new(()), [0_u8; 100_000])).unwrap();
        let swap = orders.len() % 2 == 0;
        let (outer, inner) = if swap { (&second.0, &*first) } else { (&*first, &second.0) };
        let _outer = outer.lock();
        let _inner = inner.lock();
        orders.push((&raw const second.0).addr());
    }
    let count = orders.len();
    orders.sort_unstable();
    orders.dedup();
    assert!(orders.len() < count, "no address came again");
}

#[test]
fn held_locks_are_known() {
    let _kernel = boot();
    let lock = SpinLock::new(());
    assert!(held_locks().is_empty());
    let guard = lock.lock();
    assert_eq!(held_locks().len(), 1);
    drop(guard);
    assert!(held_locks().is_empty());
}

#[test]
fn release_out_of_order_is_caught() {
    let kernel = boot();
    let (first, second) = (SpinLock::new(()), SpinLock::new(()));
    let first = first.lock();
    let second = second.lock();
    drop(first);
    drop(second);
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockOrder(_))));
    // The first release restores PASSIVE_LEVEL under the second lock: the very reason for the rule.
    assert!(ledger.broke(|breach| matches!(breach, Breach::UnlockIrql(_))));
}

#[test]
fn release_at_another_irql_is_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    let guard = lock.lock();
    at_irql(DISPATCH_LEVEL + 1, || drop(guard));
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::UnlockIrql(_))));
}

#[test]
fn code_that_leaves_with_a_lock_is_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    at_dispatch(|_| {
        let _never_dropped = ManuallyDrop::new(lock.lock());
    });
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockStillHeld(_))));
    assert!(!ledger.broke(|breach| matches!(breach, Breach::IrqlChanged { .. })), "{ledger}");
}

#[test]
fn a_test_that_ends_with_a_lock_is_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    let _never_dropped = ManuallyDrop::new(lock.lock());
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockStillHeld(_))));
    assert!(ledger.broke(|breach| *breach == Breach::IrqlChanged { entered: PASSIVE_LEVEL, left: DISPATCH_LEVEL }));
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL, "the thread is in order for its next session");
}

#[test]
fn violations_of_other_threads_are_caught() {
    let kernel = boot();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            at_irql(DISPATCH_LEVEL + 1, || drop(SpinLock::new(()).lock()));
            done.store(true, Ordering::Relaxed);
        });
    });
    assert!(done.into_inner());
    assert_eq!(kernel.finish().violations.len(), 1);
}

#[test]
fn callbacks_at_a_wrong_level_are_caught() {
    let kernel = boot();
    in_callback("right", PASSIVE_LEVEL..=DISPATCH_LEVEL, || ());
    at_dispatch(|_| in_callback("right", DISPATCH_LEVEL..=DISPATCH_LEVEL, || ()));
    assert!(kernel.ledger().violations.is_empty());
    in_callback("too low", DISPATCH_LEVEL..=DISPATCH_LEVEL, || ());
    at_irql(DISPATCH_LEVEL + 1, || in_callback("too high", PASSIVE_LEVEL..=DISPATCH_LEVEL, || ()));
    let breaches: Vec<_> = kernel.finish().violations.into_iter().map(|violation| violation.breach).collect();
    let wrong = |callback, lowest| Breach::CallbackIrql { callback, lowest, highest: DISPATCH_LEVEL };
    assert_eq!(breaches, [wrong("too low", DISPATCH_LEVEL), wrong("too high", PASSIVE_LEVEL)]);
}

// Shows S1207.
#[test]
fn callbacks_under_a_lock_are_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    let guard = lock.lock();
    in_callback("under a lock", PASSIVE_LEVEL..=DISPATCH_LEVEL, || ());
    drop(guard);
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::CallbackUnderLock { callback: "under a lock", .. })));
    assert_eq!(ledger.violations.len(), 1, "{ledger}");
}

#[test]
fn callbacks_that_keep_a_lock_are_caught() {
    let kernel = boot();
    let lock = SpinLock::new(());
    in_callback("keeps a lock", PASSIVE_LEVEL..=DISPATCH_LEVEL, || {
        let _never_dropped = ManuallyDrop::new(lock.lock());
    });
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::LockStillHeld(_))));
}

#[test]
#[should_panic(expected = "booted already")]
fn a_second_session_on_the_same_thread_is_refused() {
    let _kernel = boot();
    let _another = boot();
}
