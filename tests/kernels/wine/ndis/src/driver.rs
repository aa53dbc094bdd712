//! Registration of the miniport driver, and its unloading.

use std::{
    ffi::c_void,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use kernel::{DRIVER_OBJECT, PASSIVE_LEVEL, Shared, UNICODE_STRING, ntoskrnl, violation};
use ndk_abi::{
    ndis::*,
    status::{NDIS_STATUS, NDIS_STATUS_BAD_VERSION, NDIS_STATUS_INVALID_PARAMETER, NDIS_STATUS_SUCCESS},
};

use crate::{
    adapter::{Adapter, PATIENCE},
    check_header, device, files, lock, pnp,
};

/// The registered miniport driver.
pub(crate) struct Driver {
    pub(crate) object: Shared<DRIVER_OBJECT>,
    /// Name of the service, the last part of the registry path.
    pub(crate) service: String,
    pub(crate) context: Shared<c_void>,
    pub(crate) characteristics: NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
    pub(crate) provider: Mutex<Option<NDIS_NDK_PROVIDER_CHARACTERISTICS>>,
    /// In the order of their numbers.
    pub(crate) adapters: Mutex<Vec<Arc<Adapter>>>,
    in_set_options: AtomicBool,
    deregistered: AtomicBool,
}

// SAFETY: the characteristics are function pointers and numbers, constant once registered.
unsafe impl Send for Driver {}
// SAFETY: as above; all else is behind locks or atomic.
unsafe impl Sync for Driver {}

/// One driver per process: Wine gives each driver service its own.
static DRIVER: Mutex<Option<Arc<Driver>>> = Mutex::new(None);
/// Kind of object in the report.
const REGISTRATION: &str = "NDIS driver registration";

/// The driver, if `handle` is its handle.
pub(crate) fn from_handle(handle: NDIS_HANDLE) -> Option<Arc<Driver>> {
    lock(&DRIVER).as_ref().filter(|driver| std::ptr::eq(Arc::as_ptr(driver).cast(), handle)).cloned()
}

/// The registered driver.
pub(crate) fn registered() -> Option<Arc<Driver>> {
    lock(&DRIVER).clone()
}

impl Driver {
    pub(crate) fn handle(&self) -> NDIS_HANDLE {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The adapter with the lowest number.
    pub(crate) fn first_adapter(&self) -> Option<Arc<Adapter>> {
        lock(&self.adapters).first().cloned()
    }

    pub(crate) fn is_deregistered(&self) -> bool {
        self.deregistered.load(Ordering::Acquire)
    }
}

/// Copies the characteristics as far as their revision goes, and checks that the required handlers are there.
///
/// # Safety
/// `characteristics` is null or begins with an NDIS_OBJECT_HEADER and is as long as that says.
unsafe fn read_characteristics(
    characteristics: *const NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
) -> Result<NDIS_MINIPORT_DRIVER_CHARACTERISTICS, NDIS_STATUS> {
    const SIZES: [u16; 3] = [
        NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_1,
        NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
        NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_3,
    ];
    const WHAT: &str = "NDIS_MINIPORT_DRIVER_CHARACTERISTICS";
    let kind = NDIS_OBJECT_TYPE_MINIPORT_DRIVER_CHARACTERISTICS;
    // SAFETY: passed on to the caller.
    let revision = unsafe { check_header(characteristics.cast(), WHAT, kind, &SIZES) }?;
    let mut copy = <NDIS_MINIPORT_DRIVER_CHARACTERISTICS as ndk_abi::describe::ZeroInit>::ZERO;
    let size = SIZES[usize::from(revision) - 1];
    // SAFETY: the source has as many bytes as its revision says, the copy is of the latest revision, so no shorter.
    unsafe { (&raw mut copy).cast::<u8>().copy_from(characteristics.cast(), size.into()) };

    let version = (copy.MajorNdisVersion, copy.MinorNdisVersion);
    if !((6, 30)..=(6, 85)).contains(&version) {
        violation(&format!("{WHAT}: NDIS {}.{} (NDK needs 6.30, this is 6.85)", version.0, version.1));
        return Err(NDIS_STATUS_BAD_VERSION);
    }
    let needed_revision = if version >= (6, 80) { 3 } else { 2 };
    if revision < 2 || revision > needed_revision {
        violation(&format!("{WHAT}: revision {revision} does not go with NDIS {}.{}", version.0, version.1));
    }
    let required = [
        ("InitializeHandlerEx", copy.InitializeHandlerEx.is_some()),
        ("HaltHandlerEx", copy.HaltHandlerEx.is_some()),
        ("UnloadHandler", copy.UnloadHandler.is_some()),
        ("PauseHandler", copy.PauseHandler.is_some()),
        ("RestartHandler", copy.RestartHandler.is_some()),
        ("OidRequestHandler", copy.OidRequestHandler.is_some()),
        ("SendNetBufferListsHandler", copy.SendNetBufferListsHandler.is_some()),
        ("ReturnNetBufferListsHandler", copy.ReturnNetBufferListsHandler.is_some()),
        ("CancelSendHandler", copy.CancelSendHandler.is_some()),
        ("DevicePnPEventNotifyHandler", copy.DevicePnPEventNotifyHandler.is_some()),
        ("ShutdownHandlerEx", copy.ShutdownHandlerEx.is_some()),
        ("CancelOidRequestHandler", copy.CancelOidRequestHandler.is_some()),
    ];
    let missing: Vec<&str> = required.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        violation(&format!("{WHAT}: required handlers missing: {}", missing.join(", ")));
        return Err(NDIS_STATUS_INVALID_PARAMETER);
    }
    if copy.CheckForHangHandlerEx.is_none() != copy.ResetHandlerEx.is_none() {
        violation(&format!("{WHAT}: CheckForHang and Reset handlers go together"));
    }
    if copy.DirectOidRequestHandler.is_none() != copy.CancelDirectOidRequestHandler.is_none() {
        violation(&format!("{WHAT}: direct OID handler without its cancel handler, or the reverse"));
    }
    if copy.Flags != 0 {
        violation(&format!("{WHAT}: flags {:#x} in a miniport without lower edge", copy.Flags));
    }
    Ok(copy)
}

/// ndis/nf-ndis-ndismregisterminiportdriver: PASSIVE_LEVEL, in DriverEntry. Calls MiniportSetOptions before it returns and takes
/// over the driver object's AddDevice, DriverUnload and dispatch routines.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMRegisterMiniportDriver(
    object: *mut DRIVER_OBJECT,
    registry_path: *const UNICODE_STRING,
    context: NDIS_HANDLE,
    characteristics: *const NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
    handle: *mut NDIS_HANDLE,
) -> NDIS_STATUS {
    kernel::at_most(PASSIVE_LEVEL, "NdisMRegisterMiniportDriver");
    kernel::pin();
    // SAFETY: the caller gives its characteristics.
    let characteristics = match unsafe { read_characteristics(characteristics) } {
        Ok(characteristics) => characteristics,
        Err(status) => return status,
    };
    // SAFETY: the caller gives the path it got in DriverEntry.
    let path = unsafe { kernel::unicode(registry_path) };
    let service = path.rsplit('\\').next().unwrap_or_default().to_owned();
    let driver = Arc::new(Driver {
        object: Shared(object),
        service,
        context: Shared(context),
        characteristics,
        provider: Mutex::new(None),
        adapters: Mutex::default(),
        in_set_options: AtomicBool::new(true),
        deregistered: AtomicBool::new(false),
    });
    if lock(&DRIVER).replace(Arc::clone(&driver)).is_some() {
        violation("NdisMRegisterMiniportDriver: a driver is registered already");
    }
    kernel::object(REGISTRATION, 1);

    let status = match characteristics.SetOptionsHandler {
        Some(set_options) => kernel::balanced("MiniportSetOptions", || {
            // SAFETY: the driver's handler, called as documented.
            unsafe { set_options(driver.handle(), context) }
        }),
        None => NDIS_STATUS_SUCCESS,
    };
    driver.in_set_options.store(false, Ordering::Release);
    if !status.is_success() {
        lock(&DRIVER).take();
        kernel::object(REGISTRATION, -1);
        return status;
    }
    // SAFETY: the caller gives a place for the handle.
    unsafe { handle.write(driver.handle()) };
    // SAFETY: the driver object is valid, and its fields are the port driver's to set.
    unsafe {
        (*object).DriverUnload = Some(unload);
        (*(*object).DriverExtension).AddDevice = Some(pnp::add_device);
        (*object).MajorFunction = [Some(device::dispatch); 28];
        (*object).MajorFunction[pnp::UNUSED_MAJOR_FUNCTION] = None;
    }
    pnp::start_without_device(driver);
    NDIS_STATUS_SUCCESS
}

