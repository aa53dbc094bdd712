//! softndk.sys as the device. The error of a request is the NTSTATUS that the driver returned.
#![expect(unsafe_code, reason = "requests whose output is written later, and calls into kernel32")]

use std::{os::windows::io::IntoRawHandle as _, ptr};

use nd_device::{SynchronousFile, open_overlapped, send};
use ndk_abi::{
    nd_ioctl::IOCTL_ND_PROVIDER_INIT,
    softndk_ioctl::{IOCTL_SOFTNDK_ATTACH, IOCTL_SOFTNDK_FILE_ID, SOFTNDK_DEVICE_PATHS, SOFTNDK_FILE_ID},
    status::{
        NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE,
        STATUS_INVALID_PARAMETER_2, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_PENDING,
    },
};
use windows_sys::Win32::{
    Foundation::HANDLE,
    System::{
        IO::{IO_STATUS_BLOCK, OVERLAPPED},
        Threading::{CreateEventW, INFINITE, WaitForSingleObject},
    },
};
use zerocopy::{FromZeros, IntoBytes};

use super::handle;
use crate::core::{handle::Handle, overlapped::Overlapped};

/// Translates the error of opening a device.
fn not_opened(status: NTSTATUS) -> NTSTATUS {
    // No adapter has the path.
    if status == STATUS_OBJECT_NAME_NOT_FOUND { STATUS_DEVICE_REMOVED } else { status }
}

fn open(path: &str) -> Result<SynchronousFile, NTSTATUS> {
    SynchronousFile::open(path).map_err(not_opened)
}

/// What `open` opens at the path of each adapter that is there, or why not, one after the other.
fn each<T>(open: impl Fn(&'static str) -> Result<T, NTSTATUS>) -> impl Iterator<Item = Result<T, NTSTATUS>> {
    let is_there = |opened: &Result<T, NTSTATUS>| !matches!(opened, Err(STATUS_DEVICE_REMOVED));
    SOFTNDK_DEVICE_PATHS.into_iter().map(open).filter(is_there)
}

/// Sends a request on an overlapped file, waits for its end, and returns the number of output bytes. Warnings count as
/// errors. The file's completion port gets no packet.
fn control_overlapped(file: &Handle, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
    // SAFETY: no attributes and no name; a manual-reset event, not signalled.
    let event = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
    // SAFETY: new.
    let event = unsafe { Handle::own(event) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: all buffers outlive the call and the request: this function waits for the request's end.
    let mut status =
        unsafe { send(file.as_raw(), event.as_raw(), ptr::null(), &raw mut block, code, input, &raw mut *output) };
    if status == STATUS_PENDING {
        // SAFETY: an open handle.
        unsafe { WaitForSingleObject(event.as_raw(), INFINITE) };
        // SAFETY: the request has ended, so the kernel no longer writes to the block.
        status = NTSTATUS(unsafe { (&raw const block.Anonymous.Status).read_volatile() });
    }
    // The driver returns no success but STATUS_SUCCESS.
    if status.is_success() { Ok(block.Information.min(output.len())) } else { Err(status) }
}

/// Tries to open the first device that is there. STATUS_DEVICE_REMOVED: the driver is not loaded.
pub(super) fn is_there() -> Result<(), NTSTATUS> {
    first().map(|_| ())
}

/// Sends a request on a file of the first adapter, without a provider context, waits for its end, and returns the number of output bytes.
pub(super) fn control_bare(code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
    first()?.control(code, input, output)
}

fn first() -> Result<SynchronousFile, NTSTATUS> {
    each(open).next().unwrap_or(Err(STATUS_DEVICE_REMOVED))
}

/// An open file of softndk.sys, for requests that the caller waits for.
#[derive(Debug)]
pub(crate) struct File {
    file: SynchronousFile,
    path: &'static str,
    /// The identifier of the file's provider context.
    context: u64,
}

impl File {
    /// Opens the device of each adapter that is there, one after the other, with a provider context of its own.
    pub(super) fn each() -> impl Iterator<Item = Result<Self, NTSTATUS>> {
        each(Self::open)
    }

    fn open(path: &'static str) -> Result<Self, NTSTATUS> {
        let file = open(path)?;
        file.control(IOCTL_ND_PROVIDER_INIT, handle(0).as_bytes(), &mut [])?;
        let mut id = SOFTNDK_FILE_ID::new_zeroed();
        file.control(IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes(), id.as_mut_bytes())?;
        Ok(Self { file, path, context: id.Id })
    }

    /// Sends a request, waits for its end, and returns the number of output bytes.
    pub(super) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.file.control(code, input, output)
    }

    /// A new overlapped file of this file's provider context.
    pub(super) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        let file = open_overlapped(self.path).map_err(not_opened)?;
        // SAFETY: new.
        let file = unsafe { Handle::own(file.into_raw_handle()) }.ok_or(STATUS_INVALID_HANDLE)?;
        control_overlapped(&file, IOCTL_SOFTNDK_ATTACH, handle(self.context).as_bytes(), &mut [])?;
        super::set_completion_modes(&file)?;
        Ok(file)
    }

    /// The channel of an overlapped file of this provider context. STATUS_INVALID_HANDLE: `overlapped` is not a handle.
    /// STATUS_INVALID_PARAMETER_2: the handle is not that of an overlapped file of this provider context.
    pub(super) fn channel(&self, overlapped: HANDLE) -> Result<Channel, NTSTATUS> {
        let file = Handle::duplicate(overlapped)?;
        let mut id = SOFTNDK_FILE_ID::new_zeroed();
        match control_overlapped(&file, IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes(), id.as_mut_bytes()) {
            // Object handles are valid only on files of their provider context.
            Ok(_) if id.Id == self.context => Ok(Channel(file)),
            _ => Err(STATUS_INVALID_PARAMETER_2),
        }
    }
}

/// An overlapped file.
#[derive(Debug)]
pub(crate) struct Channel(Handle);

impl Channel {
    /// Sends a request that may pend. Unless the call returns an error, `overlapped` reports the end of the request,
    /// see [`Overlapped`].
    ///
    /// # Safety
    /// `output` is valid until the request has ended.
    pub(super) unsafe fn submit(
        &self,
        overlapped: &Overlapped,
        code: u32,
        input: &[u8],
        output: *mut [u8],
    ) -> NTSTATUS {
        let (event, context) = overlapped.begin();
        // SAFETY: the input is copied by the call, the output is valid by contract; the status block is valid for as
        // long as the request pends, by contract of `Overlapped`.
        let status = unsafe { send(self.0.as_raw(), event, context, overlapped.status_block(), code, input, output) };
        if !status.is_success() {
            overlapped.refuse(status);
        }
        status
    }
}

const _: () = assert!(size_of::<OVERLAPPED>() == 32);
