//! The provider of one miniport adapter: opens and closes NDK_ADAPTERs, and reports limits, counters and endpoints.
#![expect(unsafe_code, reason = "takes consumer pointers back")]

use core::{net::IpAddr, ptr::NonNull};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{NDIS_NDK_CAPABILITIES, NDIS_NDK_PERFORMANCE_COUNTERS},
    ndkpi::{
        NDK_ADAPTER, NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED,
        NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED, NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED,
        NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED, NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED,
        NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED, NDK_ADAPTER_INFO, NDK_VERSION,
    },
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_ENDPOINT_ACTIVE, SOFTNDK_ENDPOINT_ESTABLISHED,
        SOFTNDK_ENDPOINT_LISTENER, SOFTNDK_ENDPOINT_PASSIVE, SOFTNDK_ENDPOINT_SHARED, SOFTNDK_ENDPOINT_USER,
        SOFTNDK_FAULT_RULE,
    },
    status::{NDIS_STATUS_BAD_VERSION, NTSTATUS},
};
use platform::{Addresses, Arc, Passive, Platform, PoolQuota};
use soft_rdma::{
    Adapter, ConnectionSide, Counter, Device, Fault, InUse, Lingering, LocalEndpoint, ObjectKind, RulesError, Use,
    limits,
};

use crate::{adapter, object::Object, status};

/// The version that a consumer of 1.x gets: the highest 1.x.
pub const MAX_VERSION_1: NDK_VERSION = NDK_VERSION { Major: 1, Minor: 2 };
/// The version that a consumer of 2.x gets: the highest of all.
pub const MAX_VERSION_2: NDK_VERSION = NDK_VERSION { Major: 2, Minor: 1 };

/// The NDK provider of one miniport adapter. All clones refer to one device.
pub struct Provider<P: Platform>(pub(crate) Arc<Device<P>, P>);

impl<P: Platform> Clone for Provider<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Numbers of open objects, over all consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "one field for each kind of object, named after it")]
pub struct ObjectCounts {
    pub adapters: u32,
    pub pds: u32,
    pub cqs: u32,
    pub mrs: u32,
    pub mws: u32,
    pub srqs: u32,
    pub qps: u32,
    pub connectors: u32,
    pub listeners: u32,
    pub shared_endpoints: u32,
}

impl ObjectCounts {
    /// Copies the numbers to the object counts of `diagnostics`.
    pub fn fill(self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        diagnostics.Adapters = self.adapters;
        diagnostics.Pds = self.pds;
        diagnostics.Cqs = self.cqs;
        diagnostics.Mrs = self.mrs;
        diagnostics.Mws = self.mws;
        diagnostics.Srqs = self.srqs;
        diagnostics.Qps = self.qps;
        diagnostics.Connectors = self.connectors;
        diagnostics.Listeners = self.listeners;
        diagnostics.SharedEndpoints = self.shared_endpoints;
    }
}

impl<P: Platform> Provider<P> {
    /// A provider whose device owns `addresses`, which may be empty. IRQL <= DISPATCH. Errors: as
    /// [`Provider::add_address`].
    pub fn new(addresses: &[IpAddr]) -> Result<Self, NTSTATUS> {
        let provider = Self(Device::new().map_err(status::error)?);
        addresses.iter().try_for_each(|&address| provider.add_address(address))?;
        Ok(provider)
    }

    /// Adds an address to the device, at any time; adding an address again changes nothing. IRQL <= DISPATCH. Errors:
    /// STATUS_INVALID_ADDRESS if no interface can have the address or it is a link-local IPv6 address,
    /// STATUS_INSUFFICIENT_RESOURCES.
    pub fn add_address(&self, address: IpAddr) -> Result<(), NTSTATUS> {
        self.0.add_address(address).map_err(status::error)
    }

