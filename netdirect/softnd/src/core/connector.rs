//! Connectors.

use std::sync::Arc;

use ndk_abi::{
    nd_ioctl::{
        IF_PHYSICAL_ADDRESS, IOCTL_ND_CONNECTOR_ACCEPT, IOCTL_ND_CONNECTOR_BIND, IOCTL_ND_CONNECTOR_CANCEL_IO,
        IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, IOCTL_ND_CONNECTOR_CONNECT, IOCTL_ND_CONNECTOR_CREATE,
        IOCTL_ND_CONNECTOR_DISCONNECT, IOCTL_ND_CONNECTOR_FREE, IOCTL_ND_CONNECTOR_GET_ADDRESS,
        IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, IOCTL_ND_CONNECTOR_GET_READ_LIMITS,
        IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, IOCTL_ND_CONNECTOR_REJECT, ND_ACCEPT, ND_BIND, ND_CONNECT,
        ND_IOCTL_VERSION, ND_READ_LIMITS, ND_REJECT,
    },
    sockaddr::SOCKADDR_INET,
    status::NTSTATUS,
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    device,
    object::{Object, Pending},
    overlapped::Overlapped,
    queue_pair::QueuePair,
};

/// An upper bound of the private data that an adapter takes.
const MAX_PRIVATE_DATA: usize = 1024;

#[derive(Debug)]
pub(crate) struct Connector {
    pending: Pending,
    adapter: Arc<Adapter>,
}

impl Connector {
    pub(crate) fn create(adapter: &Arc<Adapter>, file: HANDLE) -> Result<Self, NTSTATUS> {
        let pending = Pending::new(adapter, file, IOCTL_ND_CONNECTOR_CANCEL_IO, || {
            Object::create(adapter.file(), IOCTL_ND_CONNECTOR_CREATE, adapter.handle(), IOCTL_ND_CONNECTOR_FREE)
        })?;
        Ok(Self { pending, adapter: adapter.clone() })
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// The most bytes of private data, over all messages.
    pub(crate) fn max_private_data(&self) -> u32 {
        let info = self.adapter.info();
        info.MaxCallerData.max(info.MaxCalleeData)
    }

    pub(crate) fn bind(&self, address: SOCKADDR_INET) -> Result<(), NTSTATUS> {
        self.adapter.file().command(IOCTL_ND_CONNECTOR_BIND, bind_request(self.pending.handle(), address).as_bytes())
    }

    /// Pends until the peer accepts or rejects, or the connect fails.
    pub(crate) fn connect(
        &self,
        queue_pair: &QueuePair,
        destination: SOCKADDR_INET,
        limits: ND_READ_LIMITS,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> NTSTATUS {
        let head = ND_CONNECT {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            ReadLimits: limits,
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_CONNECT>() as u32,
            ConnectorHandle: self.pending.handle(),
            QpHandle: queue_pair.handle(),
            DestinationAddress: destination,
            DestinationHwAddress: IF_PHYSICAL_ADDRESS { Length: 0, Address: [0; 32] },
            Padding0: [0; 2],
        };
        let input = [head.as_bytes(), private_data].concat();
        self.pending.submit(overlapped, IOCTL_ND_CONNECTOR_CONNECT, &input)
    }

    pub(crate) fn complete_connect(&self, overlapped: &Overlapped) -> NTSTATUS {
        self.pending.submit_handle(overlapped, IOCTL_ND_CONNECTOR_COMPLETE_CONNECT)
    }

    /// Pends until the peer has completed the connect, or the connection has failed.
    pub(crate) fn accept(
        &self,
        queue_pair: &QueuePair,
        limits: ND_READ_LIMITS,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> NTSTATUS {
        let head = ND_ACCEPT {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            ReadLimits: limits,
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_ACCEPT>() as u32,
            ConnectorHandle: self.pending.handle(),
            QpHandle: queue_pair.handle(),
        };
        let input = [head.as_bytes(), private_data].concat();
        self.pending.submit(overlapped, IOCTL_ND_CONNECTOR_ACCEPT, &input)
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> Result<(), NTSTATUS> {
        let head = ND_REJECT {
            Version: ND_IOCTL_VERSION,
            Reserved: 0,
            CbPrivateDataLength: private_data.len() as u32,
            CbPrivateDataOffset: size_of::<ND_REJECT>() as u32,
            ConnectorHandle: self.pending.handle(),
        };
        self.adapter.file().command(IOCTL_ND_CONNECTOR_REJECT, &[head.as_bytes(), private_data].concat())
    }

    pub(crate) fn read_limits(&self) -> Result<ND_READ_LIMITS, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_CONNECTOR_GET_READ_LIMITS, input.as_bytes())
    }

    /// The private data that the peer sent with its connect, accept or reject.
    pub(crate) fn private_data(&self) -> Result<Vec<u8>, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        let mut data = vec![0; MAX_PRIVATE_DATA];
        let length = self.adapter.file().control(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, input.as_bytes(), &mut data)?;
        data.truncate(length);
        Ok(data)
    }

    pub(crate) fn local_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_CONNECTOR_GET_ADDRESS, input.as_bytes())
    }

    pub(crate) fn peer_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, input.as_bytes())
    }

    /// Pends until the connection has ended.
    pub(crate) fn notify_disconnect(&self, overlapped: &Overlapped) -> NTSTATUS {
        self.pending.submit_handle(overlapped, IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT)
    }

    pub(crate) fn disconnect(&self, overlapped: &Overlapped) -> NTSTATUS {
        self.pending.submit_handle(overlapped, IOCTL_ND_CONNECTOR_DISCONNECT)
    }
}

pub(super) fn bind_request(handle: u64, address: SOCKADDR_INET) -> ND_BIND {
    ND_BIND { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: handle, Address: address, Padding0: [0; 4] }
}
