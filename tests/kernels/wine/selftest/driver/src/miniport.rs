//! The miniport: as little as NDIS accepts.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::UNICODE_STRING};

use crate::{
    attributes::{FRAME, HEADER, MTU, OPTIONAL_OIDS, general, registration},
    checks::sleep,
    control,
    fault::Fault,
    imports::{self, NdisMRegisterMiniportDriver, NdisMSetMiniportAttributes},
    kmdf, ndk, offload, oid, receive, wrong,
};

static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static ADAPTER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FUNCTIONAL_DEVICE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

pub(crate) fn driver_handle() -> NDIS_HANDLE {
    DRIVER.load(Ordering::Relaxed)
}

pub(crate) fn adapter_handle() -> NDIS_HANDLE {
    ADAPTER.load(Ordering::Relaxed)
}

/// A device object that work items can be allocated for.
pub(crate) fn device_object() -> *mut c_void {
    FUNCTIONAL_DEVICE.load(Ordering::Relaxed)
}

fn characteristics() -> NDIS_MINIPORT_DRIVER_CHARACTERISTICS {
    NDIS_MINIPORT_DRIVER_CHARACTERISTICS {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_DRIVER_CHARACTERISTICS,
            NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
            NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_2,
        ),
        MajorNdisVersion: 6,
        MinorNdisVersion: 60,
        SetOptionsHandler: Some(set_options),
        InitializeHandlerEx: Some(initialize),
        HaltHandlerEx: Some(halt),
        UnloadHandler: Some(unload),
        PauseHandler: Some(pause),
        RestartHandler: Some(restart),
        OidRequestHandler: Some(oid::request),
        SendNetBufferListsHandler: Some(send),
        ReturnNetBufferListsHandler: Some(receive::returned),
        CancelSendHandler: Some(cancel),
        DevicePnPEventNotifyHandler: Some(device_event),
        ShutdownHandlerEx: Some(shutdown),
        CancelOidRequestHandler: Some(cancel),
        DirectOidRequestHandler: Some(oid::direct),
        CancelDirectOidRequestHandler: Some(cancel),
        ..NDIS_MINIPORT_DRIVER_CHARACTERISTICS::ZERO
    }
}

/// Registers with NDIS.
///
/// # Safety
/// The arguments of DriverEntry.
pub(crate) unsafe fn register(driver: *mut c_void, path: *mut UNICODE_STRING) -> i32 {
    let mut characteristics = characteristics();
    let mut handle = core::ptr::null_mut();
    // SAFETY: as documented.
    let status =
        unsafe { NdisMRegisterMiniportDriver(driver, path, core::ptr::null_mut(), &mut characteristics, &mut handle) };
    DRIVER.store(handle, Ordering::Relaxed);
    status
}

unsafe extern "system" fn set_options(handle: NDIS_HANDLE, _context: NDIS_HANDLE) -> NDIS_STATUS {
    let mut provider = NDIS_NDK_PROVIDER_CHARACTERISTICS {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS,
            NDIS_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
            NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        ),
        Flags: 0,
        OpenNDKAdapterHandler: Some(ndk::open),
        CloseNDKAdapterHandler: Some(ndk::close),
    };
    let provider = &raw mut provider;
    // SAFETY: as documented.
    let set = || unsafe { imports::NdisSetOptionalHandlers(handle, provider.cast()) };
    if wrong::is_asked_for(handle) {
        // SAFETY: the header of what `set` gives NDIS.
        let refused = unsafe { wrong::is_refused(provider.cast(), set) };
        if !refused || !wrong::characteristics(characteristics()) {
            return NDIS_STATUS_FAILURE;
        }
    }
    NTSTATUS(set())
}

