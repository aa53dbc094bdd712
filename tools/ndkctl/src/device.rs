//! The loaded driver, by the native calls, which show each NTSTATUS as the driver gave it.
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

use std::{
    ffi::c_void,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    ptr,
};

use ndk_abi::{softndk_ioctl::SOFTNDK_DEVICE_PATH, status::NTSTATUS};
use windows_sys::{
    Wdk::{
        Foundation::OBJECT_ATTRIBUTES,
        Storage::FileSystem::{FILE_SYNCHRONOUS_IO_NONALERT, NtFsControlFile, NtOpenFile},
        System::IO::NtDeviceIoControlFile,
    },
    Win32::{
        Foundation::{GENERIC_READ, GENERIC_WRITE, HANDLE, OBJ_CASE_INSENSITIVE, UNICODE_STRING},
        Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE, SYNCHRONIZE},
        System::{
            IO::{IO_STATUS_BLOCK, PIO_APC_ROUTINE},
            LibraryLoader::{GetModuleHandleW, GetProcAddress},
        },
    },
    core::w,
};

use crate::driver::Driver;

/// How requests are sent. Both calls have the same parameters.
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

/// Wine's ntdll takes device controls of FILE_DEVICE_NETWORK for those of its own sockets. File system controls go to the same dispatch
/// routine of a driver there: see tests/harness/src/ioctl.rs.
fn control_call() -> ControlCall {
    // SAFETY: a constant, terminated string; every process has ntdll.
    let ntdll = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: a module that stays loaded, and a constant, terminated string.
    let is_wine = unsafe { GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()) }.is_some();
    if is_wine { NtFsControlFile } else { NtDeviceIoControlFile }
}

/// A synchronous file of the device, without a provider context.
pub(crate) struct Device(OwnedHandle);

impl Device {
    pub(crate) fn open() -> Result<Self, NTSTATUS> {
        let native = SOFTNDK_DEVICE_PATH.replacen(r"\\.\", r"\??\", 1);
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
        let options = FILE_SYNCHRONOUS_IO_NONALERT;
        // SAFETY: all pointers are to locals that outlive the call.
        let status =
            unsafe { NtOpenFile(&raw mut handle, access, &raw const attributes, &raw mut block, share, options) };
        if status < 0 {
            return Err(NTSTATUS(status));
        }
        // SAFETY: new, and nobody else's.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }
}

impl Driver for Device {
    fn ask(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let mut block = IO_STATUS_BLOCK::default();
        // SAFETY: all buffers outlive the call, which waits for the end of the request, as the file is a synchronous one.
        let status = unsafe {
            control_call()(
                self.0.as_raw_handle(),
                ptr::null_mut(),
                None,
                ptr::null(),
                &raw mut block,
                code,
                input.as_ptr().cast(),
                input.len() as u32,
                output.as_mut_ptr().cast(),
                output.len() as u32,
            )
        };
        let status = NTSTATUS(status);
        if status.is_success() { Ok(block.Information.min(output.len())) } else { Err(status) }
    }
}
