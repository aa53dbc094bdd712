//! Two queue pairs of one device, on their way to a connection.
#![expect(unsafe_code, reason = "callbacks and memory are promised to be valid, as a kernel consumer does")]

use std::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
};

use simkernel::{Pages, Session, SimKernel};
use soft_rdma::{
    Accept, Access, Adapter, Callback, Completion, CompletionQueue, Connect, Connector, Device, Error, Flags,
    InitiatorSizes, Listener, MemoryRegion, Outcome, Post, ProtectionDomain, QueuePair, ReadLimits, ReceiveSource,
    Runs, Sge, SharedReceiveQueue, Source, Status,
};

pub(crate) type Arc<T> = platform::Arc<T, SimKernel>;

pub(crate) const OTHER_HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub(crate) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const LIMITS: ReadLimits = ReadLimits { inbound: 3, outbound: 3 };

pub(crate) fn ignore<A>() -> Callback<A> {
    fn nothing<A>(_function: *const (), _context: *mut c_void, _argument: A) {}
    // SAFETY: `nothing` touches none of its arguments.
    unsafe { Callback::new(nothing::<A>, std::ptr::null(), std::ptr::null_mut()) }
}

/// Waits until another thread or a deferred call has made `is_so` true.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let mut pauses = 0;
    while !is_so() {
        simkernel::pause();
        pauses += 1;
        assert!(pauses < 100_000, "nothing comes");
    }
}

/// The connector that the listener handed out, as the address of its reference.
static INCOMING: AtomicU64 = AtomicU64::new(0);

fn keep(_function: *const (), _context: *mut c_void, connector: Arc<Connector<SimKernel>>) {
    INCOMING.store(Arc::into_raw(connector).expose_provenance() as u64, Ordering::SeqCst);
}

/// A callback that puts its argument there.
pub(crate) fn into<A: Send + 'static>(place: &'static std::sync::Mutex<Option<A>>) -> Callback<A> {
    fn put<A>(_function: *const (), place: *mut c_void, argument: A) {
        // SAFETY: made from such a reference.
        let place = unsafe { &*place.cast_const().cast::<std::sync::Mutex<Option<A>>>() };
        *place.lock().unwrap() = Some(argument);
    }
    // SAFETY: the place is there for ever, and may be used from any thread.
    unsafe { Callback::new(put::<A>, std::ptr::null(), std::ptr::from_ref(place).cast_mut().cast()) }
}

/// A callback for what is put into a place, and what waits until it is there.
pub(crate) fn awaited<A: Send + 'static>() -> (Callback<A>, impl FnOnce() -> A) {
    let place: &'static std::sync::Mutex<Option<A>> = Box::leak(Box::default());
    let wait = move || {
        wait_until(|| place.lock().unwrap().is_some());
        place.lock().unwrap().take().unwrap()
    };
    (into(place), wait)
}

/// A listener of `adapter`, whose consumer closes each connector.
pub(crate) fn listener(adapter: &Arc<Adapter<SimKernel>>) -> Arc<Listener<SimKernel>> {
    fn close(_function: *const (), _context: *mut c_void, connector: Arc<Connector<SimKernel>>) {
        let _may_wait = soft_rdma::close(connector, ignore());
    }
    // SAFETY: `close` uses its last argument only.
    let event = unsafe { Callback::new(close, std::ptr::null(), std::ptr::null_mut()) };
    Listener::new(adapter, event).unwrap()
}

/// Notifications of all completion queues.
pub(crate) static NOTIFIED: AtomicU64 = AtomicU64::new(0);

fn count(_function: *const (), _context: *mut c_void, _status: Status) {
    NOTIFIED.fetch_add(1, Ordering::SeqCst);
}

/// One side; the region is all pages, from `BASE` on.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) connector: Arc<Connector<SimKernel>>,
    pub(crate) queue_pair: Arc<QueuePair<SimKernel>>,
    pub(crate) cq: Arc<CompletionQueue<SimKernel>>,
    pub(crate) pd: Arc<ProtectionDomain<SimKernel>>,
    pub(crate) region: Arc<MemoryRegion<SimKernel>>,
    pub(crate) device: Arc<Device<SimKernel>>,
}

pub(crate) const BASE: u64 = 0x1000;
/// Bytes of inline data per request.
pub(crate) const INLINE: usize = 8;

