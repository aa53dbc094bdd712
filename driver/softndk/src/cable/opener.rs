//! Opens the cable's socket while another interface of this machine has the address `CableLocal`, and closes it when the address goes: the link of
//! the adapter is up while the socket is open. The link of an adapter with a patch cable is up while another adapter has the other end.
//!
//! A work item looks: at each notification of TCP/IP, when another end of a patch cable has come or gone, at each restart of the adapter, when
//! Winsock Kernel says that the socket is dead, and some seconds after an open that failed. It waits for Winsock Kernel, which a callback of TCP/IP
//! should not do.
#![expect(unsafe_code, reason = "calls into NDIS, and callbacks with the cable by pointer")]

use core::{ffi::c_void, mem::ManuallyDrop, net::SocketAddr};

use ndk_abi::{
    ndis::NDIS_HANDLE,
    softndk_ioctl::{
        SOFTNDK_CABLE_ERROR_ADDRESS, SOFTNDK_CABLE_ERROR_CLOSED, SOFTNDK_CABLE_ERROR_NOTIFICATIONS,
        SOFTNDK_CABLE_ERROR_OPEN, SOFTNDK_CABLE_ERROR_OTHER_END,
    },
    status::{
        NDIS_STATUS_MEDIA_DISCONNECTED, NDIS_STATUS_RESOURCES, NTSTATUS, STATUS_FILE_FORCED_CLOSED,
        STATUS_INVALID_ADDRESS_COMPONENT,
    },
};
use platform::{Arc, Event, OutOfMemory, Passive, SpinLock, Timer};

use super::{Cable, patch};
use crate::{
    attributes,
    critical_region::CriticalRegion,
    events,
    ndis::{self, Handle},
    platform::Windows,
    tcpip::{self, Notifications},
};

/// Microseconds until the next look after an open that failed: Winsock Kernel may start later, and a port become free.
const AGAIN: u32 = 5_000_000;

pub(super) struct Opener {
    miniport: Handle,
    luid: u64,
    local: SocketAddr,
    is_patch: bool,
    work_item: Handle,
    state: SpinLock<State, Windows>,
    stopped: Arc<Event<Windows>, Windows>,
}

struct State {
    /// `None` until TCP/IP has accepted the registration.
    notifications: Option<Notifications>,
    /// The work item is queued, or its routine runs.
    busy: bool,
    /// The routine has to look again.
    again: bool,
    /// Winsock Kernel says that the socket is dead.
    dead: bool,
    /// NDIS has been told that the link of a patch cable is up.
    is_up: bool,
    /// The other end of the patch cable has gone since. Another may have come.
    has_parted: bool,
    /// An event has said that the link is down, and why.
    is_told: bool,
    /// A thread waits for `stopped`, and no work item is queued after this.
    stopping: bool,
}

