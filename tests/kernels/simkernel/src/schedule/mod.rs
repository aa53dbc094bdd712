//! Schedules that replay: of all threads and processors exactly one runs at a time, and a generator with a seed chooses which.
//!
//! Changes happen only where the driver enters the simulated kernel (locks, DPCs, events, memory) and where a consumer says
//! [`pause`]. With the same seed and the same program, the same things happen in the same order. In a session that is not
//! seeded nothing here does anything.

mod processor;
mod random;
mod threads;
mod trace;

use std::{
    cell::Cell,
    io::{self, Write},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{ledger::Ledger, lock_table, pool, timers};

pub(crate) use processor::OneProcessor;
pub(crate) use random::Random;
pub use random::seeds;
pub use threads::{JoinHandle, Scope, scope};
pub(crate) use threads::{Processors, start_processors};
pub use trace::{Step, Trace};

/// Whether the session is seeded.
static ACTIVE: AtomicBool = AtomicBool::new(false);
static SCHEDULE: Mutex<Option<Schedule>> = Mutex::new(None);

thread_local! {
    /// The schedule this thread is in, and its number there.
    static ACTOR: Cell<Option<(u64, usize)>> = const { Cell::new(None) };
}

/// So many pauses without anything else happening are the end: everybody waits for somebody else.
const PAUSES: u64 = 100_000;

/// What cannot be an address: idle processors wait here for DPCs.
const DPCS: usize = 1;

/// And here for the end of a thread, by its number.
const fn end_of(actor: usize) -> usize {
    2 + actor
}

/// A thread, or a processor.
struct Actor {
    name: String,
    parent: usize,
    state: State,
    turn: Arc<Turn>,
}

/// Where a thread waits for its turn.
#[derive(Default)]
struct Turn {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Turn {
    /// Lets the thread look at the schedule, which must not be locked: the thread may run before this returns.
    fn give(&self) {
        *lock_table(&self.given) = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let given = lock_table(&self.given);
        let given = self.changed.wait_while(given, |given| !*given);
        *given.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Runs, or could.
    Ready,
    /// Could run, and has nothing to do but to look again.
    Paused,
    /// Waits for what is at this address.
    Blocked {
        what: &'static str,
        address: usize,
    },
    Ended,
}

struct Schedule {
    /// Tells sessions apart: threads of one that stalled may still be around.
    number: u64,
    seed: u64,
    random: Random,
    /// One in so many occasions to change actors is used. Chosen by the seed: some bugs want many changes, some few.
    change_one_in: u64,
    actors: Vec<Actor>,
    current: usize,
    /// Pauses since something else happened.
    pauses: u64,
    /// Nobody can go on.
    stalled: bool,
    /// That was said.
    reported: bool,
    /// The session ends.
    over: bool,
    trace: Trace,
}

fn schedule() -> MutexGuard<'static, Option<Schedule>> {
    lock_table(&SCHEDULE)
}

/// Whether the session is seeded.
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// A new, seeded session begins on this thread.
pub(crate) fn begin(seed: u64) {
    let mut random = Random::new(seed);
    let change_one_in = [2, 6, 24][random.below(3)];
    let main = Actor { name: "the session".to_owned(), parent: 0, state: State::Ready, turn: Arc::default() };
    let mut locked = schedule();
    let number = locked.as_ref().map_or(0, |last| last.number) + 1;
    *locked = Some(Schedule {
        number,
        seed,
        random,
        change_one_in,
        actors: vec![main],
        current: 0,
        pauses: 0,
        stalled: false,
        reported: false,
        over: false,
        trace: Trace::default(),
    });
    drop(locked);
    ACTOR.set(Some((number, 0)));
    ACTIVE.store(true, Ordering::Relaxed);
    static HOOK: Once = Once::new();
    HOOK.call_once(print_seed_on_panic);
}

/// The session ends: threads that are still in the schedule leave it. False: they cannot, they are stuck where they are.
pub(crate) fn end() -> bool {
    ACTIVE.store(false, Ordering::Relaxed);
    ACTOR.set(None);
    let mut locked = schedule();
    let Some(schedule) = locked.as_mut() else { return true };
    schedule.over = true;
    let (turns, stalled) = (schedule.turns(), schedule.stalled);
    drop(locked);
    turns.iter().for_each(|turn| turn.give());
    !stalled
}

/// Whether this thread is in the schedule. A processor of a session that stalled may come here when the next one runs.
fn is_own(schedule: &Schedule) -> bool {
    ACTOR.get().is_some_and(|(number, _)| number == schedule.number)
}

/// Whether it has turned out that nobody can go on.
pub(crate) fn is_stalled() -> bool {
    is_active() && schedule().as_ref().is_some_and(|schedule| schedule.stalled)
}

/// The seed of the session, if it has one; what happened in it so far.
pub(crate) fn trace() -> Option<Trace> {
    if !is_active() {
        return None;
    }
    schedule().as_ref().map(|schedule| schedule.trace.clone())
}

/// On stderr itself: what a test writes goes down with a process that aborts, as after a panic in a DPC.
fn print_seed_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        if !is_active() || ACTOR.get().is_none() {
            return;
        }
        if let Ok(locked) = SCHEDULE.try_lock()
            && let Some(schedule) = locked.as_ref()
        {
            let _nothing_else_to_do =
                writeln!(io::stderr(), "simkernel: SOFTNDK_SEED={} replays this schedule", schedule.seed);
        }
    }));
}

