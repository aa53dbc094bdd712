//! A connection as a consumer of NDK has it: a queue pair, its completion queues, a connector.

use std::{
    net::{IpAddr, SocketAddr},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use hosted::{Hosted, passive};
use ndk_abi::{
    describe::ZeroInit,
    ndkpi::{NDK_CONNECTOR, NDK_CQ, NDK_CQ_NOTIFY_ANY, NDK_LISTENER, NDK_QP, NDK_RESULT_EX, NDK_SGE},
    status::{NTSTATUS, STATUS_PENDING},
};
use ndk_consumer::{Completed, ConnectRequested, Disconnected, Notified, Offer, QpDepths, Work};

use crate::{
    bell::Bell,
    device::{Adapter, Owned, Pd, Ref},
    status::{Named, shared},
};

/// What rping asks for.
const OFFER: Offer<'static> = Offer { inbound_reads: 16, outbound_reads: 16, private_data: &[] };
/// The lost wake-up of siw's responder: what comes first after its Reply may lie until more comes.
const AFTER_REPLY: Duration = Duration::from_millis(50);
/// A peer connects, or tries to, long before.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

type Cq = Owned<NDK_CQ, CqEvents>;
type Connector = Owned<NDK_CONNECTOR, Link>;

/// Notifications of a completion queue: how many are not yet seen.
struct CqEvents {
    bell: Bell<u32>,
    _adapter: Ref<Adapter>,
}

impl Notified for CqEvents {
    fn notified(&self, _status: NTSTATUS) {
        self.bell.ring(|count| *count += 1);
    }
}

/// What a connector has told.
#[derive(Default)]
struct Told {
    outcome: Option<NTSTATUS>,
    disconnected: bool,
}

struct Link {
    bell: Bell<Told>,
    _adapter: Ref<Adapter>,
}

impl Link {
    fn new(adapter: &Ref<Adapter>) -> Result<Ref<Self>> {
        shared(Self { bell: Bell::default(), _adapter: adapter.clone() })
    }
}

impl Completed<Hosted> for Link {
    fn completed(this: &Ref<Self>, status: NTSTATUS) {
        this.bell.ring(|told| told.outcome = Some(status));
    }
}

impl Disconnected for Link {
    fn disconnected(&self) {
        self.bell.ring(|told| told.disconnected = true);
    }
}

/// What a queue pair keeps.
struct QpKeep {
    receives: Ref<Cq>,
    requests: Ref<Cq>,
    _pd: Ref<Pd>,
}

/// A queue pair, which may be connected.
pub(crate) struct Connection {
    connector: Connector,
    qp: Owned<NDK_QP, QpKeep>,
}

/// A queue pair that is to be connected, so that receives can be posted before.
pub(crate) struct Unconnected {
    qp: Owned<NDK_QP, QpKeep>,
    adapter: Ref<Adapter>,
}

impl Unconnected {
    pub(crate) fn new(adapter: &Ref<Adapter>, pd: &Ref<Pd>) -> Result<Self> {
        const DEPTH: u32 = 64;
        let cq = || {
            let events = shared(CqEvents { bell: Bell::default(), _adapter: adapter.clone() })?;
            let cq = Cq::create_cq(adapter, DEPTH, None, events, &passive()).named("NdkCreateCq")?;
            shared(cq)
        };
        let (receives, requests) = (cq()?, cq()?);
        let keep = shared(QpKeep { receives: receives.clone(), requests: requests.clone(), _pd: pd.clone() })?;
        let depths = QpDepths { initiator_depth: DEPTH, initiator_sges: 1, inline_bytes: 0 };
        let qp = Owned::create_qp(pd, &receives, &requests, 0, (DEPTH, 1), &depths, keep, &passive());
        Ok(Self { qp: qp.named("NdkCreateQp")?, adapter: adapter.clone() })
    }

    /// NdkReceive.
    pub(crate) fn receive(&self, sge: NDK_SGE) -> Result<()> {
        self.qp.receive(0, &[sge]).named("NdkReceive")
    }

    /// NdkConnect and NdkCompleteConnect.
    pub(crate) fn connect(self, local: IpAddr, peer: SocketAddr) -> Result<Connection> {
        let link = Link::new(&self.adapter)?;
        let connector = Connector::create_connector(&self.adapter, link, &passive()).named("NdkCreateConnector")?;
        let local = SocketAddr::new(local, 0);
        finish("NdkConnect", &connector, |connector| connector.connect(&self.qp, &local, &peer, &OFFER))?;
        finish("NdkCompleteConnect", &connector, Connector::complete_connect)?;
        std::thread::sleep(AFTER_REPLY);
        Ok(Connection { connector, qp: self.qp })
    }
}

/// Makes a call of a connector and waits for its end.
fn finish(what: &str, connector: &Connector, call: impl FnOnce(&Connector) -> NTSTATUS) -> Result<()> {
    let bell = &connector.keep().bell;
    bell.ring(|told| told.outcome = None);
    let mut status = call(connector);
    if status == STATUS_PENDING {
        status = bell.wait(what, |told| told.outcome.take())?;
    }
    status.named(what)
}

/// What was taken of a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) status: NTSTATUS,
    pub(crate) bytes: u32,
}

