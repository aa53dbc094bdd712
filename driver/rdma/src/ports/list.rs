//! What is in use, as OIDs list it.

use core::net::SocketAddr;

use platform::Platform;

use super::{Claim, Ports, Purpose};

/// A listener or shared endpoint, as OID_NDK_LOCAL_ENDPOINTS lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// Address and port.
    pub local: SocketAddr,
    /// It is a listener; else a shared endpoint.
    pub listener: bool,
    /// The process that has it; none if the kernel does.
    pub process: Option<u32>,
}

/// An established side of a connection, as OID_NDK_CONNECTIONS lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSide {
    /// Its own address.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// The process that has it; none if the kernel does.
    pub process: Option<u32>,
}

impl<P: Platform> Ports<P> {
    /// The established sides of connections.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionSide> {
        self.list(|claim| match claim {
            Claim::Connection { side, established: true, .. } => Some(*side),
            _ => None,
        })
    }

    /// Listeners that listen, and shared endpoints.
    pub(crate) fn local_endpoints(&self) -> impl Iterator<Item = LocalEndpoint> {
        self.list(|claim| match *claim {
            Claim::Address { local, process, purpose: Purpose::SharedEndpoint } => {
                Some(LocalEndpoint { local, listener: false, process })
            }
            Claim::Listener { local, process, listens: true, .. } => {
                Some(LocalEndpoint { local, listener: true, process })
            }
            _ => None,
        })
    }

    /// What `pick` makes of the claims. The lock is taken for each, so they may change meanwhile.
    fn list<T>(&self, pick: impl Fn(&Claim<P>) -> Option<T>) -> impl Iterator<Item = T> {
        let places = self.table.lock().entries.places();
        (0..places).filter_map(move |number| pick(&self.table.lock().entries.get(number)?.claim))
    }
}
