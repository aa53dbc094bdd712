//! The miniport: as little as NDIS accepts.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::UNICODE_STRING};

use crate::{
    checks::sleep,
    control,
    fault::Fault,
    imports::{self, NdisMRegisterMiniportDriver, NdisMSetMiniportAttributes},
    kmdf, ndk, oid,
    protocol::WRONG_ORDER,
};

static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static ADAPTER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FUNCTIONAL_DEVICE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// What the driver hands out as adapter context: any non-null address of its own.
static CONTEXT: u8 = 0;

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

/// Registers with NDIS.
///
/// # Safety
/// The arguments of DriverEntry.
pub(crate) unsafe fn register(driver: *mut c_void, path: *mut UNICODE_STRING) -> i32 {
    let mut characteristics = NDIS_MINIPORT_DRIVER_CHARACTERISTICS {
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
        ReturnNetBufferListsHandler: Some(returned),
        CancelSendHandler: Some(cancel),
        DevicePnPEventNotifyHandler: Some(device_event),
        ShutdownHandlerEx: Some(shutdown),
        CancelOidRequestHandler: Some(cancel),
        DirectOidRequestHandler: Some(oid::direct),
        CancelDirectOidRequestHandler: Some(cancel),
        ..NDIS_MINIPORT_DRIVER_CHARACTERISTICS::ZERO
    };
    let mut handle = core::ptr::null_mut();
    // SAFETY: as documented.
    let status =
        unsafe { NdisMRegisterMiniportDriver(driver, path, core::ptr::null_mut(), &mut characteristics, &mut handle) };
    DRIVER.store(handle, Ordering::Relaxed);
    status
}

unsafe extern "system" fn set_options(handle: NDIS_HANDLE, _context: NDIS_HANDLE) -> NDIS_STATUS {
    let provider = NDIS_NDK_PROVIDER_CHARACTERISTICS {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_NDK_PROVIDER_CHARACTERISTICS,
            NDIS_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
            NDIS_SIZEOF_NDK_PROVIDER_CHARACTERISTICS_REVISION_1,
        ),
        Flags: 0,
        OpenNDKAdapterHandler: Some(ndk::open),
        CloseNDKAdapterHandler: Some(ndk::close),
    };
    // SAFETY: as documented.
    NTSTATUS(unsafe { imports::NdisSetOptionalHandlers(handle, (&raw const provider).cast()) })
}

const OIDS: [u32; 21] = [
    OID_GEN_CURRENT_LOOKAHEAD,
    OID_GEN_CURRENT_PACKET_FILTER,
    OID_GEN_INTERRUPT_MODERATION,
    OID_GEN_LINK_PARAMETERS,
    OID_GEN_MAXIMUM_TOTAL_SIZE,
    OID_GEN_RECEIVE_BLOCK_SIZE,
    OID_GEN_RECEIVE_BUFFER_SPACE,
    OID_GEN_STATISTICS,
    OID_GEN_TRANSMIT_BLOCK_SIZE,
    OID_GEN_TRANSMIT_BUFFER_SPACE,
    OID_GEN_VENDOR_DESCRIPTION,
    OID_GEN_VENDOR_DRIVER_VERSION,
    OID_GEN_VENDOR_ID,
    OID_GEN_XMIT_OK,
    OID_GEN_RCV_OK,
    OID_802_3_PERMANENT_ADDRESS,
    OID_802_3_CURRENT_ADDRESS,
    OID_NDK_SET_STATE,
    OID_NDK_STATISTICS,
    OID_NDK_CONNECTIONS,
    OID_NDK_LOCAL_ENDPOINTS,
];

pub(crate) const PACKET_FILTERS: u32 =
    NDIS_PACKET_TYPE_DIRECTED | NDIS_PACKET_TYPE_MULTICAST | NDIS_PACKET_TYPE_BROADCAST;

fn registration() -> NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES {
    NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES_REVISION_1,
        ),
        MiniportAdapterContext: (&raw const CONTEXT).cast_mut().cast(),
        AttributeFlags: NDIS_MINIPORT_ATTRIBUTES_NDIS_WDM | NDIS_MINIPORT_ATTRIBUTES_SURPRISE_REMOVE_OK,
        CheckForHangTimeInSeconds: 0,
        InterfaceType: NdisInterfacePNPBus,
    }
}

fn general() -> NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES {
    let mut address = [0; 32];
    if let Some(bytes) = address.first_chunk_mut() {
        *bytes = [0x02, 0x53, 0x4F, 0x46, 0x54, 0x01];
    }
    NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
            NDIS_SIZEOF_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES_REVISION_2,
        ),
        PhysicalMediumType: NdisPhysicalMediumUnspecified,
        MtuSize: 1500,
        MaxXmitLinkSpeed: 1_000_000_000,
        XmitLinkSpeed: 1_000_000_000,
        MaxRcvLinkSpeed: 1_000_000_000,
        RcvLinkSpeed: 1_000_000_000,
        MediaConnectState: MediaConnectStateConnected,
        MediaDuplexState: MediaDuplexStateFull,
        LookaheadSize: 1500,
        MacOptions: NDIS_MAC_OPTION_NO_LOOPBACK,
        SupportedPacketFilters: PACKET_FILTERS,
        MaxMulticastListSize: 32,
        MacAddressLength: 6,
        PermanentMacAddress: address,
        CurrentMacAddress: address,
        AccessType: NET_IF_ACCESS_BROADCAST,
        DirectionType: NET_IF_DIRECTION_SENDRECEIVE,
        ConnectionType: NET_IF_CONNECTION_DEDICATED,
        IfType: IF_TYPE_ETHERNET_CSMACD,
        SupportedOidList: OIDS.as_ptr().cast_mut(),
        SupportedOidListLength: size_of_val(&OIDS) as u32,
        ..NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES::ZERO
    }
}

