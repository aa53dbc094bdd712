//! NDK_MW_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use ndk_abi::ndkpi::{NDK_MW, NDK_MW_DISPATCH};
use platform::Platform;
use soft_rdma::MemoryWindow;

use crate::object::{Object, close, query_extension};

pub(crate) const fn table<P: Platform>() -> NDK_MW_DISPATCH {
    NDK_MW_DISPATCH {
        NdkCloseMw: close::<MemoryWindow<P>, P>,
        NdkQueryExtension: query_extension,
        NdkGetRemoteTokenFromMw: token::<P>,
    }
}

/// NdkGetRemoteTokenFromMw.
///
/// # Safety
/// NDK_FN_GET_REMOTE_TOKEN_FROM_MW.
unsafe extern "system" fn token<P: Platform>(mw: *mut NDK_MW) -> u32 {
    // SAFETY: the consumer's open window.
    unsafe { Object::<MemoryWindow<P>, P>::of(mw) }.token()
}
