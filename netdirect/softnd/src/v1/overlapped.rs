//! INDOverlapped, for all objects whose requests pend.
#![expect(unsafe_code, reason = "pointers of COM callers")]

use ndk_abi::status::STATUS_PENDING;
use windows_core::HRESULT;
use windows_sys::Win32::System::IO::OVERLAPPED;

use crate::arguments::with;

/// Implements INDOverlapped for an object with a field `core` that has [`Pending`](crate::core::object::Pending).
macro_rules! overlapped {
    ($object:ident) => {
        impl nd_com::v1::INDOverlapped_Impl for $object {
            unsafe fn CancelOverlappedRequests(&self) -> windows_core::HRESULT {
                $crate::arguments::hresult(self.core.pending().cancel())
            }

            unsafe fn GetOverlappedResult(
                &self,
                overlapped: *mut windows_sys::Win32::System::IO::OVERLAPPED,
                transferred: *mut usize,
                wait: i32,
            ) -> windows_core::HRESULT {
                // SAFETY: the caller's OVERLAPPED, with which a request was sent.
                unsafe { $crate::v1::overlapped::result(overlapped, transferred, wait != 0, || {}) }
            }
        }
    };
}

/// Returns the status of an OVERLAPPED's request, and in `transferred` the bytes that the request returned. Calls
/// `ended` if the request has ended.
///
/// # Safety
/// `overlapped` is null, or the OVERLAPPED of a request that was sent; `transferred` is null or valid.
pub(super) unsafe fn result(
    overlapped: *mut OVERLAPPED,
    transferred: *mut usize,
    wait: bool,
    ended: impl FnOnce(),
) -> HRESULT {
    let act = |request: &crate::core::overlapped::Overlapped| {
        let status = request.result(wait);
        if status != STATUS_PENDING {
            ended();
            if !transferred.is_null() {
                // SAFETY: as the caller says.
                unsafe { transferred.write(if status.is_success() { request.transferred() } else { 0 }) };
            }
        }
        status
    };
    // SAFETY: as the caller says.
    unsafe { with(overlapped, act) }
}

pub(super) use overlapped;