impl Connection {
    /// NdkReceive.
    pub(crate) fn receive(&self, sge: NDK_SGE) -> Result<()> {
        self.qp.receive(0, &[sge]).named("NdkReceive")
    }

    /// The next receive that completes.
    pub(crate) fn received(&self) -> Result<Completion> {
        next(&self.qp.keep().receives, "a receive")
    }

    /// Posts to the initiator queue, and waits for the completion.
    pub(crate) fn perform(&self, what: &str, work: &Work<'_, (), Hosted>, flags: u32) -> Result<()> {
        self.qp.post(0, work, flags).named(what)?;
        next(&self.qp.keep().requests, what)?.status.named(what)
    }

    /// Our address.
    pub(crate) fn local_address(&self) -> Result<SocketAddr> {
        let address = self.connector.local_address().named("NdkGetLocalAddress")?;
        address.socket_addr().context("an address that is none")
    }

    /// Waits for the event that the connection is over.
    pub(crate) fn disconnected(&self) -> Result<()> {
        self.connector.keep().bell.wait("the disconnect event", |told| told.disconnected.then_some(()))
    }

    /// NdkDisconnect.
    pub(crate) fn disconnect(&self) -> Result<()> {
        finish("NdkDisconnect", &self.connector, Connector::disconnect)
    }
}

fn next(cq: &Cq, what: &str) -> Result<Completion> {
    let mut result = [NDK_RESULT_EX::ZERO];
    let mut poll = || {
        let taken = cq.results(&mut result) > 0;
        taken.then(|| Completion { status: result[0].Status, bytes: result[0].BytesTransferred })
    };
    loop {
        if let Some(completion) = poll() {
            return Ok(completion);
        }
        cq.arm(NDK_CQ_NOTIFY_ANY);
        if let Some(completion) = poll() {
            return Ok(completion);
        }
        cq.keep().bell.wait(what, |count| (std::mem::take(count) > 0).then_some(()))?;
    }
}

/// A listener, and the requests that have come.
pub(crate) struct Listener {
    /// Refuses those that wait before the listener goes.
    requests: Receiver<Connector>,
    _listener: Owned<NDK_LISTENER, Requests>,
}

struct Requests {
    sender: Sender<Connector>,
    adapter: Ref<Adapter>,
}

impl ConnectRequested<Hosted> for Requests {
    type Link = Link;

    fn link(&self) -> Option<Ref<Link>> {
        Link::new(&self.adapter).ok()
    }

    fn requested(&self, connector: Connector) {
        // Nobody is there any more: dropping it refuses.
        let _ = self.sender.send(connector);
    }
}

impl Listener {
    /// NdkListen.
    pub(crate) fn new(adapter: &Ref<Adapter>, address: SocketAddr) -> Result<Self> {
        let (sender, requests) = channel();
        let events = shared(Requests { sender, adapter: adapter.clone() })?;
        let listener = Owned::create_listener(adapter, events, &passive()).named("NdkCreateListener")?;
        listener.listen(&address, &passive()).named("NdkListen")?;
        Ok(Self { requests, _listener: listener })
    }

    /// NdkAccept of the next request.
    pub(crate) fn accept(&self, with: Unconnected) -> Result<Connection> {
        let connector = match self.requests.recv_timeout(ACCEPT_LIMIT) {
            Ok(connector) => connector,
            Err(RecvTimeoutError::Timeout) => bail!("nobody has connected for {} s", ACCEPT_LIMIT.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("the listener is gone"),
        };
        finish("NdkAccept", &connector, |connector| connector.accept(&with.qp, &OFFER))?;
        Ok(Connection { connector, qp: with.qp })
    }
}
