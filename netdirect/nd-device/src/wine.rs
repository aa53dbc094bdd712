//! Detects Wine.

use std::{
    ffi::{CStr, c_char},
    mem,
};

use windows_sys::{
    Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress},
    core::w,
};

/// The version of Wine, if ntdll is Wine's.
#[must_use]
pub fn wine_version() -> Option<String> {
    // SAFETY: a constant, terminated string; every process has ntdll.
    let ntdll = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: a module that stays loaded, and a constant, terminated string.
    let found = unsafe { GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()) }?;
    // SAFETY: Wine documents it as `const char *wine_get_version(void)`.
    let wine_get_version: extern "C" fn() -> *const c_char = unsafe { mem::transmute(found) };
    // SAFETY: the function returns a constant, terminated string.
    let version = unsafe { CStr::from_ptr(wine_get_version()) };
    Some(version.to_string_lossy().into_owned())
}
