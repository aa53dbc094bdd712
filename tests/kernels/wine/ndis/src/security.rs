//! Who may open a control device: its security descriptor, against the token of the process that asks. Wine's I/O manager does not look
//! at it; descriptors, tokens and the check are Wine's own.
//!
//! Wine does not say what access was asked for. It is taken to be reading and writing, which all programs here ask for.

use std::ptr::null_mut;

use kernel::Shared;
use windows_sys::Win32::{
    Foundation::{CloseHandle, GENERIC_READ, GENERIC_WRITE, HANDLE, LocalFree},
    Security::{
        AccessCheck,
        Authorization::{ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1},
        DuplicateToken, GENERIC_MAPPING, MapGenericMask, PRIVILEGE_SET, SecurityIdentification, TOKEN_DUPLICATE,
        TOKEN_QUERY,
    },
    Storage::FileSystem::{FILE_ALL_ACCESS, FILE_GENERIC_EXECUTE, FILE_GENERIC_READ, FILE_GENERIC_WRITE},
    System::Threading::{OpenProcess, OpenProcessToken, PROCESS_QUERY_INFORMATION},
};

/// What generic rights are for files and devices (wdm/nf-wdm-iogetfileobjectgenericmapping).
const MAPPING: GENERIC_MAPPING = GENERIC_MAPPING {
    GenericRead: FILE_GENERIC_READ,
    GenericWrite: FILE_GENERIC_WRITE,
    GenericExecute: FILE_GENERIC_EXECUTE,
    GenericAll: FILE_ALL_ACCESS,
};

/// A security descriptor.
pub(crate) struct Descriptor(Shared<std::ffi::c_void>);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: allocated by the function that `parse` calls, freed once.
        unsafe { LocalFree(self.0.get()) };
    }
}

impl Descriptor {
    /// That of a string which names no owner and no group: they are SYSTEM, as of other objects of the kernel. None: it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let wide: Vec<u16> = "O:SYG:SY".encode_utf16().chain(text.encode_utf16()).chain([0]).collect();
        let mut descriptor = null_mut();
        // SAFETY: a NUL-terminated string and a place for the result.
        let valid = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                wide.as_ptr(),
                SDDL_REVISION_1,
                &mut descriptor,
                null_mut(),
            )
        };
        (valid != 0).then_some(Self(Shared(descriptor)))
    }

    /// Whether a process may read and write what has it. None: its token cannot be looked at.
    pub(crate) fn allows(&self, process: u32) -> Option<bool> {
        let token = token(process)?;
        let mut wanted = GENERIC_READ | GENERIC_WRITE;
        // SAFETY: both are locals.
        unsafe { MapGenericMask(&mut wanted, &MAPPING) };
        let (mut privileges, mut granted, mut allowed) = (PRIVILEGE_SET::default(), 0, 0);
        let mut length = size_of::<PRIVILEGE_SET>() as u32;
        // SAFETY: a descriptor, an impersonation token, and locals that outlive the call.
        let checked = unsafe {
            AccessCheck(
                self.0.get(),
                token.0,
                wanted,
                &MAPPING,
                &mut privileges,
                &mut length,
                &mut granted,
                &mut allowed,
            )
        };
        (checked != 0).then_some(allowed != 0)
    }
}

/// An open handle.
struct Handle(HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened by `token`, closed once.
        unsafe { CloseHandle(self.0) };
    }
}

/// The token of a process, as AccessCheck wants it.
fn token(process: u32) -> Option<Handle> {
    let opened = |handle: HANDLE| (!handle.is_null()).then_some(Handle(handle));
    // SAFETY: no pointers involved.
    let process = opened(unsafe { OpenProcess(PROCESS_QUERY_INFORMATION, 0, process) })?;
    let mut handle = null_mut();
    // SAFETY: an open process, and a place for the handle, which stays null on failure.
    unsafe { OpenProcessToken(process.0, TOKEN_QUERY | TOKEN_DUPLICATE, &mut handle) };
    let primary = opened(handle)?;
    let mut handle = null_mut();
    // SAFETY: an open token, and a place for the handle, which stays null on failure.
    unsafe { DuplicateToken(primary.0, SecurityIdentification, &mut handle) };
    opened(handle)
}
