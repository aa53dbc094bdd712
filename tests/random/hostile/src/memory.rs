//! Memory that runs out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use simkernel::{Fault, Session};

/// What makes allocations of the driver fail.
pub(crate) struct Shortage<'a> {
    session: &'a Session,
    state: Mutex<State<'a>>,
}

#[derive(Default)]
struct State<'a> {
    planted: Option<Fault<'a>>,
    /// The calls of [`Shortage::without`] that are running.
    excluded: u32,
}

impl<'a> Shortage<'a> {
    /// None yet.
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, state: Mutex::default() }
    }

    /// Makes the allocation after `others` more fail, for any user.
    pub(crate) fn begin(&self, others: u8) {
        let mut state = self.state();
        // One at a time.
        state.planted = None;
        if state.excluded == 0 {
            state.planted = Some(self.session.fail_allocation(u64::from(others) + 1));
        }
    }

    /// Ends it, and runs `code`, during which none begins.
    pub(crate) fn without<R>(&self, code: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        state.planted = None;
        state.excluded += 1;
        drop(state);
        let result = code();
        self.state().excluded -= 1;
        result
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
