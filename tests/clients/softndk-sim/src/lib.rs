//! `libsoftndk_sim.so`: the provider over the simulated kernel, for consumers written in C. The exports are declared and
//! explained in `include/softndk_sim.h`.
//!
//! The library is one session of the simulated kernel, from the first call on. Nothing may unwind into C: a broken rule, a
//! misuse of an export and a panic on whatever thread all end in a message and an abort.
#![expect(unsafe_code, reason = "functions of a C interface")]

mod adapters;
mod kernel;
mod layer;
mod mdls;

use std::ffi::{CStr, c_char};
use std::{
    ffi::c_void,
    net::IpAddr,
    ptr::{NonNull, null_mut},
};

use ndk_abi::{
    ndkpi::NDK_VERSION,
    sockaddr::{AF_INET, AF_INET6, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6},
    status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

/// Opens an NDK_ADAPTER. PASSIVE_LEVEL.
///
/// # Safety
/// `ndk_adapter` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn softndk_sim_open_adapter(
    major: u16,
    minor: u16,
    ndk_adapter: *mut *mut c_void,
) -> NTSTATUS {
    kernel::enter_passive("softndk_sim_open_adapter");
    if ndk_adapter.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    let opened = adapters::open(NDK_VERSION { Major: major, Minor: minor });
    let pointer = opened.map_or(null_mut(), |adapter| adapter.as_ptr().cast());
    // SAFETY: not null, so writable by contract.
    unsafe { ndk_adapter.write(pointer) };
    opened.err().unwrap_or(STATUS_SUCCESS)
}

/// Closes an NDK_ADAPTER. PASSIVE_LEVEL.
///
/// # Safety
/// CLOSE_NDK_ADAPTER_HANDLER.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn softndk_sim_close_adapter(ndk_adapter: *mut c_void) {
    kernel::enter_passive("softndk_sim_close_adapter");
    if let Some(adapter) = NonNull::new(ndk_adapter) {
        adapters::close(adapter.cast());
    }
}

/// Locks memory.
///
/// # Safety
/// The `length` bytes at `va` may be read and written until the MDL is freed.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn softndk_sim_alloc_mdl(va: *mut c_void, length: usize) -> *mut c_void {
    kernel::enter();
    NonNull::new(va.cast()).map_or(null_mut(), |memory| {
        // SAFETY: the caller's contract.
        unsafe { mdls::allocate(memory, length) }
    })
}

/// Unlocks memory.
#[unsafe(no_mangle)]
pub extern "system" fn softndk_sim_free_mdl(mdl: *mut c_void) {
    kernel::enter();
    if let Some(mdl) = NonNull::new(mdl) {
        mdls::free(mdl.addr().get());
    }
}

/// Gives the device an address.
///
/// # Safety
/// `address` is null or a socket address, of the size that its family has.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn softndk_sim_add_address(address: *const SOCKADDR) -> NTSTATUS {
    kernel::enter();
    if address.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: by contract, at least a family.
    let family = unsafe { address.cast::<u16>().read_unaligned() };
    let address: IpAddr = match family {
        AF_INET => {
            // SAFETY: by contract, as long as its family says.
            let v4 = unsafe { address.cast::<SOCKADDR_IN>().read_unaligned() };
            (*v4.address().ip()).into()
        }
        AF_INET6 => {
            // SAFETY: by contract, as long as its family says.
            let v6 = unsafe { address.cast::<SOCKADDR_IN6>().read_unaligned() };
            (*v6.address().ip()).into()
        }
        _ => return STATUS_INVALID_PARAMETER,
    };
    adapters::add_address(address).err().unwrap_or(STATUS_SUCCESS)
}

/// Replaces the fault rules.
///
/// # Safety
/// `rules` is null, or a string that ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn softndk_sim_set_fault_rules(rules: *const c_char) -> NTSTATUS {
    kernel::enter();
    if rules.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: by contract.
    let rules = unsafe { CStr::from_ptr(rules) };
    let set = rules.to_str().map_err(|_| STATUS_INVALID_PARAMETER).and_then(adapters::set_fault_rules);
    set.err().unwrap_or(STATUS_SUCCESS)
}

/// How often a rule has fired.
#[unsafe(no_mangle)]
pub extern "system" fn softndk_sim_faults(rule: u32) -> u64 {
    kernel::enter();
    (rule as usize).checked_sub(1).map_or(0, adapters::faults)
}

/// Waits until nothing deferred is left to do. PASSIVE_LEVEL.
#[unsafe(no_mangle)]
pub extern "system" fn softndk_sim_run_idle() {
    kernel::enter_passive("softndk_sim_run_idle");
    kernel::run_idle();
}

/// What lives.
#[unsafe(no_mangle)]
pub extern "system" fn softndk_sim_outstanding() -> u64 {
    kernel::enter();
    adapters::outstanding()
}
