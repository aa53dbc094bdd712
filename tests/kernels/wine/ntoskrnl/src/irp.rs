//! I/O requests, device objects, cancel-safe queues.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    base::{self, status},
    file_requests,
    irql::{self, APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL},
    open_files,
    report::{self, violation},
};

base::wine! {
    fn IofCompleteRequest(irp: *mut Irp, boost: i8);
    fn IoCreateDevice(
        driver: *mut c_void,
        extension: u32,
        name: *const c_void,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        device: *mut *mut c_void,
    ) -> i32;
    fn IoCreateDeviceSecure(
        driver: *mut c_void,
        extension: u32,
        name: *const c_void,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        descriptor: *const c_void,
        class: *const c_void,
        device: *mut *mut c_void,
    ) -> i32;
    fn IoDeleteDevice(device: *mut c_void);
    fn IoCreateSymbolicLink(link: *const c_void, target: *const c_void) -> i32;
    fn IoDeleteSymbolicLink(link: *const c_void) -> i32;
    fn IoAcquireCancelSpinLock(irql: *mut u8);
    fn IoReleaseCancelSpinLock(irql: u8);
}

/// `IRP` (wdm.h) as far as it is used here.
#[repr(C)]
pub(crate) struct Irp {
    head: [u8; 0x30],
    status: i32,
    information: usize,
    requestor_mode: i8,
    pending_returned: u8,
    stack_count: i8,
    current_location: i8,
    pub(crate) cancel: u8,
    pub(crate) cancel_irql: u8,
    gap: [u8; 0x22],
    cancel_routine: usize,
    user_buffer: usize,
    driver_context: [*mut c_void; 4],
}

const _: () = assert!(std::mem::offset_of!(Irp, cancel) == 0x44);
const _: () = assert!(std::mem::offset_of!(Irp, cancel_routine) == 0x68);
const _: () = assert!(std::mem::offset_of!(Irp, driver_context) == 0x78);

const STATUS_PENDING: i32 = 0x103;
const DEVICE: &str = "device object";
const SYMBOLIC_LINK: &str = "symbolic link";

thread_local! {
    /// Whether this thread took the cancel lock itself. Wine takes it too, before it calls a cancel routine, without raising.
    static HOLDS_CANCEL_LOCK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// IRPs that were given to the driver and that it has not completed yet, each with a number of its own, as addresses are used again,
/// and the address of its file object.
static IRPS: Mutex<BTreeMap<usize, (u64, usize)>> = Mutex::new(BTreeMap::new());
static LAST_IRP: AtomicU64 = AtomicU64::new(0);
/// Kind of object in the report.
const IRP_OBJECT: &str = "IRP not completed";

/// Records that `irp`, a request of `file`, is given to the driver: from now on it is an object that has to go. Returns its number.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInIrp(irp: *mut Irp, file: *mut c_void) -> u64 {
    let number = LAST_IRP.fetch_add(1, Ordering::Relaxed) + 1;
    file_requests::begin(file.addr());
    report::lock(&IRPS).insert(irp as usize, (number, file.addr()));
    report::object(IRP_OBJECT, 1);
    number
}

/// Whether the IRP of this number has not been completed.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInHasIrp(irp: *mut Irp, number: u64) -> u8 {
    report::lock(&IRPS).get(&(irp as usize)).is_some_and(|(found, _)| *found == number).into()
}

pub(crate) mod export {
    use super::*;

