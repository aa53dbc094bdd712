//! Questions to another process, which may be killed before it answers.
//!
//! Wine has a process look at, free and map its own memory: one of its threads gets a call, and who sent it waits without a limit. Of a
//! thread that is killed the calls that wait for it are given up. One that it has taken and not ended is not (server/thread.c of Wine
//! 8.0: `clear_apc_queue` wakes what is on the queue), so that whoever sent it waits for ever.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use crate::report::{self, violation};

type Question = Box<dyn FnOnce() + Send>;

/// How often to look whether the process has ended, and how long it may take after that for an answer to arrive.
const LOOK: Duration = Duration::from_millis(500);
/// After so many of them a process that lives has not answered. Not a time, which goes on while all processes are stopped.
pub(crate) const LOOKS: usize = 120;

/// To the thread that asks, one question at a time. Who waits for ever is forgotten, and there will be another one.
static ASKER: Mutex<Option<mpsc::Sender<Question>>> = Mutex::new(None);

fn start() -> mpsc::Sender<Question> {
    let (sender, questions) = mpsc::channel::<Question>();
    std::thread::spawn(move || questions.iter().for_each(|question| question()));
    sender
}

/// The answer of a process; none if it has ended without one.
pub(crate) fn of<T: Send + 'static>(
    has_ended: impl Fn() -> bool,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    looking_every(LOOK, has_ended, ask)
}

/// The same, with looks at other intervals.
pub(crate) fn looking_every<T: Send + 'static>(
    interval: Duration,
    has_ended: impl Fn() -> bool,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, answer) = mpsc::channel();
    let mut asker = report::lock(&ASKER);
    let question = Box::new(move || {
        // Nobody may want it any more.
        let _ = sender.send(ask());
    });
    let _the_thread_lives = asker.get_or_insert_with(start).send(question);
    let (mut looks, mut is_last) = (0, false);
    loop {
        if let Ok(answer) = answer.recv_timeout(interval) {
            return Some(answer);
        }
        if is_last {
            break;
        }
        looks += 1;
        is_last = has_ended();
        if !is_last && looks == LOOKS {
            violation("stand-in: a process does not answer");
            break;
        }
    }
    *asker = None;
    None
}
