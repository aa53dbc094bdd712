//! A connection as a consumer of NDK has it: a queue pair, its completion queues, a connector.

use std::{
    cell::OnceCell,
    net::{IpAddr, SocketAddr},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use hosted::{Hosted, passive};
use ndk_abi::{
    describe::ZeroInit,
    ndkpi::{
        NDK_CONNECTOR, NDK_CQ, NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED, NDK_LISTENER, NDK_MR_FLAG_ALLOW_LOCAL_WRITE,
        NDK_MR_FLAG_ALLOW_REMOTE_READ, NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_MW, NDK_OP_FLAG_ALLOW_REMOTE_READ,
        NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_QP, NDK_RESULT_EX,
    },
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
};
use ndk_consumer::{Completed, ConnectRequested, Data, Disconnected, Notified, Offer, QpDepths};
use rping::{Access, Memory as _, Place, Received, Verbs, Work};

use crate::{
    bell::Bell,
    device::{Adapter, Device, Owned, Pd, Ref, Region},
    status::{Named, shared},
};

/// What rping asks for.
const OFFER: Offer<'static> = Offer { inbound_reads: 16, outbound_reads: 16, private_data: &[] };
/// A peer connects, or tries to, long before.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

type Cq = Owned<NDK_CQ, CqEvents>;
type Connector = Owned<NDK_CONNECTOR, Link>;
/// Its domain goes after it.
type Window = Owned<NDK_MW, Pd>;
type NdkWork<'a> = ndk_consumer::Work<'a, (), Hosted>;

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
    pd: Ref<Pd>,
}

/// A queue pair, which may be connected once.
pub(crate) struct Connection {
    connector: OnceCell<Connector>,
    qp: Owned<NDK_QP, QpKeep>,
    adapter: Ref<Adapter>,
}

/// Makes a call of a connector and waits for its end.
fn finish(what: &str, connector: &Connector, call: impl FnOnce(&Connector) -> NTSTATUS) -> Result<()> {
    let bell = &connector.context().bell;
    bell.ring(|told| told.outcome = None);
    let mut status = call(connector);
    if status == STATUS_PENDING {
        status = bell.wait(what, |told| told.outcome.take())?;
    }
    status.named(what)
}

impl Connection {
    /// One that is not yet connected.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        const DEPTH: u32 = 64;
        let adapter = device.open()?;
        let pd = shared(Adapter::create_pd(&adapter, &passive()).named("NdkCreatePd")?)?;
        let cq = || {
            let events = shared(CqEvents { bell: Bell::default(), _adapter: adapter.clone() })?;
            let cq = Cq::create_cq(&adapter, DEPTH, None, events, &passive()).named("NdkCreateCq")?;
            shared(cq)
        };
        let (receives, requests) = (cq()?, cq()?);
        let keep = shared(QpKeep { receives: receives.clone(), requests: requests.clone(), pd: pd.clone() })?;
        let depths = QpDepths { initiator_depth: DEPTH, initiator_sges: 1, inline_bytes: 0 };
        let qp = Owned::create_qp(&pd, &receives, &requests, 0, (DEPTH, 1), &depths, keep, &passive());
        Ok(Self { connector: OnceCell::new(), qp: qp.named("NdkCreateQp")?, adapter })
    }

    /// NdkConnect and NdkCompleteConnect; our address.
    pub(crate) fn connect(&self, local: IpAddr, peer: SocketAddr) -> Result<SocketAddr> {
        let link = Link::new(&self.adapter)?;
        let connector = Connector::create_connector(&self.adapter, link, &passive()).named("NdkCreateConnector")?;
        let local = SocketAddr::new(local, 0);
        finish("NdkConnect", &connector, |connector| connector.connect(&self.qp, &local, &peer, &OFFER))?;
        finish("NdkCompleteConnect", &connector, Connector::complete_connect)?;
        let address = connector.local_address().named("NdkGetLocalAddress")?;
        self.keep(connector)?;
        address.socket_addr().context("an address that is none")
    }

    /// NdkAccept of the next request.
    pub(crate) fn accept(&self, listener: &Listener) -> Result<()> {
        let connector = listener.next()?;
        finish("NdkAccept", &connector, |connector| connector.accept(&self.qp, &OFFER))?;
        self.keep(connector)
    }

    fn keep(&self, connector: Connector) -> Result<()> {
        self.connector.set(connector).map_err(|_second| anyhow!("connected already"))
    }

    fn connector(&self) -> Result<&Connector> {
        self.connector.get().context("not connected")
    }

    fn post(&self, work: &Work<'_, Region>) -> Result<()> {
        match *work {
            Work::Send { from, length, solicit, invalidate } => {
                let data = Data::Regions(&[from.sge(0, length)]);
                let flags = if solicit { NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT } else { 0 };
                match invalidate {
                    None => self.qp.post(0, &NdkWork::Send(data), flags).named("NdkSend"),
                    Some(token) => {
                        let work = NdkWork::SendAndInvalidate { data, token };
                        self.qp.post(0, &work, flags).named("NdkSendAndInvalidate")
                    }
                }
            }
            Work::Read { into, offset, length, from: Place { address, token } } => {
                let sges = &[into.sge(offset, length)];
                self.qp.post(0, &NdkWork::Read { sges, address, token }, 0).named("NdkRead")
            }
            Work::Write { from, offset, length, to: Place { address, token } } => {
                let data = Data::Regions(&[from.sge(offset, length)]);
                self.qp.post(0, &NdkWork::Write { data, address, token }, 0).named("NdkWrite")
            }
        }
    }
}

