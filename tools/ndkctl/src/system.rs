//! The folder of Windows' own programs.
#![expect(unsafe_code, reason = "a call into kernel32")]

use std::{ffi::OsString, io, os::windows::ffi::OsStringExt as _, path::PathBuf};

use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

/// The folder system32.
pub(crate) fn folder() -> io::Result<PathBuf> {
    let mut path = [0_u16; 260];
    // SAFETY: `path` is a buffer of the length that the call gets.
    let length = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), path.len() as u32) } as usize;
    match path.get(..length) {
        Some(path) if length > 0 => Ok(OsString::from_wide(path).into()),
        _ => Err(io::Error::last_os_error()),
    }
}
