//! The control devices `\\.\SoftNdk`, `\\.\SoftNdk2` and so on, one for each adapter. NDIS owns the driver's dispatch table, so the miniport creates
//! the devices by NdisRegisterDeviceEx.
//!
//! A device is created with its adapter and deleted with it: while a device object exists the driver is not unloaded. SYSTEM, administrators and
//! the groups that the adapter's parameters name may open the device, by its exact name, from 64-bit processes: in a 32-bit process the protocol's
//! structures have another layout.
//!
//! A file serves the process that opened it, and is cleaned up at the end of that process: the file locks memory of the process, and a
//! process must have no locked pages when it is gone. The file's last handle may be closed later, as handles can be inherited or
//! duplicated.
#![expect(unsafe_code, reason = "dispatch routines that the I/O manager calls, and calls into NDIS")]

use core::{array, ffi::c_void, mem::ManuallyDrop, ptr::null_mut};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        DRIVER_DISPATCH, NDIS_DEVICE_OBJECT_ATTRIBUTES, NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1, NDIS_OBJECT_HEADER,
        NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES, NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
    },
    softndk_ioctl::SOFTNDK_DEVICE_PATHS,
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
    /// The type of file objects. wdm.h declares `extern POBJECT_TYPE *IoFileObjectType`, without `__declspec(dllimport)`: its symbol is
    /// the slot of the import. This declaration names the import library, so it is the variable itself, with one pointer less.
    static IoFileObjectType: POBJECT_TYPE;
}

/// `FILE_DEVICE_SECURE_OPEN` of wdm.h: the device's security descriptor holds for names below the device too.
const SECURE_OPEN: u32 = 0x100;

/// The dispatch routine for a major function. `None`: NDIS completes the request.
fn dispatch_routine(major_function: usize) -> Option<DRIVER_DISPATCH> {
    match major_function as u32 {
        IRP_MJ_CREATE => Some(create),
        IRP_MJ_CLEANUP => Some(cleanup),
        IRP_MJ_CLOSE => Some(close),
        IRP_MJ_DEVICE_CONTROL => Some(device_control),
        _ => None,
    }
}

type ControlDevice = nd_ioctl::Device<KernelHost>;

/// An open file of the device. `FileObject->FsContext` holds a reference, from IRP_MJ_CREATE to IRP_MJ_CLOSE.
struct OpenFile {
    /// The id of the process that opened the file.
    process: usize,
    device: Arc<ControlDevice, Windows>,
    file: nd_ioctl::File<KernelHost>,
}

/// The control devices and their open files.
struct Control {
    /// The device objects, by the places of their names in [`NAMES`].
    registered: [Option<Registered>; NAMES.len()],
    /// The control devices whose adapters are not being removed.
    adapters: Registry<Adapter>,
    /// The files that are not cleaned up yet, including the files of adapters that are being removed.
    files: Registry<OpenFile>,
}

/// An adapter in the IOCTL protocol, and the place of its device object.
struct Adapter {
    device: Arc<ControlDevice, Windows>,
    place: usize,
}

/// A device object, and its handle at NDIS.
struct Registered {
    object: *mut c_void,
    handle: Handle,
}

// SAFETY: the object is only compared, not accessed; a driver with planted faults writes to it under the mutex.
unsafe impl Send for Registered {}

impl Control {
    /// The place of a device object of this driver's, until its adapter is removed.
    fn place_of(&self, object: *mut c_void) -> Option<usize> {
        self.registered.iter().position(|registered| registered.as_ref().is_some_and(|ours| ours.object == object))
    }
}

static CONTROL: Mutex<Control> =
    Mutex::new(Control { registered: [const { None }; _], adapters: Registry::new(), files: Registry::new() });

/// The name and the symbolic link of each device.
macro_rules! names {
    ($($number:literal),*) => {
        [$((wide!(concat!(r"\Device\SoftNdk", $number)), wide!(concat!(r"\DosDevices\SoftNdk", $number)))),*]
    };
}
const NAMES: [(&[u16], &[u16]); SOFTNDK_DEVICE_PATHS.len()] = names!("", "2", "3", "4", "5", "6", "7", "8");

