//! Opens the cable's socket once this machine has the address `CableLocal`: at the first notification of TCP/IP, and at each later one until the
//! socket is there. A work item opens the socket: it waits for Winsock Kernel, which a callback of TCP/IP should not do.
#![expect(unsafe_code, reason = "calls into NDIS, and callbacks with the cable by pointer")]

use core::ffi::c_void;

use ndk_abi::{ndis::NDIS_HANDLE, status::NTSTATUS};
use platform::{Arc, Event, OutOfMemory, Passive, SpinLock};

use super::Cable;
use crate::{
    critical_region::CriticalRegion,
    ndis::{self, Handle},
    platform::Windows,
    tcpip::Notifications,
};

pub(super) struct Opener {
    work_item: Handle,
    state: SpinLock<State, Windows>,
    stopped: Arc<Event<Windows>, Windows>,
}

struct State {
    /// `None` until TCP/IP has accepted the registration.
    notifications: Option<Notifications>,
    /// The work item is queued, or its routine runs.
    busy: bool,
    /// A notification has come since the routine began.
    again: bool,
    /// A thread waits for `stopped`, and no work item is queued after this.
    stopping: bool,
}

impl Opener {
    pub(super) fn new(miniport: NDIS_HANDLE) -> Result<Self, OutOfMemory> {
        let stopped = Event::new()?;
        // SAFETY: the adapter's handle.
        let work_item = unsafe { ndis::NdisAllocateIoWorkItem(miniport) };
        if work_item.is_null() {
            return Err(OutOfMemory);
        }
        let state = State { notifications: None, busy: false, again: false, stopping: false };
        Ok(Self { work_item: Handle(work_item), state: SpinLock::<_, Windows>::new(state), stopped })
    }

    /// Registers for notifications, unless the cable is registered. NDIS serialises the callers: initialisation, restarts and halt.
    ///
    /// # Safety
    /// `cable` is this opener's, and stays until [`Opener::stop`] has returned.
    pub(super) unsafe fn start(&self, cable: *const Cable, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        if self.state.lock().notifications.is_some() {
            return Ok(());
        }
        // SAFETY: `stop` drops the registration.
        let notifications = unsafe { Notifications::start(changed, cable.cast_mut().cast(), passive) }?;
        self.state.lock().notifications = Some(notifications);
        Ok(())
    }

    /// Ends the notifications, and waits for the work item.
    pub(super) fn stop(&self, passive: &Passive<'_>) {
        let notifications = self.state.lock().notifications.take();
        drop(notifications);
        let mut state = self.state.lock();
        state.stopping = true;
        let busy = state.busy;
        drop(state);
        if busy {
            self.stopped.wait(passive);
        }
    }

    fn queue(&self, cable: *const Cable) {
        let mut state = self.state.lock();
        state.again = true;
        if state.busy || state.stopping {
            return;
        }
        state.busy = true;
        drop(state);
        // SAFETY: not queued, as it was not busy; `stop` waits for the routine.
        unsafe { ndis::NdisQueueIoWorkItem(self.work_item.0, open, cable.cast_mut().cast()) };
    }

    /// Whether the work item's routine has to look again. False: the cable may be freed.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        if core::mem::take(&mut state.again) && !state.stopping {
            return true;
        }
        state.busy = false;
        let stopped = state.stopping.then(|| self.stopped.clone());
        drop(state);
        if let Some(stopped) = stopped {
            stopped.set();
        }
        false
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and not queued.
        unsafe { ndis::NdisFreeIoWorkItem(self.work_item.0) };
    }
}

/// The callback: an address of any interface was added, changed or deleted.
unsafe extern "system" fn changed(context: *mut c_void, _row: *mut c_void, _notification: i32) {
    let _region = CriticalRegion::enter();
    // SAFETY: the cable, by contract of `start`.
    let cable = unsafe { &*context.cast_const().cast::<Cable>() };
    if !cable.is_open() {
        cable.opener.queue(cable);
    }
}

/// The routine of the work item.
unsafe extern "system" fn open(context: *mut c_void, _work_item: NDIS_HANDLE) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the cable, by contract of `start`: `stop` waits for this routine.
    let cable = unsafe { &*context.cast_const().cast::<Cable>() };
    while cable.opener.goes_on() {
        cable.open(&passive);
    }
}
