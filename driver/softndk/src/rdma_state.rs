//! Turning RDMA on and off while the adapter runs (OID_NDK_SET_STATE).
//!
//! The handler only notes what is wanted: NetEventNDKEnable and NetEventNDKDisable must come from a work item, never from
//! the handler, and the second returns only when the last NDK adapter is closed ("Enabling and disabling NDK
//! functionality").
#![expect(unsafe_code, reason = "calls into NDIS, and a work item that carries its object by pointer")]

use core::{
    ffi::c_void,
    ptr::from_ref,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_HANDLE, NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_2,
        NET_PNP_EVENT, NET_PNP_EVENT_NOTIFICATION, NET_PNP_EVENT_NOTIFICATION_REVISION_2, NetEventNDKDisable,
        NetEventNDKEnable,
    },
    status::{NDIS_STATUS, NDIS_STATUS_ADAPTER_REMOVED, NDIS_STATUS_RESOURCES},
};
use platform::{Arc, Event, Passive, SpinLock};

use crate::{
    adapter::Adapter,
    events,
    ndis::{self, Handle},
    platform::Windows,
};

/// Whether RDMA is on, as wanted and as announced.
pub(crate) struct RdmaState {
    miniport: Handle,
    work_item: Handle,
    /// What OID_NDK_SET_STATE asked for last; shared with those who open adapters. Changes under the lock.
    enabled: Arc<AtomicBool, Windows>,
    state: SpinLock<State, Windows>,
}

struct State {
    /// The device has gone: RDMA is off for good.
    removed: bool,
    /// What NDIS was told last.
    announced: bool,
    /// Set while the work item is queued or running; signalled when it ends.
    worker: Option<Arc<Event<Windows>, Windows>>,
}

impl RdmaState {
    /// Off, for an adapter that starts. NDIS_STATUS_RESOURCES.
    pub(crate) fn new(miniport: NDIS_HANDLE) -> Result<Self, NDIS_STATUS> {
        // SAFETY: the adapter's handle.
        let work_item = unsafe { ndis::NdisAllocateIoWorkItem(miniport) };
        if work_item.is_null() {
            return Err(NDIS_STATUS_RESOURCES);
        }
        let work_item = Handle(work_item);
        let state = SpinLock::<_, Windows>::new(State { removed: false, announced: false, worker: None });
        match Arc::try_new(AtomicBool::new(false)) {
            Ok(enabled) => Ok(Self { miniport: Handle(miniport), work_item, enabled, state }),
            Err(_) => {
                // SAFETY: just allocated, not queued.
                unsafe { ndis::NdisFreeIoWorkItem(work_item.0) };
                Err(NDIS_STATUS_RESOURCES)
            }
        }
    }

    /// The state that the NDK attributes announce at initialisation.
    pub(crate) fn initialize(&self, enabled: bool) {
        let mut state = self.state.lock();
        self.enabled.store(enabled, Ordering::Relaxed);
        state.announced = enabled;
    }

    /// Whether NDK adapters may be opened.
    pub(crate) fn enabled(&self) -> &Arc<AtomicBool, Windows> {
        &self.enabled
    }

    /// The device has gone: nobody opens an NDK adapter any more, or has RDMA turned on again. NDIS knows, and need not be told.
    pub(crate) fn remove(&self) {
        let mut state = self.state.lock();
        state.removed = true;
        self.enabled.store(false, Ordering::Relaxed);
        state.announced = false;
    }

    /// Has RDMA turned on or off, soon. `self` is that of `adapter`. NDIS_STATUS_ADAPTER_REMOVED: the device has gone.
    pub(crate) fn set(&self, adapter: &Adapter, enabled: bool) -> Result<(), NDIS_STATUS> {
        let finished = Event::new().map_err(|_| NDIS_STATUS_RESOURCES)?;
        let mut state = self.state.lock();
        if state.removed {
            return Err(NDIS_STATUS_ADAPTER_REMOVED);
        }
        self.enabled.store(enabled, Ordering::Relaxed);
        if state.announced == enabled || state.worker.is_some() {
            return Ok(());
        }
        state.worker = Some(finished);
        drop(state);
        // SAFETY: not queued (there was no worker); `stop` keeps the adapter until the routine has ended.
        unsafe { ndis::NdisQueueIoWorkItem(self.work_item.0, announce, from_ref(adapter).cast_mut().cast()) };
        Ok(())
    }

    /// Waits for the work item. Nothing may call `set` any more.
    pub(crate) fn stop(&self, passive: &Passive<'_>) {
        let worker = self.state.lock().worker.clone();
        if let Some(finished) = worker {
            finished.wait(passive);
        }
    }

    /// Tells NDIS what is wanted until it is what NDIS knows. Programs, of which NDIS does not know, lose what they opened.
    fn announce_all(&self, adapter: &Adapter, passive: &Passive<'_>) {
        loop {
            let mut state = self.state.lock();
            let wanted = self.enabled.load(Ordering::Relaxed);
            if wanted == state.announced {
                let finished = state.worker.take();
                drop(state);
                if let Some(finished) = finished {
                    finished.set();
                }
                return;
            }
            state.announced = wanted;
            drop(state);
            if !wanted {
                adapter.close_files(passive);
            }
            self.announce(wanted, passive);
            events::rdma_changed(adapter.luid, wanted);
        }
    }

    fn announce(&self, enabled: bool, _passive: &Passive<'_>) {
        let mut event = NET_PNP_EVENT_NOTIFICATION {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NET_PNP_EVENT_NOTIFICATION_REVISION_2,
                NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_2,
            ),
            NetPnPEvent: NET_PNP_EVENT {
                NetEvent: if enabled { NetEventNDKEnable } else { NetEventNDKDisable },
                ..NET_PNP_EVENT::ZERO
            },
            ..NET_PNP_EVENT_NOTIFICATION::ZERO
        };
        // Nobody can be told of a failure: consumers then keep the adapters they have.
        // SAFETY: the adapter's handle, and a complete event that outlives the call; PASSIVE_LEVEL by the token.
        let _status = unsafe { ndis::NdisMNetPnPEvent(self.miniport.0, &raw mut event) };
    }
}

impl Drop for RdmaState {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and not queued (`stop`).
        unsafe { ndis::NdisFreeIoWorkItem(self.work_item.0) };
    }
}

/// The work item's routine. PASSIVE_LEVEL.
unsafe extern "system" fn announce(context: *mut c_void, _work_item: NDIS_HANDLE) {
    // SAFETY: NDIS runs work items at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: `set` passed the adapter itself, which `stop` keeps until this routine is done with it.
    let adapter = unsafe { &*context.cast::<Adapter>() };
    adapter.rdma().announce_all(adapter, &passive);
}