impl Opener {
    pub(super) fn new(
        miniport: NDIS_HANDLE,
        luid: u64,
        local: SocketAddr,
        is_patch: bool,
    ) -> Result<Self, OutOfMemory> {
        let stopped = Event::new()?;
        // SAFETY: the adapter's handle.
        let work_item = unsafe { ndis::NdisAllocateIoWorkItem(miniport) };
        if work_item.is_null() {
            return Err(OutOfMemory);
        }
        let state = SpinLock::<_, Windows>::new(State {
            notifications: None,
            busy: false,
            again: false,
            dead: false,
            is_up: false,
            has_parted: false,
            is_told: false,
            stopping: false,
        });
        Ok(Self { miniport: Handle(miniport), luid, local, is_patch, work_item: Handle(work_item), state, stopped })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Ends the notifications, waits for the work item, and takes a patch cable's end out.
    pub(super) fn stop(cable: &Arc<Cable, Windows>, passive: &Passive<'_>) {
        let this = &cable.opener;
        let notifications = this.state.lock().notifications.take();
        drop(notifications);
        let mut state = this.state.lock();
        state.stopping = true;
        let busy = state.busy;
        drop(state);
        if busy {
            this.stopped.wait(passive);
        }
        Timer::cancel(cable);
        if this.is_patch {
            patch::part(cable, passive);
        }
    }

    /// Has the work item look. IRQL <= DISPATCH.
    pub(super) fn queue(cable: &Arc<Cable, Windows>) {
        let this = &cable.opener;
        let mut state = this.state.lock();
        state.again = true;
        if state.busy || state.stopping {
            return;
        }
        state.busy = true;
        drop(state);
        let context = Arc::as_ptr(cable).cast_mut().cast();
        // SAFETY: not queued, as it was not busy; `stop` waits for the routine, before the adapter gives the cable up.
        unsafe { ndis::NdisQueueIoWorkItem(this.work_item.0, look, context) };
    }

    /// The other end of the patch cable has gone. The caller has the work item look.
    pub(super) fn has_parted(&self) {
        self.state.lock().has_parted = true;
    }

    /// Winsock Kernel says that the socket is dead.
    pub(super) fn socket_is_dead(cable: &Arc<Cable, Windows>) {
        cable.opener.state.lock().dead = true;
        Self::queue(cable);
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

    /// Opens the socket, or closes it.
    fn look(cable: &Arc<Cable, Windows>, passive: &Passive<'_>) {
        let this = &cable.opener;
        if this.is_patch {
            return this.look_for_other_end(cable, passive);
        }
        let dead = this.state.lock().dead;
        if dead && cable.is_open() {
            this.close(cable, (SOFTNDK_CABLE_ERROR_CLOSED, STATUS_FILE_FORCED_CLOSED), passive);
        }
        let no_address = (SOFTNDK_CABLE_ERROR_ADDRESS, STATUS_INVALID_ADDRESS_COMPONENT);
        match (tcpip::has_address(this.local.ip(), this.luid, passive), cable.is_open()) {
            (Some(true), false) => match cable.open_socket(this.local, passive) {
                Ok(()) => {
                    this.state.lock().is_told = false;
                    events::cable_up(this.luid, this.local);
                    attributes::indicate_link(this.miniport.0, true);
                }
                Err(status) => {
                    Self::tell(cable, (SOFTNDK_CABLE_ERROR_OPEN, status));
                    Timer::start(cable, AGAIN);
                }
            },
            (Some(false), true) => this.close(cable, no_address, passive),
            (Some(false), false) => Self::tell(cable, no_address),
            // As it should be.
            (Some(true), true) => {}
            (None, _) => Timer::start(cable, AGAIN),
        }
    }

    /// Joins a patch cable's end with another, and tells NDIS of a change: also if the other end is another one than before.
    fn look_for_other_end(&self, cable: &Arc<Cable, Windows>, passive: &Passive<'_>) {
        let joined = patch::join(cable, passive);
        let mut state = self.state.lock();
        let was_up = core::mem::replace(&mut state.is_up, joined == Ok(true));
        let has_parted = core::mem::take(&mut state.has_parted);
        drop(state);
        if was_up && (has_parted || joined != Ok(true)) {
            attributes::indicate_link(self.miniport.0, false);
        }
        match joined {
            Ok(true) if was_up && !has_parted => {}
            Ok(true) => {
                self.state.lock().is_told = false;
                events::cable_up(self.luid, self.local);
                attributes::indicate_link(self.miniport.0, true);
            }
            Ok(false) => Self::tell(cable, (SOFTNDK_CABLE_ERROR_OTHER_END, NDIS_STATUS_MEDIA_DISCONNECTED)),
            Err(OutOfMemory) => {
                Self::tell(cable, (SOFTNDK_CABLE_ERROR_OTHER_END, NDIS_STATUS_RESOURCES));
                Timer::start(cable, AGAIN);
            }
        }
    }

    fn close(&self, cable: &Arc<Cable, Windows>, why: (u32, NTSTATUS), passive: &Passive<'_>) {
        attributes::indicate_link(self.miniport.0, false);
        Self::tell(cable, why);
        Cable::close_socket(cable, passive);
        // The close has waited for the last callback of that socket.
        self.state.lock().dead = false;
    }

    /// Says that the link is down: in the last error, and once each time in an event. `kind`: SOFTNDK_CABLE_ERROR_*.
    fn tell(cable: &Cable, (kind, status): (u32, NTSTATUS)) {
        let this = &cable.opener;
        cable.counters.failed(kind, status);
        if !core::mem::replace(&mut this.state.lock().is_told, true) {
            events::cable_down(this.luid, this.local, status);
        }
    }
}

impl Cable {
    /// Registers for notifications, unless the cable is registered, and has the work item look. NDIS serialises the callers: initialisation,
    /// restarts and halt.
    pub(crate) fn start(cable: &Arc<Self, Windows>, passive: &Passive<'_>) {
        let this = &cable.opener;
        if !this.is_patch && this.state.lock().notifications.is_none() {
            let context = Arc::as_ptr(cable).cast_mut().cast();
            // SAFETY: the adapter keeps the cable until `stop` has dropped the registration.
            match unsafe { Notifications::start(changed, context, passive) } {
                Ok(notifications) => this.state.lock().notifications = Some(notifications),
                Err(status) => Opener::tell(cable, (SOFTNDK_CABLE_ERROR_NOTIFICATIONS, status)),
            }
        }
        Opener::queue(cable);
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and not queued.
        unsafe { ndis::NdisFreeIoWorkItem(self.work_item.0) };
    }
}

/// The cable of a callback's context, which the adapter keeps until [`Opener::stop`] has returned: without a reference for the call.
///
/// # Safety
/// `context` is the cable, and the call is over before [`Opener::stop`] returns.
unsafe fn cable(context: *mut c_void) -> ManuallyDrop<Arc<Cable, Windows>> {
    // SAFETY: by contract; the reference is not dropped.
    ManuallyDrop::new(unsafe { Arc::from_raw(context.cast_const().cast()) })
}

/// The callback: an address of any interface was added, changed or deleted.
unsafe extern "system" fn changed(context: *mut c_void, _row: *mut c_void, _notification: i32) {
    let _region = CriticalRegion::enter();
    // SAFETY: the context of the registration; `stop` waits for its callbacks.
    let cable = unsafe { cable(context) };
    Opener::queue(&cable);
}

/// The routine of the work item.
unsafe extern "system" fn look(context: *mut c_void, _work_item: NDIS_HANDLE) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of the work item; `stop` waits for this routine.
    let cable = unsafe { cable(context) };
    while cable.opener.goes_on() {
        Opener::look(&cable, &passive);
    }
}
