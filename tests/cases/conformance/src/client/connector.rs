//! Connectors.

use std::{net::SocketAddr, sync::Arc};

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_CONNECTOR_ACCEPT, IOCTL_ND_CONNECTOR_BIND, IOCTL_ND_CONNECTOR_CANCEL_IO,
        IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, IOCTL_ND_CONNECTOR_CONNECT, IOCTL_ND_CONNECTOR_CREATE,
        IOCTL_ND_CONNECTOR_DISCONNECT, IOCTL_ND_CONNECTOR_FREE, IOCTL_ND_CONNECTOR_GET_ADDRESS,
        IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, IOCTL_ND_CONNECTOR_GET_READ_LIMITS,
        IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, IOCTL_ND_CONNECTOR_REJECT, ND_ACCEPT, ND_BIND, ND_CONNECT,
        ND_IOCTL_VERSION, ND_READ_LIMITS, ND_REJECT,
    },
    sockaddr::SOCKADDR_INET,
};
use zerocopy::IntoBytes as _;

use super::{Adapter, Object, Qp, Request, followed_by, nd_handle, object};
use crate::{error::Result, transport::Completion};

/// Reads in progress at once: those accepted from the peer and those started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Accepted.
    pub inbound: u32,
    /// Started.
    pub outbound: u32,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { inbound: 8, outbound: 8 }
    }
}

impl From<ReadLimits> for ND_READ_LIMITS {
    fn from(limits: ReadLimits) -> Self {
        Self { Inbound: limits.inbound, Outbound: limits.outbound }
    }
}

/// A connector: one end of a connection.
#[derive(Clone)]
pub struct Connector {
    pub(super) object: Arc<Object>,
}
object!(Connector);

impl Connector {
    /// A new one on `adapter`.
    pub fn new(adapter: &Adapter) -> Result<Self> {
        let client = adapter.client();
        let handle = client.query(IOCTL_ND_CONNECTOR_CREATE, &nd_handle(adapter.handle()))?;
        Ok(Self { object: Object::new(client, handle, IOCTL_ND_CONNECTOR_FREE, &[&adapter.object]) })
    }

    /// Gives it a local address; port 0: any.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        self.object.client.call(IOCTL_ND_CONNECTOR_BIND, &bind_request(self.handle(), address))
    }

    /// Connects `qp`; the request ends with the peer's answer.
    #[must_use]
    pub fn connect(&self, qp: &Qp, to: SocketAddr, limits: ReadLimits, private_data: &[u8]) -> Request {
        let request = ND_CONNECT {
            Version: ND_IOCTL_VERSION,
            ReadLimits: limits.into(),
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_CONNECT>() as u32,
            ConnectorHandle: self.handle(),
            QpHandle: qp.handle(),
            DestinationAddress: SOCKADDR_INET::new(to),
            ..ND_CONNECT::ZERO
        };
        self.object.client.begin(IOCTL_ND_CONNECTOR_CONNECT, &followed_by(&request, private_data), 0)
    }

    /// Finishes a connection that the peer has accepted.
    #[must_use]
    pub fn complete_connect(&self) -> Request {
        self.object.begin(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT)
    }

    /// Accepts with `qp`; the request ends when the peer finishes the connection.
    #[must_use]
    pub fn accept(&self, qp: &Qp, limits: ReadLimits, private_data: &[u8]) -> Request {
        let request = ND_ACCEPT {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            ReadLimits: limits.into(),
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_ACCEPT>() as u32,
            ConnectorHandle: self.handle(),
            QpHandle: qp.handle(),
        };
        self.object.client.begin(IOCTL_ND_CONNECTOR_ACCEPT, &followed_by(&request, private_data), 0)
    }

    /// Turns the connection down.
    pub fn reject(&self, private_data: &[u8]) -> Result<()> {
        let request = ND_REJECT {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_REJECT>() as u32,
            ConnectorHandle: self.handle(),
        };
        self.object.client.call(IOCTL_ND_CONNECTOR_REJECT, followed_by(&request, private_data).as_slice())
    }

    /// The read limits agreed on.
    pub fn read_limits(&self) -> Result<ReadLimits> {
        let limits: ND_READ_LIMITS =
            self.object.client.query(IOCTL_ND_CONNECTOR_GET_READ_LIMITS, &nd_handle(self.handle()))?;
        Ok(ReadLimits { inbound: limits.Inbound, outbound: limits.Outbound })
    }

    /// The peer's private data, into a buffer of `room` bytes; any status.
    pub fn private_data(&self, room: usize) -> Result<Completion> {
        let input = nd_handle(self.handle());
        self.object.client.begin(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, input.as_bytes(), room).completion()
    }

    /// The own address.
    pub fn address(&self) -> Result<Option<SocketAddr>> {
        let address: SOCKADDR_INET =
            self.object.client.query(IOCTL_ND_CONNECTOR_GET_ADDRESS, &nd_handle(self.handle()))?;
        Ok(address.socket_addr())
    }

    /// The address of the peer.
    pub fn peer_address(&self) -> Result<Option<SocketAddr>> {
        let address: SOCKADDR_INET =
            self.object.client.query(IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, &nd_handle(self.handle()))?;
        Ok(address.socket_addr())
    }

    /// The own address, into a buffer of `room` bytes; any status.
    pub fn address_sized(&self, room: usize) -> Result<Completion> {
        let input = nd_handle(self.handle());
        self.object.client.begin(IOCTL_ND_CONNECTOR_GET_ADDRESS, input.as_bytes(), room).completion()
    }

    /// The address of the peer, into a buffer of `room` bytes; any status.
    pub fn peer_address_sized(&self, room: usize) -> Result<Completion> {
        let input = nd_handle(self.handle());
        self.object.client.begin(IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, input.as_bytes(), room).completion()
    }

    /// Asks to be told of the end of the connection; the request ends then.
    #[must_use]
    pub fn notify_disconnect(&self) -> Request {
        self.object.begin(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT)
    }

    /// Ends the connection and flushes the queue pair.
    #[must_use]
    pub fn disconnect(&self) -> Request {
        self.object.begin(IOCTL_ND_CONNECTOR_DISCONNECT)
    }

    /// Ends all pending requests with STATUS_CANCELLED.
    pub fn cancel_io(&self) -> Result<()> {
        self.object.call(IOCTL_ND_CONNECTOR_CANCEL_IO)
    }
}

/// The input of the two bind requests.
pub(super) fn bind_request(handle: u64, address: SocketAddr) -> ND_BIND {
    ND_BIND { Version: ND_IOCTL_VERSION, Handle: handle, Address: SOCKADDR_INET::new(address), ..ND_BIND::ZERO }
}
