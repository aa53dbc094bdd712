//! softndk.sys, by the native calls: their NTSTATUS is what the interfaces return.
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

use std::{ffi::c_void, ptr, sync::OnceLock};

use ndk_abi::{
    nd_ioctl::IOCTL_ND_PROVIDER_INIT,
    softndk_ioctl::{IOCTL_SOFTNDK_ATTACH, IOCTL_SOFTNDK_FILE_ID, SOFTNDK_DEVICE_PATH, SOFTNDK_FILE_ID},
    status::{
        NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER_2, STATUS_PENDING,
    },
};
use windows_sys::{
    Wdk::{
        Foundation::OBJECT_ATTRIBUTES,
        Storage::FileSystem::{FILE_SYNCHRONOUS_IO_NONALERT, NtFsControlFile, NtOpenFile},
        System::IO::NtDeviceIoControlFile,
    },
    Win32::{
        Foundation::{
            GENERIC_READ, GENERIC_WRITE, HANDLE, OBJ_CASE_INSENSITIVE, STATUS_OBJECT_NAME_NOT_FOUND, UNICODE_STRING,
        },
        Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE, SYNCHRONIZE},
        System::{
            IO::{IO_STATUS_BLOCK, OVERLAPPED, PIO_APC_ROUTINE},
            LibraryLoader::{GetModuleHandleW, GetProcAddress},
            Threading::{CreateEventW, INFINITE, WaitForSingleObject},
        },
    },
    core::w,
};
use zerocopy::{FromZeros, IntoBytes};

use super::handle;
use crate::core::{handle::Handle, overlapped::Overlapped};

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

/// Wine's ntdll takes device controls of FILE_DEVICE_NETWORK for those of its own sockets. File system controls go to the same
/// dispatch routine of a driver there: see tests/harness/src/ioctl.rs.
fn control_call() -> ControlCall {
    static CALL: OnceLock<ControlCall> = OnceLock::new();
    *CALL.get_or_init(|| if is_wine() { NtFsControlFile } else { NtDeviceIoControlFile })
}

fn is_wine() -> bool {
    // SAFETY: a constant, terminated string; every process has ntdll.
    let ntdll = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: a module that stays loaded, and a constant, terminated string.
    unsafe { GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()) }.is_some()
}

/// Opens the device.
fn open(options: u32) -> Result<Handle, NTSTATUS> {
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
    let mut handle = ptr::null_mut();
    let mut block = IO_STATUS_BLOCK::default();
    let (access, share) = (GENERIC_READ | GENERIC_WRITE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE);
    // SAFETY: all pointers are to locals that outlive the call.
    let status = unsafe { NtOpenFile(&raw mut handle, access, &raw const attributes, &raw mut block, share, options) };
    // SAFETY: new, on success.
    match (status, unsafe { Handle::own(handle) }) {
        (0.., Some(handle)) => Ok(handle),
        // The driver is not loaded.
        (STATUS_OBJECT_NAME_NOT_FOUND, _) => Err(STATUS_DEVICE_REMOVED),
        _ => Err(NTSTATUS(status)),
    }
}

