//! Helpers for I/O request packets (wdm.h: most are inline functions there).

use std::{
    ffi::c_void,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use kernel::{DEVICE_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IRP, Shared, ntoskrnl, status, violation};
use ndk_abi::status::NTSTATUS;

use crate::{adapter::PATIENCE, lock};

pub(crate) const IRP_MJ_CREATE: u8 = 0x00;
pub(crate) const IRP_MJ_CLOSE: u8 = 0x02;
pub(crate) const IRP_MJ_READ: u8 = 0x03;
pub(crate) const IRP_MJ_WRITE: u8 = 0x04;
pub(crate) const IRP_MJ_DEVICE_CONTROL: u8 = 0x0E;
pub(crate) const IRP_MJ_CLEANUP: u8 = 0x12;
pub(crate) const IRP_MJ_PNP: u8 = 0x1B;

const SL_PENDING_RETURNED: u8 = 0x01;
const SL_INVOKE_ALWAYS: u8 = 0xE0;
const STATUS_MORE_PROCESSING_REQUIRED: i32 = 0xC000_0016_u32.cast_signed();
const USER_MODE: i8 = 1;

/// A dispatch routine.
pub(crate) type Dispatch = unsafe extern "system" fn(*const DEVICE_OBJECT, *mut IRP) -> i32;

/// `IoGetCurrentIrpStackLocation`.
///
/// # Safety
/// `irp` is an IRP that the caller owns.
pub(crate) unsafe fn current_location(irp: *mut IRP) -> *mut IO_STACK_LOCATION {
    // SAFETY: passed on to the caller.
    unsafe { (*irp).Tail.Overlay.Anonymous2.Anonymous.CurrentStackLocation }
}

/// Parameters.DeviceIoControl.IoControlCode. Each of the members is aligned as a pointer is (wdm/ns-wdm-_io_stack_location:
/// POINTER_ALIGNMENT), which the bindings do not know.
///
/// # Safety
/// As `current_location`. Of other requests than IRP_MJ_DEVICE_CONTROL it means something else.
pub(crate) unsafe fn control_code(irp: *mut IRP) -> u32 {
    const MEMBER: usize = 2;
    // SAFETY: passed on to the caller; there are four words of parameters.
    unsafe { (&raw const (*current_location(irp)).Parameters).cast::<u64>().add(MEMBER).cast::<u32>().read() }
}

/// `IoMarkIrpPending`.
///
/// # Safety
/// As `current_location`.
pub(crate) unsafe fn mark_pending(irp: *mut IRP) {
    // SAFETY: passed on to the caller.
    unsafe { (*current_location(irp)).Control |= SL_PENDING_RETURNED };
}

/// Completes an IRP without data.
///
/// # Safety
/// `irp` is an IRP that the caller owns; it is not used afterwards.
pub(crate) unsafe fn complete(irp: *mut IRP, result: i32) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe {
        (*irp).IoStatus.Anonymous.Status = result;
        (*irp).IoStatus.Information = 0;
        ntoskrnl::IofCompleteRequest(irp, 0);
    }
    result
}

/// Runs `work` in the context of the process that sent the IRP, if it still has one.
///
/// # Safety
/// As `current_location`.
pub(crate) unsafe fn in_requestor<T>(irp: *mut IRP, work: impl FnOnce() -> T) -> T {
    // SAFETY: passed on to the caller.
    let has_thread = unsafe { (*irp).Tail.Overlay.Thread } != 0;
    if !has_thread {
        return work();
    }
    // SAFETY: the IRP names a thread, whose process it keeps alive.
    let process = unsafe { ntoskrnl::IoGetRequestorProcess(irp) };
    // KAPC_STATE, 0x30 bytes.
    let mut state = [0_u64; 6];
    // SAFETY: a live process; the state is used for the detaching below only.
    unsafe { ntoskrnl::KeStackAttachProcess(process, state.as_mut_ptr().cast()) };
    let result = work();
    // SAFETY: attached above on this thread.
    unsafe { ntoskrnl::KeUnstackDetachProcess(state.as_mut_ptr().cast()) };
    result
}

/// The identifier of the thread that sent the IRP, if one did.
///
/// # Safety
/// As `current_location`.
pub(crate) unsafe fn requestor_thread(irp: *mut IRP) -> Option<usize> {
    // SAFETY: passed on to the caller.
    let thread = unsafe { (*irp).Tail.Overlay.Thread };
    // SAFETY: Wine holds the thread while it dispatches its IRP.
    (thread != 0).then(|| unsafe { ntoskrnl::PsGetThreadId(thread) })
}

/// Whether the file that an IRP_MJ_CREATE opens is one for overlapped requests: Parameters.Create.Options has neither
/// FILE_SYNCHRONOUS_IO_ALERT nor FILE_SYNCHRONOUS_IO_NONALERT.
///
/// # Safety
/// As `current_location`, for an IRP_MJ_CREATE.
pub(crate) unsafe fn opens_overlapped(irp: *mut IRP) -> bool {
    const MEMBER: usize = 1;
    const SYNCHRONOUS: u32 = 0x30;
    // SAFETY: passed on to the caller; there are four words of parameters.
    let options =
        unsafe { (&raw const (*current_location(irp)).Parameters).cast::<u64>().add(MEMBER).cast::<u32>().read() };
    options & SYNCHRONOUS == 0
}

