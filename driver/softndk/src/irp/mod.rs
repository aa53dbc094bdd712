//! IRPs. Only this module and [`own`] access their fields.
//!
//! The structures here have the fields at their documented offsets on x64: generated bindings name the unions inside an IRP
//! differently from kit to kit.
#![expect(unsafe_code, reason = "IRPs are structures of the I/O manager, used by pointer and shared with it")]

pub(crate) mod own;

use core::{
    ffi::c_void,
    mem::offset_of,
    ptr::{NonNull, null_mut},
    slice,
    sync::atomic::{AtomicPtr, AtomicU8, Ordering},
};

use ndk_abi::{
    nd_ioctl::METHOD_BUFFERED,
    status::{NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_PENDING, STATUS_SUCCESS},
};
use wdk_sys::{
    _MODE::UserMode,
    FILE_OBJECT,
    ntddk::{IoIs32bitProcess, IoReleaseCancelSpinLock, IofCompleteRequest},
};

/// `SL_PENDING_RETURNED` of wdm.h, which IoMarkIrpPending sets.
const PENDING_RETURNED: u8 = 1;

/// The bits of a control code that say how buffers are passed (`METHOD_*` of wdm.h).
const METHOD_MASK: u32 = 3;

/// `IO_NO_INCREMENT` of wdm.h.
const NO_PRIORITY_BOOST: i8 = 0;

/// `IRP_INPUT_OPERATION` of wdm.h: at completion the I/O manager copies the system buffer to the user's buffer.
const INPUT_OPERATION: u32 = 0x40;

unsafe extern "C" {
    /// Copies to user memory. A structured exception becomes a status (seh.c).
    fn softndk_copy_to_user(to: *mut u8, from: *const u8, length: usize) -> i32;
}

/// The fields of an IRP that this driver uses.
#[repr(C)]
struct Header {
    _type_to_mdl_address: [u8; 0x10],
    flags: u32,
    _align: u32,
    system_buffer: *mut u8,
    _thread_list_entry: [usize; 2],
    status: NTSTATUS,
    information: usize,
    requestor_mode: i8,
    _pending_returned_to_current_location: [u8; 3],
    cancel: AtomicU8,
    cancel_irql: u8,
    _apc_environment_to_overlay: [u8; 0x22],
    cancel_routine: AtomicPtr<c_void>,
    user_buffer: *mut u8,
    driver_context: [u64; 4],
    _thread_to_list_entry: [u8; 0x20],
    current_stack_location: *mut StackLocation,
}

/// The fields of an IO_STACK_LOCATION that this driver uses, with the parameters of IRP_MJ_DEVICE_CONTROL, each aligned to 8 bytes.
#[repr(C)]
struct StackLocation {
    _major_minor_flags: [u8; 3],
    control: u8,
    _align0: u32,
    output_length: u32,
    _align1: u32,
    input_length: u32,
    _align2: u32,
    code: u32,
    _align3: u32,
    _type3_input_buffer: *mut c_void,
    _device_object: *mut c_void,
    file_object: *mut FILE_OBJECT,
    completion_routine: *mut c_void,
    context: *mut c_void,
}

const _: () = {
    assert!(offset_of!(Header, flags) == 0x10);
    assert!(offset_of!(Header, system_buffer) == 0x18);
    assert!(offset_of!(Header, status) == 0x30);
    assert!(offset_of!(Header, information) == 0x38);
    assert!(offset_of!(Header, requestor_mode) == 0x40);
    assert!(offset_of!(Header, cancel) == 0x44);
    assert!(offset_of!(Header, cancel_irql) == 0x45);
    assert!(offset_of!(Header, cancel_routine) == 0x68);
    assert!(offset_of!(Header, user_buffer) == 0x70);
    assert!(offset_of!(Header, driver_context) == 0x78);
    assert!(offset_of!(Header, current_stack_location) == 0xB8);
    assert!(offset_of!(StackLocation, control) == 0x03);
    assert!(offset_of!(StackLocation, output_length) == 0x08);
    assert!(offset_of!(StackLocation, input_length) == 0x10);
    assert!(offset_of!(StackLocation, code) == 0x18);
    assert!(offset_of!(StackLocation, file_object) == 0x30);
    assert!(offset_of!(StackLocation, completion_routine) == 0x38);
    assert!(offset_of!(StackLocation, context) == 0x40);
    assert!(size_of::<StackLocation>() == 0x48);
};

/// `DRIVER_CANCEL` of wdm.h: (device object, IRP). The routine calls [`Cancelled::begin`] first.
pub(crate) type CancelRoutine = unsafe extern "system" fn(*mut c_void, *mut c_void);

/// An IRP of the control device that this driver owns. [`Irp::complete`] completes it, once.
pub(crate) struct Irp(NonNull<Header>);

