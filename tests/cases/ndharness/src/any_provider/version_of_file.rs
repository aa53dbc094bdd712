//! The version of a file, as its resources have it.
#![expect(unsafe_code, reason = "calls into version.dll")]

use std::{ffi::c_void, os::windows::ffi::OsStrExt as _, path::Path, ptr};

use windows_sys::Win32::Storage::FileSystem::{
    GetFileVersionInfoSizeW, GetFileVersionInfoW, VS_FIXEDFILEINFO, VerQueryValueW,
};

/// Of this file; `None` if it has none.
pub(super) fn of(file: &Path) -> Option<String> {
    let name: Vec<u16> = file.as_os_str().encode_wide().chain([0]).collect();
    // SAFETY: a terminated string.
    let size = unsafe { GetFileVersionInfoSizeW(name.as_ptr(), ptr::null_mut()) };
    if size == 0 {
        return None;
    }
    // Aligned as the structure has to be.
    let mut block = vec![0_u32; (size as usize).div_ceil(4)];
    // SAFETY: a terminated string, and a buffer of the length it is told.
    if unsafe { GetFileVersionInfoW(name.as_ptr(), 0, size, block.as_mut_ptr().cast()) } == 0 {
        return None;
    }
    let (mut found, mut length) = (ptr::null_mut::<c_void>(), 0);
    let root = [u16::from(b'\\'), 0];
    // SAFETY: the block that was filled, a terminated string and two locals.
    let has_one = unsafe { VerQueryValueW(block.as_ptr().cast(), root.as_ptr(), &raw mut found, &raw mut length) };
    if has_one == 0 || (length as usize) < size_of::<VS_FIXEDFILEINFO>() {
        return None;
    }
    // SAFETY: it points into the block, to as many bytes as were said.
    let info = unsafe { found.cast::<VS_FIXEDFILEINFO>().read_unaligned() };
    let [major, minor] = [info.dwFileVersionMS >> 16, info.dwFileVersionMS & 0xffff];
    let [build, revision] = [info.dwFileVersionLS >> 16, info.dwFileVersionLS & 0xffff];
    Some(format!("{major}.{minor}.{build}.{revision}"))
}