    /// Removes the addresses for which `wanted` returns false, at any time: later binds and connects to them fail.
    /// Objects that are bound to a removed address keep it. IRQL <= DISPATCH. Errors: STATUS_INSUFFICIENT_RESOURCES.
    pub fn retain_addresses(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<(), NTSTATUS> {
        self.0.retain_addresses(wanted).map_err(status::error)
    }

    /// As [`Device::want_crc`].
    pub fn want_crc(&self, wants: bool) {
        self.0.want_crc(wants);
    }

    /// As [`Device::set_send_timeout`].
    pub fn set_send_timeout(&self, seconds: u32) {
        self.0.set_send_timeout(seconds);
    }

    /// As [`Device::pass_posts`].
    pub fn pass_posts(&self) {
        self.0.pass_posts();
    }

    /// As [`Device::set_fault_rules`].
    pub fn set_fault_rules(&self, text: &str) -> Result<(), RulesError> {
        self.0.set_fault_rules(text)
    }

    /// As [`Device::pass_frame`].
    pub fn pass_frame(
        &self,
        is_received: bool,
        bytes: usize,
        packet: impl FnOnce() -> (Addresses, bool),
    ) -> Option<Fault> {
        self.0.pass_frame(is_received, bytes, packet)
    }

    /// As [`Device::has_frame_rule`].
    pub fn has_frame_rule(&self, is_received: bool) -> bool {
        self.0.has_frame_rule(is_received)
    }

    /// The fault rule with index `place`, and what it has counted; `None` past the last. IRQL <= DISPATCH.
    pub fn fault_rule(&self, place: usize) -> Option<SOFTNDK_FAULT_RULE> {
        let rule = self.0.fault_rule(place)?;
        let counts = rule.counts();
        Some(SOFTNDK_FAULT_RULE { Passed: counts.passed, Fired: counts.fired, Text: *rule.text() })
    }

    /// Opens an NDK_ADAPTER by the version rule of OPEN_NDK_ADAPTER_HANDLER: the consumer names the lowest minor
    /// version that it accepts, and gets the highest of its major version. NDIS_STATUS_BAD_VERSION if there is none.
    pub fn open(&self, version: NDK_VERSION) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        self.open_for(version, None, &PoolQuota::UNLIMITED)
    }

    /// As [`Provider::open`], for the process with id `process`, if there is one: the lists of connections and of local
    /// endpoints name the process, and results have SOFTNDK_RESULT_* in ProviderErrorCode. Objects made through the
    /// adapter count against `quota`.
    pub fn open_for(
        &self,
        version: NDK_VERSION,
        process: Option<u32>,
        quota: &PoolQuota<P>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        let served = [MAX_VERSION_1, MAX_VERSION_2].into_iter().find(|served| served.Major == version.Major);
        let served = served.filter(|served| version.Minor <= served.Minor).ok_or(NDIS_STATUS_BAD_VERSION)?;
        let opened = Adapter::open_for(&self.0, (served.Major, served.Minor), process, quota);
        let opened = opened.map_err(status::error)?;
        let dispatch = const { &adapter::table::<P>() };
        let object = Object::hand_out(&opened, ndk_abi::ndkpi::NdkObjectTypeAdapter, dispatch, opened.clone());
        let object = object.map_err(|error| status::error(error.into()))?;
        NonNull::new(object.cast()).ok_or(ndk_abi::status::STATUS_INTERNAL_ERROR)
    }

    /// Waits until all connections with other machines are closed, lingering ones included. The host calls this when
    /// all NDK adapters are closed, before the driver may be unloaded. See [`Device::drain`].
    pub fn drain(&self, passive: &Passive<'_>) {
        self.0.drain(passive);
    }

    /// Closes an NDK_ADAPTER: waits until all of its objects are gone and their callbacks have returned. The result
    /// represents the connections with other machines that are still closing; the caller need not wait for them.
    ///
    /// # Safety
    /// `adapter` came from [`Provider::open`] of the same `P`, and is not used again. The consumer closes every object
    /// that it made through the adapter: before this call, or on another thread during it.
    pub unsafe fn close(adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) -> Lingering<P> {
        // SAFETY: the caller's contract.
        let adapter = unsafe { Object::<Adapter<P>, P>::take_back(adapter.as_ptr()) };
        Adapter::close(adapter, passive)
    }

    /// The `index`th address of the device, oldest first; `None` past the last. IRQL <= DISPATCH.
    pub fn address(&self, index: usize) -> Option<IpAddr> {
        self.0.address(index)
    }

    /// The limits and capabilities that the provider reports to a consumer of `version`.
    pub fn adapter_info(version: NDK_VERSION) -> NDK_ADAPTER_INFO {
        NDK_ADAPTER_INFO {
            Version: version,
            // SoftNDK has no IEEE OUI, so the vendor is 0.
            VendorId: 0,
            DeviceId: 1,
            MaxRegistrationSize: usize::try_from(limits::REGISTRATION_SIZE).unwrap_or(usize::MAX),
            MaxWindowSize: usize::try_from(limits::REGISTRATION_SIZE).unwrap_or(usize::MAX),
            FRMRPageCount: limits::FAST_REGISTER_PAGES,
            MaxInitiatorRequestSge: limits::SGES,
            MaxReceiveRequestSge: limits::SGES,
            MaxReadRequestSge: limits::SGES,
            MaxTransferLength: limits::TRANSFER_LENGTH,
            MaxInlineDataSize: limits::INLINE_DATA,
            MaxInboundReadLimit: limits::READ_LIMIT,
            MaxOutboundReadLimit: limits::READ_LIMIT,
            MaxReceiveQueueDepth: limits::RECEIVE_QUEUE_DEPTH,
            MaxInitiatorQueueDepth: limits::INITIATOR_QUEUE_DEPTH,
            MaxSrqDepth: limits::SRQ_DEPTH,
            MaxCqDepth: limits::CQ_DEPTH,
            LargeRequestThreshold: 65_536,
            MaxCallerData: limits::PRIVATE_DATA as u32,
            MaxCalleeData: limits::PRIVATE_DATA as u32,
            AdapterFlags: NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED
                | NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED
                | NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED
                | NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED
                | NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED
                | NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED
                | NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED,
            RdmaTechnology: ndk_abi::ndkpi::NdkiWarp,
        }
    }