impl Verbs for Connection {
    type Memory = Region;
    type Window = Window;

    fn register(&self, length: usize, access: Access) -> Result<Region> {
        let flags = [
            (access.local_write, NDK_MR_FLAG_ALLOW_LOCAL_WRITE),
            (access.remote_read, NDK_MR_FLAG_ALLOW_REMOTE_READ),
            (access.remote_write, NDK_MR_FLAG_ALLOW_REMOTE_WRITE),
        ];
        let flags = flags.into_iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, flag)| all | flag);
        Region::new(&self.qp.context().pd, length, flags)
    }

    fn window(&self) -> Result<Window> {
        Window::create_mw(&self.qp.context().pd, self.qp.context().pd.clone(), &passive()).named("NdkCreateMw")
    }

    fn bind(&self, window: &Window, memory: &Region, length: usize, writable: bool) -> Result<Place> {
        let flags = if writable { NDK_OP_FLAG_ALLOW_REMOTE_WRITE } else { NDK_OP_FLAG_ALLOW_REMOTE_READ };
        let address = memory.place().address;
        self.qp.bind(0, window, memory.registered(), (address, length), flags).named("NdkBind")?;
        next(&self.qp.context().requests, NDK_CQ_NOTIFY_ANY, "a bind")?.Status.named("NdkBind")?;
        Ok(Place { address, token: window.remote_token() })
    }

    fn receive(&self, into: &Region, length: usize) -> Result<()> {
        self.qp.receive(0, &[into.sge(0, length)]).named("NdkReceive")
    }

    fn received(&self, solicited: bool) -> Result<Received> {
        let wakes = if solicited { NDK_CQ_NOTIFY_SOLICITED } else { NDK_CQ_NOTIFY_ANY };
        let completion = next(&self.qp.context().receives, wakes, "a receive")?;
        let bytes = completion.BytesTransferred as usize;
        Ok(if completion.Status == STATUS_SUCCESS { Ok(bytes) } else { Err(completion.Status.to_string()) })
    }

    fn perform(&self, work: &[Work<'_, Region>]) -> Result<()> {
        work.iter().try_for_each(|work| self.post(work))?;
        work.iter().try_for_each(|work| {
            let what = match work {
                Work::Send { .. } => "the completion of NdkSend",
                Work::Read { .. } => "the completion of NdkRead",
                Work::Write { .. } => "the completion of NdkWrite",
            };
            next(&self.qp.context().requests, NDK_CQ_NOTIFY_ANY, what)?.Status.named(what)
        })
    }

    fn disconnected(&self) -> Result<()> {
        self.connector()?.context().bell.wait("the disconnect event", |told| told.disconnected.then_some(()))
    }

    fn disconnect(&self) -> Result<()> {
        finish("NdkDisconnect", self.connector()?, Connector::disconnect)
    }
}

/// The next completion; `wakes` of NDK_CQ_NOTIFY_* while there is none.
fn next(cq: &Cq, wakes: u32, what: &str) -> Result<NDK_RESULT_EX> {
    let mut result = [NDK_RESULT_EX::ZERO];
    loop {
        if cq.results(&mut result) > 0 {
            return Ok(result[0]);
        }
        cq.arm(wakes);
        if cq.results(&mut result) > 0 {
            return Ok(result[0]);
        }
        cq.context().bell.wait(what, |count| (std::mem::take(count) > 0).then_some(()))?;
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
    pub(crate) fn new(device: &Device, address: SocketAddr) -> Result<Self> {
        let adapter = device.open()?;
        let (sender, requests) = channel();
        let events = shared(Requests { sender, adapter: adapter.clone() })?;
        let listener = Owned::create_listener(&adapter, events, &passive()).named("NdkCreateListener")?;
        listener.listen(&address, &passive()).named("NdkListen")?;
        Ok(Self { requests, _listener: listener })
    }

    /// The next request.
    fn next(&self) -> Result<Connector> {
        match self.requests.recv_timeout(ACCEPT_LIMIT) {
            Ok(connector) => Ok(connector),
            Err(RecvTimeoutError::Timeout) => bail!("nobody has connected for {} s", ACCEPT_LIMIT.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("the listener is gone"),
        }
    }
}
