//! Contexts of callbacks: they count, keep and time the calls, and check what a consumer may rely on.
#![expect(unsafe_code, reason = "callbacks of a C interface")]

use std::{
    ffi::c_void,
    ops::RangeInclusive,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use ndk_abi::{
    ndkpi::{NDK_CONNECTOR, NDK_OBJECT_HEADER},
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
};
use platform::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use simkernel::{in_callback, lock_paused, pause};

use super::LIMIT;

/// Orders all calls of a session.
static CLOCK: AtomicU64 = AtomicU64::new(1);
/// What callbacks saw that they must not see. A callback cannot panic: it would unwind into the driver.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The present time, on the clock that stamps the calls.
pub(crate) fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

/// Notes what must not be, and fails the test when its world ends.
pub(crate) fn complain(complaint: String) {
    lock(&COMPLAINTS).push(complaint);
}

pub(crate) fn take_complaints() -> Vec<String> {
    std::mem::take(&mut *lock(&COMPLAINTS))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One call of a callback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) status: NTSTATUS,
    /// The object or the reason, of callbacks that have one.
    pub(crate) value: usize,
    pub(crate) begun: u64,
    pub(crate) ended: Option<u64>,
}

type Hook = Box<dyn FnMut(Call) + Send>;

/// How often a callback may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Most {
    Once,
    /// Each call begins after the one before has returned.
    OneAtATime,
    Any,
}

/// The context of a callback. The test never frees it, so that a late call is reported, and does not touch freed memory.
pub(crate) struct Waiter {
    name: &'static str,
    /// The levels at which it may be called (docs/contexts.md).
    levels: RangeInclusive<u8>,
    calls_at_most: Most,
    calls: Mutex<Vec<Call>>,
    hook: Mutex<Option<Hook>>,
    running: AtomicUsize,
    taken: AtomicUsize,
}

impl Waiter {
    /// For completions that run wherever the last user of something is.
    pub(crate) fn new(name: &'static str) -> &'static Self {
        Self::leak(name, PASSIVE_LEVEL..=DISPATCH_LEVEL, Most::Once)
    }

    /// For completions and disconnect events, which the provider calls from a deferred call.
    pub(crate) fn deferred(name: &'static str) -> &'static Self {
        Self::leak(name, DISPATCH_LEVEL..=DISPATCH_LEVEL, Most::Once)
    }

    /// For notifications, which the provider calls from a deferred call.
    pub(crate) fn notification(name: &'static str) -> &'static Self {
        Self::leak(name, DISPATCH_LEVEL..=DISPATCH_LEVEL, Most::OneAtATime)
    }

    /// For callbacks that the provider calls from deferred calls, several at once.
    pub(crate) fn concurrent(name: &'static str) -> &'static Self {
        Self::leak(name, DISPATCH_LEVEL..=DISPATCH_LEVEL, Most::Any)
    }

    fn leak(name: &'static str, levels: RangeInclusive<u8>, calls_at_most: Most) -> &'static Self {
        Box::leak(Box::new(Self {
            name,
            levels,
            calls_at_most,
            calls: Mutex::default(),
            hook: Mutex::default(),
            running: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }))
    }

    /// Has `hook` run inside of each call, never twice at once.
    pub(crate) fn on_call(&self, hook: impl FnMut(Call) + Send + 'static) {
        *lock(&self.hook) = Some(Box::new(hook));
    }

    pub(crate) fn context(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// As the provider calls.
    pub(crate) fn call_now(&self) {
        self.called(STATUS_SUCCESS, 0);
    }

    fn called(&self, status: NTSTATUS, value: usize) {
        in_callback(self.name, self.levels.clone(), || self.note(status, value));
    }

    fn note(&self, status: NTSTATUS, value: usize) {
        if self.running.fetch_add(1, Ordering::SeqCst) != 0 && self.calls_at_most != Most::Any {
            complain(format!("{} called twice at once", self.name));
        }
        let call = Call { status, value, begun: now(), ended: None };
        let index = {
            let mut calls = lock(&self.calls);
            calls.push(call);
            if calls.len() > 1 && self.calls_at_most == Most::Once {
                complain(format!("{} called again: {calls:?}", self.name));
            }
            calls.len() - 1
        };
        // The driver is called in there.
        if let Some(hook) = &mut *lock_paused(&self.hook) {
            hook(call);
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        lock(&self.calls)[index].ended = Some(now());
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.calls).len()
    }

    /// Whether there was a call that was not taken yet.
    pub(crate) fn has_more(&self) -> bool {
        self.count() > self.taken.load(Ordering::SeqCst)
    }

    /// Waits until `count` calls have ended.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Call> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let calls = self.calls();
            if calls.iter().filter(|call| call.ended.is_some()).count() >= count {
                return calls;
            }
            assert!(Instant::now() < deadline, "{}: {} of {count} calls: {calls:?}", self.name, calls.len());
            pause();
        }
    }

    /// Waits for the next call that was not taken yet.
    #[track_caller]
    pub(crate) fn take(&self) -> Call {
        let index = self.taken.fetch_add(1, Ordering::SeqCst);
        self.wait_for(index + 1)[index]
    }
}

/// An asynchronous call: what it returned, and its completion.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) returned: NTSTATUS,
    pub(crate) completion: &'static Waiter,
}

impl Request {
    pub(crate) fn pended(&self) -> bool {
        self.returned == STATUS_PENDING
    }

    /// Whether it is over.
    pub(crate) fn is_done(&self) -> bool {
        !self.pended() || self.completion.count() > 0
    }

    /// The outcome, inline or by callback.
    #[track_caller]
    pub(crate) fn wait(&self) -> NTSTATUS {
        if self.pended() {
            return self.completion.wait_for(1)[0].status;
        }
        assert_eq!(self.completion.count(), 0, "{} called although the answer was inline", self.completion.name);
        self.returned
    }

    #[track_caller]
    pub(crate) fn succeed(&self) {
        assert_eq!(self.wait(), STATUS_SUCCESS, "{}", self.completion.name);
    }
}

fn waiter(context: *mut c_void) -> &'static Waiter {
    // SAFETY: contexts come from `Waiter::context` and are never freed.
    unsafe { &*context.cast::<Waiter>() }
}

pub(crate) unsafe extern "system" fn completed(context: *mut c_void, status: NTSTATUS) {
    waiter(context).called(status, 0);
}

pub(crate) unsafe extern "system" fn closed(context: *mut c_void) {
    waiter(context).called(STATUS_SUCCESS, 0);
}

pub(crate) unsafe extern "system" fn created(context: *mut c_void, status: NTSTATUS, object: *mut NDK_OBJECT_HEADER) {
    waiter(context).called(status, object.expose_provenance());
}

pub(crate) unsafe extern "system" fn disconnected(context: *mut c_void) {
    waiter(context).called(STATUS_SUCCESS, usize::MAX);
}

pub(crate) unsafe extern "system" fn disconnected_ex(context: *mut c_void, reason: u32) {
    waiter(context).called(STATUS_SUCCESS, reason as usize);
}

pub(crate) unsafe extern "system" fn connect_event(context: *mut c_void, connector: *mut NDK_CONNECTOR) {
    waiter(context).called(STATUS_SUCCESS, connector.expose_provenance());
}
