//! The control devices that the DLL uses: those of softndk.sys (`driver.rs`), one for each adapter, or, if the driver is not loaded, a device in the
//! program's process (`process`). `mode.rs` chooses.
#![expect(unsafe_code, reason = "requests with an output that is written later, and a call into kernel32")]

mod driver;
mod mode;
mod process;

use std::{
    iter, ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{
    nd_ioctl::{ND_HANDLE, ND_IOCTL_VERSION},
    softndk_ioctl::{IOCTL_SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS_QUERY, SOFTNDK_IOCTL_VERSION},
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES},
};
use windows_sys::Win32::{Foundation::HANDLE, Storage::FileSystem::SetFileCompletionNotificationModes};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use self::mode::Mode;
use super::{handle::Handle, overlapped::Overlapped};

/// An open file of the device, for requests that the caller waits for.
#[derive(Debug)]
pub(crate) enum File {
    /// A file of softndk.sys.
    Driver(driver::File),
    /// A file of the device in the process.
    Hosted(process::File),
}

impl File {
    /// Opens the device of each adapter that is there, one after the other, with a provider context of its own. Errors: those of
    /// [`Mode::chosen`].
    pub(crate) fn each() -> Result<Box<dyn Iterator<Item = Result<Self, NTSTATUS>>>, NTSTATUS> {
        Ok(match Mode::chosen(driver::is_there)? {
            Mode::Driver => {
                USES_DRIVER.store(true, Ordering::Relaxed);
                Box::new(driver::File::each().map(|file| file.map(Self::Driver)))
            }
            Mode::Hosted => Box::new(iter::once_with(|| process::File::open().map(Self::Hosted))),
        })
    }

    /// Whether the device is in the process.
    pub(crate) fn is_hosted(&self) -> bool {
        matches!(self, Self::Hosted(_))
    }

    /// Sends a request, waits for its end, and returns the number of output bytes.
    pub(crate) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        match self {
            Self::Driver(file) => file.control(code, input, output),
            Self::Hosted(file) => file.control(code, input, output),
        }
    }

    /// As [`File::control`], for a request without output.
    pub(crate) fn command(&self, code: u32, input: &[u8]) -> Result<(), NTSTATUS> {
        self.control(code, input, &mut []).map(|_| ())
    }

    /// As [`File::control`], for a request whose output is a structure.
    pub(crate) fn query<T: FromBytes + IntoBytes + Immutable>(&self, code: u32, input: &[u8]) -> Result<T, NTSTATUS> {
        let mut output = T::new_zeroed();
        self.control(code, input, output.as_mut_bytes())?;
        Ok(output)
    }

    /// A new overlapped file of this file's provider context, for the program.
    pub(crate) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        match self {
            Self::Driver(file) => file.open_overlapped(),
            Self::Hosted(file) => file.open_overlapped(),
        }
    }

    /// The channel of an overlapped file of this provider context; the channel keeps the file open.
    /// STATUS_INVALID_HANDLE: `overlapped` is not a handle. STATUS_INVALID_PARAMETER_2: the handle is not that of an
    /// overlapped file of this provider context; NDSPI's functions that take such a handle have it as their second
    /// parameter.
    pub(crate) fn channel(&self, overlapped: HANDLE) -> Result<Channel, NTSTATUS> {
        match self {
            Self::Driver(file) => file.channel(overlapped).map(Channel::Driver),
            Self::Hosted(file) => file.channel(overlapped).map(Channel::Hosted),
        }
    }
}

/// The process opens the driver's device, or has tried to.
static USES_DRIVER: AtomicBool = AtomicBool::new(false);

/// Whether requests may be the driver's, whose ends nobody tells.
pub(crate) fn uses_driver() -> bool {
    USES_DRIVER.load(Ordering::Relaxed)
}

/// Returns counts of the first adapter's live objects, including the file that this call opens.
pub(crate) fn diagnostics() -> Result<SOFTNDK_DIAGNOSTICS, NTSTATUS> {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let mut found = SOFTNDK_DIAGNOSTICS::new_zeroed();
    let (code, input, output) = (IOCTL_SOFTNDK_DIAGNOSTICS, query.as_bytes(), found.as_mut_bytes());
    match Mode::chosen(driver::is_there)? {
        Mode::Driver => driver::control_bare(code, input, output)?,
        Mode::Hosted => process::control_bare(code, input, output)?,
    };
    Ok(found)
}

/// An overlapped file, for requests that pend.
#[derive(Debug)]
pub(crate) enum Channel {
    /// A file of softndk.sys.
    Driver(driver::Channel),
    /// A file of the device in the process.
    Hosted(process::Channel),
}

impl Channel {
    /// Sends a request that may pend. Unless the call returns an error, `overlapped` reports the end of the request,
    /// see [`Overlapped`].
    pub(crate) fn submit(&self, overlapped: &Overlapped, code: u32, input: &[u8]) -> NTSTATUS {
        let nothing = ptr::slice_from_raw_parts_mut(ptr::null_mut(), 0);
        // SAFETY: no output.
        unsafe { self.submit_for(overlapped, code, input, nothing) }
    }

    /// As [`Channel::submit`], with an output.
    ///
    /// # Safety
    /// `output` is valid until the request has ended.
    pub(crate) unsafe fn submit_for(
        &self,
        overlapped: &Overlapped,
        code: u32,
        input: &[u8],
        output: *mut [u8],
    ) -> NTSTATUS {
        match self {
            // SAFETY: as the caller says.
            Self::Driver(channel) => unsafe { channel.submit(overlapped, code, input, output) },
            // SAFETY: as the caller says.
            Self::Hosted(channel) => unsafe { channel.submit(overlapped, code, input, output) },
        }
    }
}

/// Sets the completion modes of an overlapped file: a request that succeeds in the call queues no packet to the
/// completion port, and no request signals the file itself.
fn set_completion_modes(file: &Handle) -> Result<(), NTSTATUS> {
    // Constants that windows-sys does not declare in Win32::Storage::FileSystem.
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
