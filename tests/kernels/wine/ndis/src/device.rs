//! Control devices (NdisRegisterDeviceEx), and the dispatch of their IRPs.
//!
//! Wine calls dispatch routines one at a time, on one thread, so requests are handed to a pool of threads, those of one thread
//! in order ([`turns`]). Wine sends no IRP_MJ_CLEANUP: it is sent from here before IRP_MJ_CLOSE. When a process is killed, Wine sends
//! IRP_MJ_CLOSE while the driver still has requests of the file: it is held back until they have ended, and with it all that Wine
//! would send next. What is missing is the case of a handle closed with requests pending: Wine waits for their end before.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{DEVICE_OBJECT, FILE_OBJECT, IRP, PASSIVE_LEVEL, Shared, UNICODE_STRING, ntoskrnl, status, violation};
use ndk_abi::{ndis::*, status::*};

use crate::{
    adapter::PATIENCE,
    check_header,
    driver::{self, Driver},
    files,
    irp::{
        self, Dispatch, IRP_MJ_CLEANUP, IRP_MJ_CLOSE, IRP_MJ_CREATE, IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ, IRP_MJ_WRITE,
        Job,
    },
    lock, oid_checks, packets, pnp,
    protocol::{DISABLE_NDK, ENABLE_NDK, HOLD, OPEN_BELOW, PAUSE, POOL, REMOVE, SLEEP, TRACE},
    security::Descriptor,
    turns,
};

const FILE_DEVICE_NETWORK: u32 = 0x12;
const DO_DEVICE_INITIALIZING: u32 = 0x80;
const FILE_DEVICE_SECURE_OPEN: u32 = 0x100;
/// Where the driver's part of the device extension begins.
const RESERVED_EXTENSION: usize = 16;
/// Kind of object in the report.
const DEVICE: &str = "NDIS control device";

struct Control {
    device: Shared<DEVICE_OBJECT>,
    name: String,
    link: String,
    descriptor: Descriptor,
    major_functions: [Option<Dispatch>; 28],
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    /// Deregistered; files opened before are still served.
    gone: bool,
    files: usize,
}

static CONTROLS: Mutex<BTreeMap<usize, Arc<Control>>> = Mutex::new(BTreeMap::new());

/// Control devices that are registered.
pub(crate) fn count() -> usize {
    lock(&CONTROLS).values().filter(|control| !lock(&control.life).gone).count()
}

/// The security descriptor that a driver gives as a string.
fn descriptor(sddl: *const UNICODE_STRING) -> Result<Descriptor, NDIS_STATUS> {
    // SAFETY: the driver gives null or a counted string.
    let text = unsafe { kernel::unicode(sddl) };
    if text.is_empty() {
        violation("NdisRegisterDeviceEx: no DefaultSDDLString (what applies then is not documented)");
        return Err(NDIS_STATUS_INVALID_PARAMETER);
    }
    Descriptor::parse(&text).ok_or_else(|| {
        violation(&format!("NdisRegisterDeviceEx: invalid DefaultSDDLString {text:?}"));
        NDIS_STATUS_INVALID_PARAMETER
    })
}

/// ndis/nf-ndis-ndisregisterdeviceex: PASSIVE_LEVEL; the handle is that of the driver.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisRegisterDeviceEx(
    handle: NDIS_HANDLE,
    attributes: *const NDIS_DEVICE_OBJECT_ATTRIBUTES,
    device: *mut *mut DEVICE_OBJECT,
    device_handle: *mut NDIS_HANDLE,
) -> NDIS_STATUS {
    const WHAT: &str = "NDIS_DEVICE_OBJECT_ATTRIBUTES";
    kernel::at_most(PASSIVE_LEVEL, "NdisRegisterDeviceEx");
    let Some(driver) = driver::from_handle(handle) else {
        violation("NdisRegisterDeviceEx: not the driver's handle");
        return NDIS_STATUS_INVALID_PARAMETER;
    };
    let sizes = [NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1];
    // SAFETY: the caller gives attributes.
    let checked = unsafe { check_header(attributes.cast(), WHAT, NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES, &sizes) };
    if let Err(status) = checked {
        return status;
    }
    if driver.first_adapter().is_none() {
        violation("NdisRegisterDeviceEx: before the first adapter; the driver could not be unloaded");
    }
    // SAFETY: the size has been checked.
    let attributes = unsafe { &*attributes };
    // SAFETY: the caller gives counted strings.
    let (name, link) =
        unsafe { (kernel::unicode(attributes.DeviceName.cast()), kernel::unicode(attributes.SymbolicName.cast())) };
    if name.is_empty() || link.is_empty() || attributes.MajorFunctions.is_null() {
        violation(&format!("{WHAT}: name, symbolic name or major functions missing"));
        return NDIS_STATUS_INVALID_PARAMETER;
    }
    let descriptor = match descriptor(attributes.DefaultSDDLString.cast()) {
        Ok(descriptor) => descriptor,
        Err(status) => return status,
    };
    match create(&driver, attributes, &name, link, descriptor) {
        Ok(object) => {
            // SAFETY: the caller gives places for both.
            unsafe {
                device.write(object);
                device_handle.write(object.cast());
            }
            NDIS_STATUS_SUCCESS
        }
        Err(status) => NTSTATUS(status),
    }
}

