//! The virtual RDMA device: one for each miniport adapter, shared by all consumers that open it.

use core::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use fault_rules::{Passage, Point};
use platform::{Arc, Charge, Event, Passive, Platform, PoolQuota, SpinLock};

use crate::{
    Error, ObjectKind,
    capture::{Capture, CaptureError, CaptureOptions, DeviceCapture},
    connect::addresses::Addresses,
    connect::ports::{ConnectionSide, InUse, LocalEndpoint, Ports},
    connect::wire_table::WireTable,
    counters::PerformanceCounters,
    faults::{CountedRule, Faults, RulesError},
    limits,
    memory::token::Tokens,
    object::counts::ObjectCounts,
};

/// The device: its addresses, ports and memory tokens, and the counts of its objects.
pub struct Device<P: Platform> {
    addresses: Addresses<P>,
    object_counts: ObjectCounts,
    counters: PerformanceCounters<P>,
    open_adapters: AtomicU32,
    wants_crc: AtomicBool,
    send_timeout: AtomicU32,
    faults: Faults<P>,
    /// Posts of kernel consumers pass their point for fault rules.
    passes_posts: AtomicBool,
    capture: DeviceCapture<P>,
    ports: Ports<P>,
    /// Wires of refused and of ended connections with other machines, until they are closed.
    refused: Arc<WireTable<P>, P>,
    ended: Arc<WireTable<P>, P>,
    tokens: Tokens<P>,
    /// `None` from [`Device::drain`] on.
    rundown: SpinLock<Option<Arc<Rundown<P>, P>>, P>,
}

/// Every wire holds its adapter's rundown, whose drop sets `over`. A wire may outlive all other objects made through the adapter.
pub(crate) struct Rundown<P: Platform> {
    over: Arc<Event<P>, P>,
    /// An adapter's rundown holds the device's rundown, which is therefore dropped after the rundowns of all adapters.
    _of_device: Option<Arc<Self, P>>,
}

impl<P: Platform> Rundown<P> {
    fn new(of_device: Option<Arc<Self, P>>) -> Result<Arc<Self, P>, Error> {
        Ok(Arc::try_new(Self { over: Event::new()?, _of_device: of_device })?)
    }
}

impl<P: Platform> Drop for Rundown<P> {
    fn drop(&mut self) {
        self.over.set();
    }
}

/// The wires of a closed adapter that are not closed: each sends the bytes that were written and a FIN, and awaits the peer's FIN; after [the time
/// for that](crate::limits::LINGER_MICROSECONDS) it is reset. The wires hold no memory and no callback of the adapter's consumer.
pub struct Lingering<P: Platform>(Arc<Event<P>, P>);

impl<P: Platform> Lingering<P> {
    /// Waits until all of these wires are closed.
    pub fn wait(self, passive: &Passive<'_>) {
        self.0.wait(passive);
    }
}

impl<P: Platform> Device<P> {
    /// Makes the device, without addresses. IRQL <= DISPATCH.
    pub fn new() -> Result<Arc<Self, P>, Error> {
        Ok(Arc::try_new(Self {
            addresses: Addresses::default(),
            object_counts: ObjectCounts::default(),
            counters: PerformanceCounters::new()?,
            open_adapters: AtomicU32::new(0),
            wants_crc: AtomicBool::new(false),
            send_timeout: AtomicU32::new(limits::SEND_TIMEOUT_SECONDS),
            faults: Faults::default(),
            passes_posts: AtomicBool::new(false),
            capture: DeviceCapture::default(),
            ports: Ports::new()?,
            refused: WireTable::new(limits::REFUSED, &PoolQuota::UNLIMITED)?,
            ended: WireTable::new(limits::ENDED, &PoolQuota::UNLIMITED)?,
            tokens: Tokens::new()?,
            rundown: SpinLock::<_, P>::new(Some(Rundown::new(None)?)),
        })?)
    }

    /// Waits until every wire is closed, lingering wires included: the driver must stay loaded until then. The caller has closed all adapters; an
    /// open after this call fails.
    pub fn drain(&self, passive: &Passive<'_>) {
        let rundown = self.rundown.lock().take();
        if let Some(rundown) = rundown {
            let over = rundown.over.clone();
            drop(rundown);
            over.wait(passive);
        }
    }

    /// Gives the device an address that consumers may bind to. An address that the device has already changes nothing.
    /// IRQL <= DISPATCH. Errors: [`Error::InvalidAddress`] for an address that no interface can have or that is
    /// link-local in IPv6, [`Error::InsufficientResources`].
    pub fn add_address(&self, address: IpAddr) -> Result<(), Error> {
        self.addresses.add(address)
    }

