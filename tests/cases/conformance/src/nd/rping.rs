//! Both roles of rping by the interfaces of softnd.dll, for peers on other machines that speak its protocol.

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, bail};
use ndk_abi::{
    nd_ioctl::{
        ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_SOLICITED, ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ,
        ND_MR_FLAG_ALLOW_REMOTE_WRITE, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE,
        ND_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    },
    status::STATUS_SUCCESS,
};
use rping::{Access, Place, Plan, Received, Verbs, Work};

use super::{
    client::{
        Completion, Cq, Mr, Mw, QpSize, ReadLimits, Remote, Request,
        both::{CompletionQueue as _, Connector as _, QueuePair as _},
    },
    pair::{BIND, End, READ, SEND, WRITE, expect},
    run::Nd,
};

/// More than are ever under way.
const DEPTH: u32 = 32;

/// Plays the client from `local`, or the adapter's first address of the server's family; `connected` is told the address of its end.
///
/// # Errors
/// What the role says; objects are left in the DLL.
pub fn rping_client(
    library: &Path,
    patience: Duration,
    (local, server): (Option<IpAddr>, SocketAddr),
    plan: Plan,
    connected: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let nd = Nd::load(library, patience)?;
    let nd = if local.is_some() { nd.at(local) } else { nd.on_network_of(Some(server.ip()))? };
    let link = Link::new(&nd)?;
    rping::client(&link, plan, || {
        link.connect(server)?;
        connected(link.end.connector.local_address()?);
        Ok(())
    })?;
    drop(link);
    nd.is_unused()
}

/// Serves one client at `local`; `listening` is called when it may connect.
///
/// # Errors
/// As [`rping_client`].
pub fn rping_server(
    library: &Path,
    patience: Duration,
    local: SocketAddr,
    plan: Plan,
    listening: impl FnOnce(),
) -> anyhow::Result<()> {
    let nd = Nd::load(library, patience)?.at(Some(local.ip()));
    let link = Link::new(&nd)?;
    let listener = link.end.adapter.listener()?;
    listener.bind(local)?;
    listener.listen(0)?;
    listening();
    rping::server(&link, plan, || {
        listener.connection_request(&link.end.connector)?.finish()?;
        link.end.connector.accept(&link.end.qp, ReadLimits::default(), &[])?.finish()?;
        link.watch()
    })?;
    drop((listener, link));
    nd.is_unused()
}

/// A connection, or what will be one. Requests go before what they are of.
struct Link {
    /// Ends when the connection is over.
    lost: RefCell<Option<Request>>,
    initiated: Notified,
    received: Notified,
    end: End,
}

/// A completion queue that is waited for by Notify, as the peer's machine may need the processor that a poll would keep.
struct Notified {
    /// Ends when there is a completion that was not there before.
    armed: RefCell<Option<Request>>,
    cq: Cq,
}

impl Notified {
    fn new(cq: &Cq) -> Self {
        Self { armed: RefCell::default(), cq: cq.clone() }
    }

    /// The next completion; `wakes` of ND_CQ_NOTIFY_* while there is none.
    fn next(&self, wakes: u32) -> anyhow::Result<Completion> {
        loop {
            if let Some(completion) = self.cq.poll(1)?.pop() {
                return Ok(completion);
            }
            match self.armed.take() {
                Some(armed) => armed.finish()?,
                None => *self.armed.borrow_mut() = Some(self.cq.notify(wakes)?),
            }
        }
    }
}

impl Link {
    fn new(nd: &Nd) -> anyhow::Result<Self> {
        let size =
            QpSize { receives: DEPTH, initiators: DEPTH, receive_sges: 1, initiator_sges: 1, inline: 0, context: 0 };
        let end = End::with_cqs(nd, size, DEPTH as usize)?;
        let (initiated, received) = (Notified::new(&end.initiator_cq), Notified::new(&end.receive_cq));
        Ok(Self { lost: RefCell::default(), initiated, received, end })
    }

    fn connect(&self, to: SocketAddr) -> anyhow::Result<()> {
        let End { connector, qp, address, .. } = &self.end;
        connector.bind(*address)?;
        connector.connect(qp, to, ReadLimits::default(), &[])?.finish()?;
        connector.complete_connect()?;
        self.watch()
    }

    fn watch(&self) -> anyhow::Result<()> {
        *self.lost.borrow_mut() = Some(self.end.connector.notify_disconnect()?);
        Ok(())
    }
}