fn create(
    driver: &Driver,
    attributes: &NDIS_DEVICE_OBJECT_ATTRIBUTES,
    name: &str,
    link: String,
    descriptor: Descriptor,
) -> Result<*mut DEVICE_OBJECT, i32> {
    /// Devices made so far. One that is deregistered keeps its name in Wine until its last file is closed, on Windows it does not.
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let has_name = |control: &Arc<Control>| control.name == name && !lock(&control.life).gone;
    if lock(&CONTROLS).values().any(has_name) {
        violation(&format!("NdisRegisterDeviceEx: there is a device {name}"));
        return Err(NDIS_STATUS_INVALID_PARAMETER.0);
    }
    let mut object = std::ptr::null_mut();
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let device_name = if number == 0 { name.to_owned() } else { format!("{name}-{number}") };
    let device_name = kernel::UnicodeBuffer::new(&device_name);
    let extension = RESERVED_EXTENSION as u32 + attributes.ExtensionSize;
    // SAFETY: the registered driver's object, a counted name, a place for the result.
    let created = unsafe {
        ntoskrnl::IoCreateDevice(
            driver.object.get(),
            extension,
            &device_name.as_unicode_string(),
            FILE_DEVICE_NETWORK,
            0,
            0,
            &mut object,
        )
    };
    if created < 0 {
        return Err(created);
    }
    // SAFETY: the driver gives 28 entries; both types of function pointer have the same prototype.
    let major_functions = unsafe { attributes.MajorFunctions.cast::<[Option<Dispatch>; 28]>().read() };
    let symbolic_link = kernel::UnicodeBuffer::new(&link);
    let name = name.to_owned();
    let control = Control { device: Shared(object), name, link, descriptor, major_functions, life: Mutex::default() };
    lock(&CONTROLS).insert(object as usize, Arc::new(control));
    // SAFETY: two counted strings.
    let linked =
        unsafe { ntoskrnl::IoCreateSymbolicLink(&symbolic_link.as_unicode_string(), &device_name.as_unicode_string()) };
    if linked < 0 {
        lock(&CONTROLS).remove(&(object as usize));
        // SAFETY: created above and not handed out.
        unsafe { ntoskrnl::IoDeleteDevice(object) };
        return Err(linked);
    }
    // SAFETY: the new device; I/O may come from here on.
    unsafe { (*object).Flags &= !DO_DEVICE_INITIALIZING };
    kernel::object(DEVICE, 1);
    Ok(object)
}

/// ndis/nf-ndis-ndisderegisterdeviceex: PASSIVE_LEVEL; the symbolic link goes too. Open files are still served, and keep the device.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisDeregisterDeviceEx(handle: NDIS_HANDLE) {
    kernel::at_most(PASSIVE_LEVEL, "NdisDeregisterDeviceEx");
    let Some(control) = lock(&CONTROLS).get(&(handle as usize)).cloned() else {
        violation("NdisDeregisterDeviceEx: not a device");
        return;
    };
    let mut life = lock(&control.life);
    if std::mem::replace(&mut life.gone, true) {
        violation("NdisDeregisterDeviceEx: not a registered device");
        return;
    }
    let has_files = life.files > 0;
    drop(life);
    // SAFETY: the device is deleted below.
    if unsafe { (*control.device.get()).Characteristics } & FILE_DEVICE_SECURE_OPEN == 0 {
        violation(
            "a control device without FILE_DEVICE_SECURE_OPEN: its security descriptor does not hold for names below it",
        );
    }
    let link = kernel::UnicodeBuffer::new(&control.link);
    // SAFETY: a counted string.
    unsafe { ntoskrnl::IoDeleteSymbolicLink(&link.as_unicode_string()) };
    if !has_files {
        control.delete();
    }
    kernel::object(DEVICE, -1);
}

/// ndis/nf-ndis-ndisgetdevicereservedextension: any IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisGetDeviceReservedExtension(device: *mut DEVICE_OBJECT) -> *mut c_void {
    if !lock(&CONTROLS).contains_key(&(device as usize)) {
        violation("NdisGetDeviceReservedExtension: not a control device");
        return std::ptr::null_mut();
    }
    // SAFETY: a control device, whose extension is longer than the offset.
    unsafe { (*device).DeviceExtension.add(RESERVED_EXTENSION) }
}

