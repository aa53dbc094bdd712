//! NDK adapters: opened and closed through the handlers the driver registered, and the events that enable and disable them.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use kernel::{PASSIVE_LEVEL, Shared, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, ndkpi::*, status::*};

use crate::{
    adapter::{self, Adapter, PATIENCE},
    check_header, lock, oid,
};

const OPENING: &str = "NDK adapter opening";

#[derive(Default)]
struct State {
    open: Vec<Shared<NDK_ADAPTER>>,
    /// What the latest event said; None before the first.
    enabled: Option<bool>,
    /// A disable event is waiting for consumers to close.
    disabling: bool,
}

/// The NDK adapters that are open through this module.
#[derive(Default)]
pub(crate) struct Openings {
    state: Mutex<State>,
    changed: Condvar,
}

impl Openings {
    /// Waits for the event that says `enabled`; false if it does not come.
    pub(crate) fn wait_for_state(&self, enabled: bool) -> bool {
        let limit = Instant::now() + PATIENCE;
        let mut state = lock(&self.state);
        while state.enabled != Some(enabled) || state.disabling {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Closes what a consumer has had open while RDMA is being disabled: until then the event waits, and nobody else gets in
    /// (network/enabling-and-disabling-ndk-functionality, ndisndk/nc-ndisndk-open_ndk_adapter_handler).
    pub(crate) fn close_while_disabling(&self, adapter: &Adapter, consumer: *mut NDK_ADAPTER) {
        let limit = Instant::now() + PATIENCE;
        let mut state = lock(&self.state);
        while !state.disabling {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                violation("no NetEventNDKDisable while a consumer has an NDK adapter open");
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        match open(adapter, NDK_VERSION { Major: 2, Minor: 0 }) {
            Ok(opened) => {
                violation("an NDK adapter was opened while RDMA is disabled");
                close(adapter, opened);
            }
            Err(NDIS_STATUS_ADAPTER_NOT_READY) => {}
            Err(status) => violation(&format!("opening an NDK adapter while RDMA is disabled: {status}")),
        }
        close(adapter, consumer);
    }

    /// Before an adapter is halted its NDK adapters are closed: consumers get the chance, then they are closed for them.
    pub(crate) fn close_all(&self, adapter: &Adapter) {
        let left = std::mem::take(&mut lock(&self.state).open);
        for opening in left {
            violation("an NDK adapter was still open when its adapter was halted");
            close_handler(adapter, opening.get());
        }
    }
}

/// Opens an NDK adapter, as a consumer would through NDIS (ndisndk/nc-ndisndk-open_ndk_adapter_handler, PASSIVE_LEVEL).
pub(crate) fn open(adapter: &Adapter, version: NDK_VERSION) -> Result<*mut NDK_ADAPTER, NDIS_STATUS> {
    let Some(handler) = lock(&adapter.driver.provider).and_then(|provider| provider.OpenNDKAdapterHandler) else {
        return Err(NDIS_STATUS_NOT_SUPPORTED);
    };
    let mut parameters =
        NDIS_OPEN_NDK_ADAPTER_PARAMETERS { Version: version, ..NDIS_OPEN_NDK_ADAPTER_PARAMETERS::ZERO };
    let mut opened = std::ptr::null_mut();
    let status = kernel::balanced("OpenNDKAdapterHandler", || {
        // SAFETY: the driver's handler, called as documented.
        unsafe { handler(adapter.context(), &mut parameters, &mut opened) }
    });
    if status == NDIS_STATUS_PENDING {
        violation("OpenNDKAdapterHandler returned NDIS_STATUS_PENDING");
        return Err(status);
    }
    if status != NDIS_STATUS_SUCCESS {
        return Err(status);
    }
    if opened.is_null() {
        violation("OpenNDKAdapterHandler succeeded without an adapter");
        return Err(NDIS_STATUS_FAILURE);
    }
    kernel::object(OPENING, 1);
    lock(&adapter.ndk.state).open.push(Shared(opened));
    check_opened(opened, version);
    Ok(opened)
}

/// What must be true of an adapter that was opened with `version`.
fn check_opened(opened: *mut NDK_ADAPTER, version: NDK_VERSION) {
    // SAFETY: the driver gave an open adapter.
    let object = unsafe { &*opened };
    let header = object.Header;
    if header.ObjectType != NdkObjectTypeAdapter {
        violation(&format!("NDK adapter with object type {:?}", header.ObjectType));
    }
    if header.Version < version {
        violation(&format!("NDK adapter opened with {version:?} reports {:?}", header.Version));
    }
    if header.NdkReserved.rf.iter().any(|pointer| !pointer.is_null()) {
        violation("NDK adapter with reserved fields that are not zero");
    }
    // SAFETY: the dispatch table is null or that of an adapter.
    let Some(dispatch) = (unsafe { object.Dispatch.as_ref() }) else {
        violation("NDK adapter without a dispatch table");
        return;
    };
    // ndkpi/nc-ndkpi-ndk_fn_query_adapter_info: PASSIVE_LEVEL; a short buffer gives STATUS_BUFFER_TOO_SMALL and the size needed.
    let mut information = NDK_ADAPTER_INFO::ZERO;
    information.Version = header.Version;
    let mut size = 4;
    // SAFETY: four bytes of a longer structure are offered.
    let short = unsafe { (dispatch.NdkQueryAdapterInfo)(opened, &mut information, &mut size) };
    if short != STATUS_BUFFER_TOO_SMALL || (size as usize) < size_of::<NDK_ADAPTER_INFO>() - 8 {
        violation(&format!("NdkQueryAdapterInfo with 4 bytes: {short}, size {size}"));
    }
    size = size_of::<NDK_ADAPTER_INFO>() as u32;
    // SAFETY: as many bytes as the structure has.
    let full = unsafe { (dispatch.NdkQueryAdapterInfo)(opened, &mut information, &mut size) };
    if full != STATUS_SUCCESS {
        violation(&format!("NdkQueryAdapterInfo: {full}"));
    } else if information.Version < version {
        violation(&format!("NdkQueryAdapterInfo reports {:?} to a consumer of {version:?}", information.Version));
    }
}

fn close_handler(adapter: &Adapter, opened: *mut NDK_ADAPTER) {
    let handler = lock(&adapter.driver.provider).and_then(|provider| provider.CloseNDKAdapterHandler);
    if let Some(handler) = handler {
        // ndisndk/nc-ndisndk-close_ndk_adapter_handler: PASSIVE_LEVEL.
        // SAFETY: the driver's handler, called as documented.
        kernel::balanced("CloseNDKAdapterHandler", || unsafe { handler(adapter.context(), opened) });
    }
    kernel::object(OPENING, -1);
}

/// Closes it, as the consumer that opened it would.
pub(crate) fn close(adapter: &Adapter, opened: *mut NDK_ADAPTER) -> bool {
    let mut state = lock(&adapter.ndk.state);
    let Some(place) = state.open.iter().position(|opening| opening.get() == opened) else { return false };
    state.open.remove(place);
    drop(state);
    close_handler(adapter, opened);
    adapter.ndk.changed.notify_all();
    true
}

/// Opens and closes an NDK adapter by the version rule: another major version, or a minor above the provider's, is refused.
pub(crate) fn check(adapter: &Adapter) {
    if lock(&adapter.driver.provider).is_none() || !lock(&adapter.attributes).ndk_enabled {
        return;
    }
    let version = |major, minor| NDK_VERSION { Major: major, Minor: minor };
    match open(adapter, version(2, 0)) {
        Ok(opened) => {
            close(adapter, opened);
        }
        Err(status) => violation(&format!("opening an NDK adapter with version 2.0: {status}")),
    }
    // Whether a provider of version 2 also serves version 1 is its choice.
    match open(adapter, version(1, 1)) {
        Ok(opened) => {
            close(adapter, opened);
        }
        Err(NDIS_STATUS_BAD_VERSION) => {}
        Err(status) => violation(&format!("opening an NDK adapter with version 1.1: {status}")),
    }
    for refused in [version(2, 0x7FFF), version(9, 0), version(0, 0)] {
        match open(adapter, refused) {
            Ok(opened) => {
                violation(&format!("an NDK adapter was opened with {refused:?}"));
                close(adapter, opened);
            }
            Err(NDIS_STATUS_BAD_VERSION) => {}
            Err(status) => violation(&format!("opening an NDK adapter with {refused:?}: {status}")),
        }
    }
}

/// ndis/nf-ndis-ndismnetpnpevent: PASSIVE_LEVEL. `NetEventNDKDisable` returns when all NDK adapters are closed
/// (network/disabling-and-enabling-an-ndk-provider); neither event may come from the OID handler.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMNetPnPEvent(
    handle: NDIS_HANDLE,
    event: *const NET_PNP_EVENT_NOTIFICATION,
) -> NDIS_STATUS {
    const WHAT: &str = "NET_PNP_EVENT_NOTIFICATION";
    kernel::at_most(PASSIVE_LEVEL, "NdisMNetPnPEvent");
    let Some(adapter) = adapter::from_handle(handle, "NdisMNetPnPEvent") else { return NDIS_STATUS_INVALID_PARAMETER };
    let sizes = [NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_1, NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_2];
    // SAFETY: the caller gives a notification.
    if let Err(status) = unsafe { check_header(event.cast(), WHAT, NDIS_OBJECT_TYPE_DEFAULT, &sizes) } {
        return status;
    }
    if oid::is_inside_handler() {
        violation("NdisMNetPnPEvent: called from the OID request handler, where NDIS would deadlock");
    }
    // SAFETY: the size has been checked.
    let code = unsafe { (*event).NetPnPEvent.NetEvent };
    let openings = &adapter.ndk;
    let mut state = lock(&openings.state);
    match code {
        NetEventNDKEnable => state.enabled = Some(true),
        NetEventNDKDisable => {
            state.enabled = Some(false);
            state.disabling = true;
            openings.changed.notify_all();
            while !state.open.is_empty() {
                state = openings
                    .changed
                    .wait_timeout(state, Duration::from_secs(1))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            state.disabling = false;
        }
        other => {
            drop(state);
            violation(&format!("NdisMNetPnPEvent: {other:?} is not a miniport's event"));
            return NDIS_STATUS_NOT_SUPPORTED;
        }
    }
    drop(state);
    openings.changed.notify_all();
    NDIS_STATUS_SUCCESS
}

/// For tests: opens an NDK adapter of the running adapter. `version` is major in the low and minor in the high 16 bits.
#[unsafe(no_mangle)]
unsafe extern "system" fn SoftNdkStandInOpenNdkAdapter(version: u32, opened: *mut *mut NDK_ADAPTER) -> NDIS_STATUS {
    let Some(adapter) = crate::driver::registered().and_then(|driver| driver.first_adapter()) else {
        return NDIS_STATUS_ADAPTER_NOT_FOUND;
    };
    match open(&adapter, NDK_VERSION { Major: version as u16, Minor: (version >> 16) as u16 }) {
        Ok(object) => {
            // SAFETY: the caller gives a place for the pointer.
            unsafe { opened.write(object) };
            NDIS_STATUS_SUCCESS
        }
        Err(status) => status,
    }
}

/// For tests: closes what `SoftNdkStandInOpenNdkAdapter` opened.
#[unsafe(no_mangle)]
unsafe extern "system" fn SoftNdkStandInCloseNdkAdapter(opened: *mut NDK_ADAPTER) -> NDIS_STATUS {
    let adapter = crate::driver::registered().and_then(|driver| driver.first_adapter());
    if adapter.is_some_and(|adapter| close(&adapter, opened)) {
        NDIS_STATUS_SUCCESS
    } else {
        NDIS_STATUS_INVALID_PARAMETER
    }
}
