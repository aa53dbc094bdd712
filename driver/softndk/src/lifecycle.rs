//! The initialisation and halt of an adapter.
//!
//! MiniportInitializeEx sets the registration attributes, reads the configuration, makes the cable, sets the general attributes, with a cable those
//! of its task offloads, and the NDK attributes, then creates the framework device, the control device and the registration for TCP/IP's addresses
//! ("Initializing an NDK-capable miniport driver", ddi: nf-ndis-ndismsetminiportattributes). If a step fails, MiniportInitializeEx undoes the steps
//! before: NDIS then calls no halt.
#![expect(unsafe_code, reason = "handlers that NDIS calls")]

use core::sync::atomic::Ordering;

use ndk_abi::{
    ndis::{
        NDIS_HALT_ACTION, NDIS_HANDLE, NDIS_MINIPORT_INIT_PARAMETERS, NDIS_SHUTDOWN_ACTION, NET_DEVICE_PNP_EVENT,
        NdisDevicePnPEventSurpriseRemoved,
    },
    status::{NDIS_STATUS, NDIS_STATUS_RESOURCES, STATUS_SUCCESS},
};
use platform::{Arc, Passive};

use crate::{
    adapter::{Adapter, Parts},
    attributes::{self, MacAddresses},
    cable::{self, Cable},
    configuration, control, events,
    framework_device::FrameworkDevice,
    host::{self, KernelHost},
    oid,
    platform::Windows,
};

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
    match start(miniport, luid, &passive) {
        Ok(adapter) => {
            events::adapter_started(luid, adapter.rdma().enabled().load(Ordering::Relaxed));
            let _kept_by_ndis = Arc::into_raw(adapter);
            STATUS_SUCCESS
        }
        Err(status) => {
            events::adapter_failed(luid, status);
            status
        }
    }
}

/// Initialises an adapter.
fn start(miniport: NDIS_HANDLE, luid: u64, passive: &Passive<'_>) -> Result<Arc<Adapter, Windows>, NDIS_STATUS> {
    let adapter = Adapter::new(miniport, luid)?;
    attributes::register(miniport, Arc::as_ptr(&adapter).cast_mut().cast(), passive)?;
    let configuration = configuration::read(miniport, passive)?;
    let cable = configuration.cable.as_ref();
    let permanent = cable.and_then(cable::Parameters::mac_address).unwrap_or_else(|| attributes::mac_address(luid));
    let addresses = MacAddresses { permanent, current: configuration.network_address.unwrap_or(permanent) };
    if let Some(parameters) = cable {
        let cable = Cable::new(
            miniport,
            luid,
            addresses.current,
            parameters,
            adapter.offloads.clone(),
            adapter.traffic().clone(),
            adapter.provider().clone(),
        );
        adapter.add_cable(cable.map_err(|_| NDIS_STATUS_RESOURCES)?);
    }
    let mtu = cable.map_or(configuration.mtu, cable::Parameters::mtu);
    adapter.set_mtu(mtu);
    let supported = if cable.is_some() { &oid::SUPPORTED_OIDS[..] } else { oid::without_offloads() };
    attributes::set_general(miniport, addresses, mtu, cable.is_none(), supported, passive)?;
    let offloads = match cable {
        Some(_) => {
            adapter.offloads.start(configuration.offloads);
            Some(attributes::set_offloads(miniport, configuration.offloads, passive)?)
        }
        None => None,
    };
    let provider = adapter.provider().clone();
    configuration.addresses.iter().try_for_each(|&address| provider.add_address(address))?;
    provider.want_crc(configuration.crc);
    provider.set_send_timeout(configuration.send_timeout);
    if let Some(rules) = &configuration.fault_rules {
        provider.pass_posts();
        host::set_fault_rules(&provider, rules)?;
    }
    adapter.rdma().initialize(configuration.network_direct);
    let ndk = attributes::set_ndk(miniport, configuration.network_direct, passive)?;
    let device = FrameworkDevice::create(miniport, passive)?;
    let follows_tcpip = configuration.addresses.is_empty();
    let cable = adapter.cable().as_ref().map(Arc::downgrade);
    let host = KernelHost::new(
        luid,
        provider,
        adapter.rdma().enabled().clone(),
        configuration.fault_rules.is_some(),
        configuration.capture,
        cable,
    );
    let control = control::add(host, &configuration.security, passive)?;
    adapter.add_parts(Parts { _ndk: ndk, _offloads: offloads, control, device, follows_tcpip, watch: None });
    adapter.follow_tcpip(passive);
    if let Some(cable) = adapter.cable() {
        Cable::start(&cable, passive);
    }
    Ok(adapter)
}

/// `MiniportHaltEx`. PASSIVE_LEVEL; paused, no request in progress, all NDK adapters that NDIS opened are closed.
pub(crate) unsafe extern "system" fn halt(context: NDIS_HANDLE, _action: NDIS_HALT_ACTION) {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the reference that `initialize` left with NDIS, which halts the adapter once and does not use the context after that.
    let adapter = unsafe { Arc::<Adapter, Windows>::from_raw(context.cast_const().cast()) };
    adapter.rdma().stop(&passive);
    if let Some(cable) = adapter.take_cable() {
        Cable::close(cable, &passive);
    }
    let parts = adapter.take_parts();
    if let Some(Parts { control, device, watch, .. }) = parts {
        drop(watch);
        control::remove(control, &passive);
        drop(device);
    }
    let provider = adapter.provider();
    provider.drain(&passive);
    let counters = (0..).map_while(|place| provider.counter(place));
    counters.for_each(|(counter, value)| events::counted(adapter.luid, counter, value));
    events::adapter_stopped(adapter.luid);
}

/// `MiniportShutdownEx`: does nothing, as there is no hardware to quiesce. Any IRQL at a bug check.
pub(crate) unsafe extern "system" fn shutdown(_context: NDIS_HANDLE, _action: NDIS_SHUTDOWN_ACTION) {}

/// `MiniportDevicePnPEventNotify`. PASSIVE_LEVEL. At a surprise removal RDMA is turned off: NDIS notifies the kernel consumers, and this
/// handler closes the objects of programs. NDIS then pauses and halts the adapter as usual.
pub(crate) unsafe extern "system" fn pnp_event(context: NDIS_HANDLE, event: *mut NET_DEVICE_PNP_EVENT) {
    // SAFETY: NDIS gives a valid event.
    if unsafe { (*event).DevicePnPEvent } != NdisDevicePnPEventSurpriseRemoved {
        return;
    }
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of this adapter, which NDIS does not halt during the notification.
    let adapter = unsafe { Adapter::from_context(context) };
    adapter.rdma().remove();
    adapter.close_files(&passive);
}