/// Registered memory of any length.
struct Memory(Mr);

impl rping::Memory for Memory {
    fn place(&self) -> Place {
        let Remote { address, token } = self.0.remote(0);
        Place { address, token: u32::from_be(token) }
    }

    fn fill(&self, bytes: &[u8]) {
        self.0.memory().write(0, bytes);
    }

    fn bytes(&self, length: usize) -> Vec<u8> {
        self.0.memory().read(0..length)
    }
}

/// As the interfaces have it: tokens in network byte order (IND2MemoryRegion::GetRemoteToken).
fn remote(Place { address, token }: Place) -> Remote {
    Remote { address, token: token.to_be() }
}

impl Verbs for Link {
    type Memory = Memory;
    type Window = Mw;

    fn register(&self, length: usize, access: Access) -> anyhow::Result<Memory> {
        let flags = [
            (access.local_write, ND_MR_FLAG_ALLOW_LOCAL_WRITE),
            (access.remote_read, ND_MR_FLAG_ALLOW_REMOTE_READ),
            (access.remote_write, ND_MR_FLAG_ALLOW_REMOTE_WRITE),
        ];
        let flags = flags.into_iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, flag)| all | flag);
        let mr = Mr::new(&self.end.adapter, length)?;
        // Not the whole pages that the memory has: the bounds are part of what is tried.
        mr.register_range(mr.memory().address(0), length, flags)?.finish()?;
        Ok(Memory(mr))
    }

    fn window(&self) -> anyhow::Result<Mw> {
        Ok(Mw::new(&self.end.adapter)?)
    }

    fn bind(&self, window: &Mw, memory: &Memory, length: usize, writable: bool) -> anyhow::Result<Place> {
        let flags = if writable { ND_OP_FLAG_ALLOW_WRITE } else { ND_OP_FLAG_ALLOW_READ };
        let Remote { address, token } = self.end.qp.bind(0, &memory.0, window, 0, length, flags)?;
        expect(self.initiated.next(ND_CQ_NOTIFY_ANY)?, BIND, 0, STATUS_SUCCESS).context("IND2QueuePair::Bind")?;
        Ok(Place { address, token: u32::from_be(token) })
    }

    fn receive(&self, into: &Memory, length: usize) -> anyhow::Result<()> {
        Ok(self.end.qp.receive(0, &[into.0.sge(0..length)])?)
    }

    fn received(&self, solicited: bool) -> anyhow::Result<Received> {
        let wakes = if solicited { ND_CQ_NOTIFY_SOLICITED } else { ND_CQ_NOTIFY_ANY };
        let completion = self.received.next(wakes)?;
        let succeeded = completion.status == STATUS_SUCCESS;
        Ok(if succeeded { Ok(completion.bytes as usize) } else { Err(completion.status.to_string()) })
    }

    fn perform(&self, work: &[Work<'_, Memory>]) -> anyhow::Result<()> {
        for work in work {
            match *work {
                Work::Send { from, length, solicit, invalidate: None } => {
                    let flags = if solicit { ND_OP_FLAG_SEND_AND_SOLICIT_EVENT } else { 0 };
                    self.end.qp.send(0, &[from.0.sge(0..length)], flags)?;
                }
                Work::Send { invalidate: Some(_), .. } => bail!("NetworkDirect has no Send with Invalidate"),
                Work::Read { into, offset, length, from: place } => {
                    self.end.qp.read(0, &[into.0.sge(offset..offset + length)], remote(place), 0)?;
                }
                Work::Write { from, offset, length, to: place } => {
                    self.end.qp.write(0, &[from.0.sge(offset..offset + length)], remote(place), 0)?;
                }
            }
        }
        for work in work {
            let (kind, what) = match work {
                Work::Send { .. } => (SEND, "IND2QueuePair::Send"),
                Work::Read { .. } => (READ, "IND2QueuePair::Read"),
                Work::Write { .. } => (WRITE, "IND2QueuePair::Write"),
            };
            expect(self.initiated.next(ND_CQ_NOTIFY_ANY).context(what)?, kind, 0, STATUS_SUCCESS).context(what)?;
        }
        Ok(())
    }

    fn disconnected(&self) -> anyhow::Result<()> {
        let lost = self.lost.borrow_mut().take().context("not connected")?;
        Ok(lost.finish()?)
    }

    fn disconnect(&self) -> anyhow::Result<()> {
        Ok(self.end.connector.disconnect()?.finish()?)
    }
}