    /// wdm/nf-wdm-iofcompleterequest: at most DISPATCH_LEVEL; no cancel routine set, status not STATUS_PENDING.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IofCompleteRequest(irp: *mut Irp, boost: i8) {
        irql::at_most(DISPATCH_LEVEL, "IoCompleteRequest");
        // SAFETY: the caller gives an IRP that it owns.
        let object = unsafe { &*irp };
        if object.status == STATUS_PENDING {
            violation("IoCompleteRequest: the IRP's status is STATUS_PENDING");
        }
        if object.cancel_routine != 0 {
            violation("IoCompleteRequest: the IRP still has a cancel routine");
        }
        if object.current_location > object.stack_count + 1 {
            violation("IoCompleteRequest: the IRP has been completed already");
            return;
        }
        let given = report::lock(&IRPS).remove(&(irp as usize));
        if given.is_some() {
            report::object(IRP_OBJECT, -1);
        } else if object.current_location <= object.stack_count {
            // SAFETY: it has a current stack location.
            unsafe { open_files::completing(irp.cast(), object.status) };
        }
        // SAFETY: the caller keeps the contract.
        irql::without_processor(|| unsafe { super::IofCompleteRequest(irp, boost) });
        if let Some((_, file)) = given {
            file_requests::end(file);
        }
    }

    /// The function of the same purpose that older kits import.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoCompleteRequest(irp: *mut Irp, boost: i8) {
        // SAFETY: the caller keeps the contract.
        unsafe { IofCompleteRequest(irp, boost) };
    }

    /// wdm/nf-wdm-iocreatedevice: at most APC_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoCreateDevice(
        driver: *mut c_void,
        extension: u32,
        name: *const c_void,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        device: *mut *mut c_void,
    ) -> i32 {
        irql::at_most(APC_LEVEL, "IoCreateDevice");
        // SAFETY: the caller keeps the contract.
        let result =
            unsafe { super::IoCreateDevice(driver, extension, name, kind, characteristics, exclusive, device) };
        report::object(DEVICE, (result >= status::SUCCESS).into());
        result
    }

    /// wdmsec/nf-wdmsec-wdmlibiocreatedevicesecure: PASSIVE_LEVEL. Drivers find it by MmGetSystemRoutineAddress.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoCreateDeviceSecure(
        driver: *mut c_void,
        extension: u32,
        name: *const c_void,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        descriptor: *const c_void,
        class: *const c_void,
        device: *mut *mut c_void,
    ) -> i32 {
        irql::at_most(PASSIVE_LEVEL, "IoCreateDeviceSecure");
        // SAFETY: the caller keeps the contract.
        let result = unsafe {
            super::IoCreateDeviceSecure(
                driver,
                extension,
                name,
                kind,
                characteristics,
                exclusive,
                descriptor,
                class,
                device,
            )
        };
        report::object(DEVICE, (result >= status::SUCCESS).into());
        if result >= status::SUCCESS {
            open_files::watch(driver);
        }
        result
    }

    /// wdm/nf-wdm-iodeletedevice: at most APC_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoDeleteDevice(device: *mut c_void) {
        irql::at_most(APC_LEVEL, "IoDeleteDevice");
        report::object(DEVICE, -1);
        // SAFETY: the caller keeps the contract.
        unsafe { super::IoDeleteDevice(device) };
    }

    /// wdm/nf-wdm-iocreatesymboliclink: PASSIVE_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoCreateSymbolicLink(link: *const c_void, target: *const c_void) -> i32 {
        irql::at_most(PASSIVE_LEVEL, "IoCreateSymbolicLink");
        // SAFETY: the caller keeps the contract.
        let result = unsafe { super::IoCreateSymbolicLink(link, target) };
        report::object(SYMBOLIC_LINK, (result >= status::SUCCESS).into());
        result
    }

    /// wdm/nf-wdm-iodeletesymboliclink: PASSIVE_LEVEL.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn IoDeleteSymbolicLink(link: *const c_void) -> i32 {
        irql::at_most(PASSIVE_LEVEL, "IoDeleteSymbolicLink");
        // SAFETY: the caller keeps the contract.
        let result = unsafe { super::IoDeleteSymbolicLink(link) };
        report::object(SYMBOLIC_LINK, if result >= status::SUCCESS { -1 } else { 0 });
        result
    }

    /// wdm/nf-wdm-ioacquirecancelspinlock: at most DISPATCH_LEVEL; stores the old IRQL.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "system" fn IoAcquireCancelSpinLock(irql: *mut u8) {
        irql::at_most(DISPATCH_LEVEL, "IoAcquireCancelSpinLock");
        let old = irql::raise(DISPATCH_LEVEL);
        let mut ignored = 0;
        // SAFETY: a place for Wine's idea of the old level.
        unsafe { super::IoAcquireCancelSpinLock(&mut ignored) };
        HOLDS_CANCEL_LOCK.set(true);
        // SAFETY: the caller gives a place for the level.
        unsafe { irql.write(old) };
    }

    /// wdm/nf-wdm-ioreleasecancelspinlock: at DISPATCH_LEVEL. A cancel routine is called by Wine at PASSIVE_LEVEL, since it
    /// knows no other; there only the lock is released.
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "system" fn IoReleaseCancelSpinLock(irql: u8) {
        // SAFETY: the caller holds the lock.
        unsafe { super::IoReleaseCancelSpinLock(irql) };
        if HOLDS_CANCEL_LOCK.replace(false) {
            irql::lower(irql);
        }
    }
}

