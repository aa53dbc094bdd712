//! Wine's own functions underneath the stand-in, and a few helpers over the Windows API.

use std::{
    ffi::{CStr, c_char, c_void},
    sync::OnceLock,
};

use windows_sys::Win32::{
    Foundation::HMODULE,
    System::{
        Diagnostics::Debug::RtlCaptureStackBackTrace,
        LibraryLoader::{
            GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW,
            GetModuleHandleExW, GetProcAddress, LoadLibraryA,
        },
    },
};

/// NTSTATUS values that this module returns or raises.
pub(crate) mod status {
    pub(crate) const SUCCESS: i32 = 0;
    pub(crate) const UNSUCCESSFUL: i32 = 0xC000_0001_u32 as i32;
    pub(crate) const ACCESS_VIOLATION: i32 = 0xC000_0005_u32 as i32;
    pub(crate) const INVALID_PARAMETER: i32 = 0xC000_000D_u32 as i32;
    pub(crate) const NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;
}

// ntdll's, which is the same: a name that two modules export cannot be imported from both.
#[link(name = "ntdll.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "C" {
    fn DbgPrint(format: *const c_char, ...) -> i32;
}

/// Prints on Wine's debug channel (`WINEDEBUG=+debugstr`), as a driver's `DbgPrint` would.
pub(crate) fn debug_print(text: &CStr) {
    // SAFETY: the format consumes exactly one NUL-terminated string.
    unsafe { DbgPrint(c"%s".as_ptr(), text.as_ptr()) };
}

/// Loads Wine's ntoskrnl, under the name that the runner has given it.
pub(crate) fn load() -> HMODULE {
    // SAFETY: a NUL-terminated name. The module's entry point may run under the loader lock, as any dependency's does.
    unsafe { LoadLibraryA(c"ntosbase.exe".as_ptr().cast()) }
}

/// Address of a function of Wine's ntoskrnl. Looked up by name, since a static import of a name that this module exports too
/// would bind to itself.
pub(crate) fn lookup(cell: &'static OnceLock<usize>, name: &'static CStr) -> usize {
    *cell.get_or_init(|| {
        // SAFETY: a module handle, or null, which makes the call fail, and a NUL-terminated name.
        let function = unsafe { GetProcAddress(load(), name.as_ptr().cast()) };
        function.map_or_else(|| panic!("Wine's ntoskrnl has no {name:?}"), |f| f as usize)
    })
}

/// Declares functions that are called in Wine's ntoskrnl under this module's own versions of them.
macro_rules! wine {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        $(#[$meta])*
        unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            static CELL: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
            type Function = unsafe extern "system" fn($($ty),*) $(-> $ret)?;
            const NAME: &str = concat!(stringify!($name), "\0");
            let name = match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            let address = $crate::base::lookup(&CELL, name);
            // SAFETY: the prototype is the documented one of the function of that name.
            let function = unsafe { std::mem::transmute::<usize, Function>(address) };
            // SAFETY: the caller keeps the contract of that function.
            unsafe { function($($arg),*) }
        }
    )*};
}
pub(crate) use wine;

/// Modules between the driver and the report: the stand-ins, and Windows's own below a thread.
const NOT_THE_DRIVER: [&str; 9] = [
    "ntoskrnl.exe",
    "ndis.sys",
    "netio.sys",
    "wdfldr.sys",
    "ntosbase.exe",
    "ntdll.dll",
    "kernelbase.dll",
    "kernel32.dll",
    "winedevice.exe",
];

/// The first return address in the driver, as `module+offset`: the place from where a function was called.
pub(crate) fn caller() -> String {
    let mut frames = [std::ptr::null_mut::<c_void>(); 48];
    // SAFETY: `frames` has room for the number of entries given.
    let count = unsafe { RtlCaptureStackBackTrace(0, frames.len() as u32, frames.as_mut_ptr(), std::ptr::null_mut()) };
    let driver = frames.iter().take(count.into()).find_map(|frame| {
        let (base, name) = module_of(*frame)?;
        let foreign = !NOT_THE_DRIVER.iter().any(|own| name.eq_ignore_ascii_case(own));
        foreign.then(|| format!("{name}+{:#x}", *frame as usize - base))
    });
    driver.unwrap_or_else(|| "outside the driver".into())
}

/// An address of code, shown as `module+offset`.
pub(crate) struct Place(pub(crate) usize);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match module_of(self.0 as *const c_void) {
            Some((base, name)) => write!(f, "{name}+{:#x}", self.0 - base),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// Base address and file name of the module that contains `address`.
fn module_of(address: *const c_void) -> Option<(usize, String)> {
    let mut module = std::ptr::null_mut();
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    // SAFETY: with FROM_ADDRESS the second parameter is any address, looked up and not dereferenced.
    if unsafe { GetModuleHandleExW(flags, address.cast(), &mut module) } == 0 {
        return None;
    }
    let mut name = [0_u16; 260];
    // SAFETY: `name` has room for the number of characters given.
    let length = unsafe { GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) };
    let path = String::from_utf16_lossy(name.get(..length as usize)?);
    Some((module as usize, path.rsplit(['\\', '/']).next().unwrap_or_default().to_owned()))
}
