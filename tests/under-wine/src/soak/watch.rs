//! Nothing is waited for without end: what hangs is told, with what everybody was at, and ended.

use std::iter;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};

use crate::two_processes::{Harness, Words};

/// The programs that are at work.
#[derive(Default)]
pub(super) struct Watch(Mutex<Vec<Arc<Words>>>);

impl Watch {
    /// One more of them.
    pub(super) fn add(&self, program: &Harness) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(program.words());
    }

    fn take(&self) -> Vec<Arc<Words>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does `work`, which starts programs. If that takes longer than `limit`: an error that says what each of them said last, and what
    /// `ask` answers; `end` has to end them, so that `work` returns.
    pub(super) fn within<T>(
        &self,
        limit: Duration,
        ask: impl FnOnce() -> String + Send,
        end: impl FnOnce() + Send,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.take();
        let (is_at_work, at_work) = channel::<()>();
        thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                if at_work.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                    return None;
                }
                let programs = self.take();
                let told = programs.iter().map(|words| words.to_string()).chain(iter::once_with(ask));
                let told = told.collect::<Vec<_>>().join("\n");
                end();
                Some(format!("not over after {} s:\n{told}", limit.as_secs()))
            });
            let result = work();
            drop(is_at_work);
            match (watcher.join().map_err(|_| anyhow!("a thread panicked"))?, result) {
                (None, result) => result,
                (Some(told), Ok(_)) => Err(Error::msg(told)),
                (Some(told), Err(error)) => Err(error.context(told)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};
    use std::{env, fs};

    use super::*;

    fn shell(script: &str) -> Harness {
        Harness::spawn(Command::new("sh"), &["-c", script]).unwrap()
    }

    /// Waits for a line that does not come, of a program that says this, beside another one. Both go on until they are ended.
    fn hangs(says: &str) -> String {
        let ends = env::temp_dir().join(format!("softndk-watch-{}-{}", process::id(), says.len()));
        let _ = fs::remove_file(&ends);
        let waits = format!("until test -e '{}'; do sleep 0.05; done", ends.display());
        let watch = Watch::default();
        let waited = watch.within(
            Duration::from_secs(10),
            || "the driver has 0 connections".to_owned(),
            || fs::write(&ends, "").unwrap(),
            || {
                let (silent, other) = (shell(&format!("{says} {waits}")), shell(&format!("echo at work; {waits}")));
                [&silent, &other].into_iter().for_each(|program| watch.add(program));
                silent.until(|line| (line == "ready").then_some(()))
            },
        );
        fs::remove_file(&ends).unwrap();
        format!("{:#}", waited.unwrap_err())
    }

    #[test]
    fn a_program_that_says_nothing_is_told_and_ended() {
        let told = hangs("");
        for what in ["done\n  has said nothing\n", "done\n  at work\n", "the driver has 0 connections"] {
            assert!(told.contains(what), "{told}");
        }
        let told = hangs("echo one; echo two;");
        assert!(told.contains("\n  one\n  two\n"), "{told}");
    }

    #[test]
    fn who_is_in_time_is_left_alone() {
        let watch = Watch::default();
        let in_time = watch.within(
            Duration::from_secs(600),
            || unreachable!("nothing hangs"),
            || unreachable!("nothing hangs"),
            || shell("echo ready").until(|line| (line == "ready").then_some(3)),
        );
        assert_eq!(in_time.unwrap(), 3);
        let failed =
            watch.within(Duration::from_secs(600), String::new, || (), || shell("exit 1").until(|_| None::<()>));
        assert!(failed.is_err());
    }
}