/// An adapter with a control device. [`remove`] is called with it once.
#[derive(Clone)]
pub(crate) struct Registration(Arc<Adapter, Windows>);

/// Initialises the mutex. DriverEntry calls this once, before any other function of this module.
pub(crate) fn initialize() {
    // SAFETY: a static; DriverEntry calls this once, first.
    unsafe { mutex::initialize(&CONTROL) };
}

/// Creates the control device of an adapter, with the security descriptor `security` (SDDL). NDIS_STATUS_RESOURCES: each name is another
/// adapter's, or there is no memory.
pub(crate) fn add(host: KernelHost, security: &[u16], passive: &Passive<'_>) -> Result<Registration, NDIS_STATUS> {
    let mut control = CONTROL.lock();
    let place = control.registered.iter().position(Option::is_none).ok_or(NDIS_STATUS_RESOURCES)?;
    // Files of an adapter that is being removed count for their processes too.
    let of_files = control.files.iter().map(|open| &open.device);
    let device = match control.adapters.iter().map(|adapter| &adapter.device).chain(of_files).next() {
        Some(other) => other.beside(host),
        None => ControlDevice::new(host),
    };
    let device = device.and_then(Arc::try_new).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let adapter = Arc::try_new(Adapter { device, place }).map_err(|_| NDIS_STATUS_RESOURCES)?;
    control.adapters.insert(adapter.clone()).map_err(|_| NDIS_STATUS_RESOURCES)?;
    let registered = register(place, security, passive).inspect_err(|_| {
        control.adapters.remove(&adapter);
        control.adapters.shrink();
    })?;
    if let Some(free) = control.registered.get_mut(place) {
        *free = Some(registered);
    }
    Ok(Registration(adapter))
}

/// Closes all objects that files have opened on an adapter. The files stay open, but their requests that name a handle, or would create
/// one, fail.
pub(crate) fn close_files(Registration(adapter): &Registration, passive: &Passive<'_>) {
    #[cfg(feature = "test-consumer")]
    adapter.device.host().stop_consumer(passive);
    clean_up_files(|open| Arc::ptr_eq(&open.device, &adapter.device), passive);
}

/// Removes an adapter, closes the objects of its files, and deletes its device.
pub(crate) fn remove(registration: Registration, passive: &Passive<'_>) {
    let Registration(adapter) = &registration;
    let mut control = CONTROL.lock();
    control.adapters.remove(adapter);
    control.adapters.shrink();
    drop(control);
    #[cfg(feature = "test-consumer")]
    adapter.device.host().close_consumer(passive);
    close_files(&registration, passive);
    let mut control = CONTROL.lock();
    let registered = control.registered.get_mut(adapter.place).and_then(Option::take);
    if let Some(Registered { handle: Handle(handle), .. }) = registered {
        // SAFETY: registered by `register`, deregistered once. Open file objects keep the device object.
        unsafe { ndis::NdisDeregisterDeviceEx(handle) };
    }
}

/// Cleans up all files for which `wanted` returns true; waits for a clean-up that another thread has begun. The mutex is not held during a
/// clean-up: other threads must be able to open and close files, and to remove adapters.
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

/// Registers the process notify routine. DriverEntry calls this once, after [`initialize`]. PASSIVE_LEVEL.
pub(crate) fn watch_processes() -> Result<(), NTSTATUS> {
    // SAFETY: a routine of the right type, which `ignore_processes` removes before the driver is unloaded.
    let status = NTSTATUS(unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 0) });
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// Removes the process notify routine, after the calls in progress. PASSIVE_LEVEL.
pub(crate) fn ignore_processes() {
    // SAFETY: registered by `watch_processes`, removed once.
    let _it_was_registered = unsafe { PsSetCreateProcessNotifyRoutine(Some(process_changed), 1) };
}

/// The process notify routine: a process begins or ends. PASSIVE_LEVEL, in a critical region. At the end of a process it runs in the
/// context of the last thread, while the process's memory is still there (ddi: nc-ntddk-pcreate_process_notify_routine).
unsafe extern "C" fn process_changed(_parent: HANDLE, process: HANDLE, created: BOOLEAN) {
    if created == 0 {
        // SAFETY: the kernel calls this at PASSIVE_LEVEL.
        let passive = unsafe { Passive::assume::<Windows>() };
        clean_up_files(|open| open.process == process.addr(), &passive);
    }
}