/// All of the driver's IRPs come here.
pub(crate) unsafe extern "system" fn dispatch(device: *const DEVICE_OBJECT, irp: *mut IRP) -> i32 {
    let control = lock(&CONTROLS).get(&(device as usize)).cloned();
    match control {
        // SAFETY: the I/O manager gives a live IRP for this device.
        Some(control) => unsafe { control.dispatch(irp) },
        // SAFETY: as above.
        None => unsafe { pnp::dispatch(device.cast_mut(), irp) },
    }
}

/// Serves a request that is not the driver's.
///
/// # Safety
/// `irp` is an IRP that the caller owns, and gives away.
unsafe fn serve(irp: *mut IRP, code: u32) -> i32 {
    // SAFETY: the caller owns the IRP.
    unsafe { irp::mark_pending(irp) };
    let irp = Shared(irp);
    kernel::workers::submit("what happens to an adapter", move || {
        let adapter = driver::registered().and_then(|driver| driver.first_adapter());
        let done = adapter.is_some_and(|adapter| match code {
            SLEEP => adapter.sleep().is_success(),
            REMOVE => {
                adapter.remove_surprisingly();
                true
            }
            HOLD => {
                packets::hold_receives(&adapter);
                true
            }
            PAUSE => {
                packets::pause_with_receives(&adapter);
                true
            }
            _ => oid_checks::set_ndk(&adapter, code == ENABLE_NDK, || {}),
        });
        // SAFETY: given away with STATUS_PENDING, and completed once.
        unsafe { irp::complete(irp.get(), if done { status::SUCCESS } else { status::INVALID_DEVICE_REQUEST }) };
    });
    status::PENDING
}

/// Waits until the driver has no request of a file. False: that takes too long.
fn await_requests(file: *mut FILE_OBJECT) -> bool {
    // SAFETY: only the address is used.
    unsafe { ntoskrnl::SoftNdkStandInAwaitRequests(file, PATIENCE.as_millis() as u32) != 0 }
}

impl Control {
    /// What the I/O manager looks at before the driver is asked to open a file: false if it must not be.
    ///
    /// # Safety
    /// `irp` is an IRP_MJ_CREATE for this device that the caller owns.
    unsafe fn admits(&self, irp: *mut IRP) -> bool {
        // SAFETY: the caller owns the IRP.
        match unsafe { ntoskrnl::IoGetRequestorProcessId(irp) } {
            // The kernel's own.
            0 => true,
            process => self.descriptor.allows(process).unwrap_or_else(|| {
                violation("stand-in: the token of a process that opens the control device cannot be looked at");
                false
            }),
        }
    }

    /// Asks the driver to open a name below the device, as the I/O manager would with `\Device\Name\below`: Wine does not.
    ///
    /// # Safety
    /// `irp` is an IRP for this device that the caller owns, and gives away.
    unsafe fn open_below(&self, irp: *mut IRP) -> i32 {
        let name = kernel::UnicodeBuffer::new(r"\below");
        // SAFETY: plain old data, for which zeros are valid.
        let mut file: FILE_OBJECT = unsafe { std::mem::zeroed() };
        file.DeviceObject = self.device.get();
        file.FileName = name.as_unicode_string();
        let create = self.major_functions[usize::from(IRP_MJ_CREATE)];
        // SAFETY: a file object that outlives the call, and the driver's routine.
        let send = |create| unsafe { irp::send(IRP_MJ_CREATE, self.device.get(), &mut file, irp, create) };
        let opened = create.and_then(send).unwrap_or(status::INVALID_DEVICE_REQUEST);
        // SAFETY: passed on to the caller.
        unsafe { irp::complete(irp, opened) }
    }

    /// False: the device is gone.
    fn add_file(&self) -> bool {
        let mut life = lock(&self.life);
        life.files += usize::from(!life.gone);
        !life.gone
    }

    /// Wine sends no IRP_MJ_CLOSE for files of a device that was deleted, so it goes with the last of them.
    fn remove_file(self: &Arc<Self>) {
        let mut life = lock(&self.life);
        life.files = life.files.saturating_sub(1);
        if life.gone && life.files == 0 {
            drop(life);
            let control = Arc::clone(self);
            // Not within the dispatch of its last IRP.
            kernel::workers::submit("the end of a control device", move || control.delete());
        }
    }

    fn opening(self: &Arc<Self>, file: usize, is_overlapped: bool) -> bool {
        let opens = files::opening(file, is_overlapped);
        if !opens {
            self.remove_file();
        }
        opens
    }

