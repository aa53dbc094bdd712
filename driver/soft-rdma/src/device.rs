//! The virtual RDMA device: one for each miniport adapter, shared by all who open it.

use core::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use platform::{Arc, Charge, Event, Passive, Platform, PoolQuota, SpinLock};

use crate::{
    Error, Kind,
    connect::addresses::Addresses,
    connect::ports::{ConnectionSide, InUse, LocalEndpoint, Ports},
    connect::wire_table::WireTable,
    counters::Counters,
    limits,
    memory::token::Tokens,
    object::counts::Counts,
};

/// The device: its addresses, its ports and its memory tokens.
pub struct Device<P: Platform> {
    addresses: Addresses<P>,
    counts: Counts,
    counters: Counters<P>,
    open_adapters: AtomicU32,
    wants_crc: AtomicBool,
    send_timeout: AtomicU32,
    ports: Ports<P>,
    /// Of connections with other machines that were refused, and of those that have ended, until they are closed.
    refused: Arc<WireTable<P>, P>,
    ended: Arc<WireTable<P>, P>,
    tokens: Tokens<P>,
    /// `None` once it is drained.
    rundown: SpinLock<Option<Arc<Rundown<P>, P>>, P>,
}

/// What connections with other machines hold, which may linger when all else that was made through their adapter is gone.
pub(crate) struct Rundown<P: Platform> {
    over: Arc<Event<P>, P>,
    /// Adapters': the device's.
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

/// Connections of a closed adapter with other machines that are not over: what was written still goes out, then both sides finish, or
/// [the time for that](crate::limits::LINGER_MICROSECONDS) ends. Nothing of the adapter's consumer is in them.
pub struct Lingering<P: Platform>(Arc<Event<P>, P>);

impl<P: Platform> Lingering<P> {
    /// Waits until they are over.
    pub fn wait(self, passive: &Passive<'_>) {
        self.0.wait(passive);
    }
}

impl<P: Platform> Device<P> {
    /// Makes the device, without addresses. IRQL <= DISPATCH.
    pub fn new() -> Result<Arc<Self, P>, Error> {
        Ok(Arc::try_new(Self {
            addresses: Addresses::default(),
            counts: Counts::default(),
            counters: Counters::new()?,
            open_adapters: AtomicU32::new(0),
            wants_crc: AtomicBool::new(false),
            send_timeout: AtomicU32::new(limits::SEND_TIMEOUT_SECONDS),
            ports: Ports::new()?,
            refused: WireTable::new(limits::REFUSED, &PoolQuota::UNLIMITED)?,
            ended: WireTable::new(limits::ENDED, &PoolQuota::UNLIMITED)?,
            tokens: Tokens::new()?,
            rundown: SpinLock::<_, P>::new(Some(Rundown::new(None)?)),
        })?)
    }

    /// Waits until no connection with another machine is left, lingering ones included, before the code goes away that they run. All
    /// adapters are closed, and none is opened any more.
    pub fn drain(&self, passive: &Passive<'_>) {
        let rundown = self.rundown.lock().take();
        if let Some(rundown) = rundown {
            let over = rundown.over.clone();
            drop(rundown);
            over.wait(passive);
        }
    }

    /// Gives the device an address that consumers may bind to; one that it has already changes nothing. IRQL <= DISPATCH.
    /// Errors: [`Error::InvalidAddress`] for one that no interface can have or that is a link-local one of IPv6,
    /// [`Error::InsufficientResources`].
    pub fn add_address(&self, address: IpAddr) -> Result<(), Error> {
        self.addresses.add(address)
    }