/// Gives the scheduler an occasion to have somebody else run; `what` goes to the trace.
pub(crate) fn occasion(what: &'static str, address: usize) {
    if is_active() {
        step(what, address, State::Ready);
    }
}

/// Something happened that others may have been waiting for.
pub(crate) fn progress() {
    if is_active()
        && let Some(schedule) = schedule().as_mut()
    {
        schedule.pauses = 0;
    }
}

/// Waits until somebody calls [`wake`] for `address`. The caller looks again then.
pub(crate) fn block(what: &'static str, address: usize) {
    step(what, address, State::Blocked { what, address });
}

/// Lets those go on that are blocked at `address`.
pub(crate) fn wake(address: usize) {
    if is_active()
        && let Some(schedule) = schedule().as_mut()
    {
        schedule.wake(address);
    }
}

/// A DPC was queued: one of the idle processors goes to work.
pub(crate) fn wake_processor() {
    if let Some(schedule) = schedule().as_mut() {
        let waits = |state| matches!(state, State::Blocked { address: DPCS, .. });
        let idle: Vec<_> = (0..schedule.actors.len()).filter(|&actor| waits(schedule.actors[actor].state)).collect();
        if !idle.is_empty() {
            let chosen = idle[schedule.random.below(idle.len())];
            schedule.actors[chosen].state = State::Ready;
        }
    }
}

/// A number below `limit`, chosen by the seed.
pub(crate) fn choose(limit: usize) -> usize {
    schedule().as_mut().map_or(0, |schedule| schedule.random.below(limit))
}

/// For loops that wait for something, in tests: lets others run. In a seeded session it is they who make it happen; in any
/// other it gives up the time slice.
pub fn pause() {
    if !is_active() {
        thread::yield_now();
        return;
    }
    // Time goes by for those who wait.
    if choose(16) == 0 {
        timers::expire_next();
    }
    step("pause", 0, State::Paused);
}

/// Locks a mutex of a test that is held across calls of the driver: in a seeded session whoever holds it runs when this one
/// waits.
pub fn lock_paused<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => pause(),
        }
    }
}

/// Notes `what` in the trace, puts the thread in `state`, and chooses who goes on. Returns when that is this thread.
fn step(what: &'static str, address: usize, state: State) {
    let place = pool::place(address);
    let own = own_actor();
    let mut locked = schedule();
    if let Some(schedule) = locked.as_mut() {
        schedule.trace.note(Step { actor: own, what, place });
        schedule.pauses = if state == State::Paused { schedule.pauses + 1 } else { schedule.pauses };
        schedule.actors[own].state = state;
        if !schedule.choose_next(own) {
            drop(locked);
            locked = nobody_goes_on(own);
        }
    }
    await_turn(own, hand_over(own, locked));
}

