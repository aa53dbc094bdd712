//! `bcryptprimitives.dll` with the one export that Rust's standard library needs and Wine 8 lacks.
//!
//! Not linked with `std`, which would import `ProcessPrng` from this very module.
#![no_std]

use core::ffi::c_void;

// `SystemFunction036` is the export name of `RtlGenRandom` (Win32 API, ntsecapi.h).
#[link(name = "advapi32.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn SystemFunction036(buffer: *mut c_void, length: u32) -> u8;
}

/// Fills `length` bytes at `buffer` with random bytes; TRUE on success. Documented as never failing.
#[unsafe(no_mangle)]
unsafe extern "system" fn ProcessPrng(buffer: *mut u8, length: usize) -> i32 {
    let mut done = 0;
    while done < length {
        let part = (length - done).min(u32::MAX as usize);
        // SAFETY: the caller gives `length` writable bytes, and `done + part <= length`.
        if unsafe { SystemFunction036(buffer.wrapping_add(done).cast(), part as u32) } == 0 {
            return 0;
        }
        done += part;
    }
    1
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
