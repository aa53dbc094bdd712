//! An adapter's life: initialising, paused, running, halted (network/miniport-adapter-states-and-operations).

use std::{
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use kernel::{DEVICE_OBJECT, DISPATCH_LEVEL, Shared, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, ndkpi::NDK_VERSION, status::*};

use crate::{
    attributes::Attributes,
    driver::Driver,
    lock, ndk,
    oid::OidQueue,
    oid_checks, packets, pnp,
    protocol::{INTERFACE_INDEX, net_luid},
};

/// No operation of a miniport may take this long here (NDIS asks for "promptly").
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);
const ADAPTER: &str = "NDIS adapter";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Initializing,
    Paused,
    Restarting,
    Running,
    Pausing,
    Halted,
}

struct Progress {
    state: State,
    /// How a restart that pended ended.
    restart_status: NDIS_STATUS,
}

/// The device objects of an adapter.
#[derive(Clone, Copy)]
pub(crate) struct Devices {
    pub(crate) physical: Shared<DEVICE_OBJECT>,
    pub(crate) functional: Shared<DEVICE_OBJECT>,
    pub(crate) next: Shared<DEVICE_OBJECT>,
}

pub(crate) struct Adapter {
    pub(crate) driver: Arc<Driver>,
    pub(crate) devices: Devices,
    /// From 0: in the order in which the adapters are made.
    pub(crate) number: u32,
    /// MiniportAdapterContext, from the registration attributes.
    context: AtomicUsize,
    progress: Mutex<Progress>,
    changed: Condvar,
    pub(crate) attributes: Mutex<Attributes>,
    pub(crate) oids: OidQueue,
    pub(crate) ndk: ndk::Openings,
    pub(crate) packets: packets::Outstanding,
}

