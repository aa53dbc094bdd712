//! [`ProcessRequest`]: a request to the device in the process, as an IRP is one to a driver.
#![expect(unsafe_code, reason = "an OVERLAPPED and an output of the program, given by raw pointers")]

use std::{
    ffi::c_void,
    ptr,
    sync::{Arc, OnceLock},
};

use nd_ioctl::Request;
use ndk_abi::status::{NTSTATUS, STATUS_PENDING};
use windows_sys::Win32::Foundation::HANDLE;

use super::pipe::Pipe;
use crate::core::{handle::Handle, overlapped::Overlapped};

/// The status and output of a request, for the thread that waits for it.
pub(super) struct End {
    pub(super) status: NTSTATUS,
    pub(super) output: Vec<u8>,
}

/// The receiver of a request's end.
enum Sender {
    /// A thread that waits.
    Thread(Arc<OnceLock<End>>),
    /// A program's OVERLAPPED.
    Program(Told),
}

/// An overlapped file of the program.
#[derive(Debug)]
pub(super) struct Target {
    /// The program's end of the pipe. This handle stays open while requests are under way, even if the program closes
    /// its own.
    pub(super) file: Handle,
    pub(super) pipe: Arc<Pipe>,
}

/// Reports the end of a request to the program: by the OVERLAPPED, its event, and the file's completion port.
pub(super) struct Told {
    overlapped: Overlapped,
    /// Null: no packet for the completion port.
    context: *const c_void,
    /// A duplicate: the program may close its own handle while the request pends.
    event: Option<Handle>,
    target: Arc<Target>,
    output: *mut [u8],
}

// SAFETY: all pointers are the program's, and valid on any thread until the request has ended.
unsafe impl Send for Told {}

impl Told {
    /// `begun` is the result of [`Overlapped::begin`] for this request. STATUS_INVALID_HANDLE: the OVERLAPPED's event
    /// is not a handle of an event.
    ///
    /// # Safety
    /// The OVERLAPPED and `output` are valid until the request has ended.
    pub(super) unsafe fn new(
        overlapped: &Overlapped,
        begun: (HANDLE, *const c_void),
        target: &Arc<Target>,
        output: *mut [u8],
    ) -> Result<Self, NTSTATUS> {
        let (event, context) = begun;
        let event = if event.is_null() { None } else { Some(Handle::duplicate(event)?) };
        event.as_ref().map_or(Ok(()), Handle::reset)?;
        Ok(Self { overlapped: overlapped.clone(), context, event, target: target.clone(), output })
    }

    /// Reports the end of the request. If the request did not pend (`pended` is false), the call that sent it returns
    /// the result of this function. Every success is reported by packet and event, and the call returns STATUS_PENDING:
    /// programs wait for the end without a look at the call's result. If a request that did not pend fails, the call
    /// returns the error, without packet and event.
    fn end(self, status: NTSTATUS, output: &[u8], pended: bool) -> NTSTATUS {
        // SAFETY: the program's output is valid by contract of `new`, is at least as long as `output` (`complete`
        // truncates), and does not overlap memory of this DLL.
        unsafe { ptr::copy_nonoverlapping(output.as_ptr(), self.output.cast::<u8>(), output.len()) };
        let ending = self.overlapped.end(status, output.len());
        if !pended && !status.is_success() {
            return status;
        }
        if !self.context.is_null() {
            self.target.pipe.send_packet(&self.target.file, self.context, status, output.len());
        }
        self.event.inspect(Handle::set);
        drop(ending);
        hosted::wake_leader(self.overlapped.address());
        STATUS_PENDING
    }
}

/// A request in the device.
pub(super) struct ProcessRequest {
    code: u32,
    /// METHOD_BUFFERED: input and output share this buffer.
    buffer: Vec<u8>,
    input_length: usize,
    output_length: usize,
    sender: Sender,
    pended: bool,
}

impl ProcessRequest {
    fn new(code: u32, input: &[u8], output_length: usize, sender: Sender) -> Self {
        let mut buffer = Vec::with_capacity(input.len().max(output_length));
        buffer.extend_from_slice(input);
        buffer.resize(input.len().max(output_length), 0);
        Self { code, buffer, input_length: input.len(), output_length, sender, pended: false }
    }

    /// A request whose end is stored in the second result.
    pub(super) fn for_thread(code: u32, input: &[u8], output_length: usize) -> (Self, Arc<OnceLock<End>>) {
        let end = Arc::new(OnceLock::new());
        (Self::new(code, input, output_length, Sender::Thread(end.clone())), end)
    }

    /// A request whose end `told` reports to the program.
    pub(super) fn for_program(code: u32, input: &[u8], told: Told) -> Self {
        Self::new(code, input, told.output.len(), Sender::Program(told))
    }
}

impl Request for ProcessRequest {
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
        // The output is copied for warnings, but not for errors (NT_ERROR: the highest severity), as the I/O manager
        // does.
        let copied = if status.to_u32() >> 30 == 3 { 0 } else { information.min(self.output_length) };
        self.buffer.truncate(copied);
        match self.sender {
            Sender::Thread(end) => {
                // No other code completes the request.
                let _first = end.set(End { status, output: self.buffer });
                status
            }
            Sender::Program(told) => told.end(status, &self.buffer, self.pended),
        }
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        self.complete(status, information)
    }

    /// No I/O manager cancels requests: programs cancel them by the object's `*_CANCEL_IO`.
    fn pend(&mut self, _id: u64) -> bool {
        self.pended = true;
        true
    }

    fn unpend(&mut self) -> bool {
        true
    }
}