/// `IO_CSQ` (wdm.h), 0x40 bytes: the driver's six routines.
#[repr(C)]
struct Csq {
    kind: u32,
    insert: unsafe extern "system" fn(*mut Csq, *mut Irp),
    remove: unsafe extern "system" fn(*mut Csq, *mut Irp),
    peek_next: unsafe extern "system" fn(*mut Csq, *mut Irp, *mut c_void) -> *mut Irp,
    acquire: unsafe extern "system" fn(*mut Csq, *mut u8),
    release: unsafe extern "system" fn(*mut Csq, u8),
    complete_canceled: unsafe extern "system" fn(*mut Csq, *mut Irp),
    reserved: *mut c_void,
}

/// `IO_CSQ_IRP_CONTEXT` (wdm.h), 0x18 bytes.
#[repr(C)]
struct CsqContext {
    kind: u32,
    irp: *mut Irp,
    csq: *mut Csq,
}

const _: () = assert!(size_of::<Csq>() == 0x40);
const _: () = assert!(size_of::<CsqContext>() == 0x18);

const CSQ: u32 = 1;
const CSQ_IRP_CONTEXT: u32 = 2;
/// Where the queue keeps its own or its context's address in the IRP: `DriverContext[3]`, documented as the queue's.
const CSQ_SLOT: usize = 3;
const CURRENT_STACK_LOCATION: usize = 0xB8;
const SL_PENDING_RETURNED: u8 = 1;

/// `IoSetCancelRoutine` (wdm.h): an atomic exchange.
pub(crate) fn set_cancel_routine(irp: *mut Irp, routine: usize) -> usize {
    // SAFETY: a queued IRP is valid, and the field is only exchanged atomically.
    let word = unsafe { std::sync::atomic::AtomicUsize::from_ptr(&raw mut (*irp).cancel_routine) };
    word.swap(routine, Ordering::AcqRel)
}

/// Calls the queue's lock and unlock routines around `work`.
///
/// # Safety
/// `csq` is an initialised queue.
unsafe fn locked<T>(csq: *mut Csq, work: impl FnOnce() -> T) -> T {
    let mut level = 0;
    // SAFETY: the driver's routines, called as wdm/nf-wdm-iocsqinitialize says.
    unsafe { ((*csq).acquire)(csq, &mut level) };
    let result = work();
    // SAFETY: as above.
    unsafe { ((*csq).release)(csq, level) };
    result
}

/// wdm/nf-wdm-iocsqinitialize: any IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCsqInitialize(
    csq: *mut Csq,
    insert: unsafe extern "system" fn(*mut Csq, *mut Irp),
    remove: unsafe extern "system" fn(*mut Csq, *mut Irp),
    peek_next: unsafe extern "system" fn(*mut Csq, *mut Irp, *mut c_void) -> *mut Irp,
    acquire: unsafe extern "system" fn(*mut Csq, *mut u8),
    release: unsafe extern "system" fn(*mut Csq, u8),
    complete_canceled: unsafe extern "system" fn(*mut Csq, *mut Irp),
) -> i32 {
    let queue = Csq {
        kind: CSQ,
        insert,
        remove,
        peek_next,
        acquire,
        release,
        complete_canceled,
        reserved: std::ptr::null_mut(),
    };
    // SAFETY: the caller gives the storage of an IO_CSQ.
    unsafe { csq.write(queue) };
    status::SUCCESS
}

