//! The control device, by the native calls: their NTSTATUS is what the interfaces return.
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

use std::{ffi::c_void, mem, ptr, sync::OnceLock};

use ndk_abi::{
    nd_ioctl::{IOCTL_ND_PROVIDER_INIT, ND_HANDLE, ND_IOCTL_VERSION},
    softndk_ioctl::{IOCTL_SOFTNDK_ATTACH, IOCTL_SOFTNDK_FILE_ID, SOFTNDK_DEVICE_PATH, SOFTNDK_FILE_ID},
    status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_PENDING},
};
use windows_sys::{
    Wdk::{
        Foundation::OBJECT_ATTRIBUTES,
        Storage::FileSystem::{FILE_SYNCHRONOUS_IO_NONALERT, NtFsControlFile, NtOpenFile},
        System::IO::NtDeviceIoControlFile,
    },
    Win32::{
        Foundation::{
            CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, GENERIC_READ, GENERIC_WRITE, HANDLE,
            OBJ_CASE_INSENSITIVE, STATUS_OBJECT_NAME_NOT_FOUND, UNICODE_STRING,
        },
        Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE, SYNCHRONIZE, SetFileCompletionNotificationModes},
        System::{
            IO::{IO_STATUS_BLOCK, OVERLAPPED, PIO_APC_ROUTINE},
            LibraryLoader::{GetModuleHandleW, GetProcAddress},
            Threading::{CreateEventW, GetCurrentProcess, INFINITE, WaitForSingleObject},
        },
    },
    core::w,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::overlapped::Overlapped;

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

/// A kernel handle.
#[derive(Debug)]
pub(crate) struct Handle(HANDLE);

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

impl Handle {
    /// Another handle to what a handle of the program names, which the program may close. STATUS_INVALID_HANDLE: nothing.
    pub(crate) fn duplicate(theirs: HANDLE) -> Result<Self, NTSTATUS> {
        let mut ours = ptr::null_mut();
        // SAFETY: a pseudo handle that needs no closing.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: `ours` outlives the call; an invalid handle is an error.
        let done =
            unsafe { DuplicateHandle(process, theirs, process, &raw mut ours, 0, 0, DUPLICATE_SAME_ACCESS) } != 0;
        if done { Ok(Self(ours)) } else { Err(STATUS_INVALID_HANDLE) }
    }

    /// For calls; still closed here.
    pub(crate) fn as_raw(&self) -> HANDLE {
        self.0
    }

    /// Gives the handle to whoever closes it.
    pub(crate) fn into_raw(self) -> HANDLE {
        let handle = self.0;
        mem::forget(self);
        handle
    }

    /// Sends a request that may pend. `overlapped` is told of its end, as is said there: unless this is an error.
    pub(crate) fn submit(&self, overlapped: &Overlapped, code: u32, input: &[u8]) -> NTSTATUS {
        let nothing = ptr::slice_from_raw_parts_mut(ptr::null_mut(), 0);
        // SAFETY: no output.
        unsafe { self.submit_for(overlapped, code, input, nothing) }
    }

    /// As [`Handle::submit`], with an output.
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
        let (event, context) = overlapped.begin();
        // SAFETY: the input is copied by the call, the output is valid by contract; the status block is valid for as long as the
        // request pends, by contract of `Overlapped`.
        let status = unsafe {
            control_call()(
                self.0,
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

    /// Sends a request and waits for its end: how many bytes were returned. Warnings are errors here.
    fn control(&self, event: HANDLE, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let mut block = IO_STATUS_BLOCK::default();
        // SAFETY: all buffers outlive the call, and the request: it is waited for.
        let status = unsafe {
            control_call()(
                self.0,
                event,
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
            let waits_for = if event.is_null() { self.0 } else { event };
            // SAFETY: open handles.
            unsafe { WaitForSingleObject(waits_for, INFINITE) };
            // SAFETY: the request is over, so that nobody writes to it.
            status = NTSTATUS(unsafe { (&raw const block.Anonymous.Status).read_volatile() });
        }
        // A success of another kind is none that the driver gives.
        if status.is_success() { Ok(block.Information.min(output.len())) } else { Err(status) }
    }

    /// As [`Handle::control`], on an overlapped file. Nothing goes to its completion port.
    fn control_overlapped(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        // SAFETY: no attributes and no name; a manual-reset event, not signalled.
        let event = Handle(unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) });
        if event.0.is_null() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        self.control(event.0, code, input, output)
    }
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
    match status {
        0.. => Ok(Handle(handle)),
        // The driver is not loaded.
        STATUS_OBJECT_NAME_NOT_FOUND => Err(STATUS_DEVICE_REMOVED),
        _ => Err(NTSTATUS(status)),
    }
}

/// An open file of the device, for requests that are waited for.
#[derive(Debug)]
pub(crate) struct File(Handle);

impl File {
    /// Opens the device, with a provider context of its own. STATUS_DEVICE_REMOVED: there is none.
    pub(crate) fn open() -> Result<Self, NTSTATUS> {
        let file = Self(open(FILE_SYNCHRONOUS_IO_NONALERT)?);
        file.tell(IOCTL_ND_PROVIDER_INIT, handle(0).as_bytes())?;
        Ok(file)
    }

    /// Sends a request and waits for its end: how many bytes were returned.
    pub(crate) fn control(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.0.control(ptr::null_mut(), code, input, output)
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

    /// Names its provider context.
    pub(crate) fn context(&self) -> Result<u64, NTSTATUS> {
        self.ask(IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes()).map(|SOFTNDK_FILE_ID { Id: id }| id)
    }
}

/// As [`File::context`], of an overlapped file. An error: it has none, or is no file of the device.
pub(crate) fn context_of(overlapped: &Handle) -> Result<u64, NTSTATUS> {
    let mut id = SOFTNDK_FILE_ID { Id: 0 };
    overlapped.control_overlapped(IOCTL_SOFTNDK_FILE_ID, handle(0).as_bytes(), id.as_mut_bytes())?;
    Ok(id.Id)
}

/// A new file for requests that pend, which shares the provider context that `id` names.
pub(crate) fn open_overlapped(id: u64) -> Result<Handle, NTSTATUS> {
    // Of FileSystem; not in windows-sys's module of that name.
    const FILE_SKIP_COMPLETION_PORT_ON_SUCCESS: u8 = 1;
    const FILE_SKIP_SET_EVENT_ON_HANDLE: u8 = 2;
    let file = open(0)?;
    file.control_overlapped(IOCTL_SOFTNDK_ATTACH, handle(id).as_bytes(), &mut [])?;
    let modes = FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE;
    // SAFETY: an open file.
    let set = unsafe { SetFileCompletionNotificationModes(file.0, modes) } != 0;
    if set { Ok(file) } else { Err(STATUS_INSUFFICIENT_RESOURCES) }
}

/// The input of a request that names an object only.
pub(crate) fn handle(handle: u64) -> ND_HANDLE {
    ND_HANDLE { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: handle }
}

const _: () = assert!(size_of::<OVERLAPPED>() == 32);
