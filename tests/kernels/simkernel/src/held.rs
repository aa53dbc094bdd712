//! The spin locks that each thread holds.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Mutex, Weak},
    thread,
};

use crate::{
    lock_table, pool,
    violation::{Breach, Place},
};

type Locks = Mutex<Vec<Entry>>;

/// The lists of all threads that ever took a lock, and live.
static THREADS: Mutex<Vec<(thread::Thread, Weak<Locks>)>> = Mutex::new(Vec::new());

thread_local! {
    static LOCKS: Arc<Locks> = {
        let locks = Arc::default();
        let mut threads = lock_table(&THREADS);
        threads.retain(|(_, locks)| locks.strong_count() > 0);
        threads.push((thread::current(), Arc::downgrade(&locks)));
        locks
    };
}

/// A lock that a thread holds.
#[derive(Clone, Copy)]
struct Entry {
    lock: usize,
    taken: &'static Location<'static>,
    /// The level to go back to.
    before: u8,
    /// The level it was taken at.
    during: u8,
}

/// A spin lock that a thread holds.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// The name of the thread.
    pub thread: String,
    /// Its address.
    pub address: usize,
    /// Where that is, in memory of the platform.
    pub place: Option<Place>,
    /// Where it was taken.
    pub taken: &'static Location<'static>,
}

impl fmt::Display for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} holds spin lock {:#x}", self.thread, self.address)?;
        self.place.map_or(Ok(()), |place| write!(f, " ({place})"))?;
        write!(f, " since {}", self.taken)
    }
}

fn with<R>(use_locks: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
    LOCKS.with(|locks| use_locks(&mut lock_table(locks)))
}

/// The spin locks that the current thread holds, by address, in the order it took them.
#[must_use]
pub fn held_locks() -> Vec<usize> {
    with(|locks| locks.iter().map(|held| held.lock).collect())
}

/// The locks held by all threads.
pub(crate) fn list() -> Vec<HeldLock> {
    let threads = lock_table(&THREADS).clone();
    let name = |thread: &thread::Thread| thread.name().unwrap_or("unnamed").to_owned();
    let of = |(thread, locks): (thread::Thread, Weak<Locks>)| {
        let locks = locks.upgrade().map_or_else(Vec::new, |locks| lock_table(&locks).clone());
        locks.into_iter().map(move |held| HeldLock {
            thread: name(&thread),
            address: held.lock,
            place: pool::place(held.lock),
            taken: held.taken,
        })
    };
    threads.into_iter().flat_map(of).collect()
}

pub(crate) fn count() -> usize {
    with(|locks| locks.len())
}

/// The current thread takes a lock, at `during`, and will go back to `before`.
pub(crate) fn push(lock: usize, taken: &'static Location<'static>, before: u8, during: u8) {
    with(|locks| locks.push(Entry { lock, taken, before, during }));
}

/// Takes a lock off the list, at `current`; gives the level to go back to.
pub(crate) fn pop(lock: usize, current: u8, breach: fn(Breach)) -> u8 {
    let popped = with(|locks| {
        let position = locks.iter().rposition(|held| held.lock == lock)?;
        let last = position + 1 == locks.len();
        Some((locks.remove(position), last))
    });
    let Some((held, last)) = popped else {
        breach(Breach::LockNotHeld(lock));
        return current;
    };
    if !last {
        breach(Breach::LockOrder(lock));
    }
    if current != held.during {
        breach(Breach::UnlockIrql(lock));
    }
    held.before
}

/// Forgets all locks of the current thread but the first `count`.
pub(crate) fn truncate(count: usize) {
    with(|locks| locks.truncate(count));
}