    /// Removes the addresses that `wanted` does not accept: no object can bind to them, and no connect reaches them.
    /// Objects that use such an address keep it. IRQL <= DISPATCH. Errors: [`Error::InsufficientResources`].
    pub fn retain_addresses(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<(), Error> {
        self.addresses.retain(wanted)
    }

    /// The `index`th address, oldest first; `None` from the number of addresses on. IRQL <= DISPATCH.
    pub fn address(&self, index: usize) -> Option<IpAddr> {
        self.addresses.get(index)
    }

    /// Sets whether this side asks for CRCs on connections with other machines that begin from now on; a peer that asks for CRCs gets them in any
    /// case. A new device does not ask for CRCs, as TCP has a checksum. IRQL: any.
    pub fn want_crc(&self, wants: bool) {
        self.wants_crc.store(wants, Ordering::Relaxed);
    }

    pub(crate) fn wants_crc(&self) -> bool {
        self.wants_crc.load(Ordering::Relaxed)
    }

    /// Sets the seconds that a send of a program waits for a receive of its peer, on queue pairs made from now on; 0: without limit. The default is
    /// [`limits::SEND_TIMEOUT_SECONDS`]. Sends of kernel consumers wait without limit. IRQL: any.
    pub fn set_send_timeout(&self, seconds: u32) {
        self.send_timeout.store(seconds, Ordering::Relaxed);
    }

    /// Replaces the fault rules, which count from 0 then; after an error the device keeps its old rules. A new device has none. IRQL <= DISPATCH; the
    /// time is linear in the length of the text.
    pub fn set_fault_rules(&self, text: &str) -> Result<(), RulesError> {
        self.faults.set(text)
    }

    /// Fault rule number `index`; `None` from the number of rules on. IRQL <= DISPATCH.
    pub fn fault_rule(&self, index: usize) -> Option<CountedRule> {
        self.faults.rule(index)
    }

    /// From now on, posts to queue pairs that kernel consumers make pass their point for fault rules. Posts of other queue pairs do not look at the
    /// rules.
    pub fn pass_posts(&self) {
        self.passes_posts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn faults(&self) -> &Faults<P> {
        &self.faults
    }

    /// Starts a capture of the device's connections, for an owner of this number. IRQL <= DISPATCH; the time is linear in its memory.
    pub fn start_capture(&self, owner: u64, options: &CaptureOptions) -> Result<(), CaptureError> {
        self.capture.start(owner, options)
    }

    /// The capture of this owner. IRQL <= DISPATCH.
    pub fn capture_of(&self, owner: u64) -> Option<Arc<Capture<P>, P>> {
        self.capture.of(owner)
    }

    /// Ends the capture of this owner, if there is one. IRQL <= DISPATCH.
    pub fn end_capture(&self, owner: u64) {
        self.capture.end(owner);
    }

    pub(crate) fn capture(&self) -> &DeviceCapture<P> {
        &self.capture
    }

    /// Whether the device has this address. IRQL <= DISPATCH.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(address)
    }

    /// The established sides of connections: a connection within the device has two. Connections that are established
    /// or end during the iteration may be missing. IRQL <= DISPATCH; the time is linear in the size of the table.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionSide> {
        self.ports.connections()
    }

    /// The addresses of listeners that listen and of shared endpoints; completeness, IRQL and time as for [`Device::connections`].
    pub fn local_endpoints(&self) -> impl Iterator<Item = LocalEndpoint> {
        self.ports.local_endpoints()
    }

    /// The entry at one slot of the table of addresses in use: `None` from the number of slots on, `Some(None)` for a
    /// slot that is free or not listed. An entry keeps its slot as long as it is in use. IRQL <= DISPATCH.
    pub fn in_use(&self, slot: usize) -> Option<Option<InUse>> {
        self.ports.in_use(slot)
    }

    /// The number of objects of `kind`.
    pub fn count(&self, kind: ObjectKind) -> u32 {
        self.object_counts.get(kind)
    }

    /// The number of open adapters.
    pub fn open_adapters(&self) -> u32 {
        self.open_adapters.load(Ordering::Relaxed)
    }

    /// The performance counters.
    pub fn counters(&self) -> &PerformanceCounters<P> {
        &self.counters
    }

    pub(crate) fn object_counts(&self) -> &ObjectCounts {
        &self.object_counts
    }

    pub(crate) fn ports(&self) -> &Ports<P> {
        &self.ports
    }