impl Adapter {
    pub(crate) fn handle(&self) -> NDIS_HANDLE {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn context(&self) -> NDIS_HANDLE {
        self.context.load(Ordering::Acquire) as NDIS_HANDLE
    }

    pub(crate) fn set_context(&self, context: NDIS_HANDLE) {
        self.context.store(context as usize, Ordering::Release);
    }

    pub(crate) fn state(&self) -> State {
        self.progress().state
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    fn set_state(&self, state: State) {
        self.progress().state = state;
        self.changed.notify_all();
    }

    /// Waits until `state` is left; false if that took too long.
    fn wait_while(&self, state: State) -> bool {
        let limit = Instant::now() + PATIENCE;
        let mut progress = self.progress();
        while progress.state == state {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits until it is pausing, or has paused, which takes no thread long.
    pub(crate) fn wait_for_pause(&self) {
        self.wait_while(State::Running);
    }

    /// Creates the driver's adapter: MiniportInitializeEx, then MiniportRestart, then the checks. PASSIVE_LEVEL.
    pub(crate) fn start(driver: &Arc<Driver>, devices: Devices, number: u32) -> NDIS_STATUS {
        let adapter = Arc::new(Self {
            driver: Arc::clone(driver),
            devices,
            number,
            context: AtomicUsize::new(0),
            progress: Mutex::new(Progress { state: State::Initializing, restart_status: NDIS_STATUS_SUCCESS }),
            changed: Condvar::new(),
            attributes: Mutex::default(),
            oids: OidQueue::default(),
            ndk: ndk::Openings::default(),
            packets: packets::Outstanding::default(),
        });
        let mut adapters = lock(&driver.adapters);
        adapters.push(Arc::clone(&adapter));
        adapters.sort_by_key(|adapter| adapter.number);
        drop(adapters);
        kernel::object(ADAPTER, 1);
        let status = adapter.initialize();
        if !status.is_success() {
            kernel::trace(&format!("ndis: MiniportInitializeEx returned {status}"));
            adapter.forget();
            kernel::object(ADAPTER, -1);
            return status;
        }
        adapter.set_state(State::Paused);
        adapter.restart();
        if adapter.state() == State::Running {
            oid_checks::run(&adapter);
            ndk::check(&adapter);
            packets::check(&adapter);
            packets::check_pauses(&adapter);
            adapter.packets.tap.open(&adapter);
        }
        kernel::trace(&format!("ndis: adapter {number} started and checked"));
        NDIS_STATUS_SUCCESS
    }

    /// ndis/nc-ndis-miniport_initialize: PASSIVE_LEVEL; the driver sets its attributes in it.
    fn initialize(&self) -> NDIS_STATUS {
        let Some(handler) = self.driver.characteristics.InitializeHandlerEx else { return NDIS_STATUS_FAILURE };
        let mut parameters = NDIS_MINIPORT_INIT_PARAMETERS {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_MINIPORT_INIT_PARAMETERS,
                NDIS_MINIPORT_INIT_PARAMETERS_REVISION_1,
                NDIS_SIZEOF_MINIPORT_INIT_PARAMETER_REVISION_1,
            ),
            IfIndex: INTERFACE_INDEX + self.number,
            NetLuid: net_luid(self.number),
            ..NDIS_MINIPORT_INIT_PARAMETERS::ZERO
        };
        let status = kernel::balanced("MiniportInitializeEx", || {
            // SAFETY: the driver's handler, called as documented.
            unsafe { handler(self.handle(), self.driver.context.get(), &mut parameters) }
        });
        if status == NDIS_STATUS_PENDING {
            violation("MiniportInitializeEx returned NDIS_STATUS_PENDING");
            return NDIS_STATUS_FAILURE;
        }
        if status.is_success() {
            lock(&self.attributes).check_complete(lock(&self.driver.provider).is_some());
        }
        status
    }

    /// ndis/nc-ndis-miniport_restart: PASSIVE_LEVEL; the adapter is paused before.
    pub(crate) fn restart(&self) {
        let Some(handler) = self.driver.characteristics.RestartHandler else { return };
        let mut parameters = NDIS_MINIPORT_RESTART_PARAMETERS {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NDIS_MINIPORT_RESTART_PARAMETERS_REVISION_1,
                NDIS_SIZEOF_MINIPORT_RESTART_PARAMETERS_REVISION_1,
            ),
            ..NDIS_MINIPORT_RESTART_PARAMETERS::ZERO
        };
        self.set_state(State::Restarting);
        let status = kernel::balanced("MiniportRestart", || {
            // SAFETY: the driver's handler, called as documented.
            unsafe { handler(self.context(), &mut parameters) }
        });
        if status != NDIS_STATUS_PENDING {
            self.restarted(status);
        } else if !self.wait_while(State::Restarting) {
            violation("MiniportRestart: NdisMRestartComplete was not called");
            self.set_state(State::Paused);
        }
        let progress = self.progress();
        if progress.state != State::Running {
            violation(&format!("MiniportRestart failed: {}", progress.restart_status));
        }
    }

    fn restarted(&self, status: NDIS_STATUS) {
        let mut progress = self.progress();
        if progress.state != State::Restarting {
            violation(&format!("NdisMRestartComplete in state {:?}", progress.state));
            return;
        }
        progress.restart_status = status;
        progress.state = if status.is_success() { State::Running } else { State::Paused };
        self.changed.notify_all();
    }

    /// ndis/nc-ndis-miniport_pause: PASSIVE_LEVEL. Ends when all sends are completed and all receives returned.
    pub(crate) fn pause(&self) {
        let Some(handler) = self.driver.characteristics.PauseHandler else { return };
        let mut parameters = NDIS_MINIPORT_PAUSE_PARAMETERS {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NDIS_MINIPORT_PAUSE_PARAMETERS_REVISION_1,
                NDIS_SIZEOF_MINIPORT_PAUSE_PARAMETERS_REVISION_1,
            ),
            ..NDIS_MINIPORT_PAUSE_PARAMETERS::ZERO
        };
        self.packets.pausing();
        self.set_state(State::Pausing);
        let status = kernel::balanced("MiniportPause", || {
            // SAFETY: the driver's handler, called as documented.
            unsafe { handler(self.context(), &mut parameters) }
        });
        self.packets.receives.pause_has_returned();
        if status == NDIS_STATUS_PENDING {
            if !self.wait_while(State::Pausing) {
                violation("MiniportPause: NdisMPauseComplete was not called");
            }
        } else {
            if status != NDIS_STATUS_SUCCESS {
                violation(&format!("MiniportPause must not fail: {status}"));
            }
            self.packets.receives.paused();
        }
        let overdue = self.packets.overdue();
        self.set_state(State::Paused);
        if overdue > 0 {
            violation(&format!("MiniportPause completed with {overdue} sends outstanding"));
        }
        self.packets.receives.settle();
    }

    /// Pauses and halts the adapter, for good. PASSIVE_LEVEL.
    pub(crate) fn stop(&self, action: NDIS_HALT_ACTION) {
        if self.state() == State::Running {
            oid_checks::cycle_ndk(self);
        }
        self.halt(action);
        pnp::forget_software_device(self.devices);
    }

    /// The computer sleeps and wakes up. An adapter without power management capabilities is halted, and initialised again
    /// (network/miniport-adapter-states-and-operations; ndis/nc-ndis-miniport_halt, NdisHaltDevicePoweredDown). PASSIVE_LEVEL.
    pub(crate) fn sleep(&self) -> NDIS_STATUS {
        self.halt(NdisHaltDevicePoweredDown);
        let status = Self::start(&self.driver, self.devices, self.number);
        if !status.is_success() {
            violation(&format!("when the computer woke up, MiniportInitializeEx returned {status}"));
        }
        status
    }

    /// The device has gone: the miniport is told, then consumers close, then it is halted
    /// (ndis/nc-ndis-miniport_device_pnp_event_notify). PASSIVE_LEVEL.
    pub(crate) fn remove_surprisingly(&self) {
        let is_provider = lock(&self.driver.provider).is_some() && lock(&self.attributes).ndk_enabled;
        let version = NDK_VERSION { Major: 2, Minor: 0 };
        let consumer = if is_provider { ndk::open(self, version).ok() } else { None };
        self.tell(NdisDevicePnPEventSurpriseRemoved);
        if let Ok(opened) = ndk::open(self, version) {
            violation("an NDK adapter was opened when its device had gone");
            ndk::close(self, opened);
        }
        if let Some(consumer) = consumer {
            ndk::close(self, consumer);
        }
        self.halt(NdisHaltDeviceSurpriseRemoved);
        pnp::forget_software_device(self.devices);
    }

    fn tell(&self, event: NDIS_DEVICE_PNP_EVENT) {
        let Some(handler) = self.driver.characteristics.DevicePnPEventNotifyHandler else { return };
        let mut event = NET_DEVICE_PNP_EVENT {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NET_DEVICE_PNP_EVENT_REVISION_1,
                NDIS_SIZEOF_NET_DEVICE_PNP_EVENT_REVISION_1,
            ),
            DevicePnPEvent: event,
            ..NET_DEVICE_PNP_EVENT::ZERO
        };
        kernel::balanced("MiniportDevicePnPEventNotify", || {
            // SAFETY: the driver's handler, called as documented: PASSIVE_LEVEL.
            unsafe { handler(self.context(), &mut event) }
        });
    }

