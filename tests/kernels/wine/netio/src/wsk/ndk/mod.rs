//! How a kernel consumer opens an NDK adapter: WskControlClient with a code of Microsoft's own gives it two functions (wskndk.h).

mod trace;

use std::ffi::c_void;

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, status, violation};
use ndk_abi::{
    ndkpi::{NDK_ADAPTER, NDK_VERSION, WSK_PROVIDER_NDK_DISPATCH, WSKNDK_GET_WSK_PROVIDER_NDK_DISPATCH},
    status::{NDIS_STATUS, NTSTATUS},
};

use super::{client, operations::finish, request::Request};
use crate::{parameter, protocol::INTERFACE_INDEX};

const STATUS_NOT_FOUND: i32 = 0xC000_0225_u32.cast_signed();

#[link(name = "ndis.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn SoftNdkStandInOpenNdkAdapter(version: u32, opened: *mut *mut NDK_ADAPTER) -> NDIS_STATUS;
    fn SoftNdkStandInCloseNdkAdapter(opened: *mut NDK_ADAPTER) -> NDIS_STATUS;
}

const DISPATCH: WSK_PROVIDER_NDK_DISPATCH =
    WSK_PROVIDER_NDK_DISPATCH { WskOpenNdkAdapter: Some(open), WskCloseNdkAdapter: Some(close) };

/// wsk/nc-wsk-pfn_wsk_control_client: at most DISPATCH_LEVEL; the IRP is optional.
pub(super) unsafe extern "system" fn control_client(
    client: *mut c_void,
    code: u32,
    input_size: usize,
    input: *mut c_void,
    output_size: usize,
    output: *mut c_void,
    returned: *mut usize,
    irp: *mut c_void,
) -> NTSTATUS {
    const FUNCTION: &str = "WskControlClient";
    kernel::at_most(DISPATCH_LEVEL, FUNCTION);
    let mut request = if irp.is_null() { None } else { Request::begin(FUNCTION, irp) };
    let mut call = client::Call::begin(client as usize);
    let result = if call.is_none() {
        violation("WskControlClient: the provider is not captured");
        Err(status::INVALID_PARAMETER)
    } else {
        // SAFETY: passed on to the caller.
        unsafe { answer(code, input_size, input, output_size, output) }
    };
    if let Some(request) = &mut request {
        request.call = call.take();
    }
    let bytes = result.unwrap_or(0);
    if !returned.is_null() {
        // SAFETY: the caller gives a place for it.
        unsafe { returned.write(bytes) };
    }
    let status = result.err().unwrap_or(status::SUCCESS);
    NTSTATUS(request.map_or(status, |request| finish(request, status, bytes)))
}

/// # Safety
/// `output` has room for so many bytes.
unsafe fn answer(
    code: u32,
    input_size: usize,
    input: *mut c_void,
    output_size: usize,
    output: *mut c_void,
) -> Result<usize, i32> {
    if code != WSKNDK_GET_WSK_PROVIDER_NDK_DISPATCH {
        violation(&format!("WskControlClient: code {code:#x} is not simulated"));
        return Err(status::NOT_SUPPORTED);
    }
    let size = size_of::<WSK_PROVIDER_NDK_DISPATCH>();
    if input_size != 0 || !input.is_null() || output_size != size || output.is_null() {
        return Err(status::INVALID_PARAMETER);
    }
    // SAFETY: passed on to the caller.
    unsafe { output.cast::<WSK_PROVIDER_NDK_DISPATCH>().write_unaligned(DISPATCH) };
    Ok(size)
}

/// Opens the adapter of an interface: PASSIVE_LEVEL.
unsafe extern "system" fn open(
    client: *mut c_void,
    version: NDK_VERSION,
    interface: u32,
    opened: *mut *mut NDK_ADAPTER,
) -> NTSTATUS {
    kernel::at_most(PASSIVE_LEVEL, "WskOpenNdkAdapter");
    let Some(_call) = client::Call::begin(client as usize) else {
        violation("WskOpenNdkAdapter: the provider is not captured");
        return NTSTATUS(status::INVALID_PARAMETER);
    };
    let result = if interface == INTERFACE_INDEX {
        let packed = u32::from(version.Major) | u32::from(version.Minor) << 16;
        // SAFETY: the caller gives a place for the adapter.
        unsafe { SoftNdkStandInOpenNdkAdapter(packed, opened) }
    } else {
        NTSTATUS(STATUS_NOT_FOUND)
    };
    if result.is_success() && parameter("TraceNdk").is_some_and(|value| value == "1") {
        // SAFETY: opened just now.
        unsafe { trace::begin(*opened, version) };
    }
    result
}

/// Closes it: PASSIVE_LEVEL.
unsafe extern "system" fn close(client: *mut c_void, opened: *mut NDK_ADAPTER) {
    kernel::at_most(PASSIVE_LEVEL, "WskCloseNdkAdapter");
    let Some(_call) = client::Call::begin(client as usize) else {
        return violation("WskCloseNdkAdapter: the provider is not captured");
    };
    // SAFETY: it looks for it among those that are open.
    if unsafe { SoftNdkStandInCloseNdkAdapter(opened) } != NTSTATUS(0) {
        violation("WskCloseNdkAdapter: not an open adapter");
    }
    trace::end();
}
