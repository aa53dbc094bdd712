//! OID requests to the miniport: built here, handed to it, and waited for.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Instant,
};

use kernel::{DISPATCH_LEVEL, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, status::*};

use crate::{
    adapter::{self, Adapter},
    limits, lock,
};

/// The requests of one adapter.
#[derive(Default)]
pub(crate) struct OidQueue {
    /// Regular requests go one at a time; direct ones do not.
    serial: Mutex<()>,
    /// Requests the miniport has, by address, and how they ended.
    pending: Mutex<BTreeMap<usize, Option<NDIS_STATUS>>>,
    completed: Condvar,
}

thread_local! {
    /// Whether this thread is in the miniport's OID request handler.
    static INSIDE_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in the miniport's OID request handler.
pub(crate) fn is_inside_handler() -> bool {
    INSIDE_HANDLER.get()
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Query,
    Set,
}

/// How a request ended.
pub(crate) struct Outcome {
    pub(crate) status: NDIS_STATUS,
    /// BytesWritten or BytesRead.
    pub(crate) transferred: u32,
    pub(crate) needed: u32,
    pub(crate) data: Vec<u8>,
}

/// The bytes behind the buffer that the miniport must not touch.
const GUARD: [u8; 16] = [0xA5; 16];

/// Sends one request and waits for it. `direct`: on the direct path, at DISPATCH_LEVEL.
pub(crate) fn request(adapter: &Adapter, operation: Operation, direct: bool, oid: u32, buffer: &[u8]) -> Outcome {
    // Eight-byte aligned, as NDIS's own buffers are.
    let mut storage = vec![0_u64; (buffer.len() + GUARD.len()).div_ceil(8)];
    let address = storage.as_mut_ptr().cast::<u8>();
    // SAFETY: the storage has room for both parts.
    unsafe {
        address.copy_from(buffer.as_ptr(), buffer.len());
        address.add(buffer.len()).copy_from(GUARD.as_ptr(), GUARD.len());
    }
    let query = NDIS_OID_REQUEST_QUERY {
        Oid: oid,
        InformationBuffer: if buffer.is_empty() { std::ptr::null_mut() } else { address.cast() },
        InformationBufferLength: buffer.len() as u32,
        ..NDIS_OID_REQUEST_QUERY::ZERO
    };
    let mut request = Box::new(NDIS_OID_REQUEST {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_OID_REQUEST,
            NDIS_OID_REQUEST_REVISION_2,
            NDIS_SIZEOF_OID_REQUEST_REVISION_2,
        ),
        RequestType: match operation {
            Operation::Query => NdisRequestQueryInformation,
            Operation::Set => NdisRequestSetInformation,
        },
        // A set has the same layout, with BytesRead in the place of BytesWritten.
        DATA: NDIS_OID_REQUEST_DATA { QUERY_INFORMATION: query },
        ..NDIS_OID_REQUEST::ZERO
    });
    let status = if direct {
        send(adapter, &mut request, true)
    } else {
        let _one_at_a_time = lock(&adapter.oids.serial);
        send(adapter, &mut request, false)
    };
    let Some(status) = status else {
        // The miniport has them, and may yet write to them.
        Box::leak(request);
        storage.leak();
        return Outcome { status: NDIS_STATUS_FAILURE, transferred: 0, needed: 0, data: vec![] };
    };
    // SAFETY: all members of the union begin alike.
    let answer = unsafe { request.DATA.QUERY_INFORMATION };
    // SAFETY: as when it was filled.
    let bytes = unsafe { std::slice::from_raw_parts(address, buffer.len() + GUARD.len()) };
    let (data, guard) = bytes.split_at(buffer.len());
    if guard != GUARD {
        violation(&format!("OID {oid:#010x}: wrote beyond the buffer of {} bytes", buffer.len()));
    }
    Outcome { status, transferred: answer.BytesWritten, needed: answer.BytesNeeded, data: data.to_vec() }
}