/// ndis/nf-ndis-ndismderegisterminiportdriver: PASSIVE_LEVEL, in MiniportDriverUnload or when DriverEntry fails.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMDeregisterMiniportDriver(handle: NDIS_HANDLE) {
    kernel::at_most(PASSIVE_LEVEL, "NdisMDeregisterMiniportDriver");
    let Some(driver) = from_handle(handle) else {
        violation("NdisMDeregisterMiniportDriver: not a registered driver");
        return;
    };
    driver.deregistered.store(true, Ordering::Release);
    if driver.first_adapter().is_some() {
        violation("NdisMDeregisterMiniportDriver: an adapter is not halted");
    }
    lock(&DRIVER).take();
    kernel::object(REGISTRATION, -1);
}

/// ndis/nf-ndis-ndissetoptionalhandlers: PASSIVE_LEVEL, in MiniportSetOptions. Only NDK provider characteristics are known.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisSetOptionalHandlers(handle: NDIS_HANDLE, handlers: *const c_void) -> NDIS_STATUS {
    const WHAT: &str = "NDIS_NDK_PROVIDER_CHARACTERISTICS";
    kernel::at_most(PASSIVE_LEVEL, "NdisSetOptionalHandlers");
    let Some(driver) = from_handle(handle) else {
        violation("NdisSetOptionalHandlers: not a driver's handle");
        return NDIS_STATUS_INVALID_PARAMETER;
    };
    if !driver.in_set_options.load(Ordering::Acquire) {
        violation("NdisSetOptionalHandlers: called outside MiniportSetOptions");
        return NDIS_STATUS_INVALID_PARAMETER;
    }
    let sizes = [NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1];
    // SAFETY: the caller gives a structure that begins with a header.
    let checked = unsafe { check_header(handlers, WHAT, NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS, &sizes) };
    if let Err(status) = checked {
        return status;
    }
    // SAFETY: type and size have been checked.
    let provider = unsafe { handlers.cast::<NDIS_NDK_PROVIDER_CHARACTERISTICS>().read() };
    if provider.Flags != 0 || provider.OpenNDKAdapterHandler.is_none() || provider.CloseNDKAdapterHandler.is_none() {
        violation(&format!("{WHAT}: flags set or a handler missing"));
        return NDIS_STATUS_INVALID_PARAMETER;
    }
    if driver.characteristics.DirectOidRequestHandler.is_none() {
        violation(&format!("{WHAT}: an NDK provider must have a direct OID handler"));
    }
    *lock(&driver.provider) = Some(provider);
    NDIS_STATUS_SUCCESS
}

