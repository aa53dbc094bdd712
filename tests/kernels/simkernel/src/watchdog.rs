//! The end of tests that stall.

use std::{
    fmt,
    io::{self, Write},
    process,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::ledger::Ledger;

/// Set when a watched closure has run out of time: all waits in the simulated kernel panic.
static STALLED: AtomicBool = AtomicBool::new(false);

/// How long a stalled closure has to come back, by a panic in a wait, before the process is ended.
const GRACE: Duration = Duration::from_secs(3);

/// Runs `code`, which should end within `limit`. If it does not, what is outstanding goes to stderr, and the thread
/// panics if it waits in the simulated kernel; otherwise, as nothing else can end it, the process aborts.
///
/// # Panics
/// If `code` takes longer than `limit`.
pub fn watchdog<R>(limit: Duration, code: impl FnOnce() -> R) -> R {
    let (done, ended) = mpsc::channel::<()>();
    let monitor = move || {
        if ended.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout) {
            return;
        }
        report(format_args!("not done after {limit:.1?}. Outstanding:\n{}", Ledger::now()));
        STALLED.store(true, Ordering::Relaxed);
        if ended.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            report(format_args!("stalled outside of the simulated kernel, aborting"));
            process::abort();
        }
    };
    let monitor = thread::spawn(monitor);
    let result = code();
    drop(done);
    let _ended = monitor.join();
    panic_if_stalled();
    result
}

/// Writes to stderr itself: what `eprintln` writes in a test goes down with an aborted process.
fn report(message: fmt::Arguments<'_>) {
    let _nothing_else_to_do = writeln!(io::stderr(), "simkernel: {message}");
}

/// # Panics
/// If a watched closure has run out of time.
pub(crate) fn panic_if_stalled() {
    assert!(!STALLED.load(Ordering::Relaxed), "stalled: see the watchdog's report");
}

/// A new session begins.
pub(crate) fn reset() {
    STALLED.store(false, Ordering::Relaxed);
}
