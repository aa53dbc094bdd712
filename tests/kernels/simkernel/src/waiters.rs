//! The threads that wait for something.

use std::{
    fmt,
    ops::Range,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use crate::lock_table;

static WAITERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    thread: thread::Thread,
    what: &'static str,
    address: usize,
    since: Instant,
}

/// A thread that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its name.
    pub thread: String,
    /// What it waits for.
    pub what: &'static str,
    /// The address of what it waits for.
    pub address: usize,
    /// How long it has waited.
    pub time: Duration,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} waits for {} {:#x}, {:.1?}", self.thread, self.what, self.address, self.time)
    }
}

/// The thread waits as long as this lives.
pub(crate) struct Guard;

/// The current thread begins to wait. It waits for one thing at a time.
pub(crate) fn enter(what: &'static str, address: usize) -> Guard {
    lock_table(&WAITERS).push(Entry { thread: thread::current(), what, address, since: Instant::now() });
    Guard
}

impl Drop for Guard {
    fn drop(&mut self) {
        let own = thread::current().id();
        lock_table(&WAITERS).retain(|entry| entry.thread.id() != own);
    }
}

pub(crate) fn list() -> Vec<Waiting> {
    let name = |thread: &thread::Thread| thread.name().unwrap_or("unnamed").to_owned();
    lock_table(&WAITERS)
        .iter()
        .map(|entry| Waiting {
            thread: name(&entry.thread),
            what: entry.what,
            address: entry.address,
            time: entry.since.elapsed(),
        })
        .collect()
}

/// What a thread waits for in a range of addresses.
pub(crate) fn waited_for_in(range: &Range<usize>) -> Option<usize> {
    lock_table(&WAITERS).iter().map(|entry| entry.address).find(|address| range.contains(address))
}
