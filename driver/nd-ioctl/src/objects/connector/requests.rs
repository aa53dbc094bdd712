//! The control codes of connectors.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering;

use ndk_abi::nd_ioctl::{ND_ACCEPT, ND_BIND, ND_CONNECT, ND_HANDLE, ND_READ_LIMITS, ND_REJECT};
use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::status::{
    NTSTATUS, STATUS_BAD_NETWORK_NAME, STATUS_CONNECTION_INVALID, STATUS_INVALID_ADDRESS, STATUS_INVALID_BUFFER_SIZE,
    STATUS_PENDING,
};
use platform::{Arc, Passive};

use super::{Connection, Connector, FREED, Link, Phase, handle_inline_status};
use crate::addresses::{is_local, local_address};
use crate::decode::{Reply, finish, input, output, overflow, range, room_for};
use crate::objects::adapter::same_adapter;
use crate::objects::qp::Qp;
use crate::objects::{Handles, PendedRequests};
use crate::quota::Quota;
use crate::tables::pended::{Abandon, Event};
use crate::tables::sent::Sent;
use crate::{Host, Ref, Request, shared};
use ndk_consumer::{Adapter, Offer, Owned};

/// More private data than any adapter takes. The data is copied to the stack, since the request may be completed during the call.
const MAX_PRIVATE_DATA: usize = 1024;

type Found<H> = Arc<Connector<H>, <H as Host>::Platform>;

#[inline(never)]
pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    pended: &Ref<PendedRequests<H>, H>,
    quota: &Quota<H>,
    request: &mut H::Request,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let adapter: Arc<Adapter<_>, _> = handles.get(input.Handle)?;
    room_for::<u64>(request)?;
    let slot = handles.reserve()?;
    let connector = shared(Connector::<H>::new(pended.clone(), quota, adapter)?)?;
    pended.add_connector()?;
    let handle = slot.fill(connector).inspect_err(|_| pended.remove_connector())?;
    output(request, &handle)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Connector<H>>(input.Handle)?.close();
    Ok(0)
}

#[inline(never)]
pub(crate) fn bind<H: Host>(handles: &Handles<H>, host: &H, request: &H::Request) -> Reply {
    let input: ND_BIND = input(request)?;
    let connector: Found<H> = handles.get(input.Handle)?;
    connector.bind(bindable(host, &input.Address)?)?;
    Ok(0)
}

/// An address that connectors and listeners can be bound to: a local one, or the unspecified one (0.0.0.0, ::).
pub(crate) fn bindable<H: Host>(host: &H, address: &SOCKADDR_INET) -> Result<SocketAddr, NTSTATUS> {
    let address = address.socket_addr().ok_or(STATUS_INVALID_ADDRESS)?;
    if address.ip().is_unspecified() || is_local(host, address.ip()) {
        Ok(address)
    } else {
        Err(STATUS_INVALID_ADDRESS)
    }
}

/// A copy of private data on the stack.
struct PrivateData {
    bytes: [u8; MAX_PRIVATE_DATA],
    length: usize,
}

impl PrivateData {
    fn read(request: &impl Request, offset: u32, length: u32) -> Result<Self, NTSTATUS> {
        let given = range(request, offset, length)?;
        let mut data = Self { bytes: [0; MAX_PRIVATE_DATA], length: given.len() };
        data.bytes.get_mut(..given.len()).ok_or(STATUS_INVALID_BUFFER_SIZE)?.copy_from_slice(given);
        Ok(data)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn offer(&self, limits: ND_READ_LIMITS) -> Offer<'_> {
        Offer { inbound_reads: limits.Inbound, outbound_reads: limits.Outbound, private_data: self.bytes() }
    }
}

/// Pends the request of an operation, and stores its identifier in `connection`.
fn pend<H: Host>(
    sent: Sent<H>,
    connector: &Found<H>,
    connection: &Connection<H>,
    event: Event,
) -> Result<(), NTSTATUS> {
    let id = connector.pended.insert(sent, &connector.waiting, event, Some(connector.clone()))?;
    connection.context().request.store(id, Ordering::Release);
    Ok(())
}