/// ndis/nc-ndis-miniport_initialize.
unsafe extern "system" fn initialize(
    handle: NDIS_HANDLE,
    _driver: NDIS_HANDLE,
    parameters: *mut NDIS_MINIPORT_INIT_PARAMETERS,
) -> NDIS_STATUS {
    let mut info = ndk::adapter_info();
    let mut capabilities = NDIS_NDK_CAPABILITIES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_NDK_CAPABILITIES_REVISION_1,
            NDIS_SIZEOF_NDK_CAPABILITIES_REVISION_1,
        ),
        MaxQpCount: 1,
        MaxCqCount: 1,
        MaxMrCount: 1,
        MaxPdCount: 1,
        NdkInfo: &mut info,
        ..NDIS_NDK_CAPABILITIES::ZERO
    };
    let capabilities = &raw mut capabilities;
    let mut ndk = NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
        ),
        Enabled: 1,
        NdkCapabilities: capabilities,
    };
    let (mut first, mut second) = (registration(), general());
    let mut descriptions = offload::descriptions();
    let mut offloads = offload::attributes(&mut descriptions);
    if Fault::DoesNotWake.is_planted_once() {
        return NDIS_STATUS_FAILURE;
    }
    let mut devices = [core::ptr::null_mut(); 3];
    // SAFETY: as documented; NDIS's parameters are valid for the call.
    unsafe {
        if (*parameters).Header.Type != NDIS_OBJECT_TYPE_MINIPORT_INIT_PARAMETERS {
            return NDIS_STATUS_INVALID_PARAMETER;
        }
        let is_wrong = wrong::is_first_start(handle);
        if is_wrong {
            second.SupportedOidListLength = (OPTIONAL_OIDS * size_of::<u32>()) as u32;
        }
        let all: [*mut c_void; 4] =
            [(&raw mut first).cast(), (&raw mut second).cast(), (&raw mut ndk).cast(), (&raw mut offloads).cast()];
        let set = |attributes| NdisMSetMiniportAttributes(handle, attributes);
        // In the wrong order.
        if is_wrong && (set(all[3]) == 0 || set(all[2]) == 0 || set(all[1]) == 0) {
            return NDIS_STATUS_FAILURE;
        }
        for attributes in all {
            if is_wrong && !wrong::is_refused(attributes.cast(), || set(attributes)) {
                return NDIS_STATUS_FAILURE;
            }
            let status = set(attributes);
            if status != 0 {
                return NTSTATUS(status);
            }
        }
        let refused = || {
            // The second are the capabilities; the first has been taken.
            wrong::is_refused(capabilities.cast(), || set(all[2])) && wrong::structures(handle)
        };
        if is_wrong && !refused() {
            return NDIS_STATUS_FAILURE;
        }
        let [physical, functional, next] = &mut devices;
        let none = core::ptr::null_mut();
        imports::NdisMGetDeviceProperty(handle, physical, functional, next, none, none);
        let created = kmdf::create_device(devices[1], devices[2], devices[0]);
        if created < 0 {
            return NTSTATUS(created);
        }
        ADAPTER.store(handle, Ordering::Relaxed);
        FUNCTIONAL_DEVICE.store(devices[1], Ordering::Relaxed);
        if !receive::create() {
            return NDIS_STATUS_RESOURCES;
        }
        NTSTATUS(control::create())
    }
}

/// ndis/nc-ndis-miniport_halt.
unsafe extern "system" fn halt(_context: NDIS_HANDLE, _action: NDIS_HALT_ACTION) {
    if Fault::ReceivesInHalt.is_planted_once() {
        receive::indicate(adapter_handle(), 1, FRAME);
    }
    // SAFETY: made in MiniportInitializeEx.
    unsafe {
        receive::delete();
        control::delete();
        kmdf::delete_device();
    }
}

unsafe extern "system" fn unload(_driver: *mut c_void) {
    // SAFETY: the last calls of this driver, in the documented order.
    unsafe {
        imports::NdisMDeregisterMiniportDriver(driver_handle());
        kmdf::unload();
    }
}

/// Set while paused; the bits below count the sends in progress.
static TRAFFIC: AtomicU32 = AtomicU32::new(PAUSED);
const PAUSED: u32 = 1 << 31;

/// Frames of a wrong length that were sent.
pub(crate) static ERRORS: AtomicU32 = AtomicU32::new(0);

/// Whether all frames of a list have a length that frames have. Counts the others.
///
/// # Safety
/// `list` is of NDIS.
unsafe fn has_right_lengths(list: *const NET_BUFFER_LIST) -> bool {
    let mut is_right = true;
    // SAFETY: passed on to the caller.
    let mut frame = unsafe { (*list).FirstNetBuffer };
    // SAFETY: frames of that list.
    while let Some(this) = unsafe { frame.as_ref() } {
        if !(HEADER..=HEADER + MTU).contains(&this.DataLength) {
            is_right = false;
            ERRORS.fetch_add(u32::from(!Fault::CountsNoErrors.is_planted()), Ordering::Relaxed);
        }
        frame = this.Next;
    }
    is_right || Fault::TakesAnyLength.is_planted()
}

