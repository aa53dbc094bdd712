//! Connected queue pairs, and the checks that most cases need.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE},
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{
    client::{
        Adapter, Completion, Connector, Cq, Listener, Mr, Qp, QpSize, ReadLimits,
        both::{CompletionQueue as _, Connector as _},
    },
    run::Nd,
};
use crate::error;

/// All rights that a region can give.
pub(super) const ALL_RIGHTS: u32 =
    ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;

/// ND2_REQUEST_TYPE.
pub(super) const RECEIVE: i32 = nd_com::v2::Nd2RequestTypeReceive;
pub(super) const SEND: i32 = nd_com::v2::Nd2RequestTypeSend;
pub(super) const BIND: i32 = nd_com::v2::Nd2RequestTypeBind;
pub(super) const INVALIDATE: i32 = nd_com::v2::Nd2RequestTypeInvalidate;
pub(super) const READ: i32 = nd_com::v2::Nd2RequestTypeRead;
pub(super) const WRITE: i32 = nd_com::v2::Nd2RequestTypeWrite;

/// One end of a connection. The connector goes before its queue pair.
pub(super) struct End {
    pub(super) connector: Connector,
    pub(super) qp: Qp,
    /// For completions of initiator requests.
    pub(super) initiator_cq: Cq,
    /// For completions of receives.
    pub(super) receive_cq: Cq,
    pub(super) adapter: Adapter,
    /// The adapter's address, port 0.
    pub(super) address: SocketAddr,
}

impl End {
    /// An end with an open adapter and completion queues of its own.
    pub(super) fn new(nd: &Nd, size: QpSize) -> anyhow::Result<Self> {
        Self::with_cqs(nd, size, 128)
    }

    pub(super) fn with_cqs(nd: &Nd, size: QpSize, depth: u32) -> anyhow::Result<Self> {
        let (adapter, address) = nd.adapter()?;
        Self::on(adapter, address, size, depth)
    }

    /// An end on an adapter that is open.
    pub(super) fn on(adapter: Adapter, address: SocketAddr, size: QpSize, depth: u32) -> anyhow::Result<Self> {
        let (initiator_cq, receive_cq) = (adapter.cq(depth)?, adapter.cq(depth)?);
        let qp = adapter.qp(&receive_cq, &initiator_cq, size)?;
        Ok(Self { connector: adapter.connector()?, qp, initiator_cq, receive_cq, adapter, address })
    }

    /// A new buffer of at least `length` bytes, registered with all rights.
    pub(super) fn buffer(&self, length: usize) -> error::Result<Mr> {
        let mr = Mr::new(&self.adapter, length)?;
        mr.register(ALL_RIGHTS)?;
        Ok(mr)
    }

    /// Takes the next completion of an initiator request.
    pub(super) fn initiated(&self) -> anyhow::Result<Completion> {
        self.initiator_cq.take_one()
    }

    /// Takes the next completion of a receive.
    pub(super) fn received(&self) -> anyhow::Result<Completion> {
        self.receive_cq.take_one()
    }

    /// Checks that both queues are empty: everything completed once.
    pub(super) fn quiet(&self) -> anyhow::Result<()> {
        for (what, cq) in [("initiator", &self.initiator_cq), ("receive", &self.receive_cq)] {
            let more = cq.poll(64)?;
            ensure!(more.is_empty(), "completions too many in the {what} CQ: {more:?}");
        }
        Ok(())
    }

    /// A listener on a port of its own.
    pub(super) fn listener(&self) -> anyhow::Result<(Listener, SocketAddr)> {
        let listener = self.adapter.listener()?;
        listener.bind(self.address)?;
        listener.listen(0)?;
        let address = listener.local_address()?;
        Ok((listener, address))
    }
}

/// Two connected ends, each with an adapter of its own.
pub(super) struct Pair {
    /// The side that connected.
    pub(super) a: End,
    /// The side that listened.
    pub(super) b: End,
}

impl Pair {
    /// Two ends of the usual size.
    pub(super) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, QpSize::default())
    }

    /// Two ends with queue pairs of a given size.
    pub(super) fn sized(nd: &Nd, size: QpSize) -> anyhow::Result<Self> {
        Self::of(End::new(nd, size)?, End::new(nd, size)?)
    }

    /// Connects two ends.
    pub(super) fn of(a: End, b: End) -> anyhow::Result<Self> {
        connect(&a, &b)?;
        Ok(Self { a, b })
    }

    /// Checks that all queues are empty.
    pub(super) fn quiet(&self) -> anyhow::Result<()> {
        self.a.quiet().context("at the initiator")?;
        self.b.quiet().context("at the listener")
    }
}

/// Connects `a` to `b`.
pub(super) fn connect(a: &End, b: &End) -> anyhow::Result<()> {
    connect_queue_pairs(a, &a.qp, &a.connector, b, &b.qp, &b.connector)
}

/// Connects queue pairs of two ends.
pub(super) fn connect_queue_pairs(
    a: &End,
    a_qp: &Qp,
    a_connector: &Connector,
    b: &End,
    b_qp: &Qp,
    b_connector: &Connector,
) -> anyhow::Result<()> {
    let (listener, address) = b.listener()?;
    let request = listener.connection_request(b_connector)?;
    a_connector.bind(a.address)?;
    let mut connect = a_connector.connect(a_qp, address, ReadLimits::default(), &[])?;
    request.finish_unless_failed(&mut connect).context("waiting for the connection request")?;
    let accept = b_connector.accept(b_qp, ReadLimits::default(), &[])?;
    connect.finish().context("connecting")?;
    a_connector.complete_connect().context("completing the connection")?;
    accept.finish().context("accepting")?;
    Ok(())
}

/// Checks kind, context and status of a completion.
pub(super) fn expect(found: Completion, kind: i32, context: usize, status: NTSTATUS) -> anyhow::Result<Completion> {
    ensure!(
        (found.kind, found.context, found.status) == (kind, context, status),
        "completion of kind {}, context {:#x}, {}; expected kind {kind}, context {context:#x}, {status}",
        found.kind,
        found.context,
        found.status,
    );
    Ok(found)
}

/// Checks a receive.
pub(super) fn expect_received(found: Completion, context: usize, bytes: usize) -> anyhow::Result<()> {
    let found = expect(found, RECEIVE, context, STATUS_SUCCESS)?;
    ensure!(found.bytes as usize == bytes, "{} bytes received, {bytes} were sent", found.bytes);
    Ok(())
}

/// Checks that a status is the one expected.
pub(super) fn is(found: NTSTATUS, expected: NTSTATUS, what: &str) -> anyhow::Result<()> {
    ensure!(found == expected, "{what}: {found}; expected {expected}");
    Ok(())
}