/// Whether the configuration asks for attributes in the wrong order. Also: a value that is not there, and the default of another.
fn plants_wrong_order(handle: NDIS_HANDLE) -> bool {
    let object = NDIS_CONFIGURATION_OBJECT {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT,
            NDIS_CONFIGURATION_OBJECT_REVISION_1,
            NDIS_SIZEOF_CONFIGURATION_OBJECT_REVISION_1,
        ),
        NdisHandle: handle,
        Flags: 0,
    };
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
        let (planted, enabled, absent) = (read(WRONG_ORDER), read("*NetworkDirect"), read("NoSuchKeyword"));
        imports::NdisCloseConfiguration(configuration);
        planted == Some(1) && enabled == Some(1) && absent.is_none()
    }
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
    let ndk = NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_NDK_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_NDK_ATTRIBUTES_REVISION_1,
        ),
        Enabled: 1,
        NdkCapabilities: &mut capabilities,
    };
    let (first, second) = (registration(), general());
    let mut devices = [core::ptr::null_mut(); 3];
    // SAFETY: as documented; NDIS's parameters are valid for the call.
    unsafe {
        if (*parameters).Header.Type != NDIS_OBJECT_TYPE_MINIPORT_INIT_PARAMETERS {
            return NDIS_STATUS_INVALID_PARAMETER;
        }
        if plants_wrong_order(handle) {
            // All of these must be refused, and counted.
            let (late, early): (*const c_void, *const c_void) = ((&raw const ndk).cast(), (&raw const second).cast());
            if NdisMSetMiniportAttributes(handle, late) == 0 || NdisMSetMiniportAttributes(handle, early) == 0 {
                return NDIS_STATUS_FAILURE;
            }
        }
        let all: [*const c_void; 3] = [(&raw const first).cast(), (&raw const second).cast(), (&raw const ndk).cast()];
        for attributes in all {
            let status = NdisMSetMiniportAttributes(handle, attributes);
            if status != 0 {
                return NTSTATUS(status);
            }
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
        NTSTATUS(control::create())
    }
}

/// ndis/nc-ndis-miniport_halt.
unsafe extern "system" fn halt(_context: NDIS_HANDLE, _action: NDIS_HALT_ACTION) {
    // SAFETY: made in MiniportInitializeEx.
    unsafe {
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

/// A chain that [`Fault::HoldsSends`] keeps.
static HELD: AtomicPtr<NET_BUFFER_LIST> = AtomicPtr::new(core::ptr::null_mut());

/// Waits for the sends in progress.
unsafe extern "system" fn pause(
    _context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
) -> NDIS_STATUS {
    if Fault::ReceivesWhilePaused.is_planted() {
        indicate(adapter_handle(), 1);
    }
    TRAFFIC.fetch_or(PAUSED, Ordering::AcqRel);
    while TRAFFIC.load(Ordering::Acquire) != PAUSED {
        sleep(1);
    }
    NDIS_STATUS_SUCCESS
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
                (*list).Status = if sends { NDIS_STATUS_SUCCESS } else { NDIS_STATUS_PAUSED };
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

/// Indicates one list with one frame, of `source`, as `count` lists.
pub(crate) fn indicate(source: NDIS_HANDLE, count: u32) {
    let mut frame = NET_BUFFER::ZERO;
    let mut list = NET_BUFFER_LIST { FirstNetBuffer: &mut frame, SourceHandle: source, ..NET_BUFFER_LIST::ZERO };
    // NDIS_RECEIVE_FLAGS_RESOURCES: they are this driver's again when the call returns.
    // SAFETY: a list that outlives the call.
    unsafe { imports::NdisMIndicateReceiveNetBufferLists(adapter_handle(), &mut list, 0, count, 2) };
}

unsafe extern "system" fn returned(_context: NDIS_HANDLE, _lists: *mut NET_BUFFER_LIST, _flags: u32) {}
unsafe extern "system" fn cancel(_context: NDIS_HANDLE, _id: *mut c_void) {}
unsafe extern "system" fn device_event(_context: NDIS_HANDLE, _event: *mut NET_DEVICE_PNP_EVENT) {}
unsafe extern "system" fn shutdown(_context: NDIS_HANDLE, _action: NDIS_SHUTDOWN_ACTION) {}

/// NdisMSetMiniportAttributes at a wrong time.
pub(crate) fn set_attributes_late() {
    let attributes = registration();
    // SAFETY: as documented, but for the time.
    unsafe { NdisMSetMiniportAttributes(adapter_handle(), (&raw const attributes).cast()) };
}
