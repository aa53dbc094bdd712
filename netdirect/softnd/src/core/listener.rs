//! Listeners.

use std::sync::Arc;

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_LISTENER_BIND, IOCTL_ND_LISTENER_CANCEL_IO, IOCTL_ND_LISTENER_CREATE, IOCTL_ND_LISTENER_FREE,
        IOCTL_ND_LISTENER_GET_ADDRESS, IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, IOCTL_ND_LISTENER_LISTEN,
        ND_GET_CONNECTION_REQUEST, ND_IOCTL_VERSION, ND_LISTEN,
    },
    sockaddr::SOCKADDR_INET,
    status::NTSTATUS,
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    connector::{Connector, bind_request},
    device,
    object::{Object, Pending},
    overlapped::Overlapped,
};

#[derive(Debug)]
pub(crate) struct Listener {
    pending: Pending,
    adapter: Arc<Adapter>,
}

impl Listener {
    pub(crate) fn create(adapter: &Arc<Adapter>, file: HANDLE) -> Result<Self, NTSTATUS> {
        let pending = Pending::new(adapter, file, IOCTL_ND_LISTENER_CANCEL_IO, || {
            Object::create(adapter.file(), IOCTL_ND_LISTENER_CREATE, adapter.handle(), IOCTL_ND_LISTENER_FREE)
        })?;
        Ok(Self { pending, adapter: adapter.clone() })
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    pub(crate) fn bind(&self, address: SOCKADDR_INET) -> Result<(), NTSTATUS> {
        self.adapter.file().command(IOCTL_ND_LISTENER_BIND, bind_request(self.pending.handle(), address).as_bytes())
    }

    /// Listens. A `backlog` of 0 means no limit.
    pub(crate) fn listen(&self, backlog: u32) -> Result<(), NTSTATUS> {
        let input = ND_LISTEN { Version: ND_IOCTL_VERSION, Backlog: backlog, ListenerHandle: self.pending.handle() };
        self.adapter.file().command(IOCTL_ND_LISTENER_LISTEN, input.as_bytes())
    }

    pub(crate) fn local_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_LISTENER_GET_ADDRESS, input.as_bytes())
    }

    /// Pends until a peer connects; then `connector` has the connection request.
    pub(crate) fn connection_request(&self, connector: &Connector, overlapped: &Overlapped) -> NTSTATUS {
        let input = ND_GET_CONNECTION_REQUEST {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            ListenerHandle: self.pending.handle(),
            ConnectorHandle: connector.pending().handle(),
        };
        self.pending.submit(overlapped, IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, input.as_bytes())
    }
}
