//! The control device `\\.\SoftNdk`: made with NdisRegisterDeviceEx, as a miniport must, since NDIS owns the driver's
//! dispatch table.
//!
//! It comes with the first adapter and goes with the last: while a device object exists the driver is not unloaded.
//! Only SYSTEM, administrators and the groups that the first adapter names may open it, under its exact name, and only 64-bit
//! processes (the structures of 32-bit ones would be laid out differently).
//!
//! A file serves the process that opened it, and ends with it: the memory it locks is that process's, which must have none
//! locked when it is gone. The last handle may be closed later, as it can be inherited or duplicated.
#![expect(unsafe_code, reason = "dispatch routines that the I/O manager calls, and calls into NDIS")]

use core::{array, ffi::c_void, mem::ManuallyDrop, ptr::null_mut};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        DRIVER_DISPATCH, NDIS_DEVICE_OBJECT_ATTRIBUTES, NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1, NDIS_OBJECT_HEADER,
        NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES, NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
    },
    status::{
        NDIS_STATUS, NDIS_STATUS_RESOURCES, NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_HANDLE, STATUS_NOT_SUPPORTED, STATUS_OBJECT_NAME_NOT_FOUND,
        STATUS_SUCCESS,
    },
};
use platform::{Arc, DISPATCH_LEVEL, Passive};
use wdk_sys::{
    _MODE::UserMode,
    BOOLEAN, FILE_OBJECT, HANDLE, IRP_MJ_CLEANUP, IRP_MJ_CLOSE, IRP_MJ_CREATE, IRP_MJ_DEVICE_CONTROL,
    IRP_MJ_MAXIMUM_FUNCTION, POBJECT_TYPE,
    ntddk::{ObReferenceObjectByHandle, ObfDereferenceObject, PsGetCurrentProcessId, PsSetCreateProcessNotifyRoutine},
};

use crate::{
    critical_region::CriticalRegion,
    driver,
    host::KernelHost,
    irp::{Cancelled, Irp},
    mutex::{self, Mutex},
    ndis::{self, Handle},
    platform::Windows,
    registry::Registry,
    unicode::{unicode_string, wide},
};

#[link(name = "ntoskrnl")]
unsafe extern "C" {
    /// The type of file objects. wdm.h has `extern POBJECT_TYPE *IoFileObjectType`, whose symbol is the import's slot, as it is not
    /// `__declspec(dllimport)`. With the library that it is imported from, a declaration is the variable itself: one pointer less.
    static IoFileObjectType: POBJECT_TYPE;
}

/// `FILE_DEVICE_SECURE_OPEN` of wdm.h: the device's security descriptor holds for names below it too.
const SECURE_OPEN: u32 = 0x100;

/// The routine of the device for a major function. NDIS completes requests that have none.
fn dispatch_routine(major_function: usize) -> Option<DRIVER_DISPATCH> {
    match major_function as u32 {
        IRP_MJ_CREATE => Some(create),
        IRP_MJ_CLEANUP => Some(cleanup),
        IRP_MJ_CLOSE => Some(close),
        IRP_MJ_DEVICE_CONTROL => Some(device_control),
        _ => None,
    }
}

/// The control device of one adapter, as the IOCTL protocol sees it.
type ControlDevice = nd_ioctl::Device<KernelHost>;

/// An open of the device; `FileObject->FsContext` holds a reference from create to close.
struct OpenFile {
    /// The number of the process that opened it.
    process: usize,
    device: Arc<ControlDevice, Windows>,
    file: nd_ioctl::File<KernelHost>,
}

/// The control device and what depends on it.
struct Control {
    /// The device, while there is one.
    device: Option<Registered>,
    /// One for each adapter. The first serves new opens.
    adapters: Registry<ControlDevice>,
    /// Open files that are not cleaned up, of adapters that are gone too.
    files: Registry<OpenFile>,
}

/// The device object, and what NDIS calls it.
struct Registered {
    object: *mut c_void,
    handle: Handle,
}

// SAFETY: the object is only compared.
unsafe impl Send for Registered {}

static CONTROL: Mutex<Control> =
    Mutex::new(Control { device: None, adapters: Registry::new(), files: Registry::new() });