impl Side {
    /// `length` bytes of the region.
    pub(crate) fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge { address: BASE + offset as u64, length, token: self.region.token() }
    }

    pub(crate) fn completions(&self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.cq.poll(16, |_, completion| completions.push(*completion));
        completions
    }
}

pub(crate) fn side(adapter: &Arc<Adapter<SimKernel>>, connector: Arc<Connector<SimKernel>>, pages: &Pages) -> Side {
    side_of(adapter, connector, pages, |_| None)
}

/// A side that takes its receives from the shared queue that `share` makes.
pub(crate) fn side_of(
    adapter: &Arc<Adapter<SimKernel>>,
    connector: Arc<Connector<SimKernel>>,
    pages: &Pages,
    share: impl FnOnce(&Arc<ProtectionDomain<SimKernel>>) -> Option<Arc<SharedReceiveQueue<SimKernel>>>,
) -> Side {
    let pd = ProtectionDomain::new(adapter).unwrap();
    let shared = share(&pd);
    side_in(&pd, adapter, connector, pages, shared.as_ref())
}

/// A side in the protection domain `pd`, with its own receives or those of `shared`.
pub(crate) fn side_in(
    pd: &Arc<ProtectionDomain<SimKernel>>,
    adapter: &Arc<Adapter<SimKernel>>,
    connector: Arc<Connector<SimKernel>>,
    pages: &Pages,
    shared: Option<&Arc<SharedReceiveQueue<SimKernel>>>,
) -> Side {
    // SAFETY: `count` touches none of its arguments.
    let notify = unsafe { Callback::new(count, std::ptr::null(), std::ptr::null_mut()) };
    let cq = CompletionQueue::new(adapter, 16, notify).unwrap();
    let sizes = InitiatorSizes { depth: 8, sges: 2, inline_data: INLINE as u32 };
    let receives = shared.map_or(ReceiveSource::Own { depth: 8, sges: 2 }, ReceiveSource::Shared);
    let queue_pair = QueuePair::new(pd, &cq, &cq, 0, sizes, receives).unwrap();
    let region = MemoryRegion::new(pd, false).unwrap();
    let runs = runs_of(pages);
    MemoryRegion::register(&region, BASE, pages.size() as u64, Access::LOCAL_WRITE, runs).unwrap();
    Side { connector, queue_pair, cq, pd: pd.clone(), region, device: adapter.device().clone() }
}

/// All pages.
pub(crate) fn runs_of(pages: &Pages) -> Runs<SimKernel> {
    // SAFETY: the pages outlive the region in every test here.
    unsafe { Runs::new(1, |_| (pages.address(0), pages.size() as u64)) }.unwrap()
}

/// Memory of a region that nothing accesses.
pub(crate) fn runs(length: u64) -> Runs<SimKernel> {
    many_runs(1, length)
}

/// As `runs`, in `count` runs of `length` bytes.
pub(crate) fn many_runs(count: usize, length: u64) -> Runs<SimKernel> {
    // SAFETY: nothing accesses it.
    unsafe { Runs::new(count, |_| (std::ptr::NonNull::dangling(), length)) }.unwrap()
}

/// A device with one address, opened by a consumer in the kernel.
pub(crate) fn machine(address: IpAddr) -> Arc<Adapter<SimKernel>> {
    Adapter::open(&device(address), (2, 1)).unwrap()
}

/// A device with one address, opened by a program, whose sends wait `send_timeout` seconds for a receive.
pub(crate) fn machine_of_program(address: IpAddr, send_timeout: u32) -> Arc<Adapter<SimKernel>> {
    let device = device(address);
    device.set_send_timeout(send_timeout);
    Adapter::open_for(&device, (2, 1), Some(7), &platform::PoolQuota::UNLIMITED).unwrap()
}

fn device(address: IpAddr) -> Arc<Device<SimKernel>> {
    let device = Device::new().unwrap();
    device.add_address(address).unwrap();
    device
}

/// Two sides of one device: the passive side has accepted, the active side has not completed the connect.
pub(crate) fn accepted(kernel: &Session, pages: &Pages) -> (Side, Side) {
    let adapter = machine(HOST);
    accepted_by(kernel, pages, [&adapter, &adapter], [HOST, HOST])
}

