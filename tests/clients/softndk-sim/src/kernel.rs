//! The session of the simulated kernel, and the ways to end the process.

use std::{
    fmt,
    io::{self, Write},
    panic, process,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use platform::{PASSIVE_LEVEL, Platform};
use simkernel::{Ledger, Session, SimKernel};

/// The one session, which lasts as long as the process.
static SESSION: OnceLock<&'static Session> = OnceLock::new();

/// Begins a call from C that is for PASSIVE_LEVEL. Starts the kernel, if it is the first.
pub(crate) fn enter_passive(call: &str) {
    enter();
    if SimKernel::irql() != PASSIVE_LEVEL {
        fatal(format_args!(
            "{call} was called at IRQL {}, from a callback: it is for PASSIVE_LEVEL",
            SimKernel::irql()
        ));
    }
}

/// Begins any other call from C.
pub(crate) fn enter() {
    session();
}

fn session() -> &'static Session {
    SESSION.get_or_init(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            print(info);
            process::abort();
        }));
        simkernel::on_violation(|violation| fatal(format_args!("{violation}")));
        Box::leak(Box::new(simkernel::boot()))
    })
}

/// Waits until no deferred call is queued or running.
pub(crate) fn run_idle() {
    session().flush_dpcs();
}

/// Lets the deferred calls return that have just told the program that something is gone: they free it after that. Not for
/// ever, as others may be busy.
pub(crate) fn wait_for_dpcs() {
    const ENOUGH: Duration = Duration::from_secs(1);
    let start = Instant::now();
    let busy = || !Ledger::now().dpcs.is_empty();
    while SimKernel::irql() == PASSIVE_LEVEL && busy() && start.elapsed() < ENOUGH {
        thread::yield_now();
    }
}

/// Prints what the program has done wrong, and ends the process.
pub(crate) fn fatal(what: fmt::Arguments<'_>) -> ! {
    report(what);
    report(format_args!("aborting; RUST_LIB_BACKTRACE=1 adds a backtrace to rules of the kernel"));
    process::abort();
}

/// Prints to stderr, in one write, as other threads may print too.
pub(crate) fn report(what: fmt::Arguments<'_>) {
    let _nothing_else_to_do = io::stderr().write_all(format!("softndk_sim: {what}\n").as_bytes());
}

/// Locks a table of the library. A panic has ended the process, so none is ever poisoned.
pub(crate) fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
