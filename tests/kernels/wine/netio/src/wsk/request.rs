//! IRPs that a client gives: checked, and completed once.

use std::{
    cell::Cell,
    collections::BTreeSet,
    ffi::c_void,
    sync::{
        Mutex,
        atomic::{AtomicPtr, AtomicU64, Ordering},
    },
};

use kernel::{DEVICE_OBJECT, DISPATCH_LEVEL, IO_STACK_LOCATION, IRP, Shared, ntoskrnl, object, violation};

use super::{
    client, port,
    socket::{self, Kind},
};
use crate::lock;

const REQUEST: &str = "WSK request";
/// SL_INVOKE_ON_CANCEL, _ON_SUCCESS, _ON_ERROR.
const INVOKE_ALWAYS: u8 = 0xE0;
const MORE_PROCESSING_REQUIRED: i32 = 0xC000_0016_u32.cast_signed();

type Routine = unsafe extern "system" fn(*mut DEVICE_OBJECT, *mut IRP, *mut c_void) -> i32;

thread_local! {
    static IN_ROUTINE: Cell<bool> = const { Cell::new(false) };
}

/// The IRPs that are not completed.
static UNDER_WAY: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
static LAST: AtomicU64 = AtomicU64::new(0);

/// What holds for every function that takes an IRP or a socket.
pub(super) fn check_call(function: &str) {
    kernel::at_most(DISPATCH_LEVEL, function);
    if IN_ROUTINE.get() {
        violation(&format!("{function} called by a completion routine"));
    }
}

/// What a client has put into its IRP.
struct Own {
    routine: Routine,
    context: *mut c_void,
}

/// An IRP that is not completed.
pub(super) struct Request {
    irp: Shared<IRP>,
    /// In the IRP too, as a cancel routine knows nothing else.
    number: u64,
    /// Whether there is somebody to tell.
    has_routine: bool,
    /// What its socket is, if it has one.
    pub(super) kind: Kind,
    /// What its client waits for before it is deregistered, if it has no socket.
    pub(super) call: Option<client::Call>,
}

