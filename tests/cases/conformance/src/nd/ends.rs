//! Ends of connections over either version of the interfaces, and connected ones.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};

use super::{
    client::{
        Completion, Request,
        both::{CompletionQueue as _, Connector as _, QueuePair},
    },
    interfaces::Interfaces,
    run::Nd,
};
use crate::error::Result;

/// One end of a connection. The connector is dropped before its queue pair.
pub(super) struct End<V: Interfaces> {
    pub(super) connector: V::Connector,
    /// Version 1 calls it an endpoint.
    pub(super) qp: V::Qp,
    /// For completions of initiator requests.
    pub(super) initiator_cq: V::Cq,
    /// For completions of receives.
    pub(super) receive_cq: V::Cq,
    pub(super) adapter: V::Adapter,
    /// The adapter's address, port 0.
    pub(super) address: SocketAddr,
}

impl<V: Interfaces> End<V> {
    /// An end of the usual size, with an open adapter and completion queues of its own.
    pub(super) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, V::Size::default())
    }

    pub(super) fn sized(nd: &Nd, size: V::Size) -> anyhow::Result<Self> {
        Self::with_cqs(nd, size, 128)
    }

    pub(super) fn with_cqs(nd: &Nd, size: V::Size, depth: usize) -> anyhow::Result<Self> {
        let (adapter, address) = V::adapter(nd)?;
        Self::on(adapter, address, size, depth)
    }

    /// An end on an adapter that is open.
    pub(super) fn on(adapter: V::Adapter, address: SocketAddr, size: V::Size, depth: usize) -> anyhow::Result<Self> {
        let (initiator_cq, receive_cq) = (V::cq(&adapter, depth)?, V::cq(&adapter, depth)?);
        let (connector, qp) = V::queue_pair(&adapter, &receive_cq, &initiator_cq, size)?;
        Ok(Self { connector, qp, initiator_cq, receive_cq, adapter, address })
    }

    /// Another end on this adapter, with these queues.
    pub(super) fn on_same_adapter(
        &self,
        receive_cq: &V::Cq,
        initiator_cq: &V::Cq,
        size: V::Size,
    ) -> anyhow::Result<Self> {
        let (connector, qp) = V::queue_pair(&self.adapter, receive_cq, initiator_cq, size)?;
        let (receive_cq, initiator_cq) = (receive_cq.clone(), initiator_cq.clone());
        Ok(Self { connector, qp, initiator_cq, receive_cq, adapter: self.adapter.clone(), address: self.address })
    }

    /// A new buffer of at least `length` bytes, registered, in version 2 with all rights.
    pub(super) fn buffer(&self, length: usize) -> Result<V::Mr> {
        V::buffer(&self.adapter, length)
    }

    /// Exposes all of a buffer to the peer, for as long as the first of the two lives; the second is for the peer.
    pub(super) fn expose(&self, mr: &V::Mr) -> anyhow::Result<(V::Exposed, <V::Qp as QueuePair>::Remote)> {
        V::expose(self, mr)
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
    pub(super) fn listener(&self) -> anyhow::Result<(V::Listener, SocketAddr)> {
        V::listener(self, 0)
    }
}

/// Two connected ends, each with an adapter of its own.
pub(super) struct Pair<V: Interfaces> {
    /// The side that connected.
    pub(super) a: End<V>,
    /// The side that listened.
    pub(super) b: End<V>,
}

impl<V: Interfaces> Pair<V> {
    /// Two ends of the usual size.
    pub(super) fn new(nd: &Nd) -> anyhow::Result<Self> {
        Self::sized(nd, V::Size::default())
    }

    /// Two ends with queue pairs of a given size.
    pub(super) fn sized(nd: &Nd, size: V::Size) -> anyhow::Result<Self> {
        Self::of(End::sized(nd, size)?, End::sized(nd, size)?)
    }

    /// Connects two ends.
    pub(super) fn of(a: End<V>, b: End<V>) -> anyhow::Result<Self> {
        connect(&a, &b)?;
        Ok(Self { a, b })
    }

    /// Checks that all queues are empty.
    pub(super) fn quiet(&self) -> anyhow::Result<()> {
        self.a.quiet().context("at the initiator")?;
        self.b.quiet().context("at the listener")
    }
}

/// Connects `a`, which is not bound yet, to `b`.
pub(super) fn connect<V: Interfaces>(a: &End<V>, b: &End<V>) -> anyhow::Result<()> {
    V::bind(a)?;
    let (listener, address) = b.listener()?;
    let request = V::connection_request(&listener, &b.connector)?;
    let mut connect = V::connect(a, address, &[])?;
    request.finish_unless_failed(&mut connect).context("waiting for the connection request")?;
    complete(a, b, connect)
}

/// `b` accepts what `a` has asked for, and `a` completes it.
pub(super) fn complete<V: Interfaces>(a: &End<V>, b: &End<V>, connect: Request) -> anyhow::Result<()> {
    let accept = V::accept(b, &[])?;
    connect.finish().context("connecting")?;
    a.connector.complete_connect().context("completing the connection")?;
    accept.finish().context("accepting")?;
    Ok(())
}