/// Sends a request and waits for its end: how many bytes were returned. Warnings are errors here. Without an event the file must be
/// a synchronous one.
fn control(
    file: &Handle,
    event: Option<&Handle>,
    code: u32,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, NTSTATUS> {
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: all buffers outlive the call, and the request: it is waited for.
    let status = unsafe {
        control_call()(
            file.as_raw(),
            event.map_or(ptr::null_mut(), Handle::as_raw),
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
    let mut status = NTSTATUS(status);
    if status == STATUS_PENDING {
        // SAFETY: open handles.
        unsafe { WaitForSingleObject(event.unwrap_or(file).as_raw(), INFINITE) };
        // SAFETY: the request is over, so that nobody writes to it.
        status = NTSTATUS(unsafe { (&raw const block.Anonymous.Status).read_volatile() });
    }
    // A success of another kind is none that the driver gives.
    if status.is_success() { Ok(block.Information.min(output.len())) } else { Err(status) }
}

/// As [`control`], on an overlapped file. Nothing goes to its completion port.
fn control_overlapped(file: &Handle, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
    // SAFETY: no attributes and no name; a manual-reset event, not signalled.
    let event = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
    // SAFETY: new.
    let event = unsafe { Handle::own(event) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
    control(file, Some(&event), code, input, output)
}

/// Whether the device is there. STATUS_DEVICE_REMOVED: it is not.
pub(super) fn is_there() -> Result<(), NTSTATUS> {
    open(FILE_SYNCHRONOUS_IO_NONALERT).map(|_| ())
}

/// Sends a request by a file that has no provider context, and waits for its end: how many bytes were returned.
pub(super) fn control_bare(code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
    control(&open(FILE_SYNCHRONOUS_IO_NONALERT)?, None, code, input, output)
}

/// An open file of the device, for requests that are waited for.
#[derive(Debug)]
pub(crate) struct File {
    file: Handle,
    /// Names its provider context.
    context: u64,
}

impl File {
    /// Opens the device, with a provider context of its own. STATUS_DEVICE_REMOVED: there is none.
    pub(super) fn open() -> Result<Self, NTSTATUS> {
        let file = open(FILE_SYNCHRONOUS_IO_NONALERT)?;
        control(&file, None, IOCTL_ND_PROVIDER_INIT, handle(0).as_bytes(), &mut [])?;
        let mut id = SOFTNDK_FILE_ID::new_zeroed();
        control(&file, None, IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes(), id.as_mut_bytes())?;
        Ok(Self { file, context: id.Id })
    }

    /// Sends a request and waits for its end: how many bytes were returned.
    pub(super) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        control(&self.file, None, code, input, output)
    }

    /// A new overlapped file of its provider context.
    pub(super) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        let file = open(0)?;
        control_overlapped(&file, IOCTL_SOFTNDK_ATTACH, handle(self.context).as_bytes(), &mut [])?;
        super::set_completion_modes(&file)?;
        Ok(file)
    }

    /// Where requests that pend are sent: an overlapped file of its provider context. STATUS_INVALID_HANDLE: it is no handle.
    /// STATUS_INVALID_PARAMETER_2: it is one of something else.
    pub(super) fn channel(&self, overlapped: HANDLE) -> Result<Channel, NTSTATUS> {
        let file = Handle::duplicate(overlapped)?;
        let mut id = SOFTNDK_FILE_ID::new_zeroed();
        match control_overlapped(&file, IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes(), id.as_mut_bytes()) {
            // Handles of objects mean something else on files of other contexts.
            Ok(_) if id.Id == self.context => Ok(Channel(file)),
            _ => Err(STATUS_INVALID_PARAMETER_2),
        }
    }
}

/// An overlapped file.
#[derive(Debug)]
pub(crate) struct Channel(Handle);

impl Channel {
    /// Sends a request that may pend. `overlapped` is told of its end, as is said there: unless this is an error.
    ///
    /// # Safety
    /// `output` is valid until the request is over.
    pub(super) unsafe fn submit(
        &self,
        overlapped: &Overlapped,
        code: u32,
        input: &[u8],
        output: *mut [u8],
    ) -> NTSTATUS {
        let (event, context) = overlapped.begin();
        // SAFETY: the input is copied by the call, the output is valid by contract; the status block is valid for as long as the
        // request pends, by contract of `Overlapped`.
        let status = unsafe {
            control_call()(
                self.0.as_raw(),
                event,
                None,
                context,
                overlapped.status_block(),
                code,
                input.as_ptr().cast(),
                input.len() as u32,
                output.cast(),
                output.len() as u32,
            )
        };
        let status = NTSTATUS(status);
        if !status.is_success() {
            overlapped.refuse(status);
        }
        status
    }
}

const _: () = assert!(size_of::<OVERLAPPED>() == 32);
