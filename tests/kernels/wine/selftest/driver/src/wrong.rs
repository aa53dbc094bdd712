//! A start that is wrong on purpose: what NDIS must refuse, and count, before each step that is right.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*};

use crate::{control, imports, miniport::driver_handle, protocol::WRONG_START, receive};

/// True once: the first adapter starts wrongly, if the driver's parameter asks for it, not one that wakes up.
pub(crate) fn is_first_start(handle: NDIS_HANDLE) -> bool {
    static OVER: AtomicBool = AtomicBool::new(false);
    is_asked_for(handle) && !OVER.swap(true, Ordering::Relaxed)
}

/// Whether the driver's parameter asks for it. Also: a value that is not there, and the default of another.
pub(crate) fn is_asked_for(handle: NDIS_HANDLE) -> bool {
    let object = configuration_object(handle);
    let mut configuration = core::ptr::null_mut();
    // SAFETY: as documented.
    unsafe {
        if imports::NdisOpenConfigurationEx(&object, &mut configuration) != 0 {
            return false;
        }
        let read = |keyword: &str| {
            let (mut status, mut value, mut buffer) = (0, core::ptr::null_mut(), [0; 64]);
            let keyword = control::unicode(keyword, &mut buffer);
            imports::NdisReadConfiguration(&mut status, &mut value, configuration, &keyword, NdisParameterInteger);
            (status == 0).then(|| (*value).ParameterData.IntegerData)
        };
        let (planted, enabled, absent) = (read(WRONG_START), read("*NetworkDirect"), read("NoSuchKeyword"));
        imports::NdisCloseConfiguration(configuration);
        planted == Some(1) && enabled == Some(1) && absent.is_none()
    }
}

fn configuration_object(handle: NDIS_HANDLE) -> NDIS_CONFIGURATION_OBJECT {
    NDIS_CONFIGURATION_OBJECT {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT,
            NDIS_CONFIGURATION_OBJECT_REVISION_1,
            NDIS_SIZEOF_CONFIGURATION_OBJECT_REVISION_1,
        ),
        NdisHandle: handle,
        Flags: 0,
    }
}

/// Whether NDIS refuses a structure with another type, revision or size. It is as before afterwards.
///
/// # Safety
/// `header` is the header of the structure that `give` gives NDIS.
pub(crate) unsafe fn is_refused(header: *mut NDIS_OBJECT_HEADER, give: impl Fn() -> i32) -> bool {
    const SPOILED: [fn(NDIS_OBJECT_HEADER) -> NDIS_OBJECT_HEADER; 3] = [
        |right| NDIS_OBJECT_HEADER { Type: right.Type ^ 0xFF, ..right },
        |right| NDIS_OBJECT_HEADER { Revision: 0x7F, ..right },
        |right| NDIS_OBJECT_HEADER { Size: right.Size - 1, ..right },
    ];
    // SAFETY: passed on to the caller.
    let right = unsafe { header.read() };
    let refused = SPOILED.iter().all(|spoil| {
        // SAFETY: passed on to the caller.
        unsafe { header.write(spoil(right)) };
        give() < 0
    });
    // SAFETY: passed on to the caller.
    unsafe { header.write(right) };
    refused
}

/// Registers a miniport driver again, with characteristics that must be refused: with another header, then without a handler and of a
/// revision that does not go with its version of NDIS.
pub(crate) fn characteristics(mut right: NDIS_MINIPORT_DRIVER_CHARACTERISTICS) -> bool {
    // SAFETY: refused before anything else is looked at.
    let register = |characteristics| unsafe {
        let none = core::ptr::null_mut();
        imports::NdisMRegisterMiniportDriver(none, none.cast(), none, characteristics, &mut core::ptr::null_mut())
    };
    let characteristics = &raw mut right;
    // SAFETY: the header of what is given.
    let refused = unsafe { is_refused(characteristics.cast(), || register(characteristics)) };
    right.Header.Revision = NDIS_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_3;
    right.Header.Size = NDIS_SIZEOF_MINIPORT_DRIVER_CHARACTERISTICS_REVISION_3;
    right.HaltHandlerEx = None;
    refused && register(&raw mut right) < 0
}

/// Structures other than attributes, each with another header, while the adapter initialises.
pub(crate) fn structures(handle: NDIS_HANDLE) -> bool {
    let mut configuration = configuration_object(handle);
    let mut device = NDIS_DEVICE_OBJECT_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES,
            NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
        ),
        ..NDIS_DEVICE_OBJECT_ATTRIBUTES::ZERO
    };
    let mut event = NET_PNP_EVENT_NOTIFICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NET_PNP_EVENT_NOTIFICATION_REVISION_1,
            NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_1,
        ),
        ..NET_PNP_EVENT_NOTIFICATION::ZERO
    };
    let mut pool = receive::pool_parameters();
    let mut state = link_state();
    let pool = &raw mut pool;
    let (configuration, device, event) = (&raw mut configuration, &raw mut device, &raw mut event);
    let state = &raw mut state;
    let mut status = status_indication(handle, state);
    let status = &raw mut status;
    // SAFETY: refused as soon as their headers have been looked at.
    unsafe {
        let open = || imports::NdisOpenConfigurationEx(configuration, &mut core::ptr::null_mut());
        let register = || {
            let (mut object, mut registered) = (core::ptr::null_mut(), core::ptr::null_mut());
            imports::NdisRegisterDeviceEx(driver_handle(), device, &mut object, &mut registered)
        };
        // A function without a result: what it says is in the report.
        let indicate = || {
            imports::NdisMIndicateStatusEx(handle, status);
            NDIS_STATUS_FAILURE.0
        };
        is_refused(configuration.cast(), open)
            && is_refused(device.cast(), register)
            && is_refused(pool.cast(), || receive::pool_status(handle, pool))
            && is_refused(event.cast(), || imports::NdisMNetPnPEvent(handle, event))
            && is_refused(status.cast(), indicate)
            && is_refused(state.cast(), indicate)
    }
}

fn link_state() -> NDIS_LINK_STATE {
    NDIS_LINK_STATE {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_LINK_STATE_REVISION_1,
            NDIS_SIZEOF_LINK_STATE_REVISION_1,
        ),
        ..NDIS_LINK_STATE::ZERO
    }
}

fn status_indication(handle: NDIS_HANDLE, state: *mut NDIS_LINK_STATE) -> NDIS_STATUS_INDICATION {
    NDIS_STATUS_INDICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_STATUS_INDICATION,
            NDIS_STATUS_INDICATION_REVISION_1,
            NDIS_SIZEOF_STATUS_INDICATION_REVISION_1,
        ),
        SourceHandle: handle,
        StatusCode: NDIS_STATUS_LINK_STATE,
        StatusBuffer: state.cast::<c_void>(),
        StatusBufferSize: size_of::<NDIS_LINK_STATE>() as u32,
        ..NDIS_STATUS_INDICATION::ZERO
    }
}

/// Indicates the link state of an adapter, which may be gone.
pub(crate) fn indicate_link(handle: NDIS_HANDLE) {
    let mut state = link_state();
    // SAFETY: a state that outlives the call.
    unsafe { imports::NdisMIndicateStatusEx(handle, &status_indication(handle, &mut state)) };
}