/// Hands one to the miniport and waits for it. None: that takes too long, and the miniport still has it.
fn send(adapter: &Adapter, request: &mut NDIS_OID_REQUEST, direct: bool) -> Option<NDIS_STATUS> {
    let characteristics = &adapter.driver.characteristics;
    let handler = if direct { characteristics.DirectOidRequestHandler } else { characteristics.OidRequestHandler };
    let Some(handler) = handler else { return Some(NDIS_STATUS_NOT_SUPPORTED) };
    let pointer = &raw mut *request;
    request.RequestId = pointer.cast::<c_void>();
    lock(&adapter.oids.pending).insert(pointer as usize, None);
    // ndis/nc-ndis-miniport_oid_request at PASSIVE_LEVEL, nc-ndis-miniport_direct_oid_request at most at DISPATCH_LEVEL.
    // SAFETY: the driver's handler, called as documented; the request lives until it has been completed.
    let call = || kernel::balanced("the OID request handler", || unsafe { handler(adapter.context(), pointer) });
    let start = Instant::now();
    INSIDE_HANDLER.set(true);
    let locks = kernel::spin_locks_taken();
    let returned = if direct { kernel::at_dispatch(call) } else { call() };
    INSIDE_HANDLER.set(false);
    // SAFETY: all members of the union begin alike.
    let oid = unsafe { request.DATA.QUERY_INFORMATION }.Oid;
    if direct && oid == OID_NDK_STATISTICS && kernel::spin_locks_taken() != locks {
        violation("OID_NDK_STATISTICS on the direct path, where requests are not serialised, took a spin lock");
    }
    if oid == OID_NDK_SET_STATE && returned == NDIS_STATUS_PENDING {
        violation("OID_NDK_SET_STATE pended (network/oid-ndk-set-state: it must not)");
    }
    let mut pending = lock(&adapter.oids.pending);
    if returned != NDIS_STATUS_PENDING {
        if pending.remove(&(pointer as usize)).flatten().is_some() {
            violation("an OID request was completed and its handler did not return NDIS_STATUS_PENDING");
        }
        return Some(returned);
    }
    loop {
        if let Some(Some(status)) = pending.get(&(pointer as usize)).copied() {
            pending.remove(&(pointer as usize));
            return Some(status);
        }
        let left = limits::now(limits::OID).saturating_sub(start.elapsed());
        if left.is_zero() {
            violation("an OID request was not completed within 12 s");
            return None;
        }
        pending = adapter.oids.completed.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn complete(handle: NDIS_HANDLE, request: *mut NDIS_OID_REQUEST, status: NDIS_STATUS, function: &str) {
    kernel::at_most(DISPATCH_LEVEL, function);
    let Some(adapter): Option<Arc<Adapter>> = adapter::from_handle(handle, function) else { return };
    if status == NDIS_STATUS_PENDING {
        violation(&format!("{function}: status NDIS_STATUS_PENDING"));
    }
    let mut pending = lock(&adapter.oids.pending);
    match pending.get_mut(&(request as usize)) {
        Some(end @ None) => *end = Some(status),
        Some(Some(_)) => violation(&format!("{function}: the request was completed already")),
        None => violation(&format!("{function}: not a pending request")),
    }
    adapter.oids.completed.notify_all();
}

/// ndis/nf-ndis-ndismoidrequestcomplete: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMOidRequestComplete(
    handle: NDIS_HANDLE,
    request: *mut NDIS_OID_REQUEST,
    status: NDIS_STATUS,
) {
    complete(handle, request, status, "NdisMOidRequestComplete");
}

/// ndis/nf-ndis-ndismdirectoidrequestcomplete: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMDirectOidRequestComplete(
    handle: NDIS_HANDLE,
    request: *mut NDIS_OID_REQUEST,
    status: NDIS_STATUS,
) {
    complete(handle, request, status, "NdisMDirectOidRequestComplete");
}