    fn delete(&self) {
        lock(&CONTROLS).remove(&(self.device.get() as usize));
        // SAFETY: created by NdisRegisterDeviceEx, without files, deleted once.
        unsafe { ntoskrnl::IoDeleteDevice(self.device.get()) };
    }

    /// # Safety
    /// `irp` is an IRP for this device that the caller owns.
    unsafe fn dispatch(self: &Arc<Self>, irp: *mut IRP) -> i32 {
        // SAFETY: passed on to the caller.
        let (major, file, code) = unsafe {
            let location = irp::current_location(irp);
            ((*location).MajorFunction, (*location).FileObject, irp::control_code(irp))
        };
        if major == IRP_MJ_DEVICE_CONTROL && [DISABLE_NDK, ENABLE_NDK, SLEEP, REMOVE, HOLD, PAUSE].contains(&code) {
            // SAFETY: passed on to the caller.
            return unsafe { serve(irp, code) };
        }
        if major == IRP_MJ_DEVICE_CONTROL && code == OPEN_BELOW {
            // SAFETY: passed on to the caller.
            return unsafe { self.open_below(irp) };
        }
        if major == IRP_MJ_DEVICE_CONTROL && code == TRACE {
            // SAFETY: no preconditions.
            unsafe { ntoskrnl::SoftNdkStandInTrace() };
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::SUCCESS) };
        }
        if major == IRP_MJ_DEVICE_CONTROL && code == POOL {
            // SAFETY: no preconditions.
            unsafe { ntoskrnl::SoftNdkStandInPool() };
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::SUCCESS) };
        }
        let handler = |code: u8| self.major_functions.get(usize::from(code)).copied().flatten();
        let file_id = file as usize;
        // SAFETY: passed on to the caller.
        if major == IRP_MJ_CREATE && !unsafe { self.admits(irp) } {
            files::refuse(file_id);
        }
        // Wine tells nobody how an open ended: the requests of the file do.
        if files::is_refused(file_id, major == IRP_MJ_CLOSE) {
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::ACCESS_DENIED) };
        }
        // SAFETY: passed on to the caller.
        if major == IRP_MJ_CREATE && !(self.add_file() && self.opening(file_id, unsafe { irp::opens_overlapped(irp) }))
        {
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::DELETE_PENDING) };
        }
        let is_open = files::is_open(file_id);
        if major == IRP_MJ_CLOSE
            && is_open
            && let Some(cleanup) = handler(IRP_MJ_CLEANUP)
        {
            // SAFETY: the CLOSE request's own device and file, before the driver sees the close.
            unsafe { irp::in_requestor(irp, || irp::send(IRP_MJ_CLEANUP, self.device.get(), file, irp, cleanup)) };
        }
        if major == IRP_MJ_CLOSE && !await_requests(file) {
            violation("a file that has been cleaned up has requests that do not end");
            // An unload that waited for this file too would be given up by the service manager, and there would be no report.
            if is_open {
                self.remove_file();
                files::closed(file_id);
            }
            // Never completed, so that Wine does not free the file object under them.
            // SAFETY: the caller owns the IRP.
            unsafe { irp::mark_pending(irp) };
            return status::PENDING;
        }
        if major == IRP_MJ_CLOSE && !is_open {
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::SUCCESS) };
        }
        let Some(routine) = handler(major) else {
            if [IRP_MJ_CREATE, IRP_MJ_CLOSE].contains(&major) {
                self.remove_file();
                files::closed(file_id);
            }
            // SAFETY: the caller owns the IRP.
            return unsafe { irp::complete(irp, status::INVALID_DEVICE_REQUEST) };
        };
        // SAFETY: only the address is recorded.
        let number = unsafe { ntoskrnl::SoftNdkStandInIrp(irp, file) };
        if [IRP_MJ_DEVICE_CONTROL, IRP_MJ_READ, IRP_MJ_WRITE].contains(&major) {
            // SAFETY: the caller owns the IRP, and gives it away with STATUS_PENDING.
            unsafe { irp::mark_pending(irp) };
            let is_overlapped = files::is_overlapped(file_id);
            let job = Job { device: self.device, irp: Shared(irp), number, is_overlapped, handler: routine };
            // SAFETY: an IRP that the caller owned until now; it is not given to a thread yet.
            let thread = unsafe { irp::requestor_thread(irp) };
            turns::submit(thread, job);
            return status::PENDING;
        }
        // SAFETY: the driver's routine, called with a live IRP.
        let call = || kernel::balanced("a dispatch routine", || unsafe { routine(self.device.get(), irp) });
        // SAFETY: the caller owns the IRP.
        let result = unsafe { irp::in_requestor(irp, call) };
        if major == IRP_MJ_CLOSE || (major == IRP_MJ_CREATE && result < status::SUCCESS) {
            self.remove_file();
            files::closed(file_id);
        }
        result
    }
}
