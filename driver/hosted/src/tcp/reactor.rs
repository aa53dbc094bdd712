//! The reactor waits for the host's events on all sockets, serves the sockets, and closes them. It runs on its own
//! thread, on a thread that polls for completions, or on one that waits for something else ([`serve_until`]).

use std::{
    cell::Cell,
    collections::BTreeSet,
    hint,
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use mio::{Events, Poll, Registry, Token, Waker, event::Event};
use slab::Slab;

use super::{
    endpoint::{Endpoint, Readiness, Source},
    host,
    request::{Ended, Request},
    shared_memory::Shared,
    turn,
};
use crate::processor::Raised;

/// The token of the waker; sockets have small tokens.
const WAKER: Token = Token(usize::MAX);

/// The pause after an error of the host.
const RETRY: Duration = Duration::from_millis(1);

/// After a round that has received and sent at least BULK bytes, more events are likely to follow soon. For BUSY from
/// then on, the thread that serves polls for LOOKS after each round before it sleeps, and yields between two polls. A
/// sleep and a wake-up cost more, and the sender pays for the wake-up if it is on this host.
const BULK: usize = 16 << 10;
const BUSY: Duration = Duration::from_millis(1);
const LOOKS: Duration = Duration::from_micros(30);

/// While consumers poll empty CQs more than MANY_LOOKS times in each STANDS_BACK, the reactor's thread leaves the
/// sockets to the polling threads. A consumer that polls once before each wait for a notification polls less often.
const MANY_LOOKS: u32 = 16;
/// While one thread begins to wait at least this often in each STANDS_BACK, it serves the sockets while it waits, and the
/// reactor's thread leaves the sockets to it between its waits too. Rarer waits are not worth the hand-over, and of several
/// threads that wait, one would have to wake another.
const MANY_WAITS: u32 = 4;
const STANDS_BACK: Duration = Duration::from_millis(1);

/// The most events that one poll returns.
const EVENTS: usize = 256;

/// A thread that polls, and looks at rings, asks the host for events with every 128th look.
const LOOKS_PER_POLL: u32 = 128;

/// Before the thread that serves sleeps, it looks at the rings for SPIN: a peer on another processor may answer sooner than a wake-up takes. After
/// n such spins in a row that ended no request, the thread does not spin before its next 2^n sleeps: a peer that needs this processor gets it.
const SPIN: Duration = Duration::from_micros(20);
const MOST_VAIN_SPINS: u32 = 10;

static REACTOR: OnceLock<Reactor> = OnceLock::new();

thread_local! {
    /// This thread is the leader, see [`Reactor::leads`].
    static LEADS: Cell<bool> = const { Cell::new(false) };
}

struct Reactor {
    thread: Thread,
    service: Mutex<Service>,
    registry: Registry,
    waker: Waker,
    /// The number of polls of empty CQs since `stand_back` or `resume` last reset it.
    looks: AtomicU32,
    /// The reactor's thread leaves the sockets to other threads, or is about to.
    stands_back: AtomicBool,
    /// The key of the wait of the leader, the thread that serves the sockets while it waits (Leader/Followers, Schmidt et
    /// al.), for [`wake_leader`]; 0: there is no leader.
    leads: AtomicUsize,
    /// The number of calls of [`serve_until`] since `stand_back` or `resume` last reset it.
    waits: AtomicU32,
    /// `waits` were many in the last STANDS_BACK, see MANY_WAITS.
    waits_often: AtomicBool,
    /// A thread has begun to wait while another one waited, since `stand_back` last reset it.
    is_crowded: AtomicBool,
    /// The number of threads that wait by `sleep` of [`serve_until`].
    followers: AtomicUsize,
    /// The reactor's thread sleeps until the leader has ceased to lead.
    sleeps: AtomicBool,
    /// The number of open connections.
    streams: AtomicUsize,
    /// The open sockets, by their tokens.
    sockets: Mutex<Slab<Arc<Endpoint>>>,
    /// The sockets to close, with the requests that close them.
    closing: Mutex<Vec<(Arc<Endpoint>, Request)>>,
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the host's socket in the endpoint, and registers it for events.
pub(super) fn add(endpoint: &Arc<Endpoint>, source: Source) -> io::Result<()> {
    let reactor = reactor()?;
    let is_stream = matches!(source, Source::Stream(_));
    let mut sockets = lock(&reactor.sockets);
    let entry = sockets.vacant_entry();
    endpoint.register(source, &reactor.registry, Token(entry.key()))?;
    entry.insert(endpoint.clone());
    reactor.streams.fetch_add(usize::from(is_stream), Ordering::Relaxed);
    Ok(())
}

/// Has the reactor close an endpoint and then end the request. Only the caller, the reactor and the endpoint's waiting
/// accept have references to the endpoint.
pub(super) fn close(endpoint: Arc<Endpoint>, request: Request) {
    let Some(reactor) = REACTOR.get() else {
        // No socket of this process was ever registered.
        return request.ends(Ok(0)).complete();
    };
    endpoint.stop_listening();
    lock(&reactor.closing).push((endpoint, request));
    reactor.wake();
    reactor.resume();
}

fn reactor() -> io::Result<&'static Reactor> {
    static START: Mutex<()> = Mutex::new(());
    if let Some(reactor) = REACTOR.get() {
        return Ok(reactor);
    }
    let _start = lock(&START);
    if REACTOR.get().is_none() {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WAKER)?;
        let thread = thread::Builder::new().name("sockets".to_owned()).spawn(run)?.thread().clone();
        let service = Service {
            poll,
            events: Events::with_capacity(EVENTS),
            next: BTreeSet::new(),
            rings: Vec::new(),
            looks: 0,
            skips: 0,
            vain_spins: 0,
        };
        let _first = REACTOR.set(Reactor {
            thread,
            service: Mutex::new(service),
            registry,
            waker,
            looks: AtomicU32::new(0),
            stands_back: AtomicBool::new(false),
            leads: AtomicUsize::new(0),
            waits: AtomicU32::new(0),
            waits_often: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            followers: AtomicUsize::new(0),
            sleeps: AtomicBool::new(false),
            streams: AtomicUsize::new(0),
            sockets: Mutex::default(),
            closing: Mutex::default(),
        });
    }
    REACTOR.get().ok_or_else(|| ErrorKind::Other.into())
}

