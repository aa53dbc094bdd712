//! A pool of threads that grows when all are busy, so that a job may wait for another.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

type Job = Box<dyn FnOnce() + Send>;

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    busy: usize,
}

static STATE: Mutex<State> = Mutex::new(State { jobs: VecDeque::new(), idle: 0, busy: 0 });
static WAKE: Condvar = Condvar::new();
static DONE: Condvar = Condvar::new();

/// Runs `job` on a thread of the pool, at PASSIVE_LEVEL. A job that returns at another IRQL is reported as `what`.
pub fn submit(what: &'static str, job: impl FnOnce() + Send + 'static) {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.jobs.push_back(Box::new(move || crate::balanced(what, job)));
    if state.idle < state.jobs.len() {
        std::thread::spawn(work);
    } else {
        WAKE.notify_one();
    }
}

fn work() {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        while let Some(job) = state.jobs.pop_front() {
            state.busy += 1;
            drop(state);
            job();
            state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            state.busy -= 1;
            DONE.notify_all();
        }
        state.idle += 1;
        state = WAKE.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

/// Waits until all jobs have returned, at most for `limit`; false if they have not.
#[must_use]
pub fn wait_idle(limit: Duration) -> bool {
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let (state, _) = DONE
        .wait_timeout_while(state, limit, |state| state.busy > 0 || !state.jobs.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    state.busy == 0 && state.jobs.is_empty()
}
