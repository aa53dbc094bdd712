//! A pool of threads that grows when all are busy, so that a job may wait for another.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
};

type Job = Box<dyn FnOnce() + Send>;

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
}

static STATE: Mutex<State> = Mutex::new(State { jobs: VecDeque::new(), idle: 0 });
static WAKE: Condvar = Condvar::new();

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
            drop(state);
            job();
            state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        }
        state.idle += 1;
        state = WAKE.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}
