//! What the driver notices, for tests that ask for it, and faults for people.

use std::{
    mem,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use platform::Notice;

use crate::lock_table;

static WANTED: AtomicBool = AtomicBool::new(false);
static FAULTS_TOLD: AtomicBool = AtomicBool::new(false);
static DATA_WANTED: AtomicBool = AtomicBool::new(false);
static NOTICES: Mutex<Vec<Notice>> = Mutex::new(Vec::new());

/// Nobody asks.
pub(crate) fn reset() {
    WANTED.store(false, Ordering::Relaxed);
    DATA_WANTED.store(false, Ordering::Relaxed);
    lock_table(&NOTICES).clear();
}

/// Keeps what comes from now on.
pub(crate) fn keep() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Tells of each fault that a rule causes on standard error from now on.
pub fn tell_faults() {
    FAULTS_TOLD.store(true, Ordering::Relaxed);
}

/// Those of data too.
pub(crate) fn keep_data() {
    keep();
    DATA_WANTED.store(true, Ordering::Relaxed);
}

pub(crate) fn wants_data() -> bool {
    DATA_WANTED.load(Ordering::Relaxed)
}

pub(crate) fn add(notice: &Notice) {
    if let Notice::Fault { rule, .. } = notice
        && FAULTS_TOLD.load(Ordering::Relaxed)
    {
        eprintln!("SoftNDK: fault rule {rule} has fired");
    }
    if WANTED.load(Ordering::Relaxed) {
        lock_table(&NOTICES).push(*notice);
    }
}

/// Takes what has come.
pub(crate) fn take() -> Vec<Notice> {
    mem::take(&mut lock_table(&NOTICES))
}
