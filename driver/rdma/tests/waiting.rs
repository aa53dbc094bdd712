//! Sends that have to wait for a receive.
#![expect(unsafe_code, reason = "callbacks and memory are promised to be valid, as a kernel consumer does")]

use std::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
};

use simkernel::{Pages, Session, SimKernel, boot};
use soft_rdma::{
    Accept, Access, Adapter, Callback, CompletionQueue, Connect, Connector, Device, Error, Flags, InitiatorSizes,
    Listener, MemoryRegion, Outcome, Post, ProtectionDomain, QueuePair, ReadLimits, ReceiveSource, Runs, Sge, Source,
    Status,
};

type Arc<T> = platform::Arc<T, SimKernel>;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const LIMITS: ReadLimits = ReadLimits { inbound: 1, outbound: 1 };

fn ignore<A>() -> Callback<A> {
    fn nothing<A>(_function: *const (), _context: *mut c_void, _argument: A) {}
    // SAFETY: `nothing` touches none of its arguments.
    unsafe { Callback::new(nothing::<A>, std::ptr::null(), std::ptr::null_mut()) }
}

/// The connector that the listener handed out, as the address of its reference.
static INCOMING: AtomicU64 = AtomicU64::new(0);

fn keep(_function: *const (), _context: *mut c_void, connector: Arc<Connector<SimKernel>>) {
    INCOMING.store(Arc::into_raw(connector).expose_provenance() as u64, Ordering::SeqCst);
}

struct Side {
    connector: Arc<Connector<SimKernel>>,
    queue_pair: Arc<QueuePair<SimKernel>>,
    cq: Arc<CompletionQueue<SimKernel>>,
    token: u32,
    _region: Arc<MemoryRegion<SimKernel>>,
}

impl Side {
    fn sge(&self) -> Sge {
        Sge { address: 0x1000, length: 64, token: self.token }
    }

    fn completions(&self) -> Vec<Status> {
        let mut statuses = Vec::new();
        self.cq.poll(16, |_, completion| statuses.push(completion.status));
        statuses
    }
}

fn side(adapter: &Arc<Adapter<SimKernel>>, connector: Arc<Connector<SimKernel>>, pages: &Pages) -> Side {
    let pd = ProtectionDomain::new(adapter).unwrap();
    let cq = CompletionQueue::new(adapter, 16, ignore()).unwrap();
    let sizes = InitiatorSizes { depth: 8, sges: 1, inline_data: 0 };
    let queue_pair = QueuePair::new(&pd, &cq, &cq, 0, sizes, ReceiveSource::Own { depth: 8, sges: 1 }).unwrap();
    let region = MemoryRegion::new(&pd, false).unwrap();
    // SAFETY: the pages outlive the region in every test here.
    let runs: Runs<SimKernel> = unsafe { Runs::new(1, |_| (pages.address(0), 4096)) }.unwrap();
    MemoryRegion::register(&region, 0x1000, 4096, Access::LOCAL_WRITE, runs).unwrap();
    Side { connector, queue_pair, cq, token: region.token(), _region: region }
}

/// Two sides, of which the passive one has accepted and the active one has not completed.
fn accepted(kernel: &Session, pages: &Pages) -> (Side, Side) {
    let device = Device::new().unwrap();
    device.add_address(HOST).unwrap();
    let adapter = Adapter::open(&device, (2, 1)).unwrap();
    // SAFETY: `keep` uses its last argument only.
    let event = unsafe { Callback::new(keep, std::ptr::null(), std::ptr::null_mut()) };
    let listener = Listener::new(&adapter, event).unwrap();
    Listener::listen(&listener, SocketAddr::new(HOST, 5445)).unwrap();
    let active = side(&adapter, Connector::new(&adapter).unwrap(), pages);
    let (local, remote) = (SocketAddr::new(HOST, 0), SocketAddr::new(HOST, 5445));
    let connect = Connect {
        queue_pair: &active.queue_pair,
        source: Source::Address(local),
        remote,
        limits: LIMITS,
        private_data: &[],
    };
    assert_eq!(Connector::connect(&active.connector, connect, ignore()), Ok(Outcome::Pending));
    kernel.flush_dpcs();
    let incoming = std::ptr::with_exposed_provenance(INCOMING.swap(0, Ordering::SeqCst) as usize);
    // SAFETY: the reference that `keep` stored.
    let passive = side(&adapter, unsafe { Arc::from_raw(incoming) }, pages);
    let accept = Accept { queue_pair: &passive.queue_pair, limits: LIMITS, private_data: &[], disconnect_event: None };
    assert_eq!(Connector::accept(&passive.connector, accept, ignore()), Ok(Outcome::Pending));
    kernel.flush_dpcs();
    (active, passive)
}

#[test]
fn a_waiting_send_does_not_run() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.flush_dpcs();
    let before = kernel.ledger().dpc_runs;
    QueuePair::post(&active.queue_pair, 1, &[active.sge()], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    let runs = kernel.ledger().dpc_runs - before;
    assert_eq!(runs, 1, "deferred calls for a send that can only wait");
    passive.queue_pair.post_receive(2, &[passive.sge()]).unwrap();
    kernel.flush_dpcs();
    assert_eq!((active.completions(), passive.completions()), (vec![Ok(())], vec![Ok(())]));
}

#[test]
fn a_receive_posted_before_connecting_takes_the_first_send() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let post = || QueuePair::post(&passive.queue_pair, 1, &[passive.sge()], Flags::empty(), Post::Send(None));
    assert_eq!(post(), Err(Error::ConnectionInvalid), "not before the peer has completed");
    active.queue_pair.post_receive(2, &[active.sge()]).unwrap();
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    assert_eq!(post(), Ok(()));
    kernel.flush_dpcs();
    assert_eq!((active.completions(), passive.completions()), (vec![Ok(())], vec![Ok(())]));
}