// SAFETY: any thread may handle an owned IRP.
unsafe impl Send for Irp {}

impl Irp {
    /// Takes over an IRP of the I/O manager.
    ///
    /// # Safety
    /// `irp` is valid, and this driver owns it at its current stack location: in a dispatch routine.
    pub(crate) unsafe fn from_raw(irp: *mut c_void) -> Self {
        // SAFETY: a valid IRP is not null.
        Self(unsafe { NonNull::new_unchecked(irp.cast()) })
    }

    fn as_ptr(&self) -> *mut Header {
        self.0.as_ptr()
    }

    fn stack(&self) -> *mut StackLocation {
        // SAFETY: the IRP is valid while it is owned.
        unsafe { (*self.as_ptr()).current_stack_location }
    }

    /// The file object that the IRP was sent to. The file object lives at least until the IRP is completed.
    pub(crate) fn file_object(&self) -> *mut FILE_OBJECT {
        // SAFETY: an owned IRP has a current stack location.
        unsafe { (*self.stack()).file_object }
    }

    /// Whether a 32-bit process sent the IRP. In such a process the protocol's structures have another layout.
    pub(crate) fn is_32bit(&self) -> bool {
        // SAFETY: the IRP is valid while it is owned.
        unsafe { IoIs32bitProcess(self.as_ptr().cast()) != 0 }
    }

    /// Whether the IRP is from user mode. The I/O manager has probed only such an IRP's buffers.
    pub(crate) fn is_from_user(&self) -> bool {
        // SAFETY: the IRP is valid while it is owned.
        unsafe { (*self.as_ptr()).requestor_mode == UserMode as i8 }
    }

    /// Completes the IRP. <= DISPATCH_LEVEL, no lock held. Returns `status`, for the dispatch routine.
    pub(crate) fn complete(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        let irp = self.as_ptr();
        // SAFETY: the IRP is owned.
        unsafe { (*irp).status = status };
        // SAFETY: as above.
        unsafe { (*irp).information = information };
        // SAFETY: the IRP is owned, and not touched after this.
        unsafe { IofCompleteRequest(irp.cast(), NO_PRIORITY_BOOST) };
        status
    }

    /// Makes a request of an IRP_MJ_DEVICE_CONTROL of user mode. If the method of its code is not METHOD_BUFFERED, the request gets no
    /// buffers: with other methods the system buffer is shorter, or missing.
    ///
    /// # Safety
    /// The I/O manager may call `cancel` as the cancel routine of the IRP, while the request is pended. `cancel` calls
    /// [`Cancelled::begin`], then `nd_ioctl::File::cancel` with the id that `begin` returned.
    pub(crate) unsafe fn into_request(self, cancel: CancelRoutine) -> ControlRequest {
        let stack = self.stack();
        // SAFETY: an owned IRP has a current stack location, here with the parameters of its major function.
        let input = unsafe { (*stack).input_length };
        // SAFETY: as above.
        let output = unsafe { (*stack).output_length };
        // SAFETY: the IRP is owned.
        let buffer = unsafe { (*self.as_ptr()).system_buffer };
        // SAFETY: an owned IRP has a current stack location.
        let code = unsafe { (*stack).code };
        let buffered = code & METHOD_MASK == METHOD_BUFFERED && !buffer.is_null();
        let (input, output) = if buffered { (input, output) } else { (0, 0) };
        // The I/O manager fills the system buffer with the input only. The rest must not reach the program as output.
        if let Some(beyond) = output.checked_sub(input).filter(|beyond| *beyond != 0) {
            // SAFETY: the system buffer is as long as the longer of input and output.
            let tail = unsafe { buffer.add(input as usize) };
            // SAFETY: as above.
            unsafe { tail.write_bytes(0, beyond as usize) };
        }
        ControlRequest { irp: self, input, output, cancel }
    }

    /// IoSetCancelRoutine.
    fn exchange_cancel_routine(&self, routine: *mut c_void) -> *mut c_void {
        // SAFETY: the IRP is owned, or the caller takes it back under the lock for which the cancel routine waits.
        let place = unsafe { &(*self.as_ptr()).cancel_routine };
        place.swap(routine, Ordering::AcqRel)
    }

    fn is_cancelled(&self) -> bool {
        // SAFETY: as in exchange_cancel_routine.
        let cancel = unsafe { &(*self.as_ptr()).cancel };
        cancel.load(Ordering::Acquire) != 0
    }
}

/// An IRP_MJ_DEVICE_CONTROL of user mode, with the lengths of its buffer, and its cancel routine.
pub(crate) struct ControlRequest {
    irp: Irp,
    input: u32,
    output: u32,
    cancel: CancelRoutine,
}

