//! Stand-in for `ntoskrnl.exe` under Wine.
//!
//! Wine loads a driver into an ordinary user process, `winedevice.exe`. Its ntoskrnl runs IRPs, events, threads and the registry,
//! but has no IRQL, no DPC queue, no memory descriptor lists that describe anything, no rundown protection and no tracing. This
//! module has them, checks the rules their documentation states, and forwards all other names to Wine's (see `build.rs`).
//!
//! It says nothing about Microsoft's kernel: no preemption by IRQL, no paging, no protection between driver and kernel.
#![allow(non_snake_case, reason = "exports carry the names of the DDI")]

mod answer;
mod base;
mod bugcheck;
mod cancel;
mod cr8;
mod crash;
mod dpc;
mod etw;
mod file_requests;
mod handle;
mod irp;
mod irql;
mod lookaside;
mod mapped;
mod mdl;
mod mutex;
mod open_files;
mod pool;
mod process;
mod pushlock;
mod report;
mod rundown;
mod seh;
mod spinlock;
mod time;
mod timer;
mod user_process;
mod usermem;
mod wait;
mod work;

use std::ffi::c_void;

const DLL_PROCESS_ATTACH: u32 = 1;

/// Entry point that the C run-time's start code calls; nothing here may wait for another thread (loader lock).
#[unsafe(no_mangle)]
extern "system" fn DllMain(_instance: *mut c_void, reason: u32, _reserved: *mut c_void) -> i32 {
    if reason == DLL_PROCESS_ATTACH {
        // First, so that its exception handler comes after the one installed here: it knows CR8 too, as always 0.
        base::load();
        cr8::install();
        crash::install();
    }
    1
}
