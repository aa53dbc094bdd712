//! Requests of the program to the device in its process: what IRPs are to a driver.
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

/// How a request ended, for who waits for it.
pub(super) struct End {
    pub(super) status: NTSTATUS,
    pub(super) output: Vec<u8>,
}

/// Who is told of the end of a request.
enum Sender {
    /// A thread that waits.
    Thread(Arc<OnceLock<End>>),
    /// An OVERLAPPED.
    Program(Told),
}

/// An overlapped file of the program.
#[derive(Debug)]
pub(super) struct Target {
    /// The program's end of the pipe, which stays open while it has requests, whatever the program closes.
    pub(super) file: Handle,
    pub(super) pipe: Arc<Pipe>,
}

/// What a program is told by.
pub(super) struct Told {
    overlapped: Overlapped,
    /// Null: no packet for the completion port.
    context: *const c_void,
    /// Open whatever the program does with its own.
    event: Option<Handle>,
    target: Arc<Target>,
    output: *mut [u8],
}

// SAFETY: all of it is the program's, and valid until the request is over, on whatever thread that is.
unsafe impl Send for Told {}

impl Told {
    /// Of an OVERLAPPED that was prepared for the request: `begun`. STATUS_INVALID_HANDLE: its event is none.
    ///
    /// # Safety
    /// The OVERLAPPED and `output` are valid until the request is over.
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

    /// The request is over: what the call that sent it has to return, unless that has returned already. A success is always told, as
    /// programs wait for it without a look at what the call returned; what is refused at once is the call's to tell.
    fn end(self, status: NTSTATUS, output: &[u8], pended: bool) -> NTSTATUS {
        // SAFETY: the program's, as long; memory of ours is none of it.
        unsafe { ptr::copy_nonoverlapping(output.as_ptr(), self.output.cast::<u8>(), output.len()) };
        self.overlapped.end(status, output.len());
        if !pended && !status.is_success() {
            return status;
        }
        if !self.context.is_null() {
            self.target.pipe.send_packet(&self.target.file, self.context, status, output.len());
        }
        self.event.inspect(Handle::set);
        STATUS_PENDING
    }
}

/// A request in the device.
pub(super) struct ProcessRequest {
    code: u32,
    /// METHOD_BUFFERED: input and output share it.
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

    /// One whose end is put into the second.
    pub(super) fn for_thread(code: u32, input: &[u8], output_length: usize) -> (Self, Arc<OnceLock<End>>) {
        let end = Arc::new(OnceLock::new());
        (Self::new(code, input, output_length, Sender::Thread(end.clone())), end)
    }

    /// One whose end the program is told.
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
        // Nothing is copied back for errors (NT_ERROR: the highest severity), but for warnings.
        let copied = if status.to_u32() >> 30 == 3 { 0 } else { information.min(self.output_length) };
        self.buffer.truncate(copied);
        match self.sender {
            Sender::Thread(end) => {
                // Nobody else completes it.
                let _first = end.set(End { status, output: self.buffer });
                status
            }
            Sender::Program(told) => told.end(status, &self.buffer, self.pended),
        }
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        self.complete(status, information)
    }

    /// There is no I/O manager to cancel requests: programs ask the object (`*_CANCEL_IO`).
    fn pend(&mut self, _id: u64) -> bool {
        self.pended = true;
        true
    }

    fn unpend(&mut self) -> bool {
        true
    }
}
