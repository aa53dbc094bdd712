//! Entries that are not implemented yet. They return STATUS_NOT_SUPPORTED and change nothing.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_ADAPTER, NDK_CONNECTOR, NDK_FN_CREATE_COMPLETION, NDK_FN_REQUEST_COMPLETION, NDK_QP, NDK_SHARED_ENDPOINT,
    },
    sockaddr::SOCKADDR,
    status::{NTSTATUS, STATUS_NOT_SUPPORTED},
};

/// The dispatch entries, of 70, that are not implemented: table and member. Those of the object that cannot be made yet are
/// among them.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("NDK_ADAPTER_DISPATCH", "NdkCreateSharedEndpoint"),
    ("NDK_CONNECTOR_DISPATCH", "NdkConnectWithSharedEndpoint"),
    ("NDK_SHARED_ENDPOINT_DISPATCH", "NdkCloseSharedEndpoint"),
    ("NDK_SHARED_ENDPOINT_DISPATCH", "NdkQueryExtension"),
    ("NDK_SHARED_ENDPOINT_DISPATCH", "NdkGetLocalAddress"),
];

pub(crate) unsafe extern "system" fn create_shared_endpoint(
    _adapter: *mut NDK_ADAPTER,
    _address: *const SOCKADDR,
    _address_length: u32,
    _completion: NDK_FN_CREATE_COMPLETION,
    _context: *mut c_void,
    _out: *mut *mut NDK_SHARED_ENDPOINT,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

#[allow(clippy::too_many_arguments, reason = "NDK_FN_CONNECT_WITH_SHARED_ENDPOINT")]
pub(crate) unsafe extern "system" fn connect_with_shared_endpoint(
    _connector: *mut NDK_CONNECTOR,
    _qp: *mut NDK_QP,
    _endpoint: *mut NDK_SHARED_ENDPOINT,
    _destination: *const SOCKADDR,
    _destination_length: u32,
    _inbound: u32,
    _outbound: u32,
    _private_data: *const c_void,
    _private_data_length: u32,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}