/// An adapter's part of the control device, to be given to [`remove`] once.
#[derive(Clone)]
pub(crate) struct Registration(Arc<ControlDevice, Windows>);

/// Once, in DriverEntry, before anything else here.
pub(crate) fn initialize() {
    // SAFETY: a static, and DriverEntry comes first.
    unsafe { mutex::initialize(&CONTROL) };
}

/// Adds an adapter; with the first one comes the device, with its security descriptor (SDDL).
pub(crate) fn add(host: KernelHost, security: &[u16], passive: &Passive<'_>) -> Result<Registration, NDIS_STATUS> {
    let device = nd_ioctl::Device::new(host).and_then(Arc::try_new).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let mut control = CONTROL.lock();
    control.adapters.insert(device.clone()).map_err(|_| NDIS_STATUS_RESOURCES)?;
    if control.device.is_none() {
        match register(security, passive) {
            Ok(registered) => control.device = Some(registered),
            Err(status) => {
                control.adapters.remove(&device);
                control.adapters.shrink();
                return Err(status);
            }
        }
    }
    Ok(Registration(device))
}

/// Closes all that files opened on an adapter. They stay open, but have nothing to work with any more: requests that name
/// or want a handle fail.
pub(crate) fn close_files(Registration(device): &Registration, passive: &Passive<'_>) {
    #[cfg(feature = "test-consumer")]
    device.host().stop_consumer(passive);
    clean_up_files(|open| Arc::ptr_eq(&open.device, device), passive);
}

/// Takes an adapter away, and closes its files.
pub(crate) fn remove(registration: Registration, passive: &Passive<'_>) {
    let mut control = CONTROL.lock();
    control.adapters.remove(&registration.0);
    control.adapters.shrink();
    drop(control);
    #[cfg(feature = "test-consumer")]
    registration.0.host().close_consumer(passive);
    close_files(&registration, passive);
    let mut control = CONTROL.lock();
    if control.adapters.iter().next().is_none()
        && let Some(Registered { handle: Handle(handle), .. }) = control.device.take()
    {
        // SAFETY: registered by `register`, deregistered once. File objects keep the device object as long as they need.
        unsafe { ndis::NdisDeregisterDeviceEx(handle) };
    }
}

/// Cleans up all files that `wanted` accepts, or waits until whoever does so is done. Not under the mutex: others must be able
/// to open, close and remove meanwhile.
fn clean_up_files(wanted: impl Fn(&OpenFile) -> bool, passive: &Passive<'_>) {
    loop {
        let next = CONTROL.lock().files.iter().find(|open| wanted(open)).cloned();
        let Some(open) = next else { return };
        clean_up(&open, passive);
    }
}

fn clean_up(open: &Arc<OpenFile, Windows>, passive: &Passive<'_>) {
    open.file.cleanup(passive);
    let mut control = CONTROL.lock();
    control.files.remove(open);
    control.files.shrink();
}

/// Begins to watch for the end of processes; once, in DriverEntry, after [`initialize`]. PASSIVE_LEVEL.
pub(crate) fn watch_processes() -> Result<(), NTSTATUS> {
    // SAFETY: a routine of the right type, taken back by `ignore_processes` before it is unloaded.
    let status = NTSTATUS(unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 0) });
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// Ends what [`watch_processes`] began, waiting for calls in progress. PASSIVE_LEVEL.
pub(crate) fn ignore_processes() {
    // SAFETY: registered by `watch_processes`, taken back once.
    let _it_was_registered = unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 1) };
}

/// A process begins or ends. PASSIVE_LEVEL, in a critical region; at the end in the context of its last thread, while its
/// memory is still there (ddi: nc-ntddk-pcreate_process_notify_routine).
unsafe extern "C" fn process_changed(_parent: HANDLE, process: HANDLE, created: BOOLEAN) {
    if created == 0 {
        // SAFETY: the kernel calls this at PASSIVE_LEVEL.
        let passive = unsafe { Passive::assume::<Windows>() };
        clean_up_files(|open| open.process == process.addr(), &passive);
    }
}

/// The number of the current process. A number is used again only when its process is gone, and its files are by then.
pub(crate) fn current_process() -> usize {
    // SAFETY: no preconditions.
    unsafe { PsGetCurrentProcessId() }.addr()
}

