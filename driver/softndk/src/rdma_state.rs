//! Whether RDMA is on, and the work item that notifies NDIS of changes.
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

/// Whether RDMA is on: the wanted state, and the state of which NDIS was notified.
pub(crate) struct RdmaState {
    work_item: Handle,
    /// The wanted state, which changes under the lock of `state`. The control device reads it too, without the lock.
    enabled: Arc<AtomicBool, Windows>,
    state: SpinLock<State, Windows>,
}

struct State {
    /// The adapter was removed by surprise: RDMA stays off.
    removed: bool,
    /// The state of which NDIS was last notified, or is being notified.
    announced: bool,
    /// Set while the work item is queued or its routine runs; signalled when the routine is done.
    worker: Option<Arc<Event<Windows>, Windows>>,
}

impl RdmaState {
    /// The state of a new adapter: RDMA is off. NDIS_STATUS_RESOURCES: no memory.
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

    /// Sets the state that the NDK attributes report to NDIS at the initialisation.
    pub(crate) fn initialize(&self, enabled: bool) {
        let mut state = self.state.lock();
        self.enabled.store(enabled, Ordering::Relaxed);
        state.announced = enabled;
    }

    /// Whether NDK adapters may be opened.
    pub(crate) fn enabled(&self) -> &Arc<AtomicBool, Windows> {
        &self.enabled
    }

    /// Records a surprise removal: no NDK adapter can be opened, and RDMA stays off. NDIS is not notified, as it reported the removal.
    pub(crate) fn remove(&self) {
        let mut state = self.state.lock();
        state.removed = true;
        self.enabled.store(false, Ordering::Relaxed);
        state.announced = false;
    }

    /// Stores the wanted state. Queues the work item with `routine`, unless NDIS was already notified of that state, or the work item is
    /// queued or its routine runs. NDIS_STATUS_ADAPTER_REMOVED: the device was removed.
    ///
    /// # Safety
    /// A thread of NDIS may call `routine` with `context` until [`RdmaState::stop`] returns. `routine` calls
    /// [`RdmaState::next_announcement`] of this state until that returns `None`, and does not use `context` after that.
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
        // SAFETY: the work item is not queued (there was no worker); routine and context by contract.
        unsafe { ndis::NdisQueueIoWorkItem(self.work_item.0, routine, context) };
        Ok(())
    }

    /// Waits until the work item's routine is done. The caller ensures that `set` is not called after this.
    pub(crate) fn stop(&self, passive: &Passive<'_>) {
        let worker = self.state.lock().worker.clone();
        if let Some(finished) = worker {
            finished.wait(passive);
        }
    }

    /// The state of which the work item's routine has to notify NDIS next. `None`: NDIS has the wanted state, the routine is done, and
    /// `stop` returns.
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
        // SAFETY: allocated by `new`, and not queued: `set` was never called, or `stop` has waited.
        unsafe { ndis::NdisFreeIoWorkItem(self.work_item.0) };
    }
}
