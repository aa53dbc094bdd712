//! Connected endpoints.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::STATUS_SUCCESS,
};

use crate::nd::{
    client::{
        Completion,
        v1::{Adapter, Connector, Cq, Descriptor, Endpoint, EndpointSize, Listen, Mr, Mw},
    },
    pair::{BIND, expect},
    run::Nd,
};

/// All rights that a window can give.
pub(super) const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;

/// One end of a connection.
pub(super) struct End {
    pub(super) connector: Connector,
    pub(super) endpoint: Endpoint,
    /// For completions of initiator requests.
    pub(super) outbound: Cq,
    /// For completions of receives.
    pub(super) inbound: Cq,
    pub(super) adapter: Adapter,
    /// The adapter's address, port 0.
    pub(super) address: SocketAddr,
}

impl End {
    /// An end with an open adapter and completion queues of its own.
    pub(super) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, EndpointSize::default(), 128)
    }

    pub(super) fn sized(nd: &Nd, size: EndpointSize, depth: usize) -> anyhow::Result<Self> {
        let (adapter, address) = nd.adapter_v1()?;
        let (outbound, inbound) = (adapter.cq(depth)?, adapter.cq(depth)?);
        let connector = adapter.connector()?;
        let endpoint = connector.endpoint(&inbound, &outbound, size)?;
        Ok(Self { connector, endpoint, outbound, inbound, adapter, address })
    }

    /// A new buffer of at least `length` bytes, registered.
    pub(super) fn buffer(&self, length: usize) -> anyhow::Result<Mr> {
        let mr = Mr::new(&self.adapter, length);
        mr.register()?;
        Ok(mr)
    }

    /// A window onto all of a buffer, bound.
    pub(super) fn window(&self, mr: &Mr, flags: u32) -> anyhow::Result<(Mw, Descriptor)> {
        let mw = Mw::new(&self.adapter, 0)?;
        let descriptor = self.endpoint.bind(usize::MAX, mr, &mw, 0, mr.memory().length(), flags)?;
        expect(self.initiated()?, BIND, usize::MAX, STATUS_SUCCESS)?;
        Ok((mw, descriptor))
    }

    /// Takes the next completion of an initiator request.
    pub(super) fn initiated(&self) -> anyhow::Result<Completion> {
        self.outbound.take_one()
    }

    /// Takes the next completion of a receive.
    pub(super) fn received(&self) -> anyhow::Result<Completion> {
        self.inbound.take_one()
    }

    /// Checks that both queues are empty: everything completed once.
    pub(super) fn quiet(&self) -> anyhow::Result<()> {
        for (what, cq) in [("outbound", &self.outbound), ("inbound", &self.inbound)] {
            let more = cq.poll(64)?;
            ensure!(more.is_empty(), "completions too many in the {what} CQ: {more:?}");
        }
        Ok(())
    }

    /// A listener on a port of its own, and its address.
    pub(super) fn listen(&self) -> anyhow::Result<(Listen, SocketAddr)> {
        let (listen, port) = self.adapter.listen(0, 0)?;
        Ok((listen, at(self.address, port)))
    }
}

/// An address with a port in network byte order.
pub(super) fn at(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), u16::from_be(port))
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
        Self::sized(nd, EndpointSize::default())
    }

    /// Two ends with endpoints of a given size.
    pub(super) fn sized(nd: &Nd, size: EndpointSize) -> anyhow::Result<Self> {
        Self::of(End::sized(nd, size, 128)?, End::sized(nd, size, 128)?)
    }

    /// Connects two ends.
    pub(super) fn of(a: End, b: End) -> anyhow::Result<Self> {
        connect(&a.connector, &a.endpoint, &b, &b.connector, &b.endpoint)?;
        Ok(Self { a, b })
    }

    /// Checks that all queues are empty.
    pub(super) fn quiet(&self) -> anyhow::Result<()> {
        self.a.quiet().context("at the initiator")?;
        self.b.quiet().context("at the listener")
    }
}

/// Connects an endpoint to one of `b`.
pub(super) fn connect(
    a: &Connector,
    a_endpoint: &Endpoint,
    b: &End,
    b_connector: &Connector,
    b_endpoint: &Endpoint,
) -> anyhow::Result<()> {
    let (listen, address) = b.listen()?;
    let request = listen.connection_request(b_connector)?;
    let mut connect = a.connect(a_endpoint, address, &[])?;
    request.finish_unless_failed(&mut connect).context("waiting for the connection request")?;
    let accept = b_connector.accept(b_endpoint, &[])?;
    connect.finish().context("connecting")?;
    a.complete_connect().context("completing the connection")?;
    accept.finish().context("accepting")?;
    Ok(())
}
