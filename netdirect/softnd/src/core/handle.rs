//! Kernel handles.
#![expect(unsafe_code, reason = "calls into kernel32")]

use std::{mem, ptr};

use ndk_abi::status::{NTSTATUS, STATUS_INVALID_HANDLE};
use windows_sys::Win32::{
    Foundation::{CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, INVALID_HANDLE_VALUE},
    System::Threading::{GetCurrentProcess, ResetEvent, SetEvent},
};

#[derive(Debug)]
pub(crate) struct Handle(HANDLE);

// SAFETY: kernel handles belong to the process, not to a thread.
unsafe impl Send for Handle {}
// SAFETY: as for Send.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned by self, and not used again.
        unsafe { CloseHandle(self.0) };
    }
}

impl Handle {
    /// Takes over the handle that a call has returned. `None`: the call has failed.
    ///
    /// # Safety
    /// No other code closes `returned`.
    pub(super) unsafe fn own(returned: HANDLE) -> Option<Self> {
        (!returned.is_null() && returned != INVALID_HANDLE_VALUE).then_some(Self(returned))
    }

    /// Duplicates a handle of the program, which may close its own handle. STATUS_INVALID_HANDLE: not a valid handle.
    pub(super) fn duplicate(theirs: HANDLE) -> Result<Self, NTSTATUS> {
        let mut ours = ptr::null_mut();
        // SAFETY: a pseudo handle, which needs no closing.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: `ours` outlives the call; an invalid handle is an error.
        let done =
            unsafe { DuplicateHandle(process, theirs, process, &raw mut ours, 0, 0, DUPLICATE_SAME_ACCESS) } != 0;
        if done { Ok(Self(ours)) } else { Err(STATUS_INVALID_HANDLE) }
    }

    /// The handle, for calls; `self` still owns it.
    pub(crate) fn as_raw(&self) -> HANDLE {
        self.0
    }

    /// The handle, which the caller has to close.
    pub(crate) fn into_raw(self) -> HANDLE {
        let handle = self.0;
        mem::forget(self);
        handle
    }

    /// Sets an event.
    pub(super) fn set(&self) {
        // SAFETY: an open handle; a handle of another kind of object is an error.
        unsafe { SetEvent(self.0) };
    }

    /// Resets an event. STATUS_INVALID_HANDLE: not a handle of an event, or a handle without the right to change the
    /// event.
    pub(super) fn reset(&self) -> Result<(), NTSTATUS> {
        // SAFETY: as for `set`.
        if unsafe { ResetEvent(self.0) } != 0 { Ok(()) } else { Err(STATUS_INVALID_HANDLE) }
    }
}
