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

use crate::{ledger, lock_table, violation::Breach};

static TIMERS: Mutex<Timers> = Mutex::new(Timers { set: BTreeMap::new(), number: 0, held: None, simulated: false });
static CHANGED: Condvar = Condvar::new();
static START: Once = Once::new();

/// The storage of a timer and its DPC; the default is uninitialised.
#[derive(Default)]
pub struct Timer<D> {
    /// Its place among the timers that are set.
    key: Cell<Option<Key>>,
    dpc: D,
}

// SAFETY: the cell is touched with TIMERS locked only.
unsafe impl<D: Send> Send for Timer<D> {}
// SAFETY: as for Send.
unsafe impl<D: Sync> Sync for Timer<D> {}

/// When it expires, and a number that tells timers of the same time apart.
type Key = (Duration, u64);

/// A timer that is set.
struct Entry {
    address: usize,
    expire: Box<dyn FnOnce() + Send>,
}

struct Timers {
    set: BTreeMap<Key, Entry>,
    number: u64,
    /// The time at which the clock is held.
    held: Option<Duration>,
    /// Whether the scheduler moves it on.
    simulated: bool,
}

struct Address<D>(NonNull<Timer<D>>);

// SAFETY: set()'s caller keeps the timer valid until its routine is entered or it is cancelled, on whatever thread.
unsafe impl<D> Send for Address<D> {}

impl<D> Timer<D> {
    pub(crate) fn dpc(&self) -> &D {
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
            (first.remove().expire)();
        }
    }
}

/// Sets a timer: `queue` is called with its DPC when it expires, once.
///
/// # Safety
/// The timer stays valid until its routine has been entered, or [`cancel`] has returned true.
pub(crate) unsafe fn set<D: 'static>(timer: NonNull<Timer<D>>, microseconds: u32, queue: fn(NonNull<D>)) {
    START.call_once(start);
    let mut timers = lock_table(&TIMERS);
    // SAFETY: valid, by contract.
    let fields = unsafe { timer.as_ref() };
    let address = timer.addr().get();
    if fields.key.get().is_some() {
        ledger::breach(Breach::SetTwice(address));
        return;
    }
    timers.number += 1;
    let key = (timers.now() + Duration::from_micros(microseconds.into()), timers.number);
    fields.key.set(Some(key));
    let set = Address(timer);
    let expire = Box::new(move || {
        let Address(timer) = { set };
        // SAFETY: its routine was not entered and it was not cancelled, so it is valid still.
        let fields = unsafe { timer.as_ref() };
        fields.key.set(None);
        queue(NonNull::from(&fields.dpc));
    });
    timers.set.insert(key, Entry { address, expire });
    CHANGED.notify_one();
}

/// Takes a timer back; false: it has expired, or was never set.
pub(crate) fn cancel<D>(timer: &Timer<D>) -> bool {
    let mut timers = lock_table(&TIMERS);
    timer.key.take().is_some_and(|key| timers.set.remove(&key).is_some())
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
    let dangling = timers.set.values().map(|entry| entry.address).find(|address| range.contains(address))?;
    timers.set.retain(|_, entry| !range.contains(&entry.address));
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
}
