//! One request: what an IRP, its cancel routine and its event are on Windows.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nd_ioctl::Request;
use ndk_abi::status::{NTSTATUS, STATUS_PENDING};

use crate::transport::Completion;

/// The state that the sender and the device share.
pub(super) struct Call {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What the dispatch routine has returned.
    dispatched: Option<NTSTATUS>,
    /// The cancel routine that is set: what to tell the file.
    cancel_routine: Option<u64>,
    /// Cancellation was asked for.
    cancelled: bool,
    completion: Option<Completion>,
}

/// A request inside the device. Its holder completes it, once.
pub(super) struct LocalRequest {
    code: u32,
    /// METHOD_BUFFERED: input and output share it.
    buffer: Vec<u8>,
    input_length: usize,
    output_length: usize,
    call: Arc<Call>,
}

impl Call {
    /// A new request, and the sender's view of it.
    pub(super) fn new(code: u32, input: &[u8], output_length: usize) -> (LocalRequest, Arc<Self>) {
        let mut buffer = input.to_vec();
        buffer.resize(input.len().max(output_length), 0);
        let call = Arc::new(Self { state: Mutex::default(), changed: Condvar::new() });
        let request = LocalRequest { code, buffer, input_length: input.len(), output_length, call: call.clone() };
        (request, call)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn wait_until(&self, timeout: Duration, reached: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.state(), timeout, |state| !reached(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The dispatch routine has returned.
    pub(super) fn dispatched(&self, status: NTSTATUS) {
        self.change(|state| state.dispatched = Some(status));
    }

    /// Whether the dispatch routine has returned STATUS_PENDING.
    pub(super) fn pended(&self) -> bool {
        self.state().dispatched == Some(STATUS_PENDING)
    }

    /// Waits until the dispatch routine has returned. False: it has not.
    pub(super) fn wait_for_dispatch(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| state.dispatched.is_some()).dispatched.is_some()
    }

    /// Waits for the end of the request.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Completion> {
        self.wait_until(timeout, |state| state.completion.is_some()).completion.clone()
    }

    /// IoCancelIrp: the cancel routine to be called, if one is set.
    pub(super) fn begin_cancel(&self) -> Option<u64> {
        let mut state = self.state();
        state.cancelled = true;
        state.cancel_routine.take()
    }
}

impl Request for LocalRequest {
    fn code(&self) -> u32 {
        self.code
    }

    fn input(&self) -> &[u8] {
        &self.buffer[..self.input_length]
    }

    fn output(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.output_length]
    }

    fn output_length(&self) -> usize {
        self.output_length
    }

    fn complete(mut self, status: NTSTATUS, information: usize) -> NTSTATUS {
        // The I/O manager copies nothing back for errors (NT_ERROR: the highest severity), but does for warnings.
        let copied = if status.to_u32() >> 30 == 3 { 0 } else { information.min(self.output_length) };
        let mut output = std::mem::take(&mut self.buffer);
        output.truncate(copied);
        self.call.change(|state| state.completion = Some(Completion { status, information, output }));
        status
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        self.complete(status, information);
        STATUS_PENDING
    }

    fn pend(&mut self, id: u64) -> bool {
        let mut state = self.call.state();
        if !state.cancelled {
            state.cancel_routine = Some(id);
        }
        !state.cancelled
    }

    fn unpend(&mut self) -> bool {
        self.call.state().cancel_routine.take().is_some()
    }
}