impl ControlRequest {
    /// IoMarkIrpPending.
    fn mark_pending(&self) {
        // SAFETY: an owned IRP has a current stack location.
        unsafe { (*self.irp.stack()).control |= PENDING_RETURNED };
    }

    fn buffer(&self) -> *mut u8 {
        // SAFETY: the IRP is owned.
        let buffer = unsafe { (*self.irp.as_ptr()).system_buffer };
        if buffer.is_null() { NonNull::dangling().as_ptr() } else { buffer }
    }

    /// Completes a request whose output buffer is too short, with the length needed as its information.
    ///
    /// The I/O manager would copy `needed` bytes: it would read beyond the system buffer and write beyond the user's buffer. So this
    /// function copies the bytes that fit, and clears IRP_INPUT_OPERATION, the flag that makes the I/O manager copy.
    fn complete_short(self, status: NTSTATUS, needed: usize) -> NTSTATUS {
        debug_assert!(status == STATUS_BUFFER_OVERFLOW, "more output than room");
        let irp = self.irp.as_ptr();
        // SAFETY: the IRP is owned.
        let user_buffer = unsafe { (*irp).user_buffer };
        let copied = if self.output == 0 {
            STATUS_SUCCESS
        } else {
            // SAFETY: from the system buffer to the user's, which the I/O manager has probed, as the request is from user mode. It is
            // memory of the current process: only a dispatch routine completes a request like this.
            NTSTATUS(unsafe { softndk_copy_to_user(user_buffer, self.buffer(), self.output as usize) })
        };
        // SAFETY: the IRP is owned.
        unsafe { (*irp).flags &= !INPUT_OPERATION };
        if copied == STATUS_SUCCESS { self.irp.complete(status, needed) } else { self.irp.complete(copied, 0) }
    }
}

impl nd_ioctl::Request for ControlRequest {
    fn code(&self) -> u32 {
        // SAFETY: an owned IRP has a current stack location.
        unsafe { (*self.irp.stack()).code }
    }

    fn input(&self) -> &[u8] {
        // SAFETY: `input` initialised bytes of the system buffer (0 if there is none), which lives as long as the IRP.
        unsafe { slice::from_raw_parts(self.buffer(), self.input as usize) }
    }

    fn output(&mut self) -> &mut [u8] {
        // SAFETY: `output` bytes of the system buffer, initialised by `into_request`; borrowed mutably with the request.
        unsafe { slice::from_raw_parts_mut(self.buffer(), self.output as usize) }
    }

    fn output_length(&self) -> usize {
        self.output as usize
    }

    fn complete(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        if information <= self.output_length() {
            self.irp.complete(status, information)
        } else {
            self.complete_short(status, information)
        }
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        self.mark_pending();
        self.complete(status, information);
        STATUS_PENDING
    }

    fn pend(&mut self, id: u64) -> bool {
        // SAFETY: the IRP is owned; the driver context belongs to its owner.
        unsafe { (*self.irp.as_ptr()).driver_context[0] = id };
        self.irp.exchange_cancel_routine(self.cancel as *mut c_void);
        // If the cancel routine runs already, it waits for the caller's lock, and then completes the request.
        if self.irp.is_cancelled() && !self.irp.exchange_cancel_routine(null_mut()).is_null() {
            return false;
        }
        // Not earlier, as a request that does not pend must not be marked. Not too late either: a thread that completes the request needs
        // the caller's lock.
        self.mark_pending();
        true
    }

    fn unpend(&mut self) -> bool {
        !self.irp.exchange_cancel_routine(null_mut()).is_null()
    }
}

/// The data of a request that its cancel routine uses.
pub(crate) struct Cancelled {
    /// The id with which the request was pended.
    pub(crate) id: u64,
    pub(crate) file_object: *mut FILE_OBJECT,
    /// The IRQL after the release of the cancel spin lock.
    pub(crate) irql: u8,
}

impl Cancelled {
    /// Begins a cancel routine: reads the IRP, and releases the cancel spin lock.
    ///
    /// # Safety
    /// `irp` is the IRP of the cancel routine, which holds the cancel spin lock. No other thread completes the IRP.
    pub(crate) unsafe fn begin(irp: *mut c_void) -> Self {
        let irp = irp.cast::<Header>();
        // SAFETY: the I/O manager hands a valid IRP to its cancel routine.
        let irql = unsafe { (*irp).cancel_irql };
        // SAFETY: as above; the IRP is not completed, by contract.
        let id = unsafe { (*irp).driver_context[0] };
        // SAFETY: as above.
        let stack = unsafe { (*irp).current_stack_location };
        // SAFETY: as above.
        let file_object = unsafe { (*stack).file_object };
        // SAFETY: the lock is held on entry, and is released with the IRQL that the I/O manager has stored in the IRP.
        unsafe { IoReleaseCancelSpinLock(irql) };
        Self { id, file_object, irql }
    }
}