fn run() {
    let reactor = REACTOR.wait();
    let (mut pace, mut has_turns) = (Pace::default(), false);
    let (mut looks_since, mut waits_since) = (Instant::now(), Instant::now());
    loop {
        if !has_turns || reactor.leads.load(Ordering::SeqCst) != 0 {
            reactor.stand_back(&mut looks_since, &mut waits_since);
        }
        let mut service = lock(&reactor.service);
        let served = service.serve(reactor, pace.timeout());
        has_turns = !service.next.is_empty();
        drop(service);
        pace.note(served);
    }
}

/// How long the thread that serves the sockets waits for events, see BUSY.
#[derive(Default)]
struct Pace {
    busy_since: Option<Instant>,
    looks_since: Option<Instant>,
}

impl Pace {
    /// `None`: until an event.
    fn timeout(&mut self) -> Option<Duration> {
        self.looks_since = self.looks_since.filter(|since| since.elapsed() < LOOKS);
        self.looks_since.map(|_| Duration::ZERO)
    }

    /// The outcome of [`Service::serve`].
    fn note(&mut self, served: io::Result<bool>) {
        match served {
            Ok(true) => {
                let now = Instant::now();
                let is_bulk = turn::moved() >= BULK;
                self.busy_since = if is_bulk { Some(now) } else { self.busy_since.filter(|since| now - *since < BUSY) };
                self.looks_since = self.busy_since.map(|_| now);
            }
            Ok(false) => thread::yield_now(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The host may lack a resource only for a time. Without this thread all sockets would wait for ever.
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Serves the sockets on this thread, which has polled an empty queue, unless another thread serves them.
pub(super) fn poll_hint() {
    let Some(reactor) = REACTOR.get().filter(|reactor| reactor.streams.load(Ordering::Relaxed) > 0) else { return };
    let looks = reactor.looks.fetch_add(1, Ordering::Relaxed);
    if reactor.leads.load(Ordering::Relaxed) != 0 || looks == 0 && reactor.waits_often.load(Ordering::Relaxed) {
        // A leader serves; or this is the one poll before a wait in which this thread serves.
        return;
    }
    let mut service = match reactor.service.try_lock() {
        Ok(service) => service,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    // If consumers stop polling, the reactor's thread gets the same error.
    let _served = service.serve(reactor, Some(Duration::ZERO));
}

/// Has the reactor's thread serve the sockets again, as the polling thread may now wait for a notification. Where threads
/// wait often, it may be about to lead: the reactor's thread then serves two STANDS_BACK later, if nobody leads.
pub(super) fn must_watch() {
    let Some(reactor) = REACTOR.get() else { return };
    reactor.looks.store(0, Ordering::SeqCst);
    if reactor.leads.load(Ordering::SeqCst) == 0 && !reactor.waits_often.load(Ordering::SeqCst) {
        reactor.end_park();
    }
}

/// Serves the sockets until `is_over`, whose cause calls [`wake_leader`] with the same `key`, and returns true; or calls
/// `sleep`, which waits in another way, if there are no connections, threads wait rarely, or another thread serves the
/// sockets. At PASSIVE_LEVEL, with no lock that a routine takes.
pub(super) fn serve_until(key: usize, is_over: impl Fn() -> bool, sleep: impl FnOnce()) -> bool {
    let reactor = REACTOR.get().filter(|reactor| reactor.streams.load(Ordering::Relaxed) > 0);
    if reactor.is_some_and(|reactor| reactor.lead(key, &is_over)) {
        return true;
    }
    if let Some(reactor) = reactor {
        let others = reactor.followers.fetch_add(1, Ordering::SeqCst);
        let leads = reactor.leads.load(Ordering::SeqCst) != 0;
        if others > 0 || leads {
            reactor.is_crowded.store(true, Ordering::SeqCst);
        }
        if !leads {
            // A leader that has just gone has not seen this thread.
            reactor.thread.unpark();
        }
    }
    sleep();
    if let Some(reactor) = reactor {
        reactor.followers.fetch_sub(1, Ordering::SeqCst);
    }
    false
}

/// Wakes the thread that serves the sockets while it waits for `key`, which then looks whether its wait is over.
pub(super) fn wake_leader(key: usize) {
    let Some(reactor) = REACTOR.get() else { return };
    // The caller has written what the leader's `is_over` reads, and the leader has set `leads` before it reads that.
    fence(Ordering::SeqCst);
    if reactor.leads.load(Ordering::SeqCst) == key && !LEADS.get() {
        reactor.wake();
    }
}

/// This thread is the leader until the drop, also if a routine panics.
struct Leading<'a> {
    reactor: &'a Reactor,
    has_polled: bool,
    /// Sockets await another turn.
    has_turns: bool,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let Self { reactor, has_polled, has_turns } = *self;
        LEADS.set(false);
        reactor.leads.store(0, Ordering::SeqCst);
        if has_turns {
            reactor.resume();
        } else if reactor.sleeps.load(Ordering::SeqCst) || reactor.followers.load(Ordering::SeqCst) > 0 {
            reactor.thread.unpark();
        }
        if has_polled {
            host::leave_port();
        }
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

/// The state that one thread at a time uses to serve the sockets.
struct Service {
    poll: Poll,
    events: Events,
    /// Sockets that get another turn.
    next: BTreeSet<Token>,
    /// Connections by shared memory whose rings are looked at.
    rings: Vec<(Arc<Endpoint>, Arc<Shared>)>,
    /// The looks at `rings` since the host was asked for events.
    looks: u32,
    /// The next sleeps before which the thread does not spin.
    skips: u32,
    /// The last spins, in a row, that ended no request.
    vain_spins: u32,
}

impl Service {
    /// Polls the host, for `timeout` at most (`None`: until an event), and serves the sockets that are ready or get
    /// another turn, without a wait if there is such a turn. False: there was no event and no such turn.
    fn serve(&mut self, reactor: &Reactor, timeout: Option<Duration>) -> io::Result<bool> {
        let mut timeout = if self.next.is_empty() { timeout } else { Some(Duration::ZERO) };
        let mut is_served = false;
        if !self.rings.is_empty() {
            is_served = self.look(|(_, shared)| shared.is_due(), Endpoint::look);
            if is_served {
                timeout = Some(Duration::ZERO);
            }
            if timeout == Some(Duration::ZERO) {
                self.looks += 1;
                if self.next.is_empty() && self.looks < LOOKS_PER_POLL {
                    return Ok(is_served);
                }
            } else if self.spin() {
                return Ok(true);
            } else if self.look(|_| true, Endpoint::end_looks) {
                self.rings.clear();
                return Ok(true);
            } else {
                self.rings.clear();
            }
            self.looks = 0;
        }
        let Self { poll, events, next, rings, .. } = self;
        let timeout = if next.is_empty() { timeout } else { Some(Duration::ZERO) };
        poll.poll(events, timeout)?;
        if events.is_empty() && next.is_empty() {
            return Ok(is_served);
        }
        let due = std::mem::take(next);
        for event in &*events {
            match event.token() {
                WAKER => reactor.close_all(rings),
                token => rings.extend(reactor.serve(token, Readiness::from(event))),
            }
        }
        for token in due {
            rings.extend(reactor.serve(token, Readiness { incoming: true, outgoing: true, closed: false }));
        }
        *next = turn::end();
        Ok(true)
    }

    /// Before a sleep: looks at `rings` for SPIN. True: a request has ended.
    fn spin(&mut self) -> bool {
        let Some(spins) = self.skips.checked_sub(1) else {
            let since = Instant::now();
            while since.elapsed() < SPIN {
                hint::spin_loop();
                if self.look(|(_, shared)| shared.is_due(), Endpoint::look) {
                    self.vain_spins = 0;
                    return true;
                }
            }
            self.vain_spins = (self.vain_spins + 1).min(MOST_VAIN_SPINS);
            self.skips = 1 << self.vain_spins;
            return false;
        };
        self.skips = spins;
        false
    }

    /// Has `look` serve those of `rings` that are `due`. True: a request has ended.
    fn look<I: Iterator<Item = Ended>>(
        &mut self,
        due: impl Fn(&(Arc<Endpoint>, Arc<Shared>)) -> bool,
        look: impl Fn(&Endpoint) -> I,
    ) -> bool {
        let mut is_served = false;
        for (endpoint, _) in self.rings.iter().filter(|ring| due(ring)) {
            turn::begin();
            let _raised = Raised::to_dispatch();
            for ended in look(endpoint) {
                is_served = true;
                ended.complete();
            }
        }
        self.next.append(&mut turn::end());
        is_served
    }
}

impl Reactor {
    /// Serves the sockets until `is_over`. False: another thread does, or is about to.
    fn lead(&self, key: usize, is_over: &dyn Fn() -> bool) -> bool {
        self.waits.fetch_add(1, Ordering::SeqCst);
        if !self.waits_often.load(Ordering::SeqCst)
            || self.followers.load(Ordering::SeqCst) > 0
            || self.is_polled()
            || self.leads.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            return false;
        }
        let mut leading = Leading { reactor: self, has_polled: false, has_turns: false };
        // Released before `leading` ends.
        let mut service = match self.service.try_lock() {
            Ok(service) => service,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // If it is the reactor's thread that waits for the host, it stands back now.
                self.wake();
                lock(&self.service)
            }
        };
        LEADS.set(true);
        // Bytes that this thread has moved before are no sign of more.
        turn::moved();
        fence(Ordering::SeqCst);
        let (mut over, mut pace) = (is_over(), Pace::default());
        while !over && !self.is_polled() {
            leading.has_polled = true;
            let served = service.serve(self, pace.timeout());
            pace.note(served);
            over = is_over();
        }
        leading.has_turns = !service.next.is_empty();
        over
    }

    /// Wakes the thread that waits for the host's events. It retries: callers have to wait for that thread in any case.
    fn wake(&self) {
        while self.waker.wake().is_err() {
            thread::sleep(RETRY);
        }
    }

    /// Whether polling threads serve the sockets.
    fn is_polled(&self) -> bool {
        self.looks.load(Ordering::SeqCst) > MANY_LOOKS
    }

    /// Waits while other threads serve the sockets: those that poll, see MANY_LOOKS; or one that leads, and between its
    /// waits, see MANY_WAITS.
    fn stand_back(&self, looks_since: &mut Instant, waits_since: &mut Instant) {
        // Set before the counts are read: if a `resume` resets them after that, it sees the flag and unparks this thread,
        // which on Windows looks within STANDS_BACK only.
        self.stands_back.store(true, Ordering::SeqCst);
        loop {
            let now = Instant::now();
            let time = now - std::mem::replace(looks_since, now);
            let looks = self.looks.swap(0, Ordering::SeqCst);
            let poll = looks > MANY_LOOKS && time <= STANDS_BACK * (looks / MANY_LOOKS);
            let time = now - *waits_since;
            if time >= STANDS_BACK {
                *waits_since = now;
                let waits = self.waits.swap(0, Ordering::SeqCst);
                let is_crowded = self.is_crowded.swap(false, Ordering::SeqCst);
                let waits_often = time * MANY_WAITS <= STANDS_BACK * waits;
                self.waits_often.store(waits_often && !is_crowded, Ordering::SeqCst);
            }
            let wait = self.waits_often.load(Ordering::SeqCst);
            if self.leads.load(Ordering::SeqCst) != 0 {
                if !poll && !wait {
                    self.sleep();
                    continue;
                }
            } else if !poll && (!wait || self.followers.load(Ordering::SeqCst) > 0) {
                break;
            }
            host::park(STANDS_BACK);
        }
        self.stands_back.store(false, Ordering::SeqCst);
    }

    /// Sleeps while a thread leads.
    fn sleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
        if self.leads.load(Ordering::SeqCst) != 0 {
            thread::park();
        }
        self.sleeps.store(false, Ordering::SeqCst);
    }

    /// Has the reactor's thread serve the sockets again, unless a thread leads.
    fn resume(&self) {
        self.looks.store(0, Ordering::SeqCst);
        self.waits.store(0, Ordering::SeqCst);
        self.waits_often.store(false, Ordering::SeqCst);
        self.end_park();
    }

    fn end_park(&self) {
        if self.stands_back.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// Serves a socket that is ready. If the socket was closed in between and its token reused, this serves the new
    /// socket, whose tries get WouldBlock if it is not ready.
    ///
    /// Returns its rings, if they are to be looked at from now on.
    fn serve(&self, token: Token, readiness: Readiness) -> Option<(Arc<Endpoint>, Arc<Shared>)> {
        let endpoint = lock(&self.sockets).get(token.0).cloned()?;
        self.serve_endpoint(&endpoint, readiness);
        let shared = endpoint.begin_looks()?;
        Some((endpoint, shared))
    }

    fn serve_endpoint(&self, endpoint: &Endpoint, readiness: Readiness) {
        turn::begin();
        // DPCs that the routines queue run at the end of this function, on this thread: no consumer waits for another
        // thread.
        let _raised = Raised::to_dispatch();
        for ended in endpoint.serve(readiness) {
            ended.complete();
        }
    }

    fn close_all(&self, rings: &mut Vec<(Arc<Endpoint>, Arc<Shared>)>) {
        // The loop runs without the lock, as a routine may close another socket.
        let closing = std::mem::take(&mut *lock(&self.closing));
        for (endpoint, request) in closing {
            if let Some(token) = endpoint.token() {
                lock(&self.sockets).try_remove(token.0);
                self.streams.fetch_sub(usize::from(endpoint.is_stream()), Ordering::Relaxed);
            }
            rings.retain(|(other, _)| !Arc::ptr_eq(other, &endpoint));
            let canceled = endpoint.close();
            debug_assert_eq!(Arc::strong_count(&endpoint), 1, "somebody else has the socket");
            drop(endpoint);
            turn::begin();
            let _raised = Raised::to_dispatch();
            for ended in canceled {
                ended.complete();
            }
            request.ends(Ok(0)).complete();
        }
    }
}
