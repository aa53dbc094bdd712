//! Strings in the machine's part of the registry.

use std::io::{Error, Result};
use std::ptr::null_mut;

use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, REG_SZ, RRF_RT_REG_SZ, RegGetValueW, RegSetKeyValueW};

use crate::service::wide;

pub fn read(key: &str, value: &str) -> Option<String> {
    let (key, value) = (wide(key), wide(value));
    let mut text = [0_u16; 512];
    let mut bytes = size_of_val(&text) as u32;
    // SAFETY: NUL-terminated names, and a place of so many bytes.
    let result = unsafe {
        let place = text.as_mut_ptr().cast();
        RegGetValueW(HKEY_LOCAL_MACHINE, key.as_ptr(), value.as_ptr(), RRF_RT_REG_SZ, null_mut(), place, &mut bytes)
    };
    let text = text.split(|unit| *unit == 0).next().unwrap_or_default();
    (result == 0).then(|| String::from_utf16_lossy(text))
}

pub fn write(key: &str, value: &str, data: &str) -> Result<()> {
    let (key, value, data) = (wide(key), wide(value), wide(data));
    let bytes = u32::try_from(size_of_val(&*data)).map_err(Error::other)?;
    // SAFETY: all three strings are NUL-terminated and outlive the call; `bytes` is the length of `data`.
    let result = unsafe {
        RegSetKeyValueW(HKEY_LOCAL_MACHINE, key.as_ptr(), value.as_ptr(), REG_SZ, data.as_ptr().cast(), bytes)
    };
    if result == 0 { Ok(()) } else { Err(Error::from_raw_os_error(result as i32)) }
}
