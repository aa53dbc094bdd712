//! The state of an adapter.
#![expect(unsafe_code, reason = "an object that NDIS has by pointer")]

use core::sync::atomic::{AtomicU32, Ordering};

use ndk_abi::{
    ndis::NDIS_HANDLE,
    status::{NDIS_STATUS, NDIS_STATUS_RESOURCES},
};
use ndk_provider::Provider;
use platform::{Arc, Passive, SpinLock};

use crate::{
    attributes::{NdkAttributes, OffloadAttributes},
    cable::Cable,
    control, events,
    framework_device::FrameworkDevice,
    ndis::Handle,
    offload::Offloads,
    platform::Windows,
    rdma_state::RdmaState,
    tcpip::Watch,
    traffic::Traffic,
};

/// An adapter: the context of all miniport handlers.
pub(crate) struct Adapter {
    miniport: Handle,
    /// The NET_LUID of the adapter's interface.
    pub(crate) luid: u64,
    traffic: Arc<Traffic, Windows>,
    /// The most bytes of a frame's payload.
    mtu: AtomicU32,
    /// Set in the initialisation if the parameters name peers, taken by the halt.
    cable: SpinLock<Option<Arc<Cable, Windows>>, Windows>,
    pub(crate) offloads: Arc<Offloads, Windows>,
    /// OID_GEN_CURRENT_LOOKAHEAD.
    pub(crate) lookahead: AtomicU32,
    rdma: RdmaState,
    /// The adapter's NDK provider. Not in `parts`, as OID_NDK_STATISTICS reads the provider's counters without a lock.
    provider: Provider<Windows>,
    /// Set at the end of the initialisation, taken by the halt.
    parts: SpinLock<Option<Parts>, Windows>,
}

/// The parts of an adapter that the initialisation makes (`watch`: the initialisation or a restart), and the halt deletes.
pub(crate) struct Parts {
    pub(crate) _ndk: NdkAttributes,
    pub(crate) _offloads: Option<OffloadAttributes>,
    pub(crate) control: control::Registration,
    pub(crate) device: FrameworkDevice,
    /// The parameters name no addresses, so the adapter has the addresses of TCP/IP.
    pub(crate) follows_tcpip: bool,
    /// `None` unless `follows_tcpip`; set once TCP/IP has accepted the registration for notifications.
    pub(crate) watch: Option<Watch>,
}

impl Adapter {
    /// The adapter of a miniport handler's context.
    ///
    /// # Safety
    /// `context` is the adapter's address, which NDIS passes to the handlers. The adapter is not freed while the reference is in use.
    pub(crate) unsafe fn from_context<'a>(context: NDIS_HANDLE) -> &'a Self {
        // SAFETY: by contract.
        unsafe { &*context.cast::<Self>() }
    }

    /// A paused adapter with RDMA off, whose address NDIS does not know yet.
    pub(crate) fn new(miniport: NDIS_HANDLE, luid: u64) -> Result<Arc<Self, Windows>, NDIS_STATUS> {
        Arc::try_new(Self {
            miniport: Handle(miniport),
            luid,
            traffic: Arc::try_new(Traffic::new(miniport)).map_err(|_| NDIS_STATUS_RESOURCES)?,
            mtu: AtomicU32::new(0),
            cable: SpinLock::<_, Windows>::new(None),
            offloads: Arc::try_new(Offloads::new()).map_err(|_| NDIS_STATUS_RESOURCES)?,
            lookahead: AtomicU32::new(0),
            rdma: RdmaState::new(miniport)?,
            provider: Provider::new(&[])?,
            parts: SpinLock::<_, Windows>::new(None),
        })
        .map_err(|_| NDIS_STATUS_RESOURCES)
    }

    /// NDIS's handle of the adapter.
    pub(crate) fn miniport(&self) -> NDIS_HANDLE {
        self.miniport.0
    }

    /// The counts of the adapter's Ethernet frames, and whether the adapter is paused.
    pub(crate) fn traffic(&self) -> &Arc<Traffic, Windows> {
        &self.traffic
    }

    /// The most bytes of a frame's payload.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Sets the MTU, in the initialisation.
    pub(crate) fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Ordering::Relaxed);
        self.lookahead.store(mtu, Ordering::Relaxed);
    }

    /// Connects the cable, in the initialisation.
    pub(crate) fn add_cable(&self, cable: Arc<Cable, Windows>) {
        *self.cable.lock() = Some(cable);
    }

    /// The cable, if the parameters name peers.
    pub(crate) fn cable(&self) -> Option<Arc<Cable, Windows>> {
        self.cable.lock().clone()
    }

    /// Takes the cable out, for the halt to close it.
    pub(crate) fn take_cable(&self) -> Option<Arc<Cable, Windows>> {
        self.cable.lock().take()
    }

    /// Whether RDMA is on.
    pub(crate) fn rdma(&self) -> &RdmaState {
        &self.rdma
    }

    /// The adapter's NDK provider. Takes no lock.
    pub(crate) fn provider(&self) -> &Provider<Windows> {
        &self.provider
    }

    /// Stores the parts, at the end of the initialisation.
    pub(crate) fn add_parts(&self, parts: Parts) {
        *self.parts.lock() = Some(parts);
    }

    /// Takes the parts out, for the halt to delete.
    pub(crate) fn take_parts(&self) -> Option<Parts> {
        self.parts.lock().take()
    }

    /// Closes the objects that programs have opened on the adapter through the control device.
    pub(crate) fn close_files(&self, passive: &Passive<'_>) {
        let control = self.parts.lock().as_ref().map(|parts| parts.control.clone());
        if let Some(control) = control {
            control::close_files(&control, passive);
        }
    }

    /// Registers for notifications of TCP/IP's addresses, if the parameters name none and the adapter is not registered yet. If TCP/IP
    /// refuses, the adapter has no addresses, and tries again at its next restart. NDIS serialises initialisation, restarts and halt of an
    /// adapter, so only one thread at a time runs this.
    pub(crate) fn follow_tcpip(&self, passive: &Passive<'_>) {
        let is_due = |parts: &Parts| parts.follows_tcpip && parts.watch.is_none();
        if !self.parts.lock().as_ref().is_some_and(is_due) {
            return;
        }
        // The lock is not held here: the registration needs PASSIVE_LEVEL.
        match Watch::start(self.luid, self.provider.clone(), passive) {
            Ok(watch) => {
                if let Some(parts) = self.parts.lock().as_mut() {
                    parts.watch = Some(watch);
                }
            }
            Err(status) => events::addresses_unknown(self.luid, status),
        }
    }
}