/// CONNECT: pends until the peer accepts or rejects.
#[inline(never)]
pub(crate) fn connect<H: Host>(
    handles: &Handles<H>,
    quota: &Quota<H>,
    host: &H,
    sent: Sent<H>,
    passive: &Passive<'_>,
) -> NTSTATUS {
    let prepare = || {
        let input: ND_CONNECT = input(&sent.request)?;
        let connector: Found<H> = handles.get(input.ConnectorHandle)?;
        let qp: Arc<Qp<H>, _> = handles.get(input.QpHandle)?;
        same_adapter::<H>(&connector.adapter, qp.adapter())?;
        let data = PrivateData::read(&sent.request, input.CbPrivateDataOffset, input.CbPrivateDataLength)?;
        let destination = input.DestinationAddress.socket_addr().ok_or(STATUS_INVALID_ADDRESS)?;
        if destination.ip().is_unspecified() {
            return Err(STATUS_BAD_NETWORK_NAME);
        }
        let bound = connector.occupy(Phase::Connecting)?;
        match open(quota, host, &connector, bound, destination.ip(), passive) {
            Ok((connection, source)) => Ok((connector, connection, qp, source, destination, input.ReadLimits, data)),
            Err(status) => {
                connector.abandon(Event::Setup);
                Err(status)
            }
        }
    };
    let (connector, connection, qp, source, destination, limits, data) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(status.into())),
    };
    connector.connects(&qp);
    if let Err(status) = pend(sent, &connector, &connection, Event::Setup) {
        connector.abandon(Event::Setup);
        return status;
    }
    let status = connection.connect(&qp.ndk, &source, &destination, &data.offer(limits));
    handle_inline_status(&connector, &connection, (Phase::Idle, Phase::Connecting), status);
    STATUS_PENDING
}

/// Makes a new NDK connector for `connector`. Returns it and the address that it will connect from.
fn open<H: Host>(
    quota: &Quota<H>,
    host: &H,
    connector: &Found<H>,
    bound: Option<SocketAddr>,
    destination: IpAddr,
    passive: &Passive<'_>,
) -> Result<(Ref<Connection<H>, H>, SocketAddr), NTSTATUS> {
    let any = bound.is_none_or(|bound| bound.ip().is_unspecified());
    let port = bound.map_or(0, |bound| bound.port());
    let source = match bound {
        Some(bound) if !any => bound,
        // NdkConnect wants an address of the adapter: the destination if it is local, else the first one of its family.
        _ if is_local(host, destination) => SocketAddr::new(destination, port),
        _ => SocketAddr::new(local_address(host, destination).ok_or(STATUS_INVALID_ADDRESS)?, port),
    };
    let link = shared(Link::new(connector.pended.clone(), quota, connector.adapter.clone())?)?;
    let connection = shared(Owned::create_connector(&connector.adapter, link, passive)?)?;
    match Connector::install(connector, Phase::Connecting, Phase::Connecting, connection.clone()) {
        Ok(()) => Ok((connection, source)),
        Err(_) => Err(FREED),
    }
}

/// COMPLETE_CONNECT: pends until the connection is established.
#[inline(never)]
pub(crate) fn complete_connect<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let connector: Found<H> = handles.get(input::<ND_HANDLE>(&sent.request)?.Handle)?;
        let (connection, _) = connector.begin(&[Phase::Offered], Phase::Completing)?;
        Ok((connector, connection))
    };
    let (connector, connection) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(NTSTATUS::into(status))),
    };
    if let Err(status) = pend(sent, &connector, &connection, Event::Setup) {
        connector.retreat(connection.context(), Phase::Offered);
        return status;
    }
    handle_inline_status(&connector, &connection, (Phase::Offered, Phase::Completing), connection.complete_connect());
    STATUS_PENDING
}

/// ACCEPT: pends until the peer has completed its connect.
#[inline(never)]
pub(crate) fn accept<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let input: ND_ACCEPT = input(&sent.request)?;
        let connector: Found<H> = handles.get(input.ConnectorHandle)?;
        let qp: Arc<Qp<H>, _> = handles.get(input.QpHandle)?;
        same_adapter::<H>(&connector.adapter, qp.adapter())?;
        let data = PrivateData::read(&sent.request, input.CbPrivateDataOffset, input.CbPrivateDataLength)?;
        let (connection, _) = connector.begin(&[Phase::Requested], Phase::Accepting)?;
        Ok((connector, connection, qp, input.ReadLimits, data))
    };
    let (connector, connection, qp, limits, data) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(NTSTATUS::into(status))),
    };
    connector.connects(&qp);
    if let Err(status) = pend(sent, &connector, &connection, Event::Setup) {
        connector.retreat(connection.context(), Phase::Requested);
        return status;
    }
    let status = connection.accept(&qp.ndk, &data.offer(limits));
    handle_inline_status(&connector, &connection, (Phase::Requested, Phase::Accepting), status);
    STATUS_PENDING
}

