//! The device under test, and the objects of a consumer.
#![expect(unsafe_code, reason = "callbacks and memory are promised to be valid, as a kernel consumer does")]

use std::{
    collections::VecDeque,
    ffi::c_void,
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::Mutex,
};

use platform::PoolQuota;
use simkernel::{Pages, SimKernel};
use soft_rdma::{
    Access, Adapter, Callback, Completion, CompletionQueue, Connector, Device, DisconnectReason, Error, Flags,
    InitiatorSizes, Listener, MemoryRegion, Outcome, Post, ProtectionDomain, QueuePair, ReadLimits, ReceiveSource,
    Runs, Sge, SharedReceiveQueue, Status,
};

use crate::{Arc, wait};

/// The machine of the device.
pub const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// The machine of the peers.
pub const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
/// The port of each listener.
pub const PORT: u16 = 5445;
/// Reads of a consumer: more than a peer has ([`crate::frames::READS`]).
pub const LIMITS: ReadLimits = ReadLimits { inbound: 8, outbound: 8 };
/// The address at which each region begins.
pub const BASE: u64 = 0x10_0000;

/// A callback that does nothing.
#[must_use]
pub fn ignore<A>() -> Callback<A> {
    fn nothing<A>(_function: *const (), _context: *mut c_void, _argument: A) {}
    // SAFETY: `nothing` touches none of its arguments.
    unsafe { Callback::new(nothing::<A>, std::ptr::null(), std::ptr::null_mut()) }
}

/// The arguments of callbacks, the oldest first. It is never freed, as a callback may be late.
pub struct Inbox<A: 'static>(&'static Mutex<VecDeque<A>>);

/// Where all of them are: for the leak sanitizer, which the fuzzer has.
static INBOXES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl<A: Send + 'static> Default for Inbox<A> {
    fn default() -> Self {
        let inbox: &Mutex<VecDeque<A>> = Box::leak(Box::default());
        INBOXES.lock().expect("the list").push(std::ptr::from_ref(inbox).expose_provenance());
        Self(inbox)
    }
}

impl<A: Send + 'static> Inbox<A> {
    /// A callback that puts its argument in.
    #[must_use]
    pub fn callback(&self) -> Callback<A> {
        fn put<A>(_function: *const (), inbox: *mut c_void, argument: A) {
            // SAFETY: made from such a reference.
            let inbox = unsafe { &*inbox.cast_const().cast::<Mutex<VecDeque<A>>>() };
            inbox.lock().expect("the inbox").push_back(argument);
        }
        // SAFETY: the inbox is there for ever, and may be used from any thread.
        unsafe { Callback::new(put::<A>, std::ptr::null(), std::ptr::from_ref(self.0).cast_mut().cast()) }
    }

    /// The next, if it is there.
    ///
    /// # Panics
    /// If a thread panicked that put something in.
    #[must_use]
    pub fn take(&self) -> Option<A> {
        self.0.lock().expect("the inbox").pop_front()
    }

    /// Waits for the next.
    ///
    /// # Panics
    /// If the callback is not called.
    #[must_use]
    pub fn wait(&self, what: &str) -> A {
        wait(what, || !self.0.lock().expect("the inbox").is_empty());
        self.take().expect("it is there")
    }
}

/// A device with one address, opened.
///
/// # Errors
/// What has failed.
pub fn try_machine(address: IpAddr) -> Result<Arc<Adapter<SimKernel>>, Error> {
    let device = Device::new()?;
    device.add_address(address)?;
    Adapter::open(&device, (2, 1))
}

/// As [`try_machine`].
///
/// # Panics
/// Without memory.
#[must_use]
pub fn machine(address: IpAddr) -> Arc<Adapter<SimKernel>> {
    try_machine(address).expect("memory")
}

/// As [`machine`], opened for a program, whose sends wait `send_timeout` seconds for a receive.
///
/// # Panics
/// Without memory.
#[must_use]
pub fn machine_of_program(address: IpAddr, send_timeout: u32) -> Arc<Adapter<SimKernel>> {
    let device = Device::new().expect("memory");
    device.add_address(address).expect("memory");
    device.set_send_timeout(send_timeout);
    Adapter::open_for(&device, (2, 1), Some(7), &PoolQuota::UNLIMITED).expect("memory")
}

