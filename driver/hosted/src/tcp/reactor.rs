//! The thread that the host tells when sockets become ready, and that closes them.

use std::{
    io::{self, ErrorKind},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use mio::{Events, Poll, Registry, Token, Waker, event::Event};
use slab::Slab;

use super::{
    endpoint::{Endpoint, Readiness, Source},
    request::Request,
    turn,
};
use crate::processor::Raised;

/// Of the waker; sockets have small ones.
const WAKER: Token = Token(usize::MAX);

/// After the host has refused.
const RETRY: Duration = Duration::from_millis(1);

/// After a turn that moved so many bytes, for so long, more events are likely to follow each other closely. Then to look for the next one,
/// for so long, costs less than to sleep and be woken, which is paid by the one at the other end, if that is on this host. Others have
/// their turn between two looks.
const BULK: usize = 16 << 10;
const BUSY: Duration = Duration::from_millis(1);
const LOOKS: Duration = Duration::from_micros(30);

/// What the host tells at a time.
const EVENTS: usize = 256;

static REACTOR: OnceLock<Reactor> = OnceLock::new();

struct Reactor {
    registry: Registry,
    waker: Waker,
    /// All sockets that are open, by their tokens.
    sockets: Mutex<Slab<Arc<Endpoint>>>,
    /// Those that are to be closed.
    closing: Mutex<Vec<(Arc<Endpoint>, Request)>>,
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the endpoint, which has a source now, told what becomes of it.
pub(super) fn add(endpoint: &Arc<Endpoint>, source: Source) -> io::Result<()> {
    let reactor = reactor()?;
    let mut sockets = lock(&reactor.sockets);
    let entry = sockets.vacant_entry();
    endpoint.register(source, &reactor.registry, Token(entry.key()))?;
    entry.insert(endpoint.clone());
    Ok(())
}

/// Closes an endpoint, of which nobody else but the reactor has a reference; then the request ends.
pub(super) fn close(endpoint: Arc<Endpoint>, request: Request) {
    let Some(reactor) = REACTOR.get() else {
        // Nothing was ever connected, nothing listens.
        return request.ends(Ok(0)).tell();
    };
    endpoint.stop_listening();
    lock(&reactor.closing).push((endpoint, request));
    while reactor.waker.wake().is_err() {
        // The same: who closes waits for the end of the close in any case.
        thread::sleep(RETRY);
    }
}

fn reactor() -> io::Result<&'static Reactor> {
    static START: Mutex<()> = Mutex::new(());
    if let Some(reactor) = REACTOR.get() {
        return Ok(reactor);
    }
    let _start = lock(&START);
    if REACTOR.get().is_none() {
        let poll = Poll::new()?;
        let reactor = Reactor {
            registry: poll.registry().try_clone()?,
            waker: Waker::new(poll.registry(), WAKER)?,
            sockets: Mutex::default(),
            closing: Mutex::default(),
        };
        thread::Builder::new().name("sockets".to_owned()).spawn(move || run(poll))?;
        let _first = REACTOR.set(reactor);
    }
    REACTOR.get().ok_or_else(|| ErrorKind::Other.into())
}

fn run(mut poll: Poll) {
    let reactor = REACTOR.wait();
    let mut events = Events::with_capacity(EVENTS);
    let mut busy_since: Option<Instant> = None;
    let mut looks_since: Option<Instant> = None;
    loop {
        looks_since = looks_since.filter(|since| since.elapsed() < LOOKS);
        let timeout = (looks_since.is_some() || turn::is_due()).then_some(Duration::ZERO);
        if let Err(error) = poll.poll(&mut events, timeout) {
            if error.kind() != ErrorKind::Interrupted {
                // What the host lacks now it may have later. A thread that ends would leave all sockets waiting.
                thread::sleep(RETRY);
            }
            continue;
        }
        let next = turn::take();
        if events.is_empty() && next.is_empty() {
            thread::yield_now();
            continue;
        }
        for event in &events {
            match event.token() {
                WAKER => reactor.close_all(),
                token => reactor.serve(token, Readiness::from(event)),
            }
        }
        for token in next {
            reactor.serve(token, Readiness { incoming: true, outgoing: true, closed: false });
        }
        let now = Instant::now();
        busy_since = if turn::moved() >= BULK { Some(now) } else { busy_since.filter(|since| now - *since < BUSY) };
        looks_since = busy_since.map(|_| now);
    }
}

impl From<&Event> for Readiness {
    fn from(event: &Event) -> Self {
        let closed = event.is_read_closed() || event.is_error();
        Self {
            incoming: closed || event.is_readable(),
            outgoing: event.is_writable() || event.is_write_closed() || event.is_error(),
            closed,
        }
    }
}

impl Reactor {
    /// Does what a socket has become ready for. It may be closed by now, and another one have its token: then it was not ready, and
    /// finds that out.
    fn serve(&self, token: Token, readiness: Readiness) {
        let endpoint = lock(&self.sockets).get(token.0).cloned();
        let Some(endpoint) = endpoint else { return };
        turn::begin();
        // The DPCs that the routines queue run at the end of this, here: who waits for them waits for no other thread.
        let _raised = Raised::to_dispatch();
        for ended in endpoint.serve(readiness) {
            ended.tell();
        }
    }

    fn close_all(&self) {
        // Without the lock in the loop: a routine may close another socket.
        let closing = std::mem::take(&mut *lock(&self.closing));
        for (endpoint, request) in closing {
            if let Some(token) = endpoint.token() {
                lock(&self.sockets).try_remove(token.0);
            }
            let canceled = endpoint.close();
            debug_assert_eq!(Arc::strong_count(&endpoint), 1, "somebody else has the socket");
            drop(endpoint);
            turn::begin();
            let _raised = Raised::to_dispatch();
            for ended in canceled {
                ended.tell();
            }
            request.ends(Ok(0)).tell();
        }
    }
}
