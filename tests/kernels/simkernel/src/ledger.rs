//! What a session has done: the rules broken, the memory outstanding.

use std::{
    alloc::Layout,
    backtrace::{Backtrace, BacktraceStatus},
    collections::BTreeMap,
    env, fmt,
    panic::Location,
    sync::{
        Arc, LazyLock, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    held::{self, HeldLock},
    lock_table, mdl, network, pool,
    processors::{self, OutstandingDpc},
    timers,
    violation::{Breach, Violation},
    waiters::{self, Waiting},
};

static VIOLATIONS: Mutex<Vec<Violation>> = Mutex::new(Vec::new());
static OBSERVER: OnceLock<fn(&Violation)> = OnceLock::new();
static IN_SESSION: AtomicBool = AtomicBool::new(false);

/// More than a few repetitions of a breach tell nothing new.
const VIOLATIONS_KEPT: usize = 100;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The driver's: `Platform::allocate`.
    Pool,
    /// The consumer's: [`crate::Pages`].
    Pages,
}

/// A live allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Counts the allocations of the session, from 1.
    pub number: u64,
    /// Size and alignment in bytes.
    pub layout: Layout,
    /// What it is for.
    pub purpose: Purpose,
    /// Where it was asked for.
    pub place: &'static Location<'static>,
    /// How it came to that, if `RUST_LIB_BACKTRACE=1`.
    pub backtrace: Arc<Backtrace>,
}

/// The state of a session.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// Allocations made so far.
    pub allocation_count: u64,
    /// Those that live.
    pub live: Vec<Allocation>,
    /// The MDLs that live.
    pub live_mdls: usize,
    /// DPCs that run or wait for a processor.
    pub dpcs: Vec<OutstandingDpc>,
    /// DPCs that have run, in all sessions.
    pub dpc_runs: u64,
    /// Timers that are set.
    pub set_timers: usize,
    /// Sockets that are not closed.
    pub open_sockets: usize,
    /// Spin locks that threads hold.
    pub held_locks: Vec<HeldLock>,
    /// Threads that wait.
    pub waiting: Vec<Waiting>,
}

impl Ledger {
    /// The state at this moment.
    #[must_use]
    pub fn now() -> Self {
        let (allocation_count, live) = pool::list();
        let (dpcs, dpc_runs) = processors::list();
        Self {
            violations: lock_table(&VIOLATIONS).clone(),
            allocation_count,
            live,
            live_mdls: mdl::count(),
            dpcs,
            dpc_runs,
            set_timers: timers::count(),
            open_sockets: network::count(),
            held_locks: held::list(),
            waiting: waiters::list(),
        }
    }

    /// Bytes of the driver's live allocations.
    #[must_use]
    pub fn pool_bytes(&self) -> usize {
        self.live.iter().filter(|live| live.purpose == Purpose::Pool).map(|live| live.layout.size()).sum()
    }

    /// Whether a rule like this was broken.
    #[must_use]
    pub fn broke(&self, rule: impl Fn(&Breach) -> bool) -> bool {
        self.violations.iter().any(|violation| rule(&violation.breach))
    }

    /// Whether no rule was broken, nothing lives, and nothing is to be done.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
            && self.live.is_empty()
            && self.live_mdls == 0
            && self.dpcs.is_empty()
            && self.set_timers == 0
            && self.open_sockets == 0
    }

    /// # Panics
    /// If it is not clean.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "the kernel is not clean:\n{self}");
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "violation: {violation}")?;
        }
        let mut kinds = BTreeMap::<_, Vec<&Allocation>>::new();
        for live in &self.live {
            kinds.entry((live.purpose, live.place, live.layout.size())).or_default().push(live);
        }
        for ((purpose, place, size), live) in kinds {
            write!(f, "live: {purpose:?}, {} of {size} bytes from {place}: allocations", live.len())?;
            live.iter().take(8).try_for_each(|live| write!(f, " #{}", live.number))?;
            writeln!(f, "{}", if live.len() > 8 { " ..." } else { "" })?;
            live.first().map_or(Ok(()), |first| write_backtrace(f, &first.backtrace))?;
        }
        if self.live_mdls != 0 {
            writeln!(f, "live: {} MDLs", self.live_mdls)?;
        }
        if self.open_sockets != 0 {
            writeln!(f, "open: {} sockets", self.open_sockets)?;
        }
        self.dpcs.iter().try_for_each(|dpc| writeln!(f, "{dpc}"))?;
        self.held_locks.iter().try_for_each(|held| writeln!(f, "{held}"))?;
        self.waiting.iter().try_for_each(|waiting| writeln!(f, "{waiting}"))?;
        write!(f, "DPCs: {}; timers: {} set; ", self.dpcs.len(), self.set_timers)?;
        write!(f, "allocations: {} of {} live", self.live.len(), self.allocation_count)
    }
}

/// The way to here, if `RUST_LIB_BACKTRACE` asks for it. `RUST_BACKTRACE` alone does not: many have it set for panics, and
/// this takes far longer than all the rest.
pub(crate) fn backtrace() -> Arc<Backtrace> {
    static WANTED: LazyLock<bool> = LazyLock::new(|| env::var("RUST_LIB_BACKTRACE").is_ok_and(|value| value != "0"));
    static NONE: LazyLock<Arc<Backtrace>> = LazyLock::new(|| Arc::new(Backtrace::disabled()));
    if *WANTED { Arc::new(Backtrace::force_capture()) } else { NONE.clone() }
}

/// Writes a backtrace, if there is one.
pub(crate) fn write_backtrace(f: &mut fmt::Formatter<'_>, backtrace: &Backtrace) -> fmt::Result {
    if backtrace.status() == BacktraceStatus::Captured { write!(f, "\n{backtrace}") } else { Ok(()) }
}

/// Notes that the current thread broke a rule.
pub(crate) fn breach(breach: Breach) {
    note(Violation::here(breach));
}

/// Has every violation from now on, of all sessions, shown to `observer` as it happens, on the thread that broke the rule. It
/// must not call into the simulated kernel, whose tables may be locked. The first observer stays.
pub fn on_violation(observer: fn(&Violation)) {
    let _first = OBSERVER.set(observer);
}

pub(crate) fn note(violation: Violation) {
    if let Some(observe) = OBSERVER.get() {
        observe(&violation);
    }
    let mut violations = lock_table(&VIOLATIONS);
    if violations.len() < VIOLATIONS_KEPT {
        violations.push(violation);
    }
}

pub(crate) fn in_session() -> bool {
    IN_SESSION.load(Ordering::Acquire)
}

/// A new session begins.
pub(crate) fn begin() {
    lock_table(&VIOLATIONS).clear();
    IN_SESSION.store(true, Ordering::Release);
}

/// The session ends.
pub(crate) fn end() {
    IN_SESSION.store(false, Ordering::Release);
}
