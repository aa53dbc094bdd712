//! Memory of another process that is a view of a file.

use std::{
    ffi::{OsString, c_void},
    fs::File,
    os::windows::{ffi::OsStringExt as _, io::AsRawHandle as _},
    ptr,
};

use windows_sys::Win32::{
    Foundation::{CloseHandle, HANDLE},
    System::Memory::{CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEM_MAPPED, MapViewOfFile, PAGE_READWRITE},
};

use crate::user_process::Process;

#[link(name = "ntdll.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn NtQueryVirtualMemory(
        process: HANDLE,
        address: *const c_void,
        class: u32,
        information: *mut c_void,
        size: usize,
        returned: *mut usize,
    ) -> i32;
}

const PAGE_SIZE: usize = 0x1000;
/// MemoryMappedFilenameInformation.
const FILE_NAME: u32 = 2;

/// UNICODE_STRING, with the text behind it.
#[repr(C)]
struct Name {
    bytes: u16,
    _room: u16,
    _start: *const u16,
    text: [u16; 1024],
}

/// Maps the file that is seen at `address` of a process: where that sees it, how much of it, and where it is here. None if that is no
/// view of a whole file that may be written.
pub(crate) fn once_more(process: &Process, address: usize, length: usize) -> Option<(usize, usize, usize)> {
    let name = name(process, address)?;
    let allocation = process.allocation(address, MEM_MAPPED)?;
    let (user, size) = (allocation.base, allocation.size());
    if address - user + length > size || allocation.pieces.iter().any(|piece| piece.protection != PAGE_READWRITE) {
        return None;
    }
    let file = File::options().read(true).write(true).open(name).ok()?;
    // Nobody says what a view begins with: with the file, if it is as long.
    let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
    if bytes.checked_next_multiple_of(PAGE_SIZE)? != size {
        return None;
    }
    // SAFETY: an open file; no attributes and no name.
    let section = unsafe { CreateFileMappingW(file.as_raw_handle(), ptr::null(), PAGE_READWRITE, 0, 0, ptr::null()) };
    if section.is_null() {
        return None;
    }
    // SAFETY: all of the section, at any address.
    let view = unsafe { MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, 0) }.Value;
    // SAFETY: the view keeps the section; the handle is closed once.
    unsafe { CloseHandle(section) };
    (!view.is_null()).then_some((user, size, view as usize))
}

/// The name of the file, as programs have it.
fn name(process: &Process, address: usize) -> Option<OsString> {
    let mut name = Name { bytes: 0, _room: 0, _start: ptr::null(), text: [0; _] };
    let (size, mut returned) = (size_of_val(&name), 0);
    let information = (&raw mut name).cast();
    // SAFETY: the structure is writable and of the size given; the address is only looked up.
    let result = unsafe {
        NtQueryVirtualMemory(process.0, address as *const c_void, FILE_NAME, information, size, &mut returned)
    };
    if result < 0 {
        return None;
    }
    let text = OsString::from_wide(name.text.get(..usize::from(name.bytes) / 2)?);
    Some(format!(r"\\?\{}", text.to_str()?.strip_prefix(r"\??\")?).into())
}
