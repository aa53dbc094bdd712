//! A request as the I/O manager keeps one: its buffer, its cancel routine, its end. Any host may use it.

use std::{
    mem,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nd_ioctl::{File, Host, Request};
use ndk_abi::status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_PENDING};

use crate::host::locked;

/// How a request ended: its status, its information, and its output.
pub type End = (NTSTATUS, usize, Vec<u8>);

/// What the user's side and the kernel's side of a request share.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The output buffer cannot be written.
    unwritable: bool,
    /// The identifier the cancel routine is to be called with, while there is a cancel routine.
    routine: Option<u64>,
    cancelled: bool,
    marked_pending: bool,
    result: Option<End>,
    /// Which of all completions this was.
    order: usize,
}

static ORDER: AtomicUsize = AtomicUsize::new(0);

impl Shared {
    /// CancelIoEx.
    pub fn cancel<H: Host>(&self, file: &File<H>) {
        if let Some(id) = self.begin_cancel() {
            file.cancel(id);
        }
    }

    /// The cancel routine of the I/O manager begins, but does not get on: gives what it will call `cancel` with.
    pub fn begin_cancel(&self) -> Option<u64> {
        let mut state = locked(&self.state);
        state.cancelled = true;
        state.routine.take()
    }

    pub fn cancel_before_it_is_sent(&self) {
        locked(&self.state).cancelled = true;
    }

    /// The user's output buffer is freed before the request is completed.
    pub fn lose_its_output(&self) {
        locked(&self.state).unwritable = true;
    }

    pub fn result(&self) -> Option<End> {
        locked(&self.state).result.clone()
    }

    pub fn order(&self) -> usize {
        locked(&self.state).order
    }

    pub fn was_marked_pending(&self) -> bool {
        locked(&self.state).marked_pending
    }

    /// Waits until the device has completed the request. In a seeded session this thread lets other threads run between its looks.
    pub fn wait(&self, limit: Duration) -> Option<End> {
        let end = Instant::now() + limit;
        while self.result().is_none() && Instant::now() < end {
            simkernel::pause();
        }
        self.result()
    }

    /// Blocks this thread until the device has completed the request. Not for seeded sessions, where no other thread would run.
    pub fn wait_blocked(&self, limit: Duration) -> Option<End> {
        let ended = self.ended.wait_timeout_while(locked(&self.state), limit, |state| state.result.is_none());
        ended.unwrap_or_else(PoisonError::into_inner).0.result.clone()
    }
}

/// A request inside the device. Its holder completes it, once.
pub struct TestRequest {
    code: u32,
    input: usize,
    output: usize,
    /// Input and output share it, as with METHOD_BUFFERED.
    buffer: Vec<u8>,
    shared: Arc<Shared>,
    completed: bool,
}

impl TestRequest {
    pub fn new(code: u32, input: &[u8], output: usize, shared: Arc<Shared>) -> Self {
        let mut buffer = input.to_vec();
        buffer.resize(input.len().max(output), 0);
        Self { code, input: input.len(), output, buffer, shared, completed: false }
    }
}

impl Request for TestRequest {
    fn code(&self) -> u32 {
        self.code
    }

    fn input(&self) -> &[u8] {
        &self.buffer[..self.input]
    }

    fn output(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.output]
    }

    fn output_length(&self) -> usize {
        self.output
    }

    fn complete(mut self, mut status: NTSTATUS, mut information: usize) -> NTSTATUS {
        assert_eq!(simkernel::held_locks(), [0usize; 0], "completed with a lock held");
        assert!(information <= self.output || status == STATUS_BUFFER_OVERFLOW, "{information} of {}", self.output);
        // The I/O manager copies nothing back for errors (NT_ERROR: the highest severity), but does for warnings.
        let is_error = status.to_u32() >> 30 == 3;
        let mut state = locked(&self.shared.state);
        if state.unwritable && information > 0 && !is_error {
            // As softndk.sys does it.
            (status, information) = (STATUS_ACCESS_VIOLATION, 0);
        }
        let mut output = mem::take(&mut self.buffer);
        output.truncate(if is_error { 0 } else { information.min(self.output) });
        assert!(state.routine.is_none(), "completed with its cancel routine set");
        assert!(state.result.is_none(), "completed twice");
        state.result = Some((status, information, output));
        state.order = ORDER.fetch_add(1, Ordering::SeqCst);
        drop(state);
        self.shared.ended.notify_all();
        self.completed = true;
        status
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        locked(&self.shared.state).marked_pending = true;
        self.complete(status, information);
        STATUS_PENDING
    }

    fn pend(&mut self, id: u64) -> bool {
        let mut state = locked(&self.shared.state);
        if state.cancelled {
            return false;
        }
        state.marked_pending = true;
        state.routine = Some(id);
        true
    }

    fn unpend(&mut self) -> bool {
        locked(&self.shared.state).routine.take().is_some()
    }
}

impl Drop for TestRequest {
    fn drop(&mut self) {
        if !self.completed && !std::thread::panicking() {
            eprintln!("a request was lost");
            std::process::abort();
        }
    }
}