    fn halt(&self, action: NDIS_HALT_ACTION) {
        if self.state() == State::Running {
            self.pause();
        }
        self.packets.tap.close();
        self.packets.coalesced.check(self);
        self.ndk.close_all(self);
        if let Some(handler) = self.driver.characteristics.HaltHandlerEx {
            // ndis/nc-ndis-miniport_halt: PASSIVE_LEVEL.
            // SAFETY: the driver's handler, called as documented.
            kernel::balanced("MiniportHaltEx", || unsafe { handler(self.context(), action) });
        }
        self.set_state(State::Halted);
        self.forget();
        kernel::object(ADAPTER, -1);
    }

    /// No handle is the adapter's any more.
    fn forget(&self) {
        lock(&self.driver.adapters).retain(|adapter| !std::ptr::eq(&**adapter, self));
    }
}

/// The adapter, if `handle` is its handle; anything else is a violation.
pub(crate) fn from_handle(handle: NDIS_HANDLE, function: &str) -> Option<Arc<Adapter>> {
    let adapter = crate::driver::registered()
        .and_then(|driver| lock(&driver.adapters).iter().find(|adapter| adapter.handle() == handle).cloned());
    if adapter.is_none() {
        violation(&format!("{function}: not an adapter's handle"));
    }
    adapter
}

/// ndis/nf-ndis-ndismpausecomplete: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMPauseComplete(handle: NDIS_HANDLE) {
    kernel::at_most(DISPATCH_LEVEL, "NdisMPauseComplete");
    let Some(adapter) = from_handle(handle, "NdisMPauseComplete") else { return };
    if adapter.state() == State::Pausing {
        adapter.packets.receives.paused();
        adapter.set_state(State::Paused);
    } else {
        violation(&format!("NdisMPauseComplete in state {:?}", adapter.state()));
    }
}

/// ndis/nf-ndis-ndismrestartcomplete: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMRestartComplete(handle: NDIS_HANDLE, status: NDIS_STATUS) {
    kernel::at_most(DISPATCH_LEVEL, "NdisMRestartComplete");
    if let Some(adapter) = from_handle(handle, "NdisMRestartComplete") {
        adapter.restarted(status);
    }
}

/// ndis/nf-ndis-ndismgetdeviceproperty: PASSIVE_LEVEL; each place may be null. There are no hardware resources.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMGetDeviceProperty(
    handle: NDIS_HANDLE,
    physical: *mut *mut DEVICE_OBJECT,
    functional: *mut *mut DEVICE_OBJECT,
    next: *mut *mut DEVICE_OBJECT,
    resources: *mut *mut c_void,
    translated: *mut *mut c_void,
) {
    kernel::at_most(kernel::PASSIVE_LEVEL, "NdisMGetDeviceProperty");
    let Some(adapter) = from_handle(handle, "NdisMGetDeviceProperty") else { return };
    let devices = adapter.devices;
    let places = [(physical, devices.physical), (functional, devices.functional), (next, devices.next)];
    for (place, device) in places {
        if !place.is_null() {
            // SAFETY: the caller gives null or a place for the pointer.
            unsafe { place.write(device.get()) };
        }
    }
    for place in [resources, translated] {
        if !place.is_null() {
            // SAFETY: as above.
            unsafe { place.write(std::ptr::null_mut()) };
        }
    }
}