/// A chain that [`Fault::HoldsSends`] keeps.
static HELD: AtomicPtr<NET_BUFFER_LIST> = AtomicPtr::new(core::ptr::null_mut());

/// Waits for the sends in progress, and for the lists that the protocol has.
unsafe extern "system" fn pause(
    _context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
) -> NDIS_STATUS {
    if Fault::ReceivesWhilePaused.is_planted() {
        receive::indicate(adapter_handle(), 1, FRAME);
    }
    TRAFFIC.fetch_or(PAUSED, Ordering::AcqRel);
    while TRAFFIC.load(Ordering::Acquire) != PAUSED {
        sleep(1);
    }
    receive::pause()
}

unsafe extern "system" fn restart_later(item: *mut c_void, work_item: NDIS_HANDLE) {
    let _ = item;
    TRAFFIC.fetch_and(!PAUSED, Ordering::AcqRel);
    complete_held();
    // SAFETY: the adapter is restarting and waits for this.
    unsafe {
        imports::NdisFreeIoWorkItem(work_item);
        imports::NdisMRestartComplete(adapter_handle(), 0);
    }
}

/// Pends, and completes from a work item.
unsafe extern "system" fn restart(
    _context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_RESTART_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: the item is freed in its routine.
    unsafe {
        let item = imports::NdisAllocateIoWorkItem(adapter_handle());
        imports::NdisQueueIoWorkItem(item, restart_later, core::ptr::null_mut());
    }
    NDIS_STATUS_PENDING
}

/// Completes what was kept.
pub(crate) fn complete_held() {
    let held = HELD.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !held.is_null() {
        // SAFETY: a chain of NDIS that has a status, completed once.
        unsafe { imports::NdisMSendNetBufferListsComplete(adapter_handle(), held, 0) };
    }
}

/// Sends nowhere, and says so.
unsafe extern "system" fn send(_context: NDIS_HANDLE, lists: *mut NET_BUFFER_LIST, _port: u32, flags: u32) {
    let enter = |state: u32| if state & PAUSED == 0 { Some(state + 1) } else { None };
    let entered = TRAFFIC.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok();
    let sends = entered || Fault::SendsWhilePaused.is_planted();
    let mut list = lists;
    // SAFETY: NDIS gives a chain of lists, which go back unchanged but for their status, unless a fault is planted.
    unsafe {
        while !list.is_null() {
            if !Fault::SetsNoStatus.is_planted() {
                let large_send = if sends { offload::large_send(&mut *list) } else { None };
                (*list).Status = match (sends, large_send) {
                    (false, _) => NDIS_STATUS_PAUSED,
                    (true, Some(status)) => status,
                    (true, None) if has_right_lengths(list) => NDIS_STATUS_SUCCESS,
                    (true, None) => NDIS_STATUS_INVALID_LENGTH,
                };
            }
            if Fault::ChangesFrames.is_planted() {
                (*list).FirstNetBuffer = core::ptr::null_mut();
            }
            list = (*list).Next;
        }
    }
    let flags = flags & NDIS_SEND_FLAGS_DISPATCH_LEVEL | u32::from(Fault::SaysDispatchLevel.is_planted());
    if Fault::HoldsSends.is_planted() {
        HELD.store(lists, Ordering::Release);
    } else {
        // SAFETY: as above.
        unsafe { imports::NdisMSendNetBufferListsComplete(adapter_handle(), lists, flags) };
    }
    if Fault::CompletesTwice.is_planted() {
        // SAFETY: wrong on purpose; the lists are there until this returns.
        unsafe { imports::NdisMSendNetBufferListsComplete(adapter_handle(), lists, flags) };
    }
    if entered {
        TRAFFIC.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "system" fn cancel(_context: NDIS_HANDLE, _id: *mut c_void) {}
unsafe extern "system" fn device_event(_context: NDIS_HANDLE, _event: *mut NET_DEVICE_PNP_EVENT) {}
unsafe extern "system" fn shutdown(_context: NDIS_HANDLE, _action: NDIS_SHUTDOWN_ACTION) {}

/// NdisMSetMiniportAttributes at a wrong time.
pub(crate) fn set_attributes_late() {
    let attributes = registration();
    // SAFETY: as documented, but for the time.
    unsafe { NdisMSetMiniportAttributes(adapter_handle(), (&raw const attributes).cast()) };
}