/// The id of the current process. Windows reuses an id only after its process is gone; the process's files are cleaned up by then.
pub(crate) fn current_process() -> usize {
    // SAFETY: no preconditions.
    unsafe { PsGetCurrentProcessId() }.addr()
}

/// Creates the device whose names are at `place`.
fn register(place: usize, security: &[u16], _passive: &Passive<'_>) -> Result<Registered, NDIS_STATUS> {
    let &(name, link) = NAMES.get(place).ok_or(NDIS_STATUS_RESOURCES)?;
    let (mut name, mut link) = (unicode_string(name), unicode_string(link));
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
    // NdisRegisterDeviceEx has no parameter for this flag. An open before the flag is set is by the device's exact name, as `create`
    // refuses all other names.
    // SAFETY: the device object just created; the I/O manager reads its characteristics at opens only.
    unsafe { (*device).Characteristics |= SECURE_OPEN };
    Ok(Registered { object: device.cast(), handle: Handle(handle) })
}

/// A planted fault, which a checker has to find: the devices' security descriptors no longer hold for names below the devices.
#[cfg(feature = "planted-faults")]
pub(crate) fn open_names() {
    for Registered { object, .. } in CONTROL.lock().registered.iter().flatten() {
        // SAFETY: the device object is deregistered under the mutex, which is held here.
        unsafe { (*object.cast::<wdk_sys::DEVICE_OBJECT>()).Characteristics &= !SECURE_OPEN };
    }
}

/// IRP_MJ_CREATE.
unsafe extern "system" fn create(device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    let status = match open(device, &irp) {
        Ok(()) => STATUS_SUCCESS,
        Err(status) => status,
    };
    irp.complete(status, 0)
}

fn open(object: *mut c_void, irp: &Irp) -> Result<(), NTSTATUS> {
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
    let place = control.place_of(object).ok_or(STATUS_DEVICE_REMOVED)?;
    let adapter = control.adapters.iter().find(|adapter| adapter.place == place).ok_or(STATUS_DEVICE_REMOVED)?;
    let device = adapter.device.clone();
    let process = current_process();
    let file = device.open(process as u64)?;
    let open = Arc::try_new(OpenFile { process, device, file }).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
    control.files.insert(open.clone()).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
    // SAFETY: FsContext of this device's file objects is this driver's; no thread reads it before the IRP_MJ_CREATE is completed.
    unsafe { (*file_object).FsContext = Arc::into_raw(open).cast_mut().cast() };
    Ok(())
}

/// The open file of a file object, with a reference. `None`: its IRP_MJ_CREATE failed. Windows sends no IRPs for such a file object, but
/// Wine does.
///
/// # Safety
/// `file_object` is of a device of this driver's, and its IRP_MJ_CLOSE has not begun.
unsafe fn open_file(file_object: *mut FILE_OBJECT) -> Option<Arc<OpenFile, Windows>> {
    // SAFETY: valid, by contract.
    let left = unsafe { left_reference(file_object) }?;
    Some(Arc::clone(&left))
}

/// The reference that `open` left in a file object.
///
/// # Safety
/// As for [`open_file`]; only `close` takes the reference out of its wrapper, once.
unsafe fn left_reference(file_object: *mut FILE_OBJECT) -> Option<ManuallyDrop<Arc<OpenFile, Windows>>> {
    // SAFETY: valid, by contract.
    let context = unsafe { (*file_object).FsContext };
    if context.is_null() {
        return None;
    }
    // SAFETY: `open` left a reference in FsContext.
    let left = unsafe { Arc::from_raw(context.cast_const().cast()) };
    Some(ManuallyDrop::new(left))
}

