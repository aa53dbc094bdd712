//! Sends end when the peer has their bytes, as WSK buffers nothing: between computers that takes a while.

use std::{
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    time::{Duration, Instant},
};

use kernel::violation;

use super::{port, socket::Kind};
use crate::lock;

/// Sends of a client that has had more than one under way at some time.
const MANY: u32 = 1000;

/// Sends between computers, and how many of one socket were under way at most.
static COUNT: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A send has begun, with which so many are under way on its socket.
pub(super) fn begun(under_way: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    MOST.fetch_max(under_way, Ordering::Relaxed);
}

/// Who sends much has several sends under way: one at a time is one for each round trip.
pub(super) fn check() {
    let (count, most) = (COUNT.swap(0, Ordering::Relaxed), MOST.swap(0, Ordering::Relaxed));
    if count >= MANY && most <= 1 {
        violation(&format!("WskSend: of {count} sends no two were under way on one socket"));
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The thread that waits: the time is the same for all, so what began first is due first.
static WAITING: LazyLock<Mutex<Sender<(Instant, Job)>>> = LazyLock::new(|| {
    let (sender, waiting) = channel::<(Instant, Job)>();
    std::thread::spawn(move || {
        for (due, job) in waiting {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            port::post(Kind::Connection, job);
        }
    });
    Mutex::new(sender)
});

/// Has the thread of connections do something so much later.
pub(super) fn after(time: Duration, job: impl FnOnce() + Send + 'static) {
    // The thread never ends.
    let _sent = lock(&WAITING).send((Instant::now() + time, Box::new(job)));
}
