//! IRPs that this driver sends to other drivers. Each is a part of the object that sends it, so that no request fails for lack of memory.

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
};

use ndk_abi::status::{NTSTATUS, STATUS_MORE_PROCESSING_REQUIRED, STATUS_SUCCESS};
use wdk_sys::ntddk::{IoCancelIrp, IoInitializeIrp, IoReuseIrp};

use super::{Header, StackLocation};

/// `IoSizeOfIrp(1)` of wdm.h: an IRP, of 0xD0 bytes, and one stack location.
const BYTES: usize = 0xD0 + size_of::<StackLocation>();

/// `SL_INVOKE_ON_CANCEL`, `_ON_SUCCESS`, `_ON_ERROR` of wdm.h.
const INVOKE_ALWAYS: u8 = 0xE0;

/// The status by which an `IO_COMPLETION_ROUTINE` keeps its IRP.
pub(crate) const KEPT: NTSTATUS = STATUS_MORE_PROCESSING_REQUIRED;

/// `IO_COMPLETION_ROUTINE`: (no device, IRP, context). <= DISPATCH_LEVEL. It returns [`KEPT`].
pub(crate) type Completed = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> NTSTATUS;

/// An IRP, used for one request after another. It does not move while a request uses it.
#[repr(C, align(16))]
pub(crate) struct OwnIrp {
    memory: UnsafeCell<[u8; BYTES]>,
    /// IoInitializeIrp was called.
    initialised: Cell<bool>,
}

// SAFETY: plain storage, used only as the functions below allow.
unsafe impl Send for OwnIrp {}
// SAFETY: as for Send.
unsafe impl Sync for OwnIrp {}

impl OwnIrp {
    pub(crate) const fn new() -> Self {
        Self { memory: UnsafeCell::new([0; BYTES]), initialised: Cell::new(false) }
    }

    fn header(&self) -> *mut Header {
        self.memory.get().cast()
    }

    /// Prepares the IRP for a request to another driver, and returns it. `routine` is called when that driver completes the IRP.
    ///
    /// # Safety
    /// The IRP is not in use, and does not move until `routine` is called.
    pub(crate) unsafe fn prepare(&self, routine: Completed, context: *mut c_void) -> *mut c_void {
        let irp = self.header();
        if self.initialised.replace(true) {
            // Other drivers may have attached something to the IRP, which IoReuseIrp keeps or frees.
            // SAFETY: initialised, and not in use by contract.
            unsafe { IoReuseIrp(irp.cast(), STATUS_SUCCESS.0) };
        } else {
            // SAFETY: non-paged memory of that size (all memory of this driver is), not in use by contract.
            unsafe { IoInitializeIrp(irp.cast(), BYTES as u16, 1) };
        }
        // IoSetCompletionRoutine, which is inline in wdm.h: writes to the stack location of the called driver.
        // SAFETY: initialised above.
        let behind = unsafe { (*irp).current_stack_location };
        let next = behind.wrapping_sub(1);
        // SAFETY: the one stack location of the IRP.
        unsafe { (*next).completion_routine = routine as *mut c_void };
        // SAFETY: as above.
        unsafe { (*next).context = context };
        // SAFETY: as above.
        unsafe { (*next).control = INVOKE_ALWAYS };
        irp.cast()
    }

    /// The result of the IRP's last request.
    ///
    /// # Safety
    /// The request was completed, or [`OwnIrp::refuse`]d, and the IRP was not prepared again.
    pub(crate) unsafe fn result(&self) -> Result<usize, NTSTATUS> {
        let irp = self.header();
        // SAFETY: no other thread writes the IRP now, by contract.
        let status = unsafe { (*irp).status };
        // SAFETY: as above.
        let information = unsafe { (*irp).information };
        if status.is_success() { Ok(information) } else { Err(status) }
    }

    /// Sets the result of a request that was not given to a driver. The completion routine is not called.
    ///
    /// # Safety
    /// The IRP was prepared, and not given to a driver.
    pub(crate) unsafe fn refuse(&self, status: NTSTATUS) {
        // SAFETY: only a thread that cancels the IRP uses it now, by contract, and IoCancelIrp does not access the status.
        unsafe { (*self.header()).status = status };
    }

    /// Cancels the IRP's request. The completion routine may run before this returns. <= DISPATCH_LEVEL, no lock held.
    ///
    /// # Safety
    /// The IRP was prepared, and is not prepared again before this returns.
    pub(crate) unsafe fn cancel(&self) {
        // SAFETY: a valid IRP, by contract.
        let _it_was_cancelable = unsafe { IoCancelIrp(self.header().cast()) };
    }
}