/// A listener of the device, and the connectors of its connection requests.
pub struct Listening {
    listener: Option<Arc<Listener<SimKernel>>>,
    /// Connection requests.
    pub incoming: Inbox<Arc<Connector<SimKernel>>>,
}

impl Listening {
    /// Listens at [`HOST`], [`PORT`].
    ///
    /// # Errors
    /// What the listen says.
    pub fn new(adapter: &Arc<Adapter<SimKernel>>) -> Result<Self, Error> {
        let incoming = Inbox::default();
        let listener = Listener::new(adapter, incoming.callback())?;
        let listening = Self { listener: Some(listener.clone()), incoming };
        let done = Inbox::default();
        if Listener::listen(&listener, SocketAddr::new(HOST, PORT), done.callback())? == Outcome::Pending {
            done.wait("the end of the listen")?;
        }
        Ok(listening)
    }

    /// It itself.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn listener(&self) -> &Arc<Listener<SimKernel>> {
        self.listener.as_ref().expect("until it is dropped")
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        while let Some(connector) = self.incoming.take() {
            let _may_wait = soft_rdma::close(connector, ignore());
        }
        if let Some(listener) = self.listener.take() {
            let _may_wait = soft_rdma::close(listener, ignore());
        }
    }
}

/// A consumer's side of a connection. Dropping it closes it, and waits for that.
pub struct Side {
    connector: Option<Arc<Connector<SimKernel>>>,
    queue_pair: Option<Arc<QueuePair<SimKernel>>>,
    shared: Option<Arc<SharedReceiveQueue<SimKernel>>>,
    region: Option<Arc<MemoryRegion<SimKernel>>>,
    cq: Arc<CompletionQueue<SimKernel>>,
    /// Where its queue pair and regions belong.
    pub pd: Arc<ProtectionDomain<SimKernel>>,
    /// Its memory.
    pub pages: Pages,
    /// What the connection ended with.
    pub disconnects: Inbox<DisconnectReason>,
}

impl Side {
    /// A side with `pages` pages, and a region of all of them that the peer has no right to.
    ///
    /// # Errors
    /// What has failed.
    pub fn new(connector: Arc<Connector<SimKernel>>, pages: usize) -> Result<Self, Error> {
        Self::without_queue_pair(connector, pages)?.with_queue_pair()
    }

    /// As [`Side::new`], with receives from a shared queue.
    ///
    /// # Errors
    /// What has failed.
    pub fn sharing(connector: Arc<Connector<SimKernel>>, pages: usize) -> Result<Self, Error> {
        let mut side = Self::without_queue_pair(connector, pages)?;
        side.shared = Some(SharedReceiveQueue::new(&side.pd, 8, 2, 0, None)?);
        side.with_queue_pair()
    }

    fn without_queue_pair(connector: Arc<Connector<SimKernel>>, pages: usize) -> Result<Self, Error> {
        let adapter = connector.adapter().clone();
        let belongings = ProtectionDomain::new(&adapter)
            .and_then(|pd| Ok((pd, CompletionQueue::new(&adapter, 16, ignore())?)))
            .inspect_err(|_| _ = soft_rdma::close(connector.clone(), ignore()));
        let (pd, cq) = belongings?;
        Ok(Self {
            connector: Some(connector),
            queue_pair: None,
            shared: None,
            region: None,
            cq,
            pd,
            pages: Pages::new(pages),
            disconnects: Inbox::default(),
        })
    }

    fn with_queue_pair(mut self) -> Result<Self, Error> {
        let sizes = InitiatorSizes { depth: 8, sges: 8, inline_data: 0 };
        let receives = match &self.shared {
            Some(shared) => ReceiveSource::Shared(shared),
            None => ReceiveSource::Own { depth: 8, sges: 2 },
        };
        self.queue_pair = Some(QueuePair::new(&self.pd, &self.cq, &self.cq, 0, sizes, receives)?);
        self.region = Some(self.region_of(&self.pd, Access::LOCAL_WRITE)?);
        Ok(self)
    }

