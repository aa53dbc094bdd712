//! Stand-in for `netio.sys`: the addresses of TCP/IP, and Winsock Kernel over TCP and UDP of Linux.
#![allow(non_snake_case, reason = "exports carry the names of the DDI")]

mod addresses;
mod interfaces;
#[path = "../../ndis/src/protocol.rs"]
#[expect(dead_code, reason = "shared with others, which use the rest")]
mod protocol;
mod wsk;

use std::sync::{Mutex, MutexGuard, PoisonError};

use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};

/// A panic aborts the process, so a poisoned lock can only be seen by a thread that is about to end as well.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value of the service's `Parameters` key.
fn parameter(name: &str) -> Option<String> {
    let wide = |text: &str| text.encode_utf16().chain([0]).collect::<Vec<_>>();
    let (key, value) = (wide(r"System\CurrentControlSet\Services\softndk\Parameters"), wide(name));
    let mut text = [0_u16; 1024];
    let mut bytes = size_of_val(&text) as u32;
    // SAFETY: NUL-terminated names, and a buffer of so many bytes.
    let result = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            value.as_ptr(),
            RRF_RT_REG_SZ,
            std::ptr::null_mut(),
            text.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let text = String::from_utf16_lossy(&text);
    (result == 0).then(|| text.split('\0').next().unwrap_or_default().to_owned())
}
