//! `platform::Deferred`: what happened before a schedule is seen by a run that follows; never two runs at once.

use std::sync::Arc as StdArc;

use loom::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use loom_models::{Cell, Loom, Wakeup, explore, faults};
use planted_atomics::Defect;
use platform::{Arc, Deferred, Dispatch, RunDeferred};

/// All of them take hours.
const BOUND: usize = 3;

struct Object {
    deferred: Deferred<Loom>,
    /// What the run looks at. There is no lock: only the deferred call orders it.
    asked: [AtomicBool; 2],
    /// What the runs have done, which they touch one after the other.
    answered: [Cell; 2],
    running: AtomicBool,
    seen: StdArc<Wakeup>,
}

impl RunDeferred<Loom> for Object {
    fn deferred(&self) -> &Deferred<Loom> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Loom>, _dispatch: &Dispatch<'_>) {
        assert!(!this.running.swap(true, Ordering::Relaxed), "two runs at once");
        for (asked, answered) in this.asked.iter().zip(&this.answered) {
            if asked.load(Ordering::Relaxed) && answered.read() == 0 {
                answered.add_one();
                this.seen.wake();
            }
        }
        this.running.store(false, Ordering::Relaxed);
    }
}

impl Object {
    fn ask(this: &Arc<Self, Loom>, what: usize) {
        this.asked[what].store(true, Ordering::Relaxed);
        Deferred::schedule(this);
    }
}

/// Two threads ask for something each.
fn all_is_seen() {
    explore(Some(BOUND), |kernel| {
        let seen = StdArc::new(Wakeup::default());
        let object = Object {
            deferred: Deferred::default(),
            asked: std::array::from_fn(|_| AtomicBool::new(false)),
            answered: Default::default(),
            running: AtomicBool::new(false),
            seen: seen.clone(),
        };
        let object = Arc::<_, Loom>::try_new(object).expect("memory");
        Deferred::initialize(&object);
        kernel.live();
        let shared = object.clone();
        let other = thread::spawn(move || Object::ask(&shared, 1));
        Object::ask(&object, 0);
        seen.wait_for(2);
        other.join().expect("a thread");
    });
}

#[test]
fn nothing_asked_for_is_lost() {
    all_is_seen();
}

faults! {
    a_torn_state_is_found: all_is_seen with Atomics(Defect::TornUpdate) says "panicked",
    relaxed_orderings_are_found: all_is_seen with Atomics(Defect::Relaxed) says "deadlock",
}