/// The cancel routine of queued IRPs.
unsafe extern "system" fn csq_cancel(_device: *mut c_void, irp: *mut Irp) {
    // SAFETY: Wine calls this with the cancel lock held and an IRP that was queued with this routine.
    let (cancel_irql, slot) = unsafe { ((*irp).cancel_irql, (*irp).driver_context[CSQ_SLOT]) };
    // SAFETY: a cancel routine releases the cancel lock.
    unsafe { export::IoReleaseCancelSpinLock(cancel_irql) };
    // SAFETY: the slot holds the queue, or a context whose first field tells it apart.
    let csq = if unsafe { *slot.cast::<u32>() } == CSQ_IRP_CONTEXT {
        // SAFETY: a context, as just seen.
        unsafe { (*slot.cast::<CsqContext>()).csq }
    } else {
        slot.cast::<Csq>()
    };
    // SAFETY: the queue is alive while it has IRPs.
    unsafe {
        locked(csq, || {
            ((*csq).remove)(csq, irp);
            if !std::ptr::eq(slot, csq.cast()) {
                (*slot.cast::<CsqContext>()).irp = std::ptr::null_mut();
            }
        });
    }
    // SAFETY: as above; the IRP is off the queue and belongs to this routine.
    unsafe { ((*csq).complete_canceled)(csq, irp) };
}

/// wdm/nf-wdm-iocsqinsertirp: at most DISPATCH_LEVEL; marks the IRP pending; an IRP cancelled before is completed at once.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCsqInsertIrp(csq: *mut Csq, irp: *mut Irp, context: *mut CsqContext) {
    irql::at_most(DISPATCH_LEVEL, "IoCsqInsertIrp");
    // SAFETY: the caller gives an IRP that it owns, a queue, and null or the storage of a context.
    let cancelled = unsafe {
        locked(csq, || {
            let slot = if context.is_null() {
                csq.cast::<c_void>()
            } else {
                context.write(CsqContext { kind: CSQ_IRP_CONTEXT, irp, csq });
                context.cast()
            };
            (*irp).driver_context[CSQ_SLOT] = slot;
            let location = irp.cast::<u8>().add(CURRENT_STACK_LOCATION).cast::<*mut u8>().read();
            *location.add(3) |= SL_PENDING_RETURNED;
            ((*csq).insert)(csq, irp);
            set_cancel_routine(irp, csq_cancel as *const () as usize);
            // Cancelled before the routine was set: whoever takes the routine back completes the IRP.
            let cancelled = (&raw const (*irp).cancel).read_volatile() != 0 && set_cancel_routine(irp, 0) != 0;
            if cancelled {
                ((*csq).remove)(csq, irp);
                if !context.is_null() {
                    (*context).irp = std::ptr::null_mut();
                }
            }
            cancelled
        })
    };
    if cancelled {
        // SAFETY: the IRP is off the queue and no cancel routine will see it.
        unsafe { ((*csq).complete_canceled)(csq, irp) };
    }
}

/// Takes an IRP off the queue, unless its cancel routine has begun.
unsafe fn csq_take(csq: *mut Csq, irp: *mut Irp) -> bool {
    if set_cancel_routine(irp, 0) == 0 {
        return false;
    }
    // SAFETY: called with the queue locked and an IRP that is on it.
    unsafe {
        ((*csq).remove)(csq, irp);
        let slot = (*irp).driver_context[CSQ_SLOT];
        if !std::ptr::eq(slot, csq.cast()) {
            (*slot.cast::<CsqContext>()).irp = std::ptr::null_mut();
        }
    }
    true
}

/// wdm/nf-wdm-iocsqremovenextirp: at most DISPATCH_LEVEL; skips IRPs that are being cancelled; NULL if there is none.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCsqRemoveNextIrp(csq: *mut Csq, peek_context: *mut c_void) -> *mut Irp {
    irql::at_most(DISPATCH_LEVEL, "IoCsqRemoveNextIrp");
    // SAFETY: the caller gives an initialised queue; the IRPs its routine finds are on it.
    unsafe {
        locked(csq, || {
            let mut irp = ((*csq).peek_next)(csq, std::ptr::null_mut(), peek_context);
            while !irp.is_null() && !csq_take(csq, irp) {
                irp = ((*csq).peek_next)(csq, irp, peek_context);
            }
            irp
        })
    }
}

/// wdm/nf-wdm-iocsqremoveirp: at most DISPATCH_LEVEL; NULL if the IRP has been cancelled or removed.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoCsqRemoveIrp(csq: *mut Csq, context: *mut CsqContext) -> *mut Irp {
    irql::at_most(DISPATCH_LEVEL, "IoCsqRemoveIrp");
    // SAFETY: the caller gives an initialised queue and the context of an insertion.
    unsafe {
        locked(csq, || {
            let irp = (*context).irp;
            if irp.is_null() || !csq_take(csq, irp) { std::ptr::null_mut() } else { irp }
        })
    }
}
