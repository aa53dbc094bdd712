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
        both::{CompletionQueue as _, Connector as _},
        v1::{Adapter, Connector, Cq, Descriptor, Endpoint, EndpointSize, Listen, Mr, Mw},
    },
    pair::{BIND, expect},
    run::Nd,
};

/// All rights that a window can give.
pub(in crate::nd) const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;

/// One end of a connection.
pub(in crate::nd) struct End {
    pub(in crate::nd) connector: Connector,
    /// The endpoint, as version 1 calls a queue pair.
    pub(in crate::nd) qp: Endpoint,
    /// For completions of initiator requests.
    pub(in crate::nd) initiator_cq: Cq,
    /// For completions of receives.
    pub(in crate::nd) receive_cq: Cq,
    pub(in crate::nd) adapter: Adapter,
    /// The adapter's address, port 0.
    pub(in crate::nd) address: SocketAddr,
}

impl End {
    /// An end with an open adapter and completion queues of its own.
    pub(in crate::nd) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, EndpointSize::default(), 128)
    }

    pub(in crate::nd) fn sized(nd: &Nd, size: EndpointSize, depth: usize) -> anyhow::Result<Self> {
        let (adapter, address) = nd.adapter_v1()?;
        let (initiator_cq, receive_cq) = (adapter.cq(depth)?, adapter.cq(depth)?);
        let connector = adapter.connector()?;
        let qp = connector.endpoint(&receive_cq, &initiator_cq, size)?;
        Ok(Self { connector, qp, initiator_cq, receive_cq, adapter, address })
    }

    /// A new buffer of at least `length` bytes, registered.
    pub(in crate::nd) fn buffer(&self, length: usize) -> anyhow::Result<Mr> {
        let mr = Mr::new(&self.adapter, length);
        mr.register()?;
        Ok(mr)
    }

    /// A window onto all of a buffer, bound.
    pub(in crate::nd) fn window(&self, mr: &Mr, flags: u32) -> anyhow::Result<(Mw, Descriptor)> {
        let mw = Mw::new(&self.adapter, 0)?;
        let descriptor = self.qp.bind(usize::MAX, mr, &mw, 0, mr.memory().length(), flags)?;
        expect(self.initiated()?, BIND, usize::MAX, STATUS_SUCCESS)?;
        Ok((mw, descriptor))
    }

    /// Takes the next completion of an initiator request.
    pub(in crate::nd) fn initiated(&self) -> anyhow::Result<Completion> {
        self.initiator_cq.take_one()
    }

    /// Takes the next completion of a receive.
    pub(in crate::nd) fn received(&self) -> anyhow::Result<Completion> {
        self.receive_cq.take_one()
    }

    /// Checks that both queues are empty: everything completed once.
    pub(in crate::nd) fn quiet(&self) -> anyhow::Result<()> {
        for (what, cq) in [("initiator", &self.initiator_cq), ("receive", &self.receive_cq)] {
            let more = cq.poll(64)?;
            ensure!(more.is_empty(), "completions too many in the {what} CQ: {more:?}");
        }
        Ok(())
    }

    /// A listener on a port of its own, and its address.
    pub(in crate::nd) fn listen(&self) -> anyhow::Result<(Listen, SocketAddr)> {
        let (listen, port) = self.adapter.listen(0, 0)?;
        Ok((listen, at(self.address, port)))
    }
}

/// An address with a port in network byte order.
pub(in crate::nd) fn at(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), u16::from_be(port))
}

/// Two connected ends, each with an adapter of its own.
pub(in crate::nd) struct Pair {
    /// The side that connected.
    pub(in crate::nd) a: End,
    /// The side that listened.
    pub(in crate::nd) b: End,
}

impl Pair {
    /// Two ends of the usual size.
    pub(in crate::nd) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, EndpointSize::default())
    }

    /// Two ends with endpoints of a given size.
    pub(in crate::nd) fn sized(nd: &Nd, size: EndpointSize) -> anyhow::Result<Self> {
        Self::of(End::sized(nd, size, 128)?, End::sized(nd, size, 128)?)
    }

    /// Connects two ends.
    pub(in crate::nd) fn of(a: End, b: End) -> anyhow::Result<Self> {
        connect(&a.connector, &a.qp, &b, &b.connector, &b.qp)?;
        Ok(Self { a, b })
    }

    /// Checks that all queues are empty.
    pub(in crate::nd) fn quiet(&self) -> anyhow::Result<()> {
        self.a.quiet().context("at the initiator")?;
        self.b.quiet().context("at the listener")
    }
}

/// Connects an endpoint to one of `b`.
pub(in crate::nd) fn connect(
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
