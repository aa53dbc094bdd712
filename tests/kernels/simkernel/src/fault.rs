//! Planted failures.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    marker::PhantomData,
    sync::Mutex,
    thread,
    time::Duration,
};

use crate::{
    lock_table,
    session::Session,
    site::{Site, Stack},
    watchdog,
};

/// What can be made to fail: all that [`platform::Platform`] may refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    Allocation,
    Mapping,
    /// One on a socket.
    Request,
}

impl Point {
    fn name(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Mapping => "mapping of an MDL",
            Self::Request => "request on a socket",
        }
    }
}

static PLANTED: Mutex<[Option<Planted>; 3]> = Mutex::new([const { None }; 3]);
/// The search for call sites, while [`each_fault`] runs its scenario.
static SEARCH: Mutex<Option<Search>> = Mutex::new(None);

/// A planted failure.
enum Planted {
    /// The number of calls until it happens: 1 is the next one.
    Due(u64),
    /// It has happened to this call.
    Over(Stack),
}

/// A planted failure. It can happen as long as this lives, and happens once.
#[must_use = "dropping it takes the fault away"]
#[derive(Debug)]
pub struct Fault<'session> {
    point: Point,
    _session: PhantomData<&'session ()>,
}

impl Fault<'_> {
    /// Has the `nth` call of `point` from now fail; 1 is the next one.
    pub(crate) fn plant(point: Point, nth: u64) -> Self {
        assert!(nth != 0, "the first call has the number 1");
        let before = lock_table(&PLANTED)[point as usize].replace(Planted::Due(nth));
        assert!(before.is_none(), "one fault of a kind at a time");
        Self { point, _session: PhantomData }
    }

    /// Whether the failure has happened.
    #[must_use]
    pub fn happened(&self) -> bool {
        matches!(lock_table(&PLANTED)[self.point as usize], Some(Planted::Over(_)))
    }

    /// The call that has failed.
    #[must_use]
    pub fn site(&self) -> Option<Site> {
        match &lock_table(&PLANTED)[self.point as usize] {
            Some(Planted::Over(stack)) => Some(Site::of(self.point.name(), stack.clone())),
            _ => None,
        }
    }
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        lock_table(&PLANTED)[self.point as usize] = None;
    }
}

/// Whether this call of `point` is the one to fail.
pub(crate) fn strikes(point: Point) -> bool {
    if let Some(search) = &mut *lock_table(&SEARCH) {
        return search.strikes(Site::here(point.name()));
    }
    match &mut lock_table(&PLANTED)[point as usize] {
        Some(Planted::Due(left)) if *left > 1 => *left -= 1,
        Some(due @ Planted::Due(_)) => {
            *due = Planted::Over(Stack::here());
            return true;
        }
        _ => {}
    }
    false
}

#[derive(Default)]
struct Search {
    /// The sites passed, in their order.
    passed: Vec<Site>,
    seen: BTreeSet<Site>,
    /// Those to fail, once each, in this order.
    targets: VecDeque<Site>,
}

impl Search {
    fn strikes(&mut self, site: Site) -> bool {
        let strikes = self.targets.front() == Some(&site);
        if strikes {
            self.targets.pop_front();
        }
        if self.seen.insert(site.clone()) {
            self.passed.push(site);
        }
        strikes
    }
}

/// The call sites that [`each_fault`] had fail.
#[derive(Debug)]
pub struct Faults {
    /// Each of them, in the order in which they were first passed.
    pub failed: Vec<Site>,
    /// Those that were passed once, and not any more in the run in which they should have failed.
    pub missed: Vec<Site>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} call sites failed once each, {} were not reached again", self.failed.len(), self.missed.len())
    }
}

/// A session ends: its search is over, also if it ends by a panic.
pub(crate) fn end_search() {
    *lock_table(&SEARCH) = None;
}

/// Says which site was failing, if the thread panics.
struct Context(Option<Site>);

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(site) = self.0.take().filter(|_| thread::panicking()) {
            eprintln!("simkernel: the panic came when this call had failed: {site}");
        }
    }
}

/// Has every fallible call of `scenario` fail once per call site, and per way to it: two callers of one function are two
/// sites. `scenario` runs once without a failure, then once for each site, in a session of its own that `boot` starts, with a
/// watchdog, until there is no site left that was not tried. A site that only appears after a failure fails after that one.
///
/// `check` gets what the scenario returned, and the site that failed (none: nothing did). The end of each session checks that
/// nothing is left.
///
/// In a seeded session ([`crate::boot_seeded`]) each site is passed again for sure when it is its turn to fail; else the
/// machine's schedule may have some passed by ([`Faults::missed`]).
///
/// # Panics
/// If a session does not end clean, or after `limit`.
pub fn each_fault<T>(
    boot: impl Fn() -> Session,
    limit: Duration,
    mut scenario: impl FnMut(&Session) -> T,
    mut check: impl FnMut(Option<&Site>, T),
) -> Faults {
    let mut faults = Faults { failed: Vec::new(), missed: Vec::new() };
    let mut known = BTreeSet::new();
    let mut open = vec![VecDeque::new()];
    // Loads what it takes to name a call, outside of any limit.
    let _here = Site::here("");
    while let Some(targets) = open.pop() {
        let target = targets.back().cloned();
        let context = Context(target.clone());
        let session = boot();
        *lock_table(&SEARCH) = Some(Search { targets: targets.clone(), ..Search::default() });
        let outcome = watchdog(limit, || scenario(&session));
        let search = lock_table(&SEARCH).take().unwrap_or_default();
        let happened = search.targets.is_empty();
        check(target.as_ref().filter(|_| happened), outcome);
        drop(session);
        drop(context);
        let new: Vec<_> = search.passed.into_iter().filter(|site| known.insert(site.clone())).collect();
        open.extend(new.into_iter().rev().map(|site| targets.iter().cloned().chain([site]).collect()));
        if let Some(site) = target {
            if happened { &mut faults.failed } else { &mut faults.missed }.push(site);
        }
    }
    faults
}
