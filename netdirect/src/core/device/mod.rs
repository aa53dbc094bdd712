//! The device: what the DLL is a provider of.
#![expect(unsafe_code, reason = "requests with an output that is written later, and a call into kernel32")]

mod driver;

use std::ptr;

use ndk_abi::{
    nd_ioctl::{ND_HANDLE, ND_IOCTL_VERSION},
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES},
};
use windows_sys::Win32::{Foundation::HANDLE, Storage::FileSystem::SetFileCompletionNotificationModes};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{handle::Handle, overlapped::Overlapped};

/// An open file of the device, for requests that are waited for.
#[derive(Debug)]
pub(crate) struct File(driver::File);

impl File {
    /// Opens the device, with a provider context of its own. STATUS_DEVICE_REMOVED: there is none.
    pub(crate) fn open() -> Result<Self, NTSTATUS> {
        driver::File::open().map(Self)
    }

    /// Sends a request and waits for its end: how many bytes were returned.
    pub(crate) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.0.control(code, input, output)
    }

    /// As [`File::control`], with nothing returned.
    pub(crate) fn tell(&self, code: u32, input: &[u8]) -> Result<(), NTSTATUS> {
        self.control(code, input, &mut []).map(|_| ())
    }

    /// As [`File::control`], with a structure returned.
    pub(crate) fn ask<T: FromBytes + IntoBytes + Immutable>(&self, code: u32, input: &[u8]) -> Result<T, NTSTATUS> {
        let mut output = T::new_zeroed();
        self.control(code, input, output.as_mut_bytes())?;
        Ok(output)
    }

    /// A new overlapped file of its provider context, for the program.
    pub(crate) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        self.0.open_overlapped()
    }

    /// Where requests that pend are sent: an overlapped file of its provider context, which stays open. STATUS_INVALID_HANDLE: it is
    /// no handle. STATUS_INVALID_PARAMETER_2, as it is the second parameter of whatever has one: it is one of something else.
    pub(crate) fn channel(&self, overlapped: HANDLE) -> Result<Channel, NTSTATUS> {
        self.0.channel(overlapped).map(Channel)
    }
}

/// Where requests that pend are sent.
#[derive(Debug)]
pub(crate) struct Channel(driver::Channel);

impl Channel {
    /// Sends a request that may pend. `overlapped` is told of its end, as is said there: unless this is an error.
    pub(crate) fn submit(&self, overlapped: &Overlapped, code: u32, input: &[u8]) -> NTSTATUS {
        let nothing = ptr::slice_from_raw_parts_mut(ptr::null_mut(), 0);
        // SAFETY: no output.
        unsafe { self.submit_for(overlapped, code, input, nothing) }
    }

    /// As [`Channel::submit`], with an output.
    ///
    /// # Safety
    /// `output` is valid until the request is over.
    pub(crate) unsafe fn submit_for(
        &self,
        overlapped: &Overlapped,
        code: u32,
        input: &[u8],
        output: *mut [u8],
    ) -> NTSTATUS {
        // SAFETY: as the caller says.
        unsafe { self.0.submit(overlapped, code, input, output) }
    }
}

/// Has a request on a file that is over as soon as it is sent tell nobody but the caller, and the end of none set the file itself.
fn set_completion_modes(file: &Handle) -> Result<(), NTSTATUS> {
    // Of FileSystem; not in windows-sys's module of that name.
    const FILE_SKIP_COMPLETION_PORT_ON_SUCCESS: u8 = 1;
    const FILE_SKIP_SET_EVENT_ON_HANDLE: u8 = 2;
    let modes = FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE;
    // SAFETY: an open file.
    let set = unsafe { SetFileCompletionNotificationModes(file.as_raw(), modes) } != 0;
    if set { Ok(()) } else { Err(STATUS_INSUFFICIENT_RESOURCES) }
}

/// The input of a request that names an object only.
pub(crate) fn handle(handle: u64) -> ND_HANDLE {
    ND_HANDLE { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: handle }
}
