//! What is left.

use std::{ffi::c_void, time::Duration};

use kernel::{APC_LEVEL, DISPATCH_LEVEL, ntoskrnl, violation};
use ndk_abi::{
    ndis::*,
    status::{NDIS_STATUS_LINK_STATE, NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG},
};

use crate::{
    adapter::{self, State},
    check_header, lock, offload,
};

/// ndis/nf-ndis-ndisgetversion: at most DISPATCH_LEVEL. 6.85.
#[unsafe(no_mangle)]
extern "system" fn NdisGetVersion() -> u32 {
    kernel::at_most(DISPATCH_LEVEL, "NdisGetVersion");
    6 << 16 | 85
}

/// ndis/nf-ndis-ndismsleep: at most APC_LEVEL; microseconds.
#[unsafe(no_mangle)]
extern "system" fn NdisMSleep(microseconds: u32) {
    kernel::at_most(APC_LEVEL, "NdisMSleep");
    std::thread::sleep(Duration::from_micros(microseconds.into()));
}

/// ndis/nf-ndis-ndismindicatestatusex: at most DISPATCH_LEVEL. Nobody listens; the indication is checked.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMIndicateStatusEx(handle: NDIS_HANDLE, indication: *const NDIS_STATUS_INDICATION) {
    const WHAT: &str = "NDIS_STATUS_INDICATION";
    kernel::at_most(DISPATCH_LEVEL, "NdisMIndicateStatusEx");
    let Some(adapter) = adapter::from_handle(handle, "NdisMIndicateStatusEx") else { return };
    let sizes = [NDIS_SIZEOF_STATUS_INDICATION_REVISION_1];
    // SAFETY: the caller gives an indication.
    if unsafe { check_header(indication.cast(), WHAT, NDIS_OBJECT_TYPE_STATUS_INDICATION, &sizes) }.is_err() {
        return;
    }
    // SAFETY: the size has been checked.
    let indication = unsafe { &*indication };
    if indication.SourceHandle != handle {
        violation(&format!("{WHAT}: SourceHandle is not the adapter's handle"));
    }
    if adapter.state() == State::Halted {
        violation("NdisMIndicateStatusEx: the adapter is halted");
    }
    if indication.StatusCode == NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG {
        // SAFETY: the buffer is as long as its size says.
        unsafe { offload::indicated(&adapter, indication) };
    }
    if indication.StatusCode == NDIS_STATUS_LINK_STATE {
        let size = indication.StatusBufferSize;
        if size < u32::from(NDIS_SIZEOF_LINK_STATE_REVISION_1) {
            violation(&format!("{WHAT}: link state of {size} bytes"));
            return;
        }
        let sizes = [NDIS_SIZEOF_LINK_STATE_REVISION_1];
        // SAFETY: the buffer is as long as its size says. What is wrong is reported there.
        let checked =
            unsafe { check_header(indication.StatusBuffer, "NDIS_LINK_STATE", NDIS_OBJECT_TYPE_DEFAULT, &sizes) };
        if checked.is_ok() {
            // SAFETY: checked.
            let state = unsafe { &*indication.StatusBuffer.cast::<NDIS_LINK_STATE>() };
            let connected = state.MediaConnectState == MediaConnectStateConnected;
            lock(&adapter.attributes).connected = connected;
            kernel::trace(&format!(
                "ndis: link of adapter {}: {}",
                adapter.number,
                if connected { "up" } else { "down" }
            ));
        }
    }
}

/// ndis/nf-ndis-ndisallocatememorywithtagpriority: at most DISPATCH_LEVEL; non-paged, not zeroed.
#[unsafe(no_mangle)]
extern "system" fn NdisAllocateMemoryWithTagPriority(
    _handle: NDIS_HANDLE,
    length: u32,
    tag: u32,
    _priority: i32,
) -> *mut c_void {
    // NonPagedPoolNx.
    // SAFETY: no preconditions beyond the IRQL, which is checked there.
    unsafe { ntoskrnl::ExAllocatePoolWithTag(512, length as usize, tag) }
}

/// ndis/nf-ndis-ndisfreememorywithtagpriority: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisFreeMemoryWithTagPriority(_handle: NDIS_HANDLE, block: *mut c_void, tag: u32) {
    // SAFETY: the caller gives a block of the function above.
    unsafe { ntoskrnl::ExFreePoolWithTag(block, tag) };
}
