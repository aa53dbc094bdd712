//! Whether RDMA is on, and the work item that tells NDIS of it.
#![expect(unsafe_code, reason = "calls into NDIS")]

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{
    ndis::NDIS_HANDLE,
    status::{NDIS_STATUS, NDIS_STATUS_ADAPTER_REMOVED, NDIS_STATUS_RESOURCES},
};
use platform::{Arc, Event, Passive, SpinLock};

use crate::{
    ndis::{self, Handle, NdisIoWorkItemFunction},
    platform::Windows,
};

/// Whether RDMA is on, as wanted and as announced.
pub(crate) struct RdmaState {
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
            Ok(enabled) => Ok(Self { work_item, enabled, state }),
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

    /// Has RDMA turned on or off, soon: by `routine`, in a work item, unless NDIS knows that already or a work item is there to tell it.
    /// NDIS_STATUS_ADAPTER_REMOVED: the device has gone.
    ///
    /// # Safety
    /// `routine` may be called with `context`, by a thread of NDIS, until [`RdmaState::stop`] returns. It calls
    /// [`RdmaState::next_announcement`] of this until that returns `None`, and uses `context` no more then.
    pub(crate) unsafe fn set(
        &self,
        enabled: bool,
        routine: NdisIoWorkItemFunction,
        context: *mut c_void,
    ) -> Result<(), NDIS_STATUS> {
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
        // SAFETY: not queued (there was no worker); the routine and its context by contract.
        unsafe { ndis::NdisQueueIoWorkItem(self.work_item.0, routine, context) };
        Ok(())
    }

    /// Waits for the work item. Nothing may call `set` any more.
    pub(crate) fn stop(&self, passive: &Passive<'_>) {
        let worker = self.state.lock().worker.clone();
        if let Some(finished) = worker {
            finished.wait(passive);
        }
    }

    /// What NDIS is to be told next: that RDMA is on, or off. `None`: what NDIS knows is what is wanted. Then the work item is done, and
    /// a halt may go on.
    pub(crate) fn next_announcement(&self) -> Option<bool> {
        let mut state = self.state.lock();
        let wanted = self.enabled.load(Ordering::Relaxed);
        if wanted != state.announced {
            state.announced = wanted;
            return Some(wanted);
        }
        let finished = state.worker.take();
        drop(state);
        if let Some(finished) = finished {
            finished.set();
        }
        None
    }
}

impl Drop for RdmaState {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and not queued (`stop`).
        unsafe { ndis::NdisFreeIoWorkItem(self.work_item.0) };
    }
}