/// REJECT: refuses a connection request, or ends a connect that the peer has accepted.
pub(crate) fn reject<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_REJECT = input(request)?;
    let connector: Found<H> = handles.get(input.ConnectorHandle)?;
    let data = PrivateData::read(request, input.CbPrivateDataOffset, input.CbPrivateDataLength)?;
    let (connection, before) = connector.begin(&[Phase::Requested, Phase::Offered], Phase::Ended)?;
    if let Err(status) = connection.reject(data.bytes()) {
        connector.retreat(connection.context(), before);
        return Err(status.into());
    }
    connection.context().notify_disconnected(&connector);
    Ok(0)
}

pub(crate) fn get_read_limits<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let connector: Found<H> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    room_for::<ND_READ_LIMITS>(request)?;
    let (inbound, outbound) = connector.known_peer()?.read_limits()?;
    output(request, &ND_READ_LIMITS { Inbound: inbound, Outbound: outbound })
}

/// GET_PRIVATE_DATA: returns as much of the peer's private data as fits.
pub(crate) fn get_private_data<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let connector: Found<H> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    let connection = connector.known_peer()?;
    let room = request.output_length();
    let length = connection.private_data(request.output())?;
    if length > room { Err(overflow(length)) } else { Ok(length) }
}

pub(crate) fn get_peer_address<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let connector: Found<H> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    room_for_address(request)?;
    let address = connector.known_peer()?.peer_address()?;
    output(request, &address)
}

/// GET_ADDRESS: without a known peer, the address that the connector is bound to.
pub(crate) fn get_address<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let connector: Found<H> = handles.get(input::<ND_HANDLE>(request)?.Handle)?;
    room_for_address(request)?;
    let address = match connector.known_peer() {
        Ok(connection) => connection.local_address()?,
        Err(status) => SOCKADDR_INET::new(connector.state.lock().bound.ok_or(status)?),
    };
    output(request, &address)
}

/// Checks that an address fits; else STATUS_BUFFER_OVERFLOW with its length, as for address lists.
pub(crate) fn room_for_address(request: &impl Request) -> Result<(), crate::decode::Failure> {
    room_for::<SOCKADDR_INET>(request).map_err(|_| overflow(size_of::<SOCKADDR_INET>()))
}

/// NOTIFY_DISCONNECT: pends until the connection has ended.
pub(crate) fn notify_disconnect<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let connector: Found<H> = handles.get(input::<ND_HANDLE>(&sent.request)?.Handle)?;
        if !connector.may_disconnect() {
            return Err(STATUS_CONNECTION_INVALID);
        }
        Ok(connector)
    };
    let connector = match prepare() {
        Ok(connector) => connector,
        Err(status) => return finish(sent.request, Err(status.into())),
    };
    let id = match connector.pended.insert(sent, &connector.waiting, Event::Disconnected, None) {
        Ok(id) => id,
        Err(status) => return status,
    };
    // If the connection ended before the insert, the thread that ended it may not have found the request.
    let ended = connector.state.lock().peer_gone || !connector.may_disconnect();
    if ended && let Some(pended) = connector.pended.take(id) {
        pended.succeed();
    }
    STATUS_PENDING
}

impl<H: Host> Connector<H> {
    /// Whether the connector has a connection that can end: from COMPLETE_CONNECT or ACCEPT on, until the end.
    fn may_disconnect(&self) -> bool {
        use Phase::{Accepting, Completing, Disconnecting, Established};
        matches!(self.state.lock().phase, Accepting | Completing | Established | Disconnecting)
    }
}

/// DISCONNECT: pends until the connection is closed.
pub(crate) fn disconnect<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let connector: Found<H> = handles.get(input::<ND_HANDLE>(&sent.request)?.Handle)?;
        let (connection, _) = connector.begin(&[Phase::Established], Phase::Disconnecting)?;
        Ok((connector, connection))
    };
    let (connector, connection) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(NTSTATUS::into(status))),
    };
    if let Err(status) = pend(sent, &connector, &connection, Event::Disconnect) {
        connector.retreat(connection.context(), Phase::Established);
        return status;
    }
    handle_inline_status(&connector, &connection, (Phase::Established, Phase::Disconnecting), connection.disconnect());
    STATUS_PENDING
}
