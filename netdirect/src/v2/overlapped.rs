//! IND2Overlapped, which all objects with requests that pend have.
#![expect(unsafe_code, reason = "pointers of COM callers")]

use nd_com::status::{ND_INVALID_PARAMETER, from_nt};
use ndk_abi::status::NTSTATUS;
use windows_core::HRESULT;
use windows_sys::Win32::System::IO::OVERLAPPED;

use crate::core::overlapped::Overlapped;

/// Implements IND2Overlapped for an object with a field `core` that has [`Pending`](crate::core::object::Pending).
macro_rules! overlapped {
    ($object:ident) => {
        impl nd_com::v2::IND2Overlapped_Impl for $object {
            unsafe fn CancelOverlappedRequests(&self) -> windows_core::HRESULT {
                $crate::v2::arguments::hresult(self.core.pending().cancel())
            }

            unsafe fn GetOverlappedResult(
                &self,
                overlapped: *mut windows_sys::Win32::System::IO::OVERLAPPED,
                wait: i32,
            ) -> windows_core::HRESULT {
                // SAFETY: the caller's, with a request that was sent.
                unsafe { $crate::v2::overlapped::with(overlapped, |overlapped| overlapped.result(wait != 0)) }
            }
        }
    };
}

/// Does something with an OVERLAPPED of the caller's.
///
/// # Safety
/// It is null, or stays valid until the request that it is used for is over.
pub(super) unsafe fn with(overlapped: *mut OVERLAPPED, act: impl FnOnce(&Overlapped) -> NTSTATUS) -> HRESULT {
    // SAFETY: as the caller says.
    match unsafe { Overlapped::new(overlapped) } {
        Some(overlapped) => from_nt(act(&overlapped)),
        None => ND_INVALID_PARAMETER,
    }
}

pub(super) use overlapped;