    /// Takes the addresses away that `wanted` does not accept: nothing new is bound to them, and they can not be connected to. What
    /// uses them goes on. IRQL <= DISPATCH. Errors: [`Error::InsufficientResources`].
    pub fn retain_addresses(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<(), Error> {
        self.addresses.retain(wanted)
    }

    /// The `index`th address, in the order they came; `None` from their number on. IRQL <= DISPATCH.
    pub fn address(&self, index: usize) -> Option<IpAddr> {
        self.addresses.get(index)
    }

    /// Whether connections with other machines, those that begin from now on, have CRCs even if the peer asks for none. They have not
    /// at first: TCP has a checksum. IRQL: any.
    pub fn want_crc(&self, wants: bool) {
        self.wants_crc.store(wants, Ordering::Relaxed);
    }

    pub(crate) fn wants_crc(&self) -> bool {
        self.wants_crc.load(Ordering::Relaxed)
    }

    /// How many seconds a send of a program waits for a receive of its peer, on queue pairs that are made from now on; 0: without limit.
    /// At first [`limits::SEND_TIMEOUT_SECONDS`]. Sends of consumers in the kernel wait without limit. IRQL: any.
    pub fn set_send_timeout(&self, seconds: u32) {
        self.send_timeout.store(seconds, Ordering::Relaxed);
    }

    /// Whether an address is one of the device's. IRQL <= DISPATCH.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(address)
    }

    /// The established sides of connections: two for a connection of the device with itself.
    /// Connections that come and go meanwhile may be missing. IRQL <= DISPATCH; the time is linear in what there is.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionSide> {
        self.ports.connections()
    }

    /// The addresses of listeners and shared endpoints, in the same way.
    pub fn local_endpoints(&self) -> impl Iterator<Item = LocalEndpoint> {
        self.ports.local_endpoints()
    }

    /// What is at one place of the table of addresses in use, if anything is that is listed; `None` from the number of places on. What
    /// is there stays at its place as long as it is in use. IRQL <= DISPATCH.
    pub fn in_use(&self, place: usize) -> Option<Option<InUse>> {
        self.ports.in_use(place)
    }

    /// How many objects of `kind` live.
    pub fn count(&self, kind: Kind) -> u32 {
        self.counts.get(kind)
    }

    /// How many adapters are open.
    pub fn open_adapters(&self) -> u32 {
        self.open_adapters.load(Ordering::Relaxed)
    }

    /// The performance counters.
    pub fn counters(&self) -> &Counters<P> {
        &self.counters
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
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

/// One opened instance of the device: the NDK_ADAPTER of a consumer.
pub struct Adapter<P: Platform> {
    /// Major and minor version of the interface that the consumer is served.
    version: (u16, u16),
    process: Option<u32>,
    device: Arc<Device<P>, P>,
    rundown: Arc<Rundown<P>, P>,
    gone: Arc<Event<P>, P>,
    /// For what is made through it, and itself.
    charge: Charge<P>,
}

impl<P: Platform> Adapter<P> {
    /// Opens the device for a consumer of the given interface version, which is in the kernel. IRQL <= DISPATCH.
    pub fn open(device: &Arc<Device<P>, P>, version: (u16, u16)) -> Result<Arc<Self, P>, Error> {
        Self::open_for(device, version, None, &PoolQuota::UNLIMITED)
    }

    /// As [`Adapter::open`], on behalf of the process with this number, if there is one. What is made through it counts against `quota`
    /// until its memory is freed, also that of connections which linger.
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
        // Dropping it counts down, also if the allocation fails.
        Ok(Arc::try_new(Self { version, process, device: device.clone(), rundown, gone, charge })?)
    }

    /// Gives the consumer's reference up and waits until every object made through it is gone, and every callback has
    /// returned (CLOSE_NDK_ADAPTER_HANDLER blocks). It waits for no other machine: see [`Lingering`].
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

    /// Seconds that a send waits for a receive; 0: without limit.
    pub(crate) fn send_timeout(&self) -> u32 {
        self.process.map_or(0, |_| self.device.send_timeout.load(Ordering::Relaxed))
    }

    /// What its consumer may take of the pool.
    pub fn quota(&self) -> &PoolQuota<P> {
        self.charge.quota()
    }

    /// The version given to [`Adapter::open`].
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// The device.
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
