//! IRPs of this driver's own, for what it asks of others: in memory of its own, so that there is always one.

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

/// What an `IO_COMPLETION_ROUTINE` returns to keep its IRP.
pub(crate) const KEPT: NTSTATUS = STATUS_MORE_PROCESSING_REQUIRED;

/// `IO_COMPLETION_ROUTINE`: (no device, IRP, context). <= DISPATCH_LEVEL. It returns [`KEPT`].
pub(crate) type Completed = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> NTSTATUS;

/// An IRP, used for one request after another. It stays where it is while it is in use.
#[repr(C, align(16))]
pub(crate) struct OwnIrp {
    memory: UnsafeCell<[u8; BYTES]>,
    /// It was used before.
    initialised: Cell<bool>,
}

// SAFETY: plain storage; it is used only as the functions below allow.
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

    /// Prepares it for a request, which ends with a call of the routine. What it gives is for the driver that is asked.
    ///
    /// # Safety
    /// It is not in use, and stays where it is until its routine was called.
    pub(crate) unsafe fn prepare(&self, routine: Completed, context: *mut c_void) -> *mut c_void {
        let irp = self.header();
        if self.initialised.replace(true) {
            // Others may have attached something to it, which this keeps or frees.
            // SAFETY: initialised, and not in use by contract.
            unsafe { IoReuseIrp(irp.cast(), STATUS_SUCCESS.0) };
        } else {
            // SAFETY: so many bytes of non-paged memory (all of this driver's is), not in use by contract.
            unsafe { IoInitializeIrp(irp.cast(), BYTES as u16, 1) };
        }
        // IoSetCompletionRoutine, which is inline in wdm.h: into the location of the driver that is called.
        // SAFETY: initialised, now or anew.
        let behind = unsafe { (*irp).current_stack_location };
        let next = behind.wrapping_sub(1);
        // SAFETY: the one stack location of the IRP.
        unsafe { (*next).completion_routine = routine as *mut c_void };
        // SAFETY: the same.
        unsafe { (*next).context = context };
        // SAFETY: the same.
        unsafe { (*next).control = INVOKE_ALWAYS };
        irp.cast()
    }

    /// What its last request came to.
    ///
    /// # Safety
    /// It was completed, or [`OwnIrp::refuse`]d, and not prepared again.
    pub(crate) unsafe fn result(&self) -> Result<usize, NTSTATUS> {
        let irp = self.header();
        // SAFETY: nobody else uses it now, by contract.
        let status = unsafe { (*irp).status };
        // SAFETY: the same.
        let information = unsafe { (*irp).information };
        if status.is_success() { Ok(information) } else { Err(status) }
    }

    /// Ends a request that nobody was asked: without a call of its routine.
    ///
    /// # Safety
    /// It was prepared, and not given away.
    pub(crate) unsafe fn refuse(&self, status: NTSTATUS) {
        // SAFETY: nobody else uses it now, by contract, but those who cancel it, who do not touch that.
        unsafe { (*self.header()).status = status };
    }

    /// Asks for an early end of its request. The routine may be called meanwhile. <= DISPATCH_LEVEL, no lock held.
    ///
    /// # Safety
    /// It was prepared, and is not prepared again before this has returned.
    pub(crate) unsafe fn cancel(&self) {
        // SAFETY: a valid IRP, by contract.
        let _it_was_cancelable = unsafe { IoCancelIrp(self.header().cast()) };
    }
}