impl Request {
    /// Takes an IRP. `None`: it cannot be used.
    pub(super) fn begin(function: &str, irp: *mut c_void) -> Option<Self> {
        check_call(function);
        if irp.is_null() {
            violation(&format!("{function}: no IRP"));
            return None;
        }
        if !lock(&UNDER_WAY).insert(irp as usize) {
            violation(&format!("{function}: the IRP is in use"));
            return None;
        }
        let irp = irp.cast::<IRP>();
        // SAFETY: the caller gives an IRP that is not in use.
        let (count, location) = unsafe { ((*irp).StackCount, (*irp).CurrentLocation) };
        if count < 1 || location != count + 1 {
            violation(&format!("{function}: the IRP was not prepared for this use"));
            lock(&UNDER_WAY).remove(&(irp as usize));
            return None;
        }
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        // IoSetNextIrpStackLocation; the location is the client's until then.
        // SAFETY: an IRP with a location that is not in use.
        let location: &mut IO_STACK_LOCATION = unsafe {
            (*irp).CurrentLocation -= 1;
            let current = &mut (*irp).Tail.Overlay.Anonymous2.Anonymous.CurrentStackLocation;
            *current = current.sub(1);
            &mut **current
        };
        if location.Control & INVOKE_ALWAYS != INVOKE_ALWAYS {
            violation(&format!("{function}: the IRP's completion routine is not to be called whatever comes"));
        }
        let has_routine = match location.CompletionRoutine {
            Some(routine) => {
                // SAFETY: IO_COMPLETION_ROUTINE, whatever the bindings make of its parameters.
                let routine = unsafe { std::mem::transmute_copy::<_, Routine>(&routine) };
                let own = Box::new(Own { routine, context: location.Context });
                // SAFETY: as above.
                location.CompletionRoutine = Some(unsafe { std::mem::transmute_copy(&(completed as Routine)) });
                location.Context = Box::into_raw(own).cast();
                true
            }
            None => {
                violation(&format!("{function}: the IRP has no completion routine"));
                false
            }
        };
        object(REQUEST, 1);
        Some(Self { irp: Shared(irp), number, has_routine, kind: Kind::Connection, call: None })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Completes the IRP. At IRQL <= DISPATCH_LEVEL, no lock held.
    pub(super) fn complete(self, status: i32, information: usize) {
        self.forbid_cancel();
        let irp = self.irp.get();
        lock(&UNDER_WAY).remove(&(irp as usize));
        object(REQUEST, -1);
        // SAFETY: taken by `begin`, completed once as this consumes it.
        unsafe {
            (*irp).IoStatus.Anonymous.Status = status;
            (*irp).IoStatus.Information = information;
            if self.has_routine {
                ntoskrnl::IofCompleteRequest(irp, 0);
            }
        }
    }

    fn cancel_routine(&self) -> &AtomicPtr<c_void> {
        // SAFETY: a field of a live IRP, used by everyone as an atomic one (IoSetCancelRoutine).
        unsafe { AtomicPtr::from_ptr((&raw mut (*self.irp.get()).CancelRoutine).cast()) }
    }

    /// Lets the client cancel it from now on. False: it has been cancelled.
    pub(super) fn allow_cancel(&self) -> bool {
        // SAFETY: the context belongs to whom the IRP was given.
        unsafe {
            let own = &mut (*self.irp.get()).Tail.Overlay.Anonymous1.Anonymous.DriverContext;
            own[0] = std::ptr::without_provenance_mut(self.number as usize);
            own[1] = std::ptr::without_provenance_mut(self.kind as usize);
        }
        self.cancel_routine().store(cancel as *mut c_void, Ordering::SeqCst);
        // SAFETY: a field that IoCancelIrp writes.
        let cancelled = unsafe { (&raw const (*self.irp.get()).Cancel).cast::<u8>().read_volatile() } != 0;
        !cancelled || self.cancel_routine().swap(std::ptr::null_mut(), Ordering::SeqCst).is_null()
    }

    /// From now on nobody cancels it, or is cancelling it still.
    fn forbid_cancel(&self) {
        if self.cancel_routine().swap(std::ptr::null_mut(), Ordering::SeqCst).is_null() {
            let mut irql = 0;
            // SAFETY: taken and released; a cancel routine reads the IRP with the lock held.
            unsafe {
                ntoskrnl::IoAcquireCancelSpinLock(&mut irql);
                ntoskrnl::IoReleaseCancelSpinLock(irql);
            }
        }
    }
}

/// The cancel routine of requests that wait.
unsafe extern "system" fn cancel(_device: *mut DEVICE_OBJECT, irp: *mut IRP) {
    // SAFETY: the IRP is not completed as long as the lock is held.
    let (own, irql) = unsafe { ((*irp).Tail.Overlay.Anonymous1.Anonymous.DriverContext, (*irp).CancelIrql) };
    // SAFETY: held on entry.
    unsafe { ntoskrnl::IoReleaseCancelSpinLock(irql) };
    let number = own[0] as u64;
    let kind = Kind::ALL.into_iter().find(|kind| *kind as usize == own[1] as usize).unwrap_or(Kind::Connection);
    port::post(kind, move || socket::cancel(number));
}

/// In place of the client's routine.
unsafe extern "system" fn completed(device: *mut DEVICE_OBJECT, irp: *mut IRP, own: *mut c_void) -> i32 {
    // SAFETY: put there by `begin`, called once.
    let own = unsafe { Box::from_raw(own.cast::<Own>()) };
    let outer = IN_ROUTINE.replace(true);
    // SAFETY: the client's routine and its context.
    let result = kernel::balanced("a completion routine", || unsafe { (own.routine)(device, irp, own.context) });
    IN_ROUTINE.set(outer);
    if result != MORE_PROCESSING_REQUIRED {
        violation("a completion routine of a WSK request did not return STATUS_MORE_PROCESSING_REQUIRED");
    }
    // Not to be passed on: there is nothing above in an IRP of the client's own.
    MORE_PROCESSING_REQUIRED
}
