//! IND2Overlapped, for all objects whose requests pend.

/// Implements IND2Overlapped for an object with a field `core` that has [`Pending`](crate::core::object::Pending).
macro_rules! overlapped {
    ($object:ident) => {
        impl nd_com::v2::IND2Overlapped_Impl for $object {
            unsafe fn CancelOverlappedRequests(&self) -> windows_core::HRESULT {
                $crate::arguments::hresult(self.core.pending().cancel())
            }

            unsafe fn GetOverlappedResult(
                &self,
                overlapped: *mut windows_sys::Win32::System::IO::OVERLAPPED,
                wait: i32,
            ) -> windows_core::HRESULT {
                // SAFETY: the caller's OVERLAPPED, with which a request was sent.
                unsafe { $crate::arguments::with(overlapped, |overlapped| overlapped.result(wait != 0)) }
            }
        }
    };
}

pub(super) use overlapped;
