//! Files of the device, and requests on them.

use std::{
    ffi::c_void,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    ptr,
    sync::OnceLock,
};

use ndk_abi::status::NTSTATUS;
use windows_sys::{
    Wdk::{
        Foundation::OBJECT_ATTRIBUTES,
        Storage::FileSystem::{FILE_SYNCHRONOUS_IO_NONALERT, NtFsControlFile, NtOpenFile},
        System::IO::NtDeviceIoControlFile,
    },
    Win32::{
        Foundation::{GENERIC_READ, GENERIC_WRITE, HANDLE, OBJ_CASE_INSENSITIVE, UNICODE_STRING},
        Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE, SYNCHRONIZE},
        System::IO::{IO_STATUS_BLOCK, PIO_APC_ROUTINE},
    },
};

use crate::wine_version;

/// The native call that sends a request. NtFsControlFile and NtDeviceIoControlFile have the same parameters.
type ControlCall = unsafe extern "system" fn(
    HANDLE,
    HANDLE,
    PIO_APC_ROUTINE,
    *const c_void,
    *mut IO_STATUS_BLOCK,
    u32,
    *const c_void,
    u32,
    *mut c_void,
    u32,
) -> i32;

/// Wine's ntdll takes device controls of FILE_DEVICE_NETWORK for controls of its own sockets, whose codes overlap the
/// ND protocol's: ntdll ends 0x00120400 with STATUS_INVALID_PARAMETER before it sees that the file is no socket. Wine
/// passes file system controls to the driver's dispatch routine of device controls (dlls/ntdll/unix/file.c of Wine 8).
fn control_call() -> ControlCall {
    static CALL: OnceLock<ControlCall> = OnceLock::new();
    *CALL.get_or_init(|| if wine_version().is_some() { NtFsControlFile } else { NtDeviceIoControlFile })
}

fn open(path: &str, options: u32) -> Result<OwnedHandle, NTSTATUS> {
    let native = path.replacen(r"\\.\", r"\??\", 1);
    let mut path: Vec<u16> = native.encode_utf16().collect();
    let bytes = (path.len() * size_of::<u16>()) as u16;
    let name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: path.as_mut_ptr() };
    let attributes = OBJECT_ATTRIBUTES {
        Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
        RootDirectory: ptr::null_mut(),
        ObjectName: &raw const name,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: ptr::null(),
        SecurityQualityOfService: ptr::null(),
    };
    let (mut handle, mut block) = (ptr::null_mut(), IO_STATUS_BLOCK::default());
    let (access, share) = (GENERIC_READ | GENERIC_WRITE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE);
    // SAFETY: all pointers are to locals that outlive the call.
    let status = unsafe { NtOpenFile(&raw mut handle, access, &raw const attributes, &raw mut block, share, options) };
    if status < 0 {
        return Err(NTSTATUS(status));
    }
    // SAFETY: a new handle, which no other code has.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Opens an overlapped file of the device at `path`, one of [`ndk_abi::softndk_ioctl::SOFTNDK_DEVICE_PATHS`], for requests that pend. The file
/// has no provider context yet.
///
/// # Errors
/// STATUS_OBJECT_NAME_NOT_FOUND: no adapter has the path; STATUS_ACCESS_DENIED: this user may not open the device.
pub fn open_overlapped(path: &str) -> Result<OwnedHandle, NTSTATUS> {
    open(path, 0)
}

/// Sends a request. `event` and `context` may be null.
///
/// # Safety
/// `input` is valid for the call, which copies it: all codes are METHOD_BUFFERED. `output` and `block` are valid until
/// the request has ended; the kernel writes to them until then.
pub unsafe fn send(
    file: HANDLE,
    event: HANDLE,
    context: *const c_void,
    block: *mut IO_STATUS_BLOCK,
    code: u32,
    input: *const [u8],
    output: *mut [u8],
) -> NTSTATUS {
    // SAFETY: as the caller says.
    NTSTATUS(unsafe {
        control_call()(
            file,
            event,
            None,
            context,
            block,
            code,
            input.cast(),
            input.len() as u32,
            output.cast(),
            output.len() as u32,
        )
    })
}

/// A synchronous file of the device: the call that sends a request returns after the request's end.
#[derive(Debug)]
pub struct SynchronousFile(OwnedHandle);

impl SynchronousFile {
    /// Opens the device at `path`. The file has no provider context yet.
    ///
    /// # Errors
    /// As [`open_overlapped`].
    pub fn open(path: &str) -> Result<Self, NTSTATUS> {
        open(path, FILE_SYNCHRONOUS_IO_NONALERT).map(Self)
    }

    /// Sends a request, waits for its end, and returns the number of output bytes.
    ///
    /// # Errors
    /// The status of the request, also if it is a warning.
    pub fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let mut block = IO_STATUS_BLOCK::default();
        // SAFETY: all buffers outlive the call, which waits for the end of the request, as the file is synchronous.
        let status =
            unsafe { send(self.0.as_raw_handle(), ptr::null_mut(), ptr::null(), &raw mut block, code, input, output) };
        // The driver returns no success but STATUS_SUCCESS.
        if status.is_success() { Ok(block.Information.min(output.len())) } else { Err(status) }
    }
}
