//! Which entries of which tables a thread has called, with what they answered.

use std::{any::type_name, cell::RefCell};

use ndk_abi::status::NTSTATUS;

/// One call of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) table: &'static str,
    pub(crate) entry: &'static str,
    /// None of entries that have no status.
    pub(crate) status: Option<NTSTATUS>,
}

thread_local! {
    static CALLS: RefCell<Option<Vec<Called>>> = const { RefCell::new(None) };
}

/// What an entry answers.
pub(crate) trait Answer {
    fn status(&self) -> Option<NTSTATUS> {
        None
    }
}
impl Answer for NTSTATUS {
    fn status(&self) -> Option<NTSTATUS> {
        Some(*self)
    }
}
impl Answer for () {}
impl Answer for u32 {}

/// Records the calls of this thread from now on.
pub(crate) fn start() {
    CALLS.set(Some(Vec::new()));
}

/// The calls since `start`.
pub(crate) fn stop() -> Vec<Called> {
    CALLS.take().expect("started")
}

pub(crate) fn note<T>(_dispatch: *const T, entry: &'static str, answer: &impl Answer) {
    let path = type_name::<T>();
    let table = path.rsplit("::").next().unwrap_or(path);
    CALLS.with_borrow_mut(|calls| {
        if let Some(calls) = calls {
            calls.push(Called { table, entry, status: answer.status() });
        }
    });
}