/// Calls `share` with the file of a handle of the current process. STATUS_INVALID_HANDLE or STATUS_OBJECT_TYPE_MISMATCH: the handle is not
/// a handle of a file of this device.
pub(crate) fn file_of_handle<R>(
    handle: u64,
    share: impl FnOnce(&nd_ioctl::File<KernelHost>) -> R,
    _passive: &Passive<'_>,
) -> Result<R, NTSTATUS> {
    let mut file_object = null_mut();
    // SAFETY: the kernel sets the variable at boot, and never changes it.
    let file_type = unsafe { IoFileObjectType };
    // SAFETY: an out parameter that outlives the call; the handle is of user mode, as the request is; PASSIVE_LEVEL by the token. No access
    // is requested: the I/O manager checks the access of the handle by which each request is sent.
    let status = NTSTATUS(unsafe {
        ObReferenceObjectByHandle(handle as HANDLE, 0, file_type, UserMode as i8, &raw mut file_object, null_mut())
    });
    if status != STATUS_SUCCESS {
        return Err(status);
    }
    let file_object = file_object.cast::<FILE_OBJECT>();
    // SAFETY: a file object, referenced.
    let device = unsafe { (*file_object).DeviceObject };
    let is_ours = CONTROL.lock().place_of(device.cast()).is_some();
    // SAFETY: the file object is of this device, and referenced, so its IRP_MJ_CLOSE has not begun.
    let open = if is_ours { unsafe { open_file(file_object) } } else { None };
    // SAFETY: referenced above.
    unsafe { ObfDereferenceObject(file_object.cast()) };
    Ok(share(&open.ok_or(STATUS_INVALID_HANDLE)?.file))
}

/// IRP_MJ_DEVICE_CONTROL. PASSIVE_LEVEL, in the requestor's process.
unsafe extern "system" fn device_control(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    let _region = CriticalRegion::enter();
    // SAFETY: the I/O manager calls this at PASSIVE_LEVEL for requests of user mode; requests of kernel mode are refused below.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: a request in progress keeps its file object. The reference keeps the open file after the request's completion.
    match unsafe { open_file(irp.file_object()) } {
        Some(open) if irp.is_from_user() => {
            // SAFETY: `cancel` calls `Cancelled::begin`, then `File::cancel` of the request's file.
            let request = unsafe { irp.into_request(cancel) };
            open.file.dispatch(request, current_process() as u64, &passive)
        }
        Some(_) => irp.complete(STATUS_INVALID_DEVICE_REQUEST, 0),
        None => irp.complete(STATUS_INVALID_HANDLE, 0),
    }
}

/// The cancel routine of pended requests. The I/O manager calls it at DISPATCH_LEVEL with the cancel spin lock held.
unsafe extern "system" fn cancel(_device: *mut c_void, irp: *mut c_void) {
    // SAFETY: the IRP of this routine; no thread completes the request before `File::cancel` below.
    let Cancelled { id, file_object, irql } = unsafe { Cancelled::begin(irp) };
    // At DISPATCH_LEVEL the thread cannot be suspended, and must not enter a critical region.
    let _region = (irql < DISPATCH_LEVEL).then(CriticalRegion::enter);
    // SAFETY: a request in progress keeps its file object. The reference keeps the open file after the request's completion.
    if let Some(open) = unsafe { open_file(file_object) } {
        open.file.cancel(id);
    }
}

/// IRP_MJ_CLEANUP: the last handle is closed; requests may be in progress. PASSIVE_LEVEL.
unsafe extern "system" fn cleanup(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    let _region = CriticalRegion::enter();
    // SAFETY: the I/O manager calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: a request in progress keeps its file object.
    if let Some(open) = unsafe { open_file(irp.file_object()) } {
        clean_up(&open, &passive);
    }
    irp.complete(STATUS_SUCCESS, 0)
}

/// IRP_MJ_CLOSE: the last request is completed too. PASSIVE_LEVEL.
unsafe extern "system" fn close(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the I/O manager hands the IRP over.
    let irp = unsafe { Irp::from_raw(irp) };
    // SAFETY: the last request of the file object; the reference is taken out here, once.
    if let Some(open) = unsafe { left_reference(irp.file_object()) } {
        drop(ManuallyDrop::into_inner(open));
    }
    irp.complete(STATUS_SUCCESS, 0)
}
