//! An adapter: the context of all its miniport handlers.
#![expect(unsafe_code, reason = "an object that NDIS has by pointer")]

use core::sync::atomic::AtomicU32;

use ndk_abi::{
    ndis::NDIS_HANDLE,
    status::{NDIS_STATUS, NDIS_STATUS_RESOURCES},
};
use ndk_provider::Provider;
use platform::{Arc, Passive, SpinLock};

use crate::{
    attributes::{MAXIMUM_PAYLOAD, NdkAttributes},
    control, events,
    framework_device::FrameworkDevice,
    ndis::Handle,
    platform::Windows,
    rdma_state::RdmaState,
    tcpip::Watch,
    traffic::Traffic,
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
pub(crate) struct Parts {
    pub(crate) _ndk: NdkAttributes,
    pub(crate) control: control::Registration,
    pub(crate) device: FrameworkDevice,
    /// The parameters name no addresses: the adapter has those of TCP/IP.
    pub(crate) follows_tcpip: bool,
    /// There then, once TCP/IP has agreed to tell of them.
    pub(crate) watch: Option<Watch>,
}

impl Adapter {
    /// The adapter behind the context of a miniport handler.
    ///
    /// # Safety
    /// `context` came from NDIS, and the adapter is not halted while the reference is in use.
    pub(crate) unsafe fn from_context<'a>(context: NDIS_HANDLE) -> &'a Self {
        // SAFETY: the registration attributes named this very object; the halt ends its life.
        unsafe { &*context.cast::<Self>() }
    }

    /// An adapter that NDIS does not know yet.
    pub(crate) fn new(miniport: NDIS_HANDLE, luid: u64) -> Result<Arc<Self, Windows>, NDIS_STATUS> {
        Arc::try_new(Self {
            miniport: Handle(miniport),
            luid,
            traffic: Traffic::new(),
            packet_filter: AtomicU32::new(0),
            lookahead: AtomicU32::new(MAXIMUM_PAYLOAD),
            rdma: RdmaState::new(miniport)?,
            provider: Provider::new(&[])?,
            parts: SpinLock::<_, Windows>::new(None),
        })
        .map_err(|_| NDIS_STATUS_RESOURCES)
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

    /// Gives it what initialisation has made.
    pub(crate) fn add_parts(&self, parts: Parts) {
        *self.parts.lock() = Some(parts);
    }

    /// Takes that away, for the halt.
    pub(crate) fn take_parts(&self) -> Option<Parts> {
        self.parts.lock().take()
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
}
