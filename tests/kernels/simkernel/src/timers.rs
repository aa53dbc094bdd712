//! One-shot timers, on a clock that follows the real time or that a test holds and moves on.
#![expect(unsafe_code, reason = "timers that are set are known by their addresses")]

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::Range,
    ptr::NonNull,
    sync::{Condvar, Mutex, Once, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    ledger, lock_table,
    processors::{self, Dpc},
    violation::Breach,
};

static TIMERS: Mutex<Timers> =
    Mutex::new(Timers { set: BTreeMap::new(), number: 0, held: None, simulated: false, granularity: 0 });
static CHANGED: Condvar = Condvar::new();
static START: Once = Once::new();

/// The storage of a timer and its DPC; the default is uninitialised.
#[derive(Default)]
pub struct Timer {
    /// Its place among the timers that are set.
    key: Cell<Option<Key>>,
    dpc: Dpc,
}

// SAFETY: the cell is touched with TIMERS locked only.
unsafe impl Send for Timer {}
// SAFETY: as for Send.
unsafe impl Sync for Timer {}

/// When it expires, and a number that tells timers of the same time apart.
type Key = (Duration, u64);

/// A timer that is set.
struct Set(NonNull<Timer>);

// SAFETY: set()'s caller keeps the timer valid until its routine is entered or it is cancelled, on whatever thread.
unsafe impl Send for Set {}

struct Timers {
    set: BTreeMap<Key, Set>,
    number: u64,
    /// The time at which the clock is held.
    held: Option<Duration>,
    /// Whether the scheduler moves it on.
    simulated: bool,
    /// Microseconds by which the driver has to expect a timer to be late. The timers are exact.
    granularity: u32,
}

impl Timer {
    pub(crate) fn dpc(&self) -> &Dpc {
        &self.dpc
    }
}

impl Timers {
    fn now(&self) -> Duration {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        self.held.unwrap_or_else(|| EPOCH.get_or_init(Instant::now).elapsed())
    }

    /// Expires what is due. With the lock held, so that each timer is set or its DPC queued, for whoever looks.
    fn expire(&mut self) {
        let now = self.now();
        while let Some(first) = self.set.first_entry()
            && first.key().0 <= now
        {
            let Set(timer) = first.remove();
            // SAFETY: its routine was not entered and it was not cancelled, so it is valid.
            let fields = unsafe { timer.as_ref() };
            fields.key.set(None);
            // SAFETY: as above; the routine is called once.
            let _queued = unsafe { processors::queue(NonNull::from(&fields.dpc)) };
        }
    }
}

/// Sets a timer: its DPC is queued when it expires.
///
/// # Safety
/// The timer stays valid until its routine has been entered, or [`cancel`] has returned true.
pub(crate) unsafe fn set(timer: NonNull<Timer>, microseconds: u32) {
    START.call_once(start);
    let mut timers = lock_table(&TIMERS);
    // SAFETY: valid, by contract.
    let fields = unsafe { timer.as_ref() };
    if fields.key.get().is_some() {
        ledger::breach(Breach::SetTwice(timer.addr().get()));
        return;
    }
    timers.number += 1;
    let key = (timers.now() + Duration::from_micros(microseconds.into()), timers.number);
    fields.key.set(Some(key));
    timers.set.insert(key, Set(timer));
    CHANGED.notify_one();
}

/// Takes a timer back; false: it has expired, or was never set.
pub(crate) fn cancel(timer: &Timer) -> bool {
    let mut timers = lock_table(&TIMERS);
    timer.key.take().is_some_and(|key| timers.set.remove(&key).is_some())
}

/// The time since the first look at the clock.
pub(crate) fn now() -> Duration {
    lock_table(&TIMERS).now()
}

/// Expires what is due, without waiting for the clock's thread to get its turn.
pub(crate) fn expire_due() {
    lock_table(&TIMERS).expire();
}

fn start() {
    let spawned = thread::Builder::new().name("clock".to_owned()).spawn(run);
    assert!(spawned.is_ok(), "no thread for the clock");
}

/// The clock: expires timers as the real time goes on.
fn run() {
    let mut timers = lock_table(&TIMERS);
    loop {
        timers.expire();
        timers = match timers.set.first_key_value() {
            Some((&(due, _), _)) if timers.held.is_none() => {
                let left = due.saturating_sub(timers.now());
                CHANGED.wait_timeout(timers, left).unwrap_or_else(PoisonError::into_inner).0
            }
            _ => CHANGED.wait(timers).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// Has the scheduler move the clock.
pub(crate) fn simulate_time() {
    hold();
    lock_table(&TIMERS).simulated = true;
}

/// Moves a simulated clock on to when the first timer expires. False: it is not simulated, or there is none.
pub(crate) fn expire_next() -> bool {
    let mut timers = lock_table(&TIMERS);
    let first = timers.set.first_key_value().map(|(&(due, _), _)| due);
    let expires = timers.simulated && first.is_some();
    if expires {
        timers.held = timers.held.max(first);
        timers.expire();
    }
    expires
}

/// Holds the clock.
pub(crate) fn hold() {
    let mut timers = lock_table(&TIMERS);
    timers.simulated = false;
    timers.held = Some(timers.now());
}

/// Moves the held clock on.
///
/// # Panics
/// If it is not held.
pub(crate) fn advance(time: Duration) {
    let mut timers = lock_table(&TIMERS);
    let held = timers.held.expect("the clock follows the real time: hold it first");
    timers.held = Some(held + time);
    timers.expire();
}

/// Takes timers out whose memory is about to go; gives the address of one.
pub(crate) fn unset_in(range: &Range<usize>) -> Option<usize> {
    let mut timers = lock_table(&TIMERS);
    let dangling = timers.set.values().map(|set| set.0.addr().get()).find(|address| range.contains(address))?;
    timers.set.retain(|_, set| !range.contains(&set.0.addr().get()));
    Some(dangling)
}

/// How many are set.
pub(crate) fn count() -> usize {
    lock_table(&TIMERS).set.len()
}

/// A new session begins: no timer is set, and the clock follows the real time.
pub(crate) fn reset() {
    let mut timers = lock_table(&TIMERS);
    timers.set.clear();
    timers.held = None;
    timers.simulated = false;
    timers.granularity = 0;
}

pub(crate) fn granularity() -> u32 {
    lock_table(&TIMERS).granularity
}

pub(crate) fn set_granularity(microseconds: u32) {
    lock_table(&TIMERS).granularity = microseconds;
}
