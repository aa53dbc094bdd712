//! Requests of a thread, one after the other. On Windows a dispatch routine runs on the thread that sends the request, so that
//! it has returned before the thread can send another one. Wine lets the thread go on at once: a request that cancels others
//! could overtake them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};

use crate::{irp::Job, lock};

/// What the checks of the pool call a job.
const WHAT: &str = "a dispatch routine";

/// Jobs that wait for another of their thread, which runs. By the thread's identifier.
static WAITING: Mutex<BTreeMap<usize, VecDeque<Job>>> = Mutex::new(BTreeMap::new());

/// Runs a job on the pool, when those that its thread, if there is one, sent before have returned.
pub(crate) fn submit(thread: Option<usize>, job: Job) {
    let Some(thread) = thread else {
        return kernel::workers::submit(WHAT, move || job.run());
    };
    let mut waiting = lock(&WAITING);
    if let Some(queue) = waiting.get_mut(&thread) {
        queue.push_back(job);
        return;
    }
    waiting.insert(thread, VecDeque::new());
    drop(waiting);
    run(thread, job);
}

fn run(thread: usize, job: Job) {
    // A job of its own for each, as the pool checks the IRQL after it.
    kernel::workers::submit(WHAT, move || {
        job.run();
        let mut waiting = lock(&WAITING);
        let next = waiting.get_mut(&thread).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&thread);
        }
        drop(waiting);
        if let Some(next) = next {
            run(thread, next);
        }
    });
}
