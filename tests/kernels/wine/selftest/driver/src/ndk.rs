//! The NDK provider: an adapter that can be opened and queried.

use core::sync::atomic::Ordering;

use ndk_abi::{describe::ZeroInit, ndis::*, ndkpi::*, status::*};

use crate::oid::ENABLED;

const VERSION: NDK_VERSION = NDK_VERSION { Major: 2, Minor: 1 };

pub(crate) fn adapter_info() -> NDK_ADAPTER_INFO {
    NDK_ADAPTER_INFO {
        Version: VERSION,
        MaxRegistrationSize: 1 << 30,
        FRMRPageCount: 16,
        MaxInitiatorRequestSge: 4,
        MaxReceiveRequestSge: 4,
        MaxReadRequestSge: 4,
        MaxTransferLength: 1 << 20,
        MaxReceiveQueueDepth: 16,
        MaxInitiatorQueueDepth: 16,
        MaxSrqDepth: 16,
        MaxCqDepth: 16,
        ..NDK_ADAPTER_INFO::ZERO
    }
}

/// An NDK adapter that can be opened, queried and closed; this driver makes no other objects.
struct Shared(NDK_ADAPTER);
// SAFETY: never written.
unsafe impl Sync for Shared {}

static NDK: Shared = Shared(NDK_ADAPTER {
    Header: NDK_OBJECT_HEADER { Version: VERSION, ObjectType: NdkObjectTypeAdapter, ..NDK_OBJECT_HEADER::ZERO },
    Dispatch: (&raw const DISPATCH).cast(),
});

/// The head of NDK_ADAPTER_DISPATCH: the two entries that are called.
#[repr(C)]
struct Dispatch {
    extension: usize,
    query: NDK_FN_QUERY_ADAPTER_INFO,
    rest: [usize; 7],
}
static DISPATCH: Dispatch = Dispatch { extension: 0, query: query_info, rest: [0; 7] };

unsafe extern "system" fn query_info(
    _adapter: *mut NDK_ADAPTER,
    info: *mut NDK_ADAPTER_INFO,
    size: *mut u32,
) -> NTSTATUS {
    let needed = size_of::<NDK_ADAPTER_INFO>() as u32;
    // SAFETY: the caller gives a size, and a buffer of that size.
    unsafe {
        let given = size.replace(needed);
        if given < needed {
            return STATUS_BUFFER_TOO_SMALL;
        }
        info.write(adapter_info());
    }
    STATUS_SUCCESS
}

pub(crate) unsafe extern "system" fn open(
    _context: NDIS_HANDLE,
    parameters: *mut NDIS_OPEN_NDK_ADAPTER_PARAMETERS,
    adapter: *mut *mut NDK_ADAPTER,
) -> NDIS_STATUS {
    if !ENABLED.load(Ordering::Relaxed) {
        return NDIS_STATUS_ADAPTER_NOT_READY;
    }
    // SAFETY: NDIS gives parameters and a place for the adapter.
    unsafe {
        let asked = (*parameters).Version;
        if asked.Major != VERSION.Major || asked.Minor > VERSION.Minor {
            return NDIS_STATUS_BAD_VERSION;
        }
        adapter.write((&raw const NDK.0).cast_mut());
    }
    NDIS_STATUS_SUCCESS
}

pub(crate) unsafe extern "system" fn close(_context: NDIS_HANDLE, _adapter: *mut NDK_ADAPTER) {}
