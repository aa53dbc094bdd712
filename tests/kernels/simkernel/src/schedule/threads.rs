//! The threads of a schedule: those that tests start, and the simulated processors.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

use super::{ACTOR, Actor, DPCS, State, block, end_of, is_active, own_actor, schedule};
use crate::processors::{self, PROCESSOR_COUNT};

thread_local! {
    static PROCESSOR: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn is_processor() -> bool {
    PROCESSOR.get()
}

/// Adds a thread to the schedule, which the caller starts at once; gives its number.
fn register(name: String) -> (u64, usize) {
    let parent = own_actor();
    let mut locked = schedule();
    let Some(schedule) = locked.as_mut() else { unreachable!("a thread in the schedule, and no schedule") };
    schedule.actors.push(Actor { name, parent, state: State::Ready, turn: Arc::default() });
    schedule.pauses = 0;
    (schedule.number, schedule.actors.len() - 1)
}

/// The thread is in the schedule as long as this lives.
struct Entered;

/// The first thing a registered thread does.
fn enter(actor: (u64, usize)) -> Entered {
    ACTOR.set(Some(actor));
    let entered = Entered;
    super::await_turn(actor.1, schedule());
    entered
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some((number, own)) = ACTOR.take() else { return };
        let mut locked = schedule();
        let Some(schedule) = locked.as_mut().filter(|schedule| schedule.number == number) else { return };
        schedule.actors[own].state = State::Ended;
        schedule.pauses = 0;
        schedule.wake(end_of(own));
        if !schedule.choose_next(own) {
            drop(locked);
            locked = super::nobody_goes_on(own);
        }
        drop(super::hand_over(own, locked));
    }
}

/// Waits until a thread has ended.
fn await_end(actor: usize) {
    let ended = || schedule().as_ref().is_none_or(|schedule| schedule.actors[actor].state == State::Ended);
    while !ended() {
        block("the end of thread", end_of(actor));
        if super::is_stalled() {
            return;
        }
    }
}

/// Threads that may borrow: [`std::thread::Scope`], with the threads in the schedule if the session is seeded.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'scope, 'env: 'scope>(&'scope thread::Scope<'scope, 'env>);

/// A thread of a [`Scope`].
#[derive(Debug)]
pub struct JoinHandle<'scope, T> {
    thread: thread::ScopedJoinHandle<'scope, T>,
    actor: Option<usize>,
}

/// As [`std::thread::scope`], for threads of a session that may be seeded. The scope's threads are started by the thread
/// that made it.
pub fn scope<'env, F, T>(code: F) -> T
where
    F: for<'scope> FnOnce(Scope<'scope, 'env>) -> T,
{
    thread::scope(|scope| {
        if !is_active() {
            return code(Scope(scope));
        }
        let first = schedule().as_ref().map_or(0, |schedule| schedule.actors.len());
        let result = catch_unwind(AssertUnwindSafe(|| code(Scope(scope))));
        let own = own_actor();
        let children: Vec<_> = schedule().as_ref().map_or_else(Vec::new, |schedule| {
            (first..schedule.actors.len()).filter(|&actor| schedule.actors[actor].parent == own).collect()
        });
        children.into_iter().for_each(await_end);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a thread.
    ///
    /// # Panics
    /// If there can be none.
    pub fn spawn<F, T>(self, code: F) -> JoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        if !is_active() {
            return JoinHandle { thread: self.0.spawn(code), actor: None };
        }
        let number = schedule().as_ref().map_or(0, |schedule| schedule.actors.len());
        let name = format!("thread {number}");
        let actor = register(name.clone());
        let run = move || {
            let _entered = enter(actor);
            code()
        };
        let Ok(thread) = thread::Builder::new().name(name).spawn_scoped(self.0, run) else { panic!("no thread") };
        super::occasion("start of a thread", 0);
        JoinHandle { thread, actor: Some(actor.1) }
    }
}

impl<T> JoinHandle<'_, T> {
    /// Waits for the thread's result.
    ///
    /// # Errors
    /// What the thread panicked with.
    pub fn join(self) -> thread::Result<T> {
        if let Some(actor) = self.actor {
            await_end(actor);
        }
        self.thread.join()
    }
}

/// The processors of a seeded session.
#[derive(Debug)]
pub(crate) struct Processors(Vec<thread::JoinHandle<()>>);

/// Starts processors that are in the schedule.
pub(crate) fn start_processors() -> Processors {
    let start = |number| {
        let name = format!("processor {number}");
        let actor = register(name.clone());
        let Ok(thread) = thread::Builder::new().name(name).spawn(move || process(actor)) else { panic!("no thread") };
        thread
    };
    Processors((0..PROCESSOR_COUNT).map(start).collect())
}

/// The life of a processor: DPCs, in any order, as long as there are some.
fn process(actor: (u64, usize)) {
    PROCESSOR.set(true);
    let _entered = enter(actor);
    while schedule().as_ref().is_some_and(|schedule| !schedule.over && super::is_own(schedule)) {
        if !processors::run_any(super::choose) {
            block("a DPC", DPCS);
        }
    }
}

impl Processors {
    /// Ends them and the schedule, after the session's last DPC.
    pub(crate) fn stop(self) {
        if super::end() {
            for processor in self.0 {
                let _ended = processor.join();
            }
        }
    }
}
