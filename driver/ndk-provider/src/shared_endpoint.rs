//! NDK_SHARED_ENDPOINT_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use ndk_abi::{
    ndkpi::{NDK_SHARED_ENDPOINT, NDK_SHARED_ENDPOINT_DISPATCH},
    sockaddr::SOCKADDR,
    status::NTSTATUS,
};
use platform::Platform;
use soft_rdma::SharedEndpoint;

use crate::{
    address,
    object::{Object, close, query_extension},
};

pub(crate) const fn table<P: Platform>() -> NDK_SHARED_ENDPOINT_DISPATCH {
    NDK_SHARED_ENDPOINT_DISPATCH {
        NdkCloseSharedEndpoint: close::<SharedEndpoint<P>, P>,
        NdkQueryExtension: query_extension,
        NdkGetLocalAddress: local_address::<P>,
    }
}

/// NdkGetLocalAddress.
///
/// # Safety
/// NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS.
unsafe extern "system" fn local_address<P: Platform>(
    endpoint: *mut NDK_SHARED_ENDPOINT,
    buffer: *mut SOCKADDR,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open shared endpoint.
    let endpoint = unsafe { Object::<SharedEndpoint<P>, P>::of(endpoint) };
    // SAFETY: the consumer's buffer and its length.
    unsafe { address::write(Some(endpoint.local_address()), buffer, length) }
}