    /// The counts of NDIS_NDK_CAPABILITIES. The caller sets the header and `NdkInfo`.
    pub fn capabilities() -> NDIS_NDK_CAPABILITIES {
        NDIS_NDK_CAPABILITIES {
            MaxQpCount: limits::QPS,
            MaxCqCount: limits::CQS,
            MaxMrCount: limits::MRS,
            MaxPdCount: limits::PDS,
            MaxMwCount: limits::MWS,
            MaxSrqCount: limits::SRQS,
            ..NDIS_NDK_CAPABILITIES::ZERO
        }
    }

    /// The counters of OID_NDK_STATISTICS. Octets are bytes of data, frames are the sends, reads and writes that
    /// carried them; a transfer between two queue pairs of the device counts once as out and once as in. IRQL: any;
    /// takes no lock.
    pub fn counters(&self) -> NDIS_NDK_PERFORMANCE_COUNTERS {
        let values = self.0.counters().read();
        NDIS_NDK_PERFORMANCE_COUNTERS {
            Connect: values[Counter::Connects],
            Accept: values[Counter::Accepts],
            ConnectFailure: values[Counter::ConnectFailures],
            ConnectionError: values[Counter::ConnectionErrors],
            ActiveConnection: values[Counter::ActiveConnections],
            CQError: values[Counter::CqErrors],
            RDMAInOctets: values[Counter::InOctets],
            RDMAOutOctets: values[Counter::OutOctets],
            RDMAInFrames: values[Counter::InFrames],
            RDMAOutFrames: values[Counter::OutFrames],
            ..NDIS_NDK_PERFORMANCE_COUNTERS::ZERO
        }
    }

    /// The name and the value of the counter with index `place`; `None` past the last. IRQL: any; takes no lock.
    pub fn counter(&self, place: usize) -> Option<(&'static str, u64)> {
        let counter = *Counter::ALL.get(place)?;
        Some((counter.name(), self.0.counters().value(counter)))
    }

    /// The connections of OID_NDK_CONNECTIONS, as [`Device::connections`]. IRQL <= DISPATCH.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionSide> {
        self.0.connections()
    }

    /// The listeners and shared endpoints of OID_NDK_LOCAL_ENDPOINTS. IRQL <= DISPATCH.
    pub fn local_endpoints(&self) -> impl Iterator<Item = LocalEndpoint> {
        self.0.local_endpoints()
    }

    /// The entry at index `place` of the table of addresses in use, for diagnostics, as [`Device::in_use`]. IRQL <=
    /// DISPATCH.
    pub fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.0.in_use(place).map(|found| found.map(endpoint))
    }

    /// Numbers of objects that are open now.
    pub fn object_counts(&self) -> ObjectCounts {
        ObjectCounts {
            adapters: self.0.open_adapters(),
            pds: self.0.count(ObjectKind::Pd),
            cqs: self.0.count(ObjectKind::Cq),
            mrs: self.0.count(ObjectKind::Mr),
            mws: self.0.count(ObjectKind::Mw),
            srqs: self.0.count(ObjectKind::Srq),
            qps: self.0.count(ObjectKind::Qp),
            connectors: self.0.count(ObjectKind::Connector),
            listeners: self.0.count(ObjectKind::Listener),
            shared_endpoints: self.0.count(ObjectKind::SharedEndpoint),
        }
    }
}

/// Translates an address in use to the entry that the control device reports.
fn endpoint(found: InUse) -> SOFTNDK_ENDPOINT {
    let (kind, established, remote) = match found.what {
        Use::Listener { listens } => (SOFTNDK_ENDPOINT_LISTENER, listens, None),
        Use::SharedEndpoint => (SOFTNDK_ENDPOINT_SHARED, true, None),
        Use::Connection { remote, active, established } => {
            (if active { SOFTNDK_ENDPOINT_ACTIVE } else { SOFTNDK_ENDPOINT_PASSIVE }, established, Some(remote))
        }
    };
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    SOFTNDK_ENDPOINT {
        Kind: kind,
        Flags: flag(established, SOFTNDK_ENDPOINT_ESTABLISHED) | flag(found.process.is_some(), SOFTNDK_ENDPOINT_USER),
        ProcessId: found.process.unwrap_or(0),
        Local: SOCKADDR_INET::new(found.local),
        Remote: remote.map_or(SOCKADDR_INET::ZERO, SOCKADDR_INET::new),
    }
}
