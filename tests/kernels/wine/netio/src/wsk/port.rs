//! The threads that do what may wait: one for all that listen, one for all connections, and one for all
//! datagrams, whatever the number of sockets. So no connection
//! waits to be accepted while many others come to their ends, as it would not have to on a computer with more than one processor.

use std::{
    sync::{Mutex, OnceLock},
    thread,
};

use kernel::violation;

use super::{
    linux::{File, Poll},
    socket::{self, Kind},
};
use crate::lock;

type Job = Box<dyn FnOnce() + Send>;

/// What a thread was asked to do.
struct Jobs {
    waiting: Vec<Job>,
    /// It waits for events, and has to be told of jobs.
    rests: bool,
}

/// What a thread is told by. It is never closed, and the thread never ends.
struct Port {
    poll: OnceLock<Option<Poll>>,
    jobs: Mutex<Jobs>,
}

impl Port {
    const fn new() -> Self {
        Self { poll: OnceLock::new(), jobs: Mutex::new(Jobs { waiting: Vec::new(), rests: false }) }
    }

    /// The one for sockets of this kind.
    fn of(kind: Kind) -> &'static Self {
        static LISTENERS: Port = Port::new();
        static CONNECTIONS: Port = Port::new();
        static DATAGRAMS: Port = Port::new();
        match kind {
            Kind::Listener => &LISTENERS,
            Kind::Connection => &CONNECTIONS,
            Kind::Datagram => &DATAGRAMS,
        }
    }

    fn poll(&'static self) -> Option<Poll> {
        *self.poll.get_or_init(|| {
            kernel::pin();
            let poll = Poll::new();
            if let Err(status) = poll {
                violation(&format!("stand-in: no sockets of Linux: {status:#x}"));
            }
            let poll = poll.ok()?;
            thread::spawn(move || self.serve(poll));
            Some(poll)
        })
    }

    fn serve(&self, poll: Poll) {
        for turn in 0_usize.. {
            let mut jobs = lock(&self.jobs);
            let waiting = std::mem::take(&mut jobs.waiting);
            let rests = waiting.is_empty();
            jobs.rests = rests;
            drop(jobs);
            at_some_level(turn, || waiting.into_iter().for_each(|job| job()));
            let Ok(names) = poll.wait(rests) else { return violation("stand-in: there are no more events of sockets") };
            at_some_level(turn, || names.into_iter().for_each(socket::proceed));
        }
    }
}

/// Does something, in which requests may be completed, now at DISPATCH_LEVEL, now at PASSIVE_LEVEL.
fn at_some_level(turn: usize, body: impl FnOnce()) {
    if turn.is_multiple_of(4) { body() } else { kernel::at_dispatch_before_dpcs(body) }
}

/// Makes the threads ready.
pub(super) fn prepare() {
    for kind in Kind::ALL {
        Port::of(kind).poll();
    }
}

/// Has the thread of its kind learn of a socket, by the name that it has in the table of sockets.
pub(super) fn watch(kind: Kind, file: File, name: usize) {
    if let Some(Err(status)) = Port::of(kind).poll().map(|poll| poll.watch(file, name)) {
        violation(&format!("stand-in: a socket cannot be watched: {status:#x}"));
    }
}

/// Has the thread of this kind of socket do something, after what was posted to it before.
pub(super) fn post(kind: Kind, job: impl FnOnce() + Send + 'static) {
    let port = Port::of(kind);
    let mut jobs = lock(&port.jobs);
    jobs.waiting.push(Box::new(job));
    let rests = std::mem::take(&mut jobs.rests);
    drop(jobs);
    if let Some(poll) = port.poll().filter(|_| rests) {
        poll.ring();
    }
}