/// Makes the device.
fn register(security: &[u16], _passive: &Passive<'_>) -> Result<Registered, NDIS_STATUS> {
    let mut name = unicode_string(wide!(r"\Device\SoftNdk"));
    let mut link = unicode_string(wide!(r"\DosDevices\SoftNdk"));
    let security = unicode_string(security);
    let mut routines: [_; IRP_MJ_MAXIMUM_FUNCTION as usize + 1] = array::from_fn(dispatch_routine);
    let mut attributes = NDIS_DEVICE_OBJECT_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES,
            NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
        ),
        DeviceName: &raw mut name,
        SymbolicName: &raw mut link,
        MajorFunctions: routines.as_mut_ptr(),
        DefaultSDDLString: &raw const security,
        ..NDIS_DEVICE_OBJECT_ATTRIBUTES::ZERO
    };
    let (mut device, mut handle) = (null_mut(), null_mut());
    // SAFETY: complete attributes and out parameters that outlive the call; PASSIVE_LEVEL by the token.
    let status =
        unsafe { ndis::NdisRegisterDeviceEx(driver::ndis(), &raw mut attributes, &raw mut device, &raw mut handle) };
    if status != STATUS_SUCCESS {
        return Err(status);
    }
    // NdisRegisterDeviceEx has no parameter for it. Nobody knows of the device yet but for its name, which `create`
    // insists on.
    // SAFETY: the device object just made; its characteristics are read by the I/O manager at opens only.
    unsafe { (*device).Characteristics |= SECURE_OPEN };
    Ok(Registered { object: device.cast(), handle: Handle(handle) })
}

/// Takes from the device what has its security descriptor hold for names below it, to be caught.
#[cfg(feature = "planted-faults")]
pub(crate) fn open_names() {
    if let Some(Registered { object, .. }) = &CONTROL.lock().device {
        // SAFETY: the device object, which lives until it is deregistered, under the mutex that is held.
        unsafe { (*object.cast::<wdk_sys::DEVICE_OBJECT>()).Characteristics &= !SECURE_OPEN };
    }
}

/// IRP_MJ_CREATE.
unsafe extern "system" fn create(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    let status = match open(&irp) {
        Ok(()) => STATUS_SUCCESS,
        Err(status) => status,
    };
    irp.complete(status, 0)
}

fn open(irp: &Irp) -> Result<(), NTSTATUS> {
    let file_object = irp.file_object();
    // SAFETY: the file object of an IRP in progress.
    let name_length = unsafe { (*file_object).FileName.Length };
    if name_length != 0 {
        return Err(STATUS_OBJECT_NAME_NOT_FOUND);
    }
    if irp.is_32bit() {
        return Err(STATUS_NOT_SUPPORTED);
    }
    let mut control = CONTROL.lock();
    let device = control.adapters.iter().next().cloned().ok_or(STATUS_DEVICE_REMOVED)?;
    let process = current_process();
    let file = device.open(process as u64)?;
    let open = Arc::try_new(OpenFile { process, device, file }).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
    control.files.insert(open.clone()).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
    // SAFETY: this device's file objects are this driver's to put a context in; nobody reads it before the create ends.
    unsafe { (*file_object).FsContext = Arc::into_raw(open).cast_mut().cast() };
    Ok(())
}

/// The open file behind a file object, kept. `None`: its create failed; Windows sends such a file nothing, Wine does.
///
/// # Safety
/// `file_object` is this device's, and its `close` has not begun.
unsafe fn open_file(file_object: *mut FILE_OBJECT) -> Option<Arc<OpenFile, Windows>> {
    // SAFETY: valid, by contract.
    let left = unsafe { left_reference(file_object) }?;
    Some(Arc::clone(&left))
}

/// The reference that `open` left in a file object.
///
/// # Safety
/// As for `open_file`; the reference is taken out of its wrapper by `close` only, once.
unsafe fn left_reference(file_object: *mut FILE_OBJECT) -> Option<ManuallyDrop<Arc<OpenFile, Windows>>> {
    // SAFETY: valid, by contract.
    let context = unsafe { (*file_object).FsContext };
    if context.is_null() {
        return None;
    }
    // SAFETY: `open` left a reference there.
    let left = unsafe { Arc::from_raw(context.cast_const().cast()) };
    Some(ManuallyDrop::new(left))
}

