//! The front end of the real driver: `\\.\SoftNdk`, by the native calls, which show each NTSTATUS as the driver gave it.
#![expect(unsafe_code, reason = "calls into ntdll and kernel32, with buffers that the kernel writes later")]

use std::{
    mem,
    os::windows::io::IntoRawHandle as _,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use conformance::{Complaints, Completion, File, Pending, Transport};
use nd_device::{open_overlapped, send, wine_version};
use ndk_abi::{
    softndk_ioctl::SOFTNDK_DEVICE_PATHS,
    status::{NTSTATUS, STATUS_PENDING},
};
use windows_sys::{
    Wdk::Storage::FileSystem::NtCancelIoFileEx,
    Win32::{
        Foundation::{CloseHandle, HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_OBJECT_0},
        System::{
            IO::IO_STATUS_BLOCK,
            Threading::{CreateEventW, WaitForSingleObject},
        },
    },
};

use crate::foreign;

/// How long a cancelled request may take to end before its buffers are given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// An adapter of the loaded driver.
pub(crate) struct Device {
    path: &'static str,
    wine: Option<String>,
    complaints: Complaints,
}

impl Device {
    pub(crate) fn new() -> Self {
        Self::at(SOFTNDK_DEVICE_PATHS[0])
    }

    /// The adapter whose device is at this path.
    pub(crate) fn at(path: &'static str) -> Self {
        Self { path, wine: wine_version(), complaints: Complaints::default() }
    }

    /// The file behind a handle that this process has inherited.
    pub(crate) fn inherited(&self, handle: u64) -> Box<dyn File> {
        let handle = Arc::new(Handle(ptr::without_provenance_mut(handle as usize)));
        Box::new(OpenFile { handle, is_wine: self.wine.is_some(), complaints: self.complaints.clone() })
    }
}

impl Transport for Device {
    fn front_end(&self) -> String {
        let system = self.wine.as_ref().map_or_else(|| "Windows".to_owned(), |version| format!("Wine {version}"));
        format!("softndk.sys through {}, under {system}", self.path)
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        let handle = Arc::new(Handle(open_overlapped(self.path)?.into_raw_handle()));
        Ok(Box::new(OpenFile { handle, is_wine: self.wine.is_some(), complaints: self.complaints.clone() }))
    }

    fn close(self: Box<Self>) -> Vec<String> {
        self.complaints.take()
    }
}

/// A kernel handle.
struct Handle(HANDLE);

// SAFETY: kernel handles belong to the process, not to a thread.
unsafe impl Send for Handle {}
// SAFETY: as for Send.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned by self, and not used again.
        unsafe { CloseHandle(self.0) };
    }
}

/// An open file of the device. Requests hold the handle too: closing it with requests in flight would leave them hanging
/// where the system sends no cleanup (Wine).
struct OpenFile {
    handle: Arc<Handle>,
    is_wine: bool,
    complaints: Complaints,
}

impl File for OpenFile {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let operation = Arc::new(Operation {
            block: Block::default(),
            input: input.into(),
            output: (0..output_length).map(|_| AtomicU8::new(0)).collect(),
        });
        // SAFETY: no attributes and no name; a manual-reset event, not signalled.
        let event = Handle(unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) });
        // SAFETY: the buffers have the lengths given. They and the status block may be written until the request is over;
        // they are atomics, in an Arc that InFlight keeps for that long.
        let status = unsafe {
            let output = ptr::slice_from_raw_parts_mut(operation.output.as_ptr().cast_mut().cast(), output_length);
            let block = operation.block_address().cast_mut();
            send(self.handle.0, event.0, ptr::null(), block, code, &raw const *operation.input, output)
        };
        let completion = (status != STATUS_PENDING).then(|| operation.completion(status));
        let (file, complaints) = (self.handle.clone(), self.complaints.clone());
        let pended = status == STATUS_PENDING;
        Box::new(InFlight { operation, event, file, complaints, completion, pended, code })
    }

    fn handle(&self) -> Option<u64> {
        (!self.is_wine).then(|| self.handle.0.addr() as u64)
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        let inherit = |flags| {
            // SAFETY: an open handle.
            unsafe { SetHandleInformation(self.handle.0, HANDLE_FLAG_INHERIT, flags) }
        };
        inherit(HANDLE_FLAG_INHERIT);
        let status = foreign::send_from_child(self.handle.0.addr() as u64, code, input);
        inherit(0);
        status.map_err(|error| format!("{error:#}"))
    }
}

/// IO_STATUS_BLOCK, as something that may change at any time.
#[derive(Default)]
#[repr(C)]
struct Block {
    status: AtomicI32,
    _union: u32,
    information: AtomicUsize,
}

const _: () = assert!(size_of::<Block>() == size_of::<IO_STATUS_BLOCK>());
const _: () = assert!(mem::offset_of!(Block, information) == mem::offset_of!(IO_STATUS_BLOCK, Information));

/// What the kernel reads and writes while a request is in flight.
struct Operation {
    block: Block,
    input: Box<[u8]>,
    output: Box<[AtomicU8]>,
}

impl Operation {
    fn block_address(&self) -> *const IO_STATUS_BLOCK {
        (&raw const self.block).cast()
    }

    /// The end of the request. `status`: what it ended with, if the request was over when the call returned; a status block
    /// is written for successes and warnings then, but not for errors.
    fn completion(&self, status: NTSTATUS) -> Completion {
        let is_error = status.to_u32() >> 30 == 3;
        let information = if is_error { 0 } else { self.block.information.load(Ordering::Acquire) };
        let returned = information.min(self.output.len());
        let output = self.output[..returned].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        Completion { status, information, output }
    }
}

/// A request that was submitted.
struct InFlight {
    operation: Arc<Operation>,
    event: Handle,
    file: Arc<Handle>,
    complaints: Complaints,
    /// How it ended, once that was seen.
    completion: Option<Completion>,
    pended: bool,
    code: u32,
}

impl Pending for InFlight {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.completion.is_none() {
            let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1);
            // SAFETY: the event is open as long as self.
            if unsafe { WaitForSingleObject(self.event.0, milliseconds) } == WAIT_OBJECT_0 {
                let status = NTSTATUS(self.operation.block.status.load(Ordering::Acquire));
                self.completion = Some(self.operation.completion(status));
            }
        }
        self.completion.clone()
    }

    fn pended(&self) -> bool {
        self.pended
    }

    fn cancel(&self) {
        let mut block = IO_STATUS_BLOCK::default();
        // SAFETY: the first block is only compared with those of requests in flight, the second one outlives the call.
        unsafe { NtCancelIoFileEx(self.file.0, self.operation.block_address(), &raw mut block) };
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.wait(Duration::ZERO).is_some() {
            return;
        }
        self.cancel();
        if self.wait(CANCEL_LIMIT).is_none() {
            self.complaints.note(format!("the request with code {:#x} did not end after it was cancelled", self.code));
            // The kernel may still write to it.
            mem::forget(self.operation.clone());
        }
    }
}
