//! The life of an adapter: MiniportInitializeEx builds it, MiniportHaltEx takes it down.
//!
//! Order of initialisation: registration attributes, configuration, general attributes, NDK attributes, WDF device, control device,
//! addresses of TCP/IP ("Initializing an NDK-capable miniport driver", ddi: nf-ndis-ndismsetminiportattributes). A failure
//! undoes what was done; NDIS calls no halt then.
#![expect(unsafe_code, reason = "handlers that NDIS calls, and calls into NDIS and KMDF")]

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

use ndk_abi::{
    ndis::{
        NDIS_HALT_ACTION, NDIS_HANDLE, NDIS_MINIPORT_INIT_PARAMETERS, NDIS_SHUTDOWN_ACTION, NET_DEVICE_PNP_EVENT,
        NdisDevicePnPEventSurpriseRemoved,
    },
    status::{NDIS_STATUS, NDIS_STATUS_RESOURCES, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::{Arc, Passive, SpinLock};
use wdk_sys::{DEVICE_OBJECT, WDFDEVICE, WDFOBJECT, call_unsafe_wdf_function_binding};

use crate::{
    attributes::{self, MAXIMUM_PAYLOAD, MacAddress, NdkAttributes},
    configuration, control, driver, events,
    host::KernelHost,
    ndis::{self, Handle},
    platform::Windows,
    rdma_state::RdmaState,
    tcpip::Watch,
    traffic::Traffic,
    wdfminiport,
};

/// An adapter; the context of all its miniport handlers.
pub(crate) struct Adapter {
    miniport: Handle,
    /// Its NET_LUID.
    pub(crate) luid: u64,
    traffic: Traffic,
    /// OID_GEN_CURRENT_PACKET_FILTER.
    pub(crate) packet_filter: AtomicU32,
    /// OID_GEN_CURRENT_LOOKAHEAD.
    pub(crate) lookahead: AtomicU32,
    rdma: RdmaState,
    /// Its NDK provider; without a lock, for OID_NDK_STATISTICS.
    provider: Provider<Windows>,
    /// What initialisation adds once NDIS knows this context, until the halt takes it away.
    parts: SpinLock<Option<Parts>, Windows>,
}

/// What an initialised adapter has.
struct Parts {
    _ndk: NdkAttributes,
    control: control::Registration,
    device: FrameworkDevice,
    /// The parameters name no addresses: the adapter has those of TCP/IP.
    follows_tcpip: bool,
    /// There then, once TCP/IP has agreed to tell of them.
    watch: Option<Watch>,
}

impl Adapter {
    /// The adapter behind the context of a miniport handler.
    ///
    /// # Safety
    /// `context` came from NDIS, and the adapter is not halted while the reference is in use.
    pub(crate) unsafe fn from_context<'a>(context: NDIS_HANDLE) -> &'a Self {
        // SAFETY: the registration attributes named this very object; `halt` ends its life.
        unsafe { &*context.cast::<Self>() }
    }

    /// What NDIS calls this adapter.
    pub(crate) fn miniport(&self) -> NDIS_HANDLE {
        self.miniport.0
    }

    /// Ordinary frames.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Whether RDMA is on.
    pub(crate) fn rdma(&self) -> &RdmaState {
        &self.rdma
    }

    /// Its NDK provider. Takes no lock.
    pub(crate) fn provider(&self) -> &Provider<Windows> {
        &self.provider
    }

    /// Closes what programs opened on it through the control device.
    pub(crate) fn close_files(&self, passive: &Passive<'_>) {
        let control = self.parts.lock().as_ref().map(|parts| parts.control.clone());
        if let Some(control) = control {
            control::close_files(&control, passive);
        }
    }

    /// Begins to follow the addresses of TCP/IP, if the parameters name none and the adapter does not follow yet. If TCP/IP refuses, the
    /// adapter has none, and asks again at its next restart. NDIS initialises, restarts and halts an adapter one after the other.
    pub(crate) fn follow_tcpip(&self, passive: &Passive<'_>) {
        let is_due = |parts: &Parts| parts.follows_tcpip && parts.watch.is_none();
        if !self.parts.lock().as_ref().is_some_and(is_due) {
            return;
        }
        // Not under the lock: TCP/IP is asked at PASSIVE_LEVEL.
        match Watch::start(self.luid, self.provider.clone(), passive) {
            Ok(watch) => {
                if let Some(parts) = self.parts.lock().as_mut() {
                    parts.watch = Some(watch);
                }
            }
            Err(status) => events::addresses_unknown(self.luid, status),
        }
    }

    /// Builds an adapter.
    fn start(miniport: NDIS_HANDLE, luid: u64, passive: &Passive<'_>) -> Result<Arc<Self, Windows>, NDIS_STATUS> {
        let adapter = Arc::try_new(Self {
            miniport: Handle(miniport),
            luid,
            traffic: Traffic::new(),
            packet_filter: AtomicU32::new(0),
            lookahead: AtomicU32::new(MAXIMUM_PAYLOAD),
            rdma: RdmaState::new(miniport)?,
            provider: Provider::new(&[])?,
            parts: SpinLock::<_, Windows>::new(None),
        })
        .map_err(|_| NDIS_STATUS_RESOURCES)?;
        attributes::register(miniport, Arc::as_ptr(&adapter).cast_mut().cast(), passive)?;
        let configuration = configuration::read(miniport, passive)?;
        attributes::set_general(miniport, MacAddress::of_luid(luid), passive)?;
        let provider = adapter.provider.clone();
        configuration.addresses.iter().try_for_each(|&address| provider.add_address(address))?;
        provider.want_crc(configuration.crc);
        provider.set_send_timeout(configuration.send_timeout);
        adapter.rdma.initialize(configuration.network_direct);
        let ndk = attributes::set_ndk(miniport, configuration.network_direct, passive)?;
        let device = FrameworkDevice::create(miniport, passive)?;
        let follows_tcpip = configuration.addresses.is_empty();
        let host = KernelHost::new(luid, provider, adapter.rdma.enabled().clone());
        let control = control::add(host, &configuration.security, passive)?;
        *adapter.parts.lock() = Some(Parts { _ndk: ndk, control, device, follows_tcpip, watch: None });
        adapter.follow_tcpip(passive);
        Ok(adapter)
    }
}

/// The adapter's device in KMDF's eyes: the parent of its framework objects, and what Driver Verifier's WDF checks see.
struct FrameworkDevice(WDFDEVICE);

// SAFETY: framework handles may be used from any thread.
unsafe impl Send for FrameworkDevice {}

impl FrameworkDevice {
    /// ddi: nf-wdfminiport-wdfdeviceminiportcreate.
    fn create(miniport: NDIS_HANDLE, _passive: &Passive<'_>) -> Result<Self, NDIS_STATUS> {
        let (mut pdo, mut fdo, mut next): (*mut DEVICE_OBJECT, *mut DEVICE_OBJECT, *mut DEVICE_OBJECT) =
            (null_mut(), null_mut(), null_mut());
        // SAFETY: the adapter's handle, out parameters that outlive the call, and two that are not wanted.
        unsafe {
            ndis::NdisMGetDeviceProperty(miniport, &raw mut pdo, &raw mut fdo, &raw mut next, null_mut(), null_mut());
        }
        // SAFETY: PASSIVE_LEVEL; the framework's driver and the adapter's device objects.
        let device = unsafe { wdfminiport::device_miniport_create(driver::wdf(), fdo, next, pdo) };
        device.map(Self).map_err(ndk_abi::status::NTSTATUS)
    }
}

impl Drop for FrameworkDevice {
    fn drop(&mut self) {
        // SAFETY: created by `create`, deleted once, at PASSIVE_LEVEL (adapters are taken down there).
        unsafe { call_unsafe_wdf_function_binding!(WdfObjectDelete, self.0 as WDFOBJECT) };
    }
}

/// `MiniportInitializeEx`. PASSIVE_LEVEL.
pub(crate) unsafe extern "system" fn initialize(
    miniport: NDIS_HANDLE,
    _driver: NDIS_HANDLE,
    parameters: *mut NDIS_MINIPORT_INIT_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: NDIS gives valid parameters.
    let luid = unsafe { (*parameters).NetLuid };
    match Adapter::start(miniport, luid, &passive) {
        Ok(adapter) => {
            events::adapter_started(luid, adapter.rdma.enabled().load(Ordering::Relaxed));
            let _kept_by_ndis = Arc::into_raw(adapter);
            STATUS_SUCCESS
        }
        Err(status) => {
            events::adapter_failed(luid, status);
            status
        }
    }
}

/// `MiniportHaltEx`. PASSIVE_LEVEL; paused, no request in progress, all NDK adapters that NDIS opened are closed.
pub(crate) unsafe extern "system" fn halt(context: NDIS_HANDLE, _action: NDIS_HALT_ACTION) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the reference that `initialize` left with NDIS, which halts once and uses the context no more.
    let adapter = unsafe { Arc::<Adapter, Windows>::from_raw(context.cast_const().cast()) };
    adapter.rdma.stop(&passive);
    let parts = adapter.parts.lock().take();
    if let Some(Parts { control, device, watch, .. }) = parts {
        drop(watch);
        control::remove(control, &passive);
        drop(device);
    }
    adapter.provider.drain(&passive);
    events::adapter_stopped(adapter.luid);
}

/// `MiniportShutdownEx`: there is no hardware to quiesce. Any IRQL at a bug check.
pub(crate) unsafe extern "system" fn shutdown(_context: NDIS_HANDLE, _action: NDIS_SHUTDOWN_ACTION) {}

/// `MiniportDevicePnPEventNotify`. PASSIVE_LEVEL. A device that has gone serves nobody any more: consumers in the kernel are told by
/// NDIS, programs here. NDIS pauses and halts by itself; there is no hardware that could be gone before.
pub(crate) unsafe extern "system" fn pnp_event(context: NDIS_HANDLE, event: *mut NET_DEVICE_PNP_EVENT) {
    // SAFETY: NDIS gives a valid event.
    if unsafe { (*event).DevicePnPEvent } != NdisDevicePnPEventSurpriseRemoved {
        return;
    }
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of this adapter, which NDIS does not halt meanwhile.
    let adapter = unsafe { Adapter::from_context(context) };
    adapter.rdma.remove();
    adapter.close_files(&passive);
}