/// Gives `share` the file behind a handle of the current process. STATUS_INVALID_HANDLE or STATUS_OBJECT_TYPE_MISMATCH: it is none
/// of this device.
pub(crate) fn file_of_handle<R>(
    handle: u64,
    share: impl FnOnce(&nd_ioctl::File<KernelHost>) -> R,
    _passive: &Passive<'_>,
) -> Result<R, NTSTATUS> {
    let mut file_object = null_mut();
    // SAFETY: set by the kernel, and never changed.
    let file_type = unsafe { IoFileObjectType };
    // SAFETY: a place for the result; as the request is from user mode, so is the handle; PASSIVE_LEVEL by the token. No access is
    // asked for: what it allows is checked for each request.
    let status = NTSTATUS(unsafe {
        ObReferenceObjectByHandle(handle as HANDLE, 0, file_type, UserMode as i8, &raw mut file_object, null_mut())
    });
    if status != STATUS_SUCCESS {
        return Err(status);
    }
    let file_object = file_object.cast::<FILE_OBJECT>();
    // SAFETY: an object of the type that was asked for, referenced.
    let device = unsafe { (*file_object).DeviceObject };
    let is_ours = CONTROL.lock().device.as_ref().is_some_and(|ours| ours.object == device.cast());
    // SAFETY: of this device, and referenced, so that it is not closed.
    let open = if is_ours { unsafe { open_file(file_object) } } else { None };
    // SAFETY: referenced above.
    unsafe { ObfDereferenceObject(file_object.cast()) };
    Ok(share(&open.ok_or(STATUS_INVALID_HANDLE)?.file))
}

/// IRP_MJ_DEVICE_CONTROL. PASSIVE_LEVEL, in the requestor's process.
unsafe extern "system" fn device_control(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    let _region = CriticalRegion::enter();
    // SAFETY: the I/O manager calls this at PASSIVE_LEVEL for requests of user mode; others are refused below.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: a request of the file. It is kept beyond the request's completion, with which it may go.
    match unsafe { open_file(irp.file_object()) } {
        Some(open) if irp.is_from_user() => {
            // SAFETY: the cancel routine of these requests.
            let request = unsafe { irp.into_request(cancel) };
            open.file.dispatch(request, current_process() as u64, &passive)
        }
        Some(_) => irp.complete(STATUS_INVALID_DEVICE_REQUEST, 0),
        None => irp.complete(STATUS_INVALID_HANDLE, 0),
    }
}

/// The cancel routine of a request that [`device_control`] pended.
unsafe extern "system" fn cancel(_device: *mut c_void, irp: *mut c_void) {
    // SAFETY: the IRP of this routine; nobody completes the request before `cancel` below.
    let Cancelled { id, file_object, irql } = unsafe { Cancelled::begin(irp) };
    // At DISPATCH_LEVEL nothing can suspend the thread, and a critical region can't be entered.
    let _region = (irql < DISPATCH_LEVEL).then(CriticalRegion::enter);
    // SAFETY: a request in progress keeps its file. It is kept beyond the request's completion, with which it may go.
    if let Some(open) = unsafe { open_file(file_object) } {
        open.file.cancel(id);
    }
}

/// IRP_MJ_CLEANUP: the last handle is closed, requests may be in progress. PASSIVE_LEVEL.
unsafe extern "system" fn cleanup(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    let _region = CriticalRegion::enter();
    // SAFETY: the I/O manager calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: a request of the file.
    if let Some(open) = unsafe { open_file(irp.file_object()) } {
        clean_up(&open, &passive);
    }
    irp.complete(STATUS_SUCCESS, 0)
}

/// IRP_MJ_CLOSE: the last request is done, too. PASSIVE_LEVEL.
unsafe extern "system" fn close(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: the last request of the file; the reference is taken here, once.
    if let Some(open) = unsafe { left_reference(irp.file_object()) } {
        drop(ManuallyDrop::into_inner(open));
    }
    irp.complete(STATUS_SUCCESS, 0)
}
