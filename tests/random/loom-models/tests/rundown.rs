//! `platform::Arc` and `Weak`: exactly one of all references ends with the object, and nobody uses it after that.

use std::sync::Arc as StdArc;

use loom::thread;
use loom_models::{Counted, Loom, Wakeup, explore, faults};
use planted_atomics::Defect;
use platform::Arc;

fn object() -> (Arc<Counted, Loom>, StdArc<Wakeup>) {
    let dropped = StdArc::new(Wakeup::default());
    (Arc::try_new(Counted::new(&dropped)).expect("memory"), dropped)
}

/// Reads the object, and gives the reference up. Whether it was the last.
fn give_up(object: Arc<Counted, Loom>) -> bool {
    object.read();
    Arc::into_inner(object).is_some_and(|mut object| {
        object.change();
        true
    })
}

/// Three references are given up at once.
fn one_is_the_last() {
    explore(None, |_| {
        let (object, dropped) = object();
        let others = [object.clone(), object.clone()].map(|object| thread::spawn(move || give_up(object)));
        let own = usize::from(give_up(object));
        let last: usize = others.into_iter().map(|other| usize::from(other.join().expect("a thread"))).sum();
        assert_eq!(own + last, 1, "exactly one is the last");
        assert_eq!(dropped.count(), 1);
    });
}

/// A weak reference is upgraded, or not, while the last strong one goes.
fn upgrade_against_the_last() {
    explore(None, |_| {
        let (object, dropped) = object();
        let weak = Arc::downgrade(&object);
        let other = thread::spawn(move || weak.upgrade().is_some_and(give_up));
        let own = give_up(object);
        let last = other.join().expect("a thread");
        assert!(own != last, "exactly one is the last");
        assert_eq!(dropped.count(), 1);
    });
}

/// `get_mut` while the other reference makes a weak one, goes, and tries to come back.
fn get_mut_against_downgrade() {
    explore(None, |_| {
        let (mut object, dropped) = object();
        let shared = object.clone();
        let other = thread::spawn(move || {
            let weak = Arc::downgrade(&shared);
            drop(shared);
            weak.upgrade().is_some_and(give_up)
        });
        if let Some(alone) = Arc::get_mut(&mut object) {
            alone.change();
        }
        give_up(object);
        other.join().expect("a thread");
        assert_eq!(dropped.count(), 1);
    });
}

// Shows S1201.
#[test]
fn exactly_one_reference_is_the_last() {
    one_is_the_last();
}

#[test]
fn an_upgrade_keeps_the_object_or_fails() {
    upgrade_against_the_last();
}

#[test]
fn get_mut_is_exclusive() {
    get_mut_against_downgrade();
}

faults! {
    a_missing_fence_is_found: one_is_the_last with Atomics(Defect::NoFence) says "Causality violation",
    a_torn_count_is_found: one_is_the_last with Atomics(Defect::TornSubtraction) says "exactly one is the last",
    a_torn_upgrade_is_found: upgrade_against_the_last with Atomics(Defect::TornUpdate) says "panicked",
    relaxed_orderings_are_found: get_mut_against_downgrade with Atomics(Defect::Relaxed) says "Causality violation",
}