/// Called by the I/O manager when the service is stopped: halts what runs, calls MiniportDriverUnload, then writes the report.
unsafe extern "system" fn unload(object: *const DRIVER_OBJECT) {
    if let Some(driver) = registered() {
        pnp::wait_for_start();
        if !files::wait_until_closed() {
            violation("the driver is unloaded with open files: Windows would not");
        }
        while let Some(adapter) = driver.first_adapter() {
            adapter.stop(NdisHaltDeviceDisabled);
        }
        if device::count() > 0 {
            violation("a control device outlives the last adapter: Windows would not unload the driver");
        }
        if let Some(handler) = driver.characteristics.UnloadHandler {
            // SAFETY: the driver's handler, called as documented.
            kernel::balanced("MiniportDriverUnload", || unsafe { handler(object.cast_mut().cast()) });
        }
        // A queued work item keeps its driver in memory (wdm/nf-wdm-ioallocateworkitem): the last ones may be returning now.
        if !kernel::workers::wait_idle(PATIENCE) {
            violation("a work item or dispatch routine of the unloaded driver has not returned");
        }
        if !driver.is_deregistered() {
            violation("MiniportDriverUnload did not call NdisMDeregisterMiniportDriver");
        }
    }
    // SAFETY: no preconditions.
    unsafe { ntoskrnl::SoftNdkStandInReport() };
}
