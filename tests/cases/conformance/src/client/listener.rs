//! Listeners.

use std::{net::SocketAddr, sync::Arc};

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_LISTENER_BIND, IOCTL_ND_LISTENER_CANCEL_IO, IOCTL_ND_LISTENER_CREATE, IOCTL_ND_LISTENER_FREE,
        IOCTL_ND_LISTENER_GET_ADDRESS, IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, IOCTL_ND_LISTENER_LISTEN,
        ND_GET_CONNECTION_REQUEST, ND_IOCTL_VERSION, ND_LISTEN,
    },
    sockaddr::SOCKADDR_INET,
};
use zerocopy::IntoBytes as _;

use super::{Adapter, Connector, Object, Request, connector::bind_request, nd_handle, object};
use crate::{error::Result, transport::Completion};

/// A listener.
#[derive(Clone)]
pub struct Listener {
    pub(super) object: Arc<Object>,
}
object!(Listener);

impl Listener {
    /// A new one on `adapter`.
    pub fn new(adapter: &Adapter) -> Result<Self> {
        let client = adapter.client();
        let handle = client.query(IOCTL_ND_LISTENER_CREATE, &nd_handle(adapter.handle()))?;
        Ok(Self { object: Object::new(client, handle, IOCTL_ND_LISTENER_FREE, &[&adapter.object]) })
    }

    /// Gives it a local address; port 0: any.
    pub fn bind(&self, address: SocketAddr) -> Result<()> {
        self.object.client.call(IOCTL_ND_LISTENER_BIND, &bind_request(self.handle(), address))
    }

    /// Starts listening; a backlog of 0 has no limit.
    pub fn listen(&self, backlog: u32) -> Result<()> {
        let request = ND_LISTEN { Version: ND_IOCTL_VERSION, Backlog: backlog, ListenerHandle: self.handle() };
        self.object.client.call(IOCTL_ND_LISTENER_LISTEN, &request)
    }

    /// The address it listens on.
    pub fn address(&self) -> Result<Option<SocketAddr>> {
        let address: SOCKADDR_INET =
            self.object.client.query(IOCTL_ND_LISTENER_GET_ADDRESS, &nd_handle(self.handle()))?;
        Ok(address.socket_addr())
    }

    /// The address it listens on, into a buffer of `room` bytes; any status.
    pub fn address_sized(&self, room: usize) -> Result<Completion> {
        let input = nd_handle(self.handle());
        self.object.client.begin(IOCTL_ND_LISTENER_GET_ADDRESS, input.as_bytes(), room).completion()
    }

    /// Waits for a connection request, which `connector` gets.
    #[must_use]
    pub fn connection_request(&self, connector: &Connector) -> Request {
        let request = ND_GET_CONNECTION_REQUEST {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            ListenerHandle: self.handle(),
            ConnectorHandle: connector.handle(),
        };
        self.object.client.begin(IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, request.as_bytes(), 0)
    }

    /// Ends all pending requests with STATUS_CANCELLED.
    pub fn cancel_io(&self) -> Result<()> {
        self.object.call(IOCTL_ND_LISTENER_CANCEL_IO)
    }
}
