//! What the stand-in for ntoskrnl makes of a process that does not answer. It is built for Windows; this part of it is tested here.

#[path = "../../../tests/kernels/wine/ntoskrnl/src/answer.rs"]
mod answer;

use std::{
    cell::Cell,
    sync::{Mutex, mpsc},
    time::Duration,
};

use answer::LOOKS;

/// What it needs of the rest.
mod report {
    use std::sync::{Mutex, MutexGuard};

    pub(crate) static VIOLATIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    pub(crate) fn violation(what: &str) {
        lock(&VIOLATIONS).push(what.to_owned());
    }
}

/// The thread that asks is one for all.
static ALONE: Mutex<()> = Mutex::new(());

/// Asks a process that does not answer, and has ended at look number `ends`: how often was looked, and whether that is a violation.
fn silent(ends: Option<usize>) -> (usize, bool) {
    let _alone = ALONE.lock().unwrap();
    report::VIOLATIONS.lock().unwrap().clear();
    let looks = Cell::new(0);
    let has_ended = || {
        looks.set(looks.get() + 1);
        Some(looks.get()) == ends
    };
    let (never, end) = mpsc::channel::<()>();
    let answer = answer::looking_every(Duration::from_millis(1), has_ended, move || end.recv().is_ok());
    drop(never);
    assert_eq!(answer, None);
    (looks.get(), !report::VIOLATIONS.lock().unwrap().is_empty())
}

#[test]
fn who_lives_and_does_not_answer_is_told() {
    assert_eq!(silent(None), (LOOKS, true));
}

#[test]
fn who_has_ended_need_not_answer_at_the_last_look_either() {
    for ends in [1, 2, LOOKS - 1, LOOKS] {
        assert_eq!(silent(Some(ends)), (ends, false));
    }
}

#[test]
fn answers_come_also_after_one_that_did_not() {
    silent(None);
    let _alone = ALONE.lock().unwrap();
    assert_eq!(answer::of(|| false, || 7), Some(7));
}