/// Lets the thread go on that was chosen after `own`.
fn hand_over(own: usize, locked: MutexGuard<'static, Option<Schedule>>) -> MutexGuard<'static, Option<Schedule>> {
    let next = locked.as_ref().filter(|schedule| schedule.current != own);
    let Some(turn) = next.map(|schedule| schedule.actors[schedule.current].turn.clone()) else { return locked };
    drop(locked);
    turn.give();
    schedule()
}

/// All wait. What can still happen is that time goes by; if not, that is the end.
fn nobody_goes_on(own: usize) -> MutexGuard<'static, Option<Schedule>> {
    let expired = timers::expire_next();
    let mut locked = schedule();
    if let Some(schedule) = locked.as_mut()
        && !(expired && schedule.choose_next(own))
    {
        schedule.stalled = true;
        let turns = schedule.turns();
        drop(locked);
        turns.iter().for_each(|turn| turn.give());
        locked = self::schedule();
    }
    locked
}

/// # Panics
/// If the thread is not in the schedule.
fn own_actor() -> usize {
    let Some((_, own)) = ACTOR.get() else {
        let name = thread::current().name().unwrap_or("unnamed").to_owned();
        panic!("thread {name} is not in the schedule of the seeded session: start it with simkernel::scope");
    };
    own
}

/// Waits until it is this thread's turn.
///
/// # Panics
/// If that can never be.
fn await_turn(own: usize, mut locked: MutexGuard<'_, Option<Schedule>>) {
    loop {
        let Some(schedule) = locked.as_mut() else { return };
        if schedule.over || !is_own(schedule) {
            return;
        }
        if schedule.stalled {
            break;
        }
        if schedule.current == own {
            schedule.actors[own].state = State::Ready;
            return;
        }
        let turn = schedule.actors[own].turn.clone();
        drop(locked);
        turn.wait();
        locked = self::schedule();
    }
    let reports = locked.as_mut().is_some_and(Schedule::take_report);
    let described = locked.as_ref().map(Schedule::describe).unwrap_or_default();
    drop(locked);
    if reports {
        let _nothing_else_to_do =
            writeln!(io::stderr(), "simkernel: nobody can go on.\n{described}Outstanding:\n{}", Ledger::now());
    }
    stop();
}

/// What becomes of threads that cannot go on: all that can unwind do. The rest runs as the machine has it, so that what the
/// unwinding ones still want of the driver may get done.
fn stop() {
    if !threads::is_processor() && !thread::panicking() {
        panic!("stalled: nobody can go on, see the report");
    }
    thread::sleep(Duration::from_millis(1));
}

impl Schedule {
    fn wake(&mut self, wanted: usize) {
        for actor in &mut self.actors {
            if matches!(actor.state, State::Blocked { address, .. } if address == wanted) {
                actor.state = State::Ready;
            }
        }
    }

    /// Chooses who goes on after `own`, who may be the one, by [`hand_over`]. False: there is nobody.
    fn choose_next(&mut self, own: usize) -> bool {
        if self.stalled || self.over {
            return true;
        }
        if self.pauses > PAUSES {
            return false;
        }
        let is = |actor: usize, state: State| self.actors[actor].state == state;
        let stays = is(own, State::Ready) && self.random.below(self.change_one_in as usize) != 0;
        if stays {
            return true;
        }
        let others =
            |state| (0..self.actors.len()).filter(|&actor| actor != own && is(actor, state)).collect::<Vec<_>>();
        let (ready, paused) = (others(State::Ready), others(State::Paused));
        // Who pauses looks for something that others have to do first, most probably.
        let look = ready.is_empty() || self.random.below(8) == 0;
        let candidates = if look && !paused.is_empty() { &paused } else { &ready };
        let next = match candidates.len() {
            0 if matches!(self.actors[own].state, State::Ready | State::Paused) => own,
            0 => return false,
            count => candidates[self.random.below(count)],
        };
        self.current = next;
        true
    }

    fn turns(&self) -> Vec<Arc<Turn>> {
        self.actors.iter().map(|actor| actor.turn.clone()).collect()
    }

    /// True for the one that reports the stall.
    fn take_report(&mut self) -> bool {
        !std::mem::replace(&mut self.reported, true)
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for actor in self.actors.iter().filter(|actor| actor.state != State::Ended) {
            text.push_str(&match actor.state {
                State::Blocked { what, address } => format!("{}: {what} {address:#x}\n", actor.name),
                state => format!("{}: {state:?}\n", actor.name),
            });
        }
        text
    }
}