    pub(crate) fn refused(&self) -> &Arc<WireTable<P>, P> {
        &self.refused
    }

    pub(crate) fn ended(&self) -> &Arc<WireTable<P>, P> {
        &self.ended
    }

    pub(crate) fn tokens(&self) -> &Tokens<P> {
        &self.tokens
    }
}

/// One open of the device: the consumer's NDK_ADAPTER.
pub struct Adapter<P: Platform> {
    /// Major and minor version of NDKPI that the consumer gets.
    version: (u16, u16),
    process: Option<u32>,
    device: Arc<Device<P>, P>,
    rundown: Arc<Rundown<P>, P>,
    gone: Arc<Event<P>, P>,
    /// The charge for the adapter's own memory. Its quota is charged for all objects made through the adapter.
    charge: Charge<P>,
}

impl<P: Platform> Adapter<P> {
    /// Opens the device for a kernel consumer, with the given version of NDKPI. IRQL <= DISPATCH.
    pub fn open(device: &Arc<Device<P>, P>, version: (u16, u16)) -> Result<Arc<Self, P>, Error> {
        Self::open_for(device, version, None, &PoolQuota::UNLIMITED)
    }

    /// As [`Adapter::open`], on behalf of a process if `process` is its number. The memory of all objects made through
    /// the adapter counts against `quota` until it is freed, the memory of lingering wires too.
    pub fn open_for(
        device: &Arc<Device<P>, P>,
        version: (u16, u16),
        process: Option<u32>,
        quota: &PoolQuota<P>,
    ) -> Result<Arc<Self, P>, Error> {
        let own = Arc::<Self, P>::POOL_BYTES.saturating_add(Arc::<Rundown<P>, P>::POOL_BYTES);
        let events = Arc::<Event<P>, P>::POOL_BYTES.saturating_mul(2);
        let charge = quota.charge(own.saturating_add(events))?;
        let gone = Event::new()?;
        let of_device = device.rundown.lock().clone();
        let rundown = Rundown::new(Some(of_device.ok_or(Error::InsufficientResources)?))?;
        device.open_adapters.fetch_add(1, Ordering::Relaxed);
        // The drop of the adapter decrements the count, also if this allocation fails.
        Ok(Arc::try_new(Self { version, process, device: device.clone(), rundown, gone, charge })?)
    }

    /// Drops the consumer's reference, and waits until every object made through the adapter is gone and every callback has returned
    /// (CLOSE_NDK_ADAPTER_HANDLER blocks). Does not wait for other machines: see [`Lingering`].
    pub fn close(adapter: Arc<Self, P>, passive: &Passive<'_>) -> Lingering<P> {
        let (gone, lingering) = (adapter.gone.clone(), Lingering(adapter.rundown.over.clone()));
        drop(adapter);
        gone.wait(passive);
        lingering
    }

    pub(crate) fn rundown(&self) -> &Arc<Rundown<P>, P> {
        &self.rundown
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Seconds that a send waits for a receive; 0: without limit, as for every kernel consumer.
    pub(crate) fn send_timeout(&self) -> u32 {
        self.process.map_or(0, |_| self.device.send_timeout.load(Ordering::Relaxed))
    }

    /// A call passes a point for fault rules, with its addresses and its length. Error: a rule fails the call; `Some`: a rule sets the seconds that
    /// messages of the connection wait for a receive.
    pub(crate) fn pass_point(
        &self,
        point: Point,
        addresses: platform::Addresses,
        bytes: Option<u64>,
    ) -> Result<Option<u32>, Error> {
        let platform::Addresses { local, remote } = addresses;
        let process = self.process;
        let passage = Passage { local, remote, process, bytes, ..Passage::new(point, P::system_time()) };
        self.device.faults.check(&self.device, &passage)
    }

    /// Whether posts to a new queue pair are to pass their point: see [`Device::pass_posts`].
    pub fn passes_posts(&self) -> bool {
        self.process.is_none() && self.device.passes_posts.load(Ordering::Relaxed)
    }

    /// The quota that objects made through the adapter count against.
    pub fn quota(&self) -> &PoolQuota<P> {
        self.charge.quota()
    }

    /// The version given to [`Adapter::open`].
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// The device that this adapter opens.
    pub fn device(&self) -> &Arc<Device<P>, P> {
        &self.device
    }
}

impl<P: Platform> Drop for Adapter<P> {
    fn drop(&mut self) {
        self.device.open_adapters.fetch_sub(1, Ordering::Relaxed);
        self.gone.set();
    }
}
