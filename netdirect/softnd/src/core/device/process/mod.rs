//! The device in the program's own process: the crates of softndk.sys over a process instead of a kernel. `host.rs` is
//! the host of the control device, `request.rs` its requests, `pipe.rs` the overlapped files, `capture.rs` the capture.
//!
//! There is one device for the life of the process. The device has threads, so it keeps the DLL loaded.
#![expect(unsafe_code, reason = "requests with an output that is written later, and a call into kernel32")]

mod capture;
mod host;
mod memory;
mod pipe;
mod request;

use std::{
    collections::HashMap,
    fmt, ptr,
    sync::{Arc, Mutex, OnceLock},
};

use nd_ioctl::Device;
use ndk_abi::{
    nd_ioctl::IOCTL_ND_PROVIDER_INIT,
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER_2},
};
use windows_sys::Win32::{
    Foundation::HANDLE,
    System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    },
};
use zerocopy::IntoBytes;

use self::{
    host::ProcessHost,
    pipe::Pipe,
    request::{ProcessRequest, Target, Told},
};
use super::handle;
use crate::core::{handle::Handle, lock, overlapped::Overlapped};

/// The identifier of this process for the control device, which no other process uses.
const PROCESS: u64 = 0;

/// The device, made at the first use.
fn device() -> Result<&'static Device<ProcessHost>, NTSTATUS> {
    static DEVICE: OnceLock<Result<Device<ProcessHost>, NTSTATUS>> = OnceLock::new();
    let make = || {
        keep_loaded()?;
        Device::new(ProcessHost::new()?).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)
    };
    DEVICE.get_or_init(make).as_ref().map_err(|status| *status)
}

/// Keeps the DLL loaded until the process ends.
fn keep_loaded() -> Result<(), NTSTATUS> {
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    let (within, mut module) = (device as *const (), ptr::null_mut());
    // SAFETY: an address in this DLL, and a local.
    let kept = unsafe { GetModuleHandleExW(flags, within.cast(), &raw mut module) } != 0;
    if kept { Ok(()) } else { Err(STATUS_INSUFFICIENT_RESOURCES) }
}

/// Sends a request on a file without a provider context, waits for its end, and returns the number of output bytes.
pub(super) fn control_bare(code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
    DeviceFile::new()?.control(code, input, output)
}

/// An open file of the device, with its overlapped files.
#[derive(Debug)]
pub(crate) struct File {
    device_file: Arc<DeviceFile>,
    /// The overlapped files, by the names of their pipes.
    overlapped: Mutex<HashMap<String, Arc<Pipe>>>,
}

/// An open file of the control device.
struct DeviceFile(nd_ioctl::File<ProcessHost>);

impl DeviceFile {
    fn new() -> Result<Self, NTSTATUS> {
        device()?.open(PROCESS).map(Self)
    }

    /// Sends a request, waits for its end, and returns the number of output bytes.
    fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let (request, end) = ProcessRequest::for_thread(code, input, output.len());
        self.0.dispatch(request, PROCESS, &hosted::passive());
        let end = end.wait();
        if !end.status.is_success() {
            return Err(end.status);
        }
        output[..end.output.len()].copy_from_slice(&end.output);
        Ok(end.output.len())
    }
}

impl fmt::Debug for DeviceFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DeviceFile").finish_non_exhaustive()
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        self.0.cleanup(&hosted::passive());
    }
}

impl File {
    /// Opens the device, with a provider context of its own.
    pub(super) fn open() -> Result<Self, NTSTATUS> {
        device()?.host().look_for_addresses();
        let device_file = Arc::new(DeviceFile::new()?);
        device_file.control(IOCTL_ND_PROVIDER_INIT, handle(0).as_bytes(), &mut [])?;
        Ok(Self { device_file, overlapped: Mutex::default() })
    }

    /// Sends a request, waits for its end, and returns the number of output bytes.
    pub(super) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.device_file.control(code, input, output)
    }

    /// A new overlapped file.
    pub(super) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        let (name, file, pipe) = Pipe::create()?;
        super::set_completion_modes(&file)?;
        let mut overlapped = lock(&self.overlapped);
        overlapped.retain(|_, pipe| !pipe.is_abandoned());
        overlapped.insert(name, Arc::new(pipe));
        Ok(file)
    }

    /// The channel of an overlapped file of this file. Errors: those of [`super::File::channel`].
    pub(super) fn channel(&self, overlapped: HANDLE) -> Result<Channel, NTSTATUS> {
        let file = Handle::duplicate(overlapped)?;
        let pipe = pipe::name(&file).and_then(|name| lock(&self.overlapped).get(&name).cloned());
        let pipe = pipe.ok_or(STATUS_INVALID_PARAMETER_2)?;
        Ok(Channel { device_file: self.device_file.clone(), target: Arc::new(Target { file, pipe }) })
    }
}

/// An overlapped file, and the file of the control device to which the overlapped file's requests are sent.
#[derive(Debug)]
pub(crate) struct Channel {
    device_file: Arc<DeviceFile>,
    target: Arc<Target>,
}

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
        let begun = overlapped.begin();
        // SAFETY: the OVERLAPPED is valid by its own contract, the output by the contract of this function.
        match unsafe { Told::new(overlapped, begun, &self.target, output) } {
            Ok(told) => {
                let request = ProcessRequest::for_program(code, input, told);
                self.device_file.0.dispatch(request, PROCESS, &hosted::passive())
            }
            Err(status) => {
                overlapped.refuse(status);
                status
            }
        }
    }
}
