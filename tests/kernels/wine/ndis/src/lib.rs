//! Stand-in for `ndis.sys`: registers one miniport driver, gives it one adapter or more and takes each through its life, checks what the
//! driver says and answers on the way, and serves the driver's control device.
//!
//! It follows the `network/*` pages and the `ndis` reference of the WDK. It is not Microsoft's NDIS: there is one protocol, which is TCP/IP
//! of Linux if the adapter has a TAP interface; there are no filters, no ports, no power management.
#![allow(non_snake_case, non_upper_case_globals, reason = "exports and C enumerations carry their documented names")]

mod adapter;
mod attributes;
mod configuration;
mod device;
mod driver;
mod exercise;
mod files;
mod irp;
mod limits;
mod misc;
mod ndk;
mod offload;
mod oid;
mod oid_checks;
mod packets;
mod pnp;
mod protocol;
mod registry;
mod security;
mod turns;
mod work_item;

/// Checks the header of a structure of the driver: its type, its revision (from 1 up) and the size of that revision.
///
/// # Safety
/// `structure` is null or begins with an NDIS_OBJECT_HEADER.
unsafe fn check_header(
    structure: *const std::ffi::c_void,
    what: &str,
    kind: u8,
    sizes_by_revision: &[u16],
) -> Result<u8, ndk_abi::status::NDIS_STATUS> {
    use ndk_abi::ndis::NDIS_OBJECT_HEADER;
    use ndk_abi::status::{NDIS_STATUS_BAD_VERSION, NDIS_STATUS_INVALID_PARAMETER};

    if structure.is_null() {
        kernel::violation(&format!("{what}: null"));
        return Err(NDIS_STATUS_INVALID_PARAMETER);
    }
    // SAFETY: passed on to the caller.
    let header = unsafe { structure.cast::<NDIS_OBJECT_HEADER>().read() };
    if header.Type != kind {
        kernel::violation(&format!("{what}: header type {:#x} instead of {kind:#x}", header.Type));
        return Err(NDIS_STATUS_INVALID_PARAMETER);
    }
    let size = usize::from(header.Revision).checked_sub(1).and_then(|index| sizes_by_revision.get(index));
    let Some(size) = size else {
        kernel::violation(&format!("{what}: revision {}", header.Revision));
        return Err(NDIS_STATUS_BAD_VERSION);
    };
    if header.Size < *size {
        kernel::violation(&format!("{what}: size {:#x} in revision {} of {size:#x}", header.Size, header.Revision));
        return Err(NDIS_STATUS_INVALID_PARAMETER);
    }
    Ok(header.Revision)
}

/// Locks a mutex. A panic aborts the process, so a poisoned lock can only be seen by a thread that is about to end as well.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