    /// One more region of all pages, with a token for its peer.
    ///
    /// # Errors
    /// What has failed.
    pub fn region_of(
        &self,
        pd: &Arc<ProtectionDomain<SimKernel>>,
        access: Access,
    ) -> Result<Arc<MemoryRegion<SimKernel>>, Error> {
        self.region_at(pd, access, 0..self.pages.size())
    }

    /// A region of some bytes of the pages, also at [`BASE`]. The mapping extends to the end of the pages.
    ///
    /// # Errors
    /// What has failed.
    pub fn region_at(
        &self,
        pd: &Arc<ProtectionDomain<SimKernel>>,
        access: Access,
        bytes: Range<usize>,
    ) -> Result<Arc<MemoryRegion<SimKernel>>, Error> {
        let region = MemoryRegion::new(pd, false)?;
        let size = bytes.len() as u64;
        let there = (self.pages.size() - bytes.start) as u64;
        // SAFETY: the side is closed before its pages go, and with it what uses its regions.
        let runs = unsafe { Runs::new(1, |_| (self.pages.address(bytes.start), there)) }?;
        MemoryRegion::register(&region, BASE, size, access, runs)?;
        Ok(region)
    }

    /// Its connector.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn connector(&self) -> &Arc<Connector<SimKernel>> {
        self.connector.as_ref().expect("until it is dropped")
    }

    /// For a few receives and requests at a time.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn queue_pair(&self) -> &Arc<QueuePair<SimKernel>> {
        self.queue_pair.as_ref().expect("until it is dropped")
    }

    /// Bytes of its own memory.
    #[must_use]
    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        let token = self.region.as_ref().map_or(0, |region| region.token());
        Sge { address: BASE + offset as u64, length, token }
    }

    /// Posts a receive.
    ///
    /// # Panics
    /// If it cannot.
    pub fn receive(&self, context: usize, offset: usize, length: u32) {
        let sges = [self.sge(offset, length)];
        let posted = match &self.shared {
            Some(shared) => shared.post(context, &sges),
            None => self.queue_pair().post_receive(context, &sges),
        };
        posted.expect("a receive");
    }

    /// Posts a request.
    ///
    /// # Errors
    /// What the post says.
    pub fn post(&self, context: usize, sges: &[Sge], what: Post<'_, SimKernel>) -> Status {
        QueuePair::post(self.queue_pair(), context, sges, Flags::empty(), what)
    }

    /// The next completions, as many as are there.
    #[must_use]
    pub fn completions(&self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.cq.poll(16, |_, completion| completions.push(*completion));
        completions
    }

    /// Takes completions until there are `count` or more: their contexts and statuses.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn completed(&self, count: usize) -> Vec<(usize, Status)> {
        let found = std::cell::RefCell::new(Vec::new());
        wait("completions", || {
            let new = self.completions();
            found.borrow_mut().extend(new.iter().map(|completion| (completion.request_context, completion.status)));
            found.borrow().len() >= count
        });
        found.into_inner()
    }

    /// Waits until a request that is posted is cancelled at once. What else has completed is taken too.
    ///
    /// # Panics
    /// If the queue pair does not end.
    pub fn wait_for_end(&self) {
        const LAST: usize = 99;
        let nowhere = soft_rdma::Remote { address: 0, token: 0 };
        wait("the end of the connection", || {
            let write = Post::Write(nowhere);
            let _refused = QueuePair::post(self.queue_pair(), LAST, &[], Flags::SILENT_SUCCESS, write);
            let completions = self.completions();
            completions.iter().any(|done| (done.request_context, done.status) == (LAST, Err(Error::Canceled)))
        });
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let closed = Inbox::default();
        let mut pending = 0;
        let mut count = |outcome| pending += u32::from(outcome == Outcome::Pending);
        if let Some(connector) = self.connector.take() {
            count(soft_rdma::close(connector, closed.callback()));
        }
        if let Some(queue_pair) = self.queue_pair.take() {
            count(soft_rdma::close(queue_pair, closed.callback()));
        }
        if let Some(shared) = self.shared.take() {
            count(soft_rdma::close(shared, closed.callback()));
        }
        if let Some(region) = self.region.take() {
            count(soft_rdma::close(region, closed.callback()));
        }
        if !std::thread::panicking() {
            (0..pending).for_each(|_| closed.wait("the close of a side"));
        }
    }
}
