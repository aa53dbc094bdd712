//! A miniport driver that tests the stand-ins from where a driver sees them.
//!
//! `DriverEntry` binds to KMDF as Microsoft's entry stub does, then registers with NDIS. The checks are run by requests of the
//! runner, which also reads the report that the stand-ins write when this driver is unloaded.
#![no_std]
#![allow(non_snake_case, non_upper_case_globals, reason = "imports and C enumerations carry their documented names")]

mod attributes;
mod checks;
mod control;
mod deferred;
mod fault;
mod imports;
mod kmdf;
mod memory;
mod miniport;
mod ndk;
mod offload;
mod oid;
mod planted;
#[path = "../../protocol.rs"]
#[expect(unreachable_pub, dead_code, reason = "shared with the runner, which uses the rest")]
mod protocol;
mod receive;
mod text;
mod tracing;
mod wrong;
mod wsk;

use core::ffi::c_void;

use ndk_abi::wdm::UNICODE_STRING;

/// Entry point of the image.
#[unsafe(no_mangle)]
unsafe extern "system" fn DriverEntry(driver: *mut c_void, path: *mut UNICODE_STRING) -> i32 {
    // SAFETY: the I/O manager's arguments, passed on.
    unsafe {
        let bound = kmdf::bind(driver, path);
        if bound < 0 {
            return bound;
        }
        let registered = miniport::register(driver, path);
        if registered < 0 {
            kmdf::unbind();
        }
        registered
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process that stands for the kernel. The code is "RUST".
    unsafe { imports::KeBugCheckEx(0x5255_5354, 0, 0, 0, 0) }
}
