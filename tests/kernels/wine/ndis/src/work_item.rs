//! Work items.

use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kernel::{DISPATCH_LEVEL, Shared, violation};
use ndk_abi::ndis::NDIS_HANDLE;

use crate::{adapter, driver};

type Routine = unsafe extern "system" fn(*mut c_void, NDIS_HANDLE);
const KIND: &str = "NDIS work item";

/// A work item; its handle is the address of an `Arc`'s content.
struct WorkItem {
    queued: AtomicBool,
}

/// ndis/nf-ndis-ndisallocateioworkitem: at most DISPATCH_LEVEL; the handle is that of the driver or an adapter.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisAllocateIoWorkItem(handle: NDIS_HANDLE) -> NDIS_HANDLE {
    kernel::at_most(DISPATCH_LEVEL, "NdisAllocateIoWorkItem");
    if driver::from_handle(handle).is_none() && adapter::from_handle(handle, "NdisAllocateIoWorkItem").is_none() {
        return std::ptr::null_mut();
    }
    kernel::object(KIND, 1);
    Arc::into_raw(Arc::new(WorkItem { queued: AtomicBool::new(false) })).cast_mut().cast()
}

/// ndis/nf-ndis-ndisqueueioworkitem: at most DISPATCH_LEVEL; the routine runs at PASSIVE_LEVEL. Not while it is queued.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisQueueIoWorkItem(item: NDIS_HANDLE, routine: Routine, context: *mut c_void) {
    kernel::at_most(DISPATCH_LEVEL, "NdisQueueIoWorkItem");
    // SAFETY: the caller gives a work item.
    if unsafe { &*item.cast::<WorkItem>() }.queued.swap(true, Ordering::AcqRel) {
        violation("NdisQueueIoWorkItem: the work item is queued already");
        return;
    }
    let (item, context) = (Shared(item), Shared(context));
    kernel::workers::submit("an NDIS work item", move || {
        // SAFETY: the item is valid until its routine runs. Cleared first: the routine may queue it again or free it.
        unsafe { &*item.get().cast::<WorkItem>() }.queued.store(false, Ordering::Release);
        // SAFETY: the driver gave this routine for this context.
        unsafe { routine(context.get(), item.get()) };
    });
}

/// ndis/nf-ndis-ndisfreeioworkitem: at most DISPATCH_LEVEL; not while it is queued.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisFreeIoWorkItem(item: NDIS_HANDLE) {
    kernel::at_most(DISPATCH_LEVEL, "NdisFreeIoWorkItem");
    kernel::object(KIND, -1);
    // SAFETY: the caller gives a work item.
    if unsafe { &*item.cast::<WorkItem>() }.queued.load(Ordering::Acquire) {
        violation("NdisFreeIoWorkItem: the work item is queued");
        return; // Left allocated: its routine is still to run.
    }
    // SAFETY: as above, and it is not used again.
    drop(unsafe { Arc::from_raw(item.cast::<WorkItem>()) });
}
