//! Finding and opening the adapter; protection domains.

use std::{net::SocketAddr, sync::Arc};

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_ADAPTER_CLOSE, IOCTL_ND_ADAPTER_OPEN, IOCTL_ND_ADAPTER_QUERY, IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST,
        IOCTL_ND_PD_CREATE, IOCTL_ND_PD_FREE, IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, IOCTL_ND_PROVIDER_RESOLVE_ADDRESS,
        ND_ADAPTER_QUERY, ND_IOCTL_VERSION, ND_OPEN_ADAPTER, ND_RESOLVE_ADDRESS, ND_RESOURCE_DESCRIPTOR, ND_VERSION_2,
        ND2_ADAPTER_INFO,
    },
    sockaddr::SOCKADDR_INET,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{Client, Object, nd_handle, object};
use crate::error::Result;

/// Room for the addresses of any test machine.
const MOST_ADDRESSES: usize = 64;

impl Client {
    /// The local addresses of all adapters.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        self.address_list(IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, 0)
    }

    /// The identifier of the adapter that owns a local address.
    pub fn resolve(&self, address: SocketAddr) -> Result<u64> {
        let request =
            ND_RESOLVE_ADDRESS { Version: ND_IOCTL_VERSION, Reserved: 0, Address: SOCKADDR_INET::new(address) };
        self.query(IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, &request)
    }

    fn address_list(&self, code: u32, handle: u64) -> Result<Vec<SocketAddr>> {
        let room = MOST_ADDRESSES * size_of::<SOCKADDR_INET>();
        let completion = self.begin(code, nd_handle(handle).as_bytes(), room).finish()?;
        let (list, _rest) = completion.output.as_chunks::<{ size_of::<SOCKADDR_INET>() }>();
        Ok(list
            .iter()
            .filter_map(|bytes| SOCKADDR_INET::read_from_bytes(bytes).ok())
            .filter_map(|address| address.socket_addr())
            .collect())
    }
}

/// An open adapter.
#[derive(Clone)]
pub struct Adapter {
    pub(super) object: Arc<Object>,
}
object!(Adapter);

impl Adapter {
    /// Opens the adapter with this identifier.
    pub fn open(client: &Arc<Client>, id: u64) -> Result<Self> {
        let request = ND_OPEN_ADAPTER { Version: ND_IOCTL_VERSION, AdapterId: id, ..ND_OPEN_ADAPTER::ZERO };
        let opened: ND_RESOURCE_DESCRIPTOR = client.query(IOCTL_ND_ADAPTER_OPEN, &request)?;
        Ok(Self { object: Object::new(client, opened.Handle, IOCTL_ND_ADAPTER_CLOSE, &[]) })
    }

    /// The file it was opened on.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.object.client
    }

    /// Its limits.
    pub fn info(&self) -> Result<ND2_ADAPTER_INFO> {
        let request =
            ND_ADAPTER_QUERY { Version: ND_IOCTL_VERSION, InfoVersion: ND_VERSION_2, AdapterHandle: self.handle() };
        self.client().query(IOCTL_ND_ADAPTER_QUERY, &request)
    }

    /// Its local addresses.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        self.client().address_list(IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, self.handle())
    }
}

/// A protection domain.
#[derive(Clone)]
pub struct Pd {
    pub(super) object: Arc<Object>,
}
object!(Pd);

impl Pd {
    /// A new one on `adapter`.
    pub fn new(adapter: &Adapter) -> Result<Self> {
        let client = adapter.client();
        let handle = client.query(IOCTL_ND_PD_CREATE, &nd_handle(adapter.handle()))?;
        Ok(Self { object: Object::new(client, handle, IOCTL_ND_PD_FREE, &[&adapter.object]) })
    }
}
