//! Sessions: one user of the simulated kernel at a time.

use std::{
    cell::Cell,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use platform::{Notice, SocketError};

use crate::{
    fault::{self, Fault, Point},
    irql,
    ledger::{self, Ledger},
    lock_table, mdl, network, notices, order, pool, processors,
    schedule::{self, OneProcessor, Processors, Trace},
    timers, watchdog,
};

static SESSION: Mutex<()> = Mutex::new(());

/// Sessions so far: each that is not seeded cuts the bytes of its network in another way.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static BOOTED: Cell<bool> = const { Cell::new(false) };
}

/// How long the end of a session waits for DPCs.
const QUIESCE_LIMIT: Duration = Duration::from_secs(20);

/// The simulated kernel, from [`boot`] until it is dropped.
///
/// # Panics
/// Dropping it panics if the ledger is not clean then (unless the thread panics already; then the ledger is printed).
#[derive(Debug)]
pub struct Session {
    /// Parallel tests of one process wait here for each other.
    _exclusive: MutexGuard<'static, ()>,
    /// The ledger was looked at.
    finished: bool,
    /// Of a seeded session.
    processors: Option<Processors>,
    _processor: Option<OneProcessor>,
}

/// Starts with a clean ledger, when the session before has ended.
///
/// # Panics
/// If the thread has a session already.
#[must_use = "the session ends when it is dropped"]
#[track_caller]
pub fn boot() -> Session {
    assert!(!BOOTED.get(), "this thread has booted already");
    let exclusive = lock_table(&SESSION);
    BOOTED.set(true);
    irql::reset();
    watchdog::reset();
    mdl::reset();
    network::reset(SESSIONS.fetch_add(1, Ordering::Relaxed));
    notices::reset();
    order::reset();
    pool::reset();
    timers::reset();
    ledger::begin();
    Session { _exclusive: exclusive, finished: false, processors: None, _processor: None }
}

/// As [`boot`], with a schedule that `seed` determines: one thread or processor runs at a time, and which one is chosen by a
/// generator wherever the driver enters the simulated kernel. A panic prints the seed; see [`crate::seeds`].
///
/// * Threads that call the driver are started with [`crate::scope`].
/// * Loops that wait call [`crate::pause`]. Whoever waits otherwise for another thread of the session waits for ever.
/// * Timers expire while nobody has anything to do but to wait; [`Session::hold_clock`] ends that.
/// * When nobody can go on, because of a deadlock or of something that never comes, that is reported at once.
#[must_use = "the session ends when it is dropped"]
#[track_caller]
pub fn boot_seeded(seed: u64) -> Session {
    let mut session = boot();
    timers::simulate_time();
    schedule::begin(seed);
    network::reset(seed);
    session._processor = Some(OneProcessor::enter());
    session.processors = Some(schedule::start_processors());
    session
}

impl Session {
    /// Has the `nth` allocation from now fail, on whatever thread; 1 is the next one.
    pub fn fail_allocation(&self, nth: u64) -> Fault<'_> {
        Fault::plant(Point::Allocation, nth)
    }

    /// Has the `nth` mapping of an MDL from now fail; 1 is the next one. Those that are mapped already do not count.
    pub fn fail_mapping(&self, nth: u64) -> Fault<'_> {
        Fault::plant(Point::Mapping, nth)
    }

    /// Has the `nth` request on a socket from now fail, but for closes; 1 is the next one.
    pub fn fail_request(&self, nth: u64) -> Fault<'_> {
        Fault::plant(Point::Request, nth)
    }

    /// Resets each connection there is, sooner or later.
    pub fn break_connections(&self) {
        network::break_connections();
    }

    /// Kills the socket of each listener there is, sooner or later. An accept fails by what they `say`.
    pub fn break_listeners(&self, say: SocketError) {
        network::break_listeners(say);
    }

    /// Whether there is TCP from now on: without it no connection is made, and nobody listens.
    pub fn set_tcp(&self, there: bool) {
        network::set_absent(!there);
    }

    /// From now on nothing that is sent arrives, and no connection is made.
    pub fn hold_network(&self) {
        network::hold(true);
    }

    /// Ends [`Session::hold_network`].
    pub fn release_network(&self) {
        network::hold(false);
    }

    /// Listeners that are closed let connections in until this is taken back.
    pub fn hold_listeners(&self, held: bool) {
        network::hold_listeners(held);
    }

    /// Holds a sender back from now on when so many of its bytes, at least 1, were not received.
    pub fn limit_in_flight(&self, bytes: usize) {
        network::limit_in_flight(bytes);
    }

    /// Sends under way on the socket that has most of them.
    #[must_use]
    pub fn sends_under_way(&self) -> usize {
        network::sends_under_way()
    }

    /// What happened so far, if the session is seeded.
    #[must_use]
    pub fn trace(&self) -> Option<Trace> {
        schedule::trace()
    }

    /// Has what the driver notices kept from now on.
    pub fn keep_notices(&self) {
        notices::keep();
    }

    /// The same, with each post and completion.
    pub fn keep_notices_of_data(&self) {
        notices::keep_data();
    }

    /// Takes what the driver has noticed since that was asked for last.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        notices::take()
    }

    /// The state at this moment.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        Ledger::now()
    }

    /// Waits until no DPC is queued or running, those of timers that are due included (`KeFlushQueuedDpcs`, wdm.h). For ever,
    /// if they requeue themselves.
    pub fn flush_dpcs(&self) {
        timers::expire_due();
        while !processors::flush(QUIESCE_LIMIT) {}
    }

    /// Stops the clock of timers: from now on it moves by [`Session::advance`] only, until the session ends.
    pub fn hold_clock(&self) {
        timers::hold();
    }

    /// Moves a held clock on. The DPCs of the timers that expire are queued in the order of their times before this returns.
    pub fn advance(&self, time: Duration) {
        timers::advance(time);
    }

    /// Sets the granularity that the driver is told, until the session ends. The timers stay exact.
    pub fn set_timer_granularity(&self, microseconds: u32) {
        timers::set_granularity(microseconds);
    }

    /// Ends the session as dropping it does, but gives the ledger instead of panicking.
    #[must_use]
    pub fn finish(mut self) -> Ledger {
        self.quiesce()
    }

    fn quiesce(&mut self) -> Ledger {
        self.finished = true;
        irql::check_at_end();
        processors::flush(QUIESCE_LIMIT);
        if let Some(processors) = self.processors.take() {
            processors.stop();
        }
        fault::end_search();
        pool::release_freed();
        let ledger = Ledger::now();
        ledger::end();
        BOOTED.set(false);
        ledger
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let ledger = self.quiesce();
        if thread::panicking() {
            eprintln!("simkernel at the end of a failed test:\n{ledger}");
        } else {
            ledger.assert_clean();
        }
    }
}
