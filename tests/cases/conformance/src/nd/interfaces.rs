//! The two versions of the interfaces, for the cases that run over both. The names are version 2's.

use std::{net::SocketAddr, ops::Range};

use nd_com::{v1::ND_SGE, v2::ND2_SGE};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::STATUS_SUCCESS,
};
use windows_sys::Win32::Foundation::HANDLE;

use super::{
    client::{
        self, QpSize, ReadLimits, Remote, Request,
        both::{CompletionQueue, Connector, QueuePair},
        v1::{self, EndpointSize},
    },
    ends::End,
    pair::{ALL_RIGHTS, BIND, expect},
    run::Nd,
};
use crate::{error::Result, memory::Memory};

/// A version of the interfaces: its objects, and what it does in a way of its own.
pub(super) trait Interfaces: Sized + 'static {
    type Adapter: Clone;
    type Cq: CompletionQueue;
    type Qp: QueuePair;
    /// What a queue pair is made for.
    type Size: Copy + Default;
    type Connector: Connector;
    type Listener;
    /// Memory that may be registered.
    type Mr;
    /// What has to live for as long as memory is exposed to the peer.
    type Exposed;

    /// Whether a queue pair has a context, which its completions have, too.
    const HAS_QUEUE_PAIR_CONTEXT: bool;

    /// The usual size, but for room for receives and for initiator requests.
    fn with_room(receives: usize, initiators: usize) -> Self::Size;

    /// The usual size, with this context where queue pairs have one.
    fn with_context(context: usize) -> Self::Size;

    /// An adapter, and its address, with port 0.
    fn adapter(nd: &Nd) -> anyhow::Result<(Self::Adapter, SocketAddr)>;

    /// The file whose completion port is told of requests.
    fn file(adapter: &Self::Adapter) -> HANDLE;

    /// How many bytes Connect takes, and Accept and Reject.
    fn private_data_limits(adapter: &Self::Adapter) -> Result<(usize, usize)>;

    fn cq(adapter: &Self::Adapter, depth: usize) -> Result<Self::Cq>;

    /// A connector and a queue pair, which version 1 makes from the connector.
    fn queue_pair(
        adapter: &Self::Adapter,
        receive_cq: &Self::Cq,
        initiator_cq: &Self::Cq,
        size: Self::Size,
    ) -> Result<(Self::Connector, Self::Qp)>;

    /// A listener on a port of its own, and its address. A backlog of 0 is the provider's choice.
    fn listener(end: &End<Self>, backlog: usize) -> anyhow::Result<(Self::Listener, SocketAddr)>;

    fn connection_request(listener: &Self::Listener, connector: &Self::Connector) -> Result<Request>;

    fn cancel_connection_requests(listener: &Self::Listener) -> Result<()>;

    /// Binds the connector of an end that is to connect, to any port. Version 1 has no such call.
    fn bind(end: &End<Self>) -> Result<()>;

    /// Connects, in version 2 from where the connector is bound.
    fn connect(end: &End<Self>, to: SocketAddr, data: &[u8]) -> Result<Request>;

    fn accept(end: &End<Self>, data: &[u8]) -> Result<Request>;

    /// At least `length` bytes of memory, not registered yet.
    fn unregistered(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr>;

    /// Begins to register any range as that memory.
    fn register(mr: &Self::Mr, address: u64, length: usize) -> Result<Request>;

    /// A new buffer of at least `length` bytes, registered, in version 2 with all rights.
    fn buffer(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr>;

    /// Exposes all of a buffer of an end to the peer, in version 1 by a window; what the peer is told.
    fn expose(end: &End<Self>, mr: &Self::Mr) -> anyhow::Result<(Self::Exposed, <Self::Qp as QueuePair>::Remote)>;

    fn memory(mr: &Self::Mr) -> &Memory;

    /// An entry for bytes of registered memory.
    fn sge(mr: &Self::Mr, range: Range<usize>) -> <Self::Qp as QueuePair>::Sge;
}

/// INDProvider and what it leads to.
pub(super) struct V1;

impl Interfaces for V1 {
    type Adapter = v1::Adapter;
    type Cq = v1::Cq;
    type Qp = v1::Endpoint;
    type Size = EndpointSize;
    type Connector = v1::Connector;
    type Listener = v1::Listen;
    type Mr = v1::Mr;
    type Exposed = v1::Mw;

    const HAS_QUEUE_PAIR_CONTEXT: bool = false;

    fn with_room(receives: usize, initiators: usize) -> EndpointSize {
        EndpointSize { inbound: receives, outbound: initiators, ..EndpointSize::default() }
    }

    fn with_context(_context: usize) -> EndpointSize {
        EndpointSize::default()
    }

    fn adapter(nd: &Nd) -> anyhow::Result<(Self::Adapter, SocketAddr)> {
        nd.adapter_v1()
    }

    fn file(adapter: &Self::Adapter) -> HANDLE {
        adapter.file()
    }

    fn private_data_limits(adapter: &Self::Adapter) -> Result<(usize, usize)> {
        let info = adapter.info()?;
        Ok((info.MaxCallerData, info.MaxCalleeData))
    }

    fn cq(adapter: &Self::Adapter, depth: usize) -> Result<Self::Cq> {
        adapter.cq(depth)
    }

    fn queue_pair(
        adapter: &Self::Adapter,
        receive_cq: &Self::Cq,
        initiator_cq: &Self::Cq,
        size: EndpointSize,
    ) -> Result<(Self::Connector, Self::Qp)> {
        let connector = adapter.connector()?;
        let endpoint = connector.endpoint(receive_cq, initiator_cq, size)?;
        Ok((connector, endpoint))
    }

    fn listener(end: &End<Self>, backlog: usize) -> anyhow::Result<(Self::Listener, SocketAddr)> {
        let (listen, port) = end.adapter.listen(backlog, 0)?;
        Ok((listen, SocketAddr::new(end.address.ip(), u16::from_be(port))))
    }

    fn connection_request(listener: &Self::Listener, connector: &Self::Connector) -> Result<Request> {
        listener.connection_request(connector)
    }

    fn cancel_connection_requests(listener: &Self::Listener) -> Result<()> {
        listener.cancel()
    }

    fn bind(_end: &End<Self>) -> Result<()> {
        Ok(())
    }

    fn connect(end: &End<Self>, to: SocketAddr, data: &[u8]) -> Result<Request> {
        end.connector.connect(&end.qp, to, data)
    }

    fn accept(end: &End<Self>, data: &[u8]) -> Result<Request> {
        end.connector.accept(&end.qp, data)
    }

    fn unregistered(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr> {
        Ok(v1::Mr::new(adapter, length))
    }

    fn register(mr: &Self::Mr, address: u64, length: usize) -> Result<Request> {
        mr.begin_register(address, length)
    }

    fn buffer(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr> {
        let mr = v1::Mr::new(adapter, length);
        mr.register()?;
        Ok(mr)
    }

    fn expose(end: &End<Self>, mr: &Self::Mr) -> anyhow::Result<(v1::Mw, v1::Descriptor)> {
        let mw = v1::Mw::new(&end.adapter, 0)?;
        let rights = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;
        let descriptor = end.qp.bind(usize::MAX, mr, &mw, 0, mr.memory().length(), rights)?;
        expect(end.initiated()?, BIND, usize::MAX, STATUS_SUCCESS)?;
        Ok((mw, descriptor))
    }

    fn memory(mr: &Self::Mr) -> &Memory {
        mr.memory()
    }

    fn sge(mr: &Self::Mr, range: Range<usize>) -> ND_SGE {
        mr.sge(range)
    }
}

/// IND2Provider and what it leads to.
pub(super) struct V2;

impl Interfaces for V2 {
    type Adapter = client::Adapter;
    type Cq = client::Cq;
    type Qp = client::Qp;
    type Size = QpSize;
    type Connector = client::Connector;
    type Listener = client::Listener;
    type Mr = client::Mr;
    type Exposed = ();

    const HAS_QUEUE_PAIR_CONTEXT: bool = true;

    fn with_room(receives: usize, initiators: usize) -> QpSize {
        QpSize { receives: receives as u32, initiators: initiators as u32, ..QpSize::default() }
    }

    fn with_context(context: usize) -> QpSize {
        QpSize { context, ..QpSize::default() }
    }

    fn adapter(nd: &Nd) -> anyhow::Result<(Self::Adapter, SocketAddr)> {
        nd.adapter()
    }

    fn file(adapter: &Self::Adapter) -> HANDLE {
        adapter.file()
    }

    fn private_data_limits(adapter: &Self::Adapter) -> Result<(usize, usize)> {
        let info = adapter.info()?;
        Ok((info.MaxCallerData as usize, info.MaxCalleeData as usize))
    }

    fn cq(adapter: &Self::Adapter, depth: usize) -> Result<Self::Cq> {
        adapter.cq(depth as u32)
    }

    fn queue_pair(
        adapter: &Self::Adapter,
        receive_cq: &Self::Cq,
        initiator_cq: &Self::Cq,
        size: QpSize,
    ) -> Result<(Self::Connector, Self::Qp)> {
        let qp = adapter.qp(receive_cq, initiator_cq, size)?;
        Ok((adapter.connector()?, qp))
    }

    fn listener(end: &End<Self>, backlog: usize) -> anyhow::Result<(Self::Listener, SocketAddr)> {
        let listener = end.adapter.listener()?;
        listener.bind(end.address)?;
        listener.listen(backlog as u32)?;
        let address = listener.local_address()?;
        Ok((listener, address))
    }

    fn connection_request(listener: &Self::Listener, connector: &Self::Connector) -> Result<Request> {
        listener.connection_request(connector)
    }

    fn cancel_connection_requests(listener: &Self::Listener) -> Result<()> {
        listener.cancel()
    }

    fn bind(end: &End<Self>) -> Result<()> {
        end.connector.bind(end.address)
    }

    fn connect(end: &End<Self>, to: SocketAddr, data: &[u8]) -> Result<Request> {
        end.connector.connect(&end.qp, to, ReadLimits::default(), data)
    }

    fn accept(end: &End<Self>, data: &[u8]) -> Result<Request> {
        end.connector.accept(&end.qp, ReadLimits::default(), data)
    }

    fn unregistered(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr> {
        client::Mr::new(adapter, length)
    }

    fn register(mr: &Self::Mr, address: u64, length: usize) -> Result<Request> {
        mr.register_range(address, length, 0)
    }

    fn buffer(adapter: &Self::Adapter, length: usize) -> Result<Self::Mr> {
        let mr = client::Mr::new(adapter, length)?;
        mr.register(ALL_RIGHTS)?;
        Ok(mr)
    }

    fn expose(_end: &End<Self>, mr: &Self::Mr) -> anyhow::Result<((), Remote)> {
        Ok(((), mr.remote(0)))
    }

    fn memory(mr: &Self::Mr) -> &Memory {
        mr.memory()
    }

    fn sge(mr: &Self::Mr, range: Range<usize>) -> ND2_SGE {
        mr.sge(range)
    }
}