type Completion = unsafe extern "system" fn(*mut DEVICE_OBJECT, *mut IRP, *mut c_void) -> i32;
type Signal = (Mutex<bool>, Condvar);

unsafe extern "system" fn sent_is_done(_device: *mut DEVICE_OBJECT, _irp: *mut IRP, context: *mut c_void) -> i32 {
    // SAFETY: the context is an `Arc` given away for this call.
    let signal = unsafe { Arc::from_raw(context.cast_const().cast::<Signal>()) };
    *lock(&signal.0) = true;
    signal.1.notify_all();
    STATUS_MORE_PROCESSING_REQUIRED
}

/// Sends a request without parameters for `file`, on behalf of whoever sent `original`, and waits for its status: IRP_MJ_CLEANUP (ifs:
/// irp-mj-cleanup: the last handle to a file object has been closed), and opens, where Wine sends none.
///
/// # Safety
/// `device` and `file` are of `original`'s driver, an IRP that the caller owns; `handler` is the driver's routine for it.
pub(crate) unsafe fn send(
    major: u8,
    device: *mut DEVICE_OBJECT,
    file: *mut FILE_OBJECT,
    original: *mut IRP,
    handler: Dispatch,
) -> Option<i32> {
    // SAFETY: no preconditions beyond the IRQL.
    let irp = unsafe { ntoskrnl::IoAllocateIrp(1, 0) };
    if irp.is_null() {
        violation("stand-in: no memory for an IRP");
        return None;
    }
    let signal = Arc::new((Mutex::new(false), Condvar::new()));
    // SAFETY: a new IRP with one stack location below the current one, which is filled and made current, as IoCallDriver does.
    unsafe {
        let location = current_location(irp).sub(1);
        (*location).MajorFunction = major;
        (*location).DeviceObject = device;
        (*location).FileObject = file;
        // The declaration in windows-sys has lost the routine's parameters.
        (*location).CompletionRoutine =
            Some(std::mem::transmute::<Completion, unsafe extern "system" fn() -> i32>(sent_is_done));
        (*location).Context = Arc::into_raw(Arc::clone(&signal)).cast_mut().cast();
        (*location).Control = SL_INVOKE_ALWAYS;
        (*irp).RequestorMode = USER_MODE;
        (*irp).Tail.Overlay.Thread = (*original).Tail.Overlay.Thread;
        (*irp).Tail.Overlay.OriginalFileObject = file;
        (*irp).CurrentLocation -= 1;
        (*irp).Tail.Overlay.Anonymous2.Anonymous.CurrentStackLocation = location;
        ntoskrnl::SoftNdkStandInIrp(irp, file);
    }
    // SAFETY: the driver's routine, called with a live IRP.
    let returned = kernel::balanced("a dispatch routine", || unsafe { handler(device, irp) });
    let (done, timeout) =
        signal.1.wait_timeout_while(lock(&signal.0), PATIENCE, |done| !*done).unwrap_or_else(PoisonError::into_inner);
    drop(done);
    if timeout.timed_out() {
        violation(&format!("request {major:#04x} was not completed (the routine returned {returned:#010x})"));
        return None; // The IRP is still the driver's.
    }
    // SAFETY: completed, and kept from being freed by the completion routine.
    let ended = unsafe { (*irp).IoStatus.Anonymous.Status };
    // SAFETY: as above.
    unsafe { ntoskrnl::IoFreeIrp(irp) };
    Some(ended)
}

/// An IRP and its device on their way to another thread.
pub(crate) struct Job {
    pub(crate) device: Shared<DEVICE_OBJECT>,
    pub(crate) irp: Shared<IRP>,
    /// What `SoftNdkStandInIrp` returned for it.
    pub(crate) number: u64,
    /// Of a file for overlapped requests.
    pub(crate) is_overlapped: bool,
    pub(crate) handler: Dispatch,
}

impl Job {
    /// Hands the IRP to the driver, in the requestor's process.
    pub(crate) fn run(self) {
        let (device, irp) = (self.device.get(), self.irp.get());
        // SAFETY: the IRP was marked pending and belongs to this job; the driver's routine takes it over.
        let returned = unsafe { in_requestor(irp, || (self.handler)(device, irp)) };
        // The IRP may be gone. A status other than pending means that it was completed with it.
        if returned == status::PENDING {
            return;
        }
        // SAFETY: only the address is used.
        if unsafe { ntoskrnl::SoftNdkStandInHasIrp(irp, self.number) } != 0 {
            violation(&format!("a dispatch routine returned {returned:#010x} without completing the IRP"));
        }
        // Wine is told that all of them pend, so that the caller is told once here. On Windows the I/O manager returns the status, and sets
        // the event and queues the packet, of all that is no error.
        if self.is_overlapped && NTSTATUS(returned).is_warning() {
            violation(&format!(
                "an overlapped request ended in its dispatch routine with the warning {returned:#010x}: Windows tells the caller \
                 twice, as the call's status and by event and packet (one that pends is told of once)"
            ));
        }
    }
}