/// As `accepted`, with a device for each side.
pub(crate) fn accepted_apart(kernel: &Session, pages: &Pages) -> (Side, Side) {
    let hosts = [HOST, OTHER_HOST];
    let [active, passive] = hosts.map(machine);
    accepted_by(kernel, pages, [&active, &passive], hosts)
}

pub(crate) fn accepted_by(
    kernel: &Session,
    pages: &Pages,
    adapters: [&Arc<Adapter<SimKernel>>; 2],
    hosts: [IpAddr; 2],
) -> (Side, Side) {
    accepted_with(kernel, pages, adapters, hosts, LIMITS, |_| None)
}

/// As `accepted_by`, with `limits`; the passive side takes its receives from the shared queue that `share` makes.
pub(crate) fn accepted_with(
    kernel: &Session,
    pages: &Pages,
    [near, far]: [&Arc<Adapter<SimKernel>>; 2],
    hosts: [IpAddr; 2],
    limits: ReadLimits,
    share: impl FnOnce(&Arc<ProtectionDomain<SimKernel>>) -> Option<Arc<SharedReceiveQueue<SimKernel>>>,
) -> (Side, Side) {
    accept(kernel, pages, side(near, Connector::new(near).unwrap(), pages), far, hosts, limits, share)
}

/// Connects `active` to a new side of `far`, which has accepted.
pub(crate) fn accept(
    kernel: &Session,
    pages: &Pages,
    active: Side,
    far: &Arc<Adapter<SimKernel>>,
    [from, to]: [IpAddr; 2],
    limits: ReadLimits,
    share: impl FnOnce(&Arc<ProtectionDomain<SimKernel>>) -> Option<Arc<SharedReceiveQueue<SimKernel>>>,
) -> (Side, Side) {
    // SAFETY: `keep` uses its last argument only.
    let event = unsafe { Callback::new(keep, std::ptr::null(), std::ptr::null_mut()) };
    let listener = Listener::new(far, event).unwrap();
    assert_eq!(Listener::listen(&listener, SocketAddr::new(to, 5445), ignore()), Ok(Outcome::Pending));
    kernel.flush_dpcs();
    let (local, remote) = (SocketAddr::new(from, 0), SocketAddr::new(to, 5445));
    let connect =
        Connect { queue_pair: &active.queue_pair, source: Source::Address(local), remote, limits, private_data: &[] };
    assert_eq!(Connector::connect(&active.connector, connect, ignore()), Ok(Outcome::Pending));
    wait_until(|| INCOMING.load(Ordering::SeqCst) != 0);
    let incoming = std::ptr::with_exposed_provenance(INCOMING.swap(0, Ordering::SeqCst) as usize);
    // SAFETY: the reference that `keep` stored.
    let passive = side_of(far, unsafe { Arc::from_raw(incoming) }, pages, share);
    let accept = Accept { queue_pair: &passive.queue_pair, limits, private_data: &[], disconnect_event: None };
    assert_eq!(Connector::accept(&passive.connector, accept, ignore()), Ok(Outcome::Pending));
    let _when_its_connectors_are_gone = soft_rdma::close(listener, ignore());
    kernel.flush_dpcs();
    (active, passive)
}

/// Two connected sides: of one device, or of two over a wire.
pub(crate) fn connected(kernel: &Session, pages: &Pages, apart: bool) -> (Side, Side) {
    kernel.hold_clock();
    let (active, passive) = if apart { accepted_apart(kernel, pages) } else { accepted(kernel, pages) };
    wait_until(|| Connector::complete_connect(&active.connector, None) != Err(Error::ConnectionInvalid));
    kernel.flush_dpcs();
    (active, passive)
}

pub(crate) fn send(side: &Side, length: u32) {
    QueuePair::post(&side.queue_pair, 0, &[side.sge(0, length)], Flags::empty(), Post::Send(None)).unwrap();
}

pub(crate) fn receive(side: &Side, count: usize) {
    (0..count).for_each(|_| side.queue_pair.post_receive(0, &[side.sge(0, 4096)]).unwrap());
}

/// The next `count` statuses.
pub(crate) fn statuses(side: &Side, count: usize) -> Vec<Status> {
    let found = std::cell::RefCell::new(Vec::new());
    wait_until(|| {
        found.borrow_mut().extend(side.completions().iter().map(|completion| completion.status));
        found.borrow().len() >= count
    });
    found.into_inner()
}
