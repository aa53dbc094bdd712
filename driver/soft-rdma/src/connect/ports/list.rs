//! What is in use, as OIDs and diagnostics list it.

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
    /// It is a TCP connection too, with the same addresses; else it is in memory.
    pub over_tcp: bool,
}

/// What an address is in use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A listener, which listens; or is being closed.
    Listener {
        /// It listens.
        listens: bool,
    },
    /// A shared endpoint.
    SharedEndpoint,
    /// One side of a connection, or of an attempt at one.
    Connection {
        /// The peer's address.
        remote: SocketAddr,
        /// It connects; else it accepts.
        active: bool,
        /// It is established.
        established: bool,
    },
}

/// An address in use, as diagnostics list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Address and port.
    pub local: SocketAddr,
    /// The process that has it; none if the kernel does.
    pub process: Option<u32>,
    /// What for.
    pub what: Use,
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

    /// What is at a place of the table, if it is to be listed; `None` from the number of places on, which may grow. IRQL <= DISPATCH.
    pub(crate) fn in_use(&self, place: usize) -> Option<Option<InUse>> {
        let table = self.table.lock();
        if place >= table.entries.places() {
            return None;
        }
        Some(table.entries.get(place).and_then(|entry| match entry.claim {
            Claim::Address { local, process, purpose: Purpose::SharedEndpoint } => {
                Some(InUse { local, process, what: Use::SharedEndpoint })
            }
            // Those of listeners and connectors: what they are for is listed by itself.
            Claim::Address { .. } => None,
            Claim::Listener { local, process, listens, .. } => {
                Some(InUse { local, process, what: Use::Listener { listens } })
            }
            Claim::Connection { side: ConnectionSide { local, remote, process, .. }, active, established } => {
                Some(InUse { local, process, what: Use::Connection { remote, active, established } })
            }
        }))
    }

    /// What `pick` makes of the claims. The lock is taken for each, so they may change meanwhile.
    fn list<T>(&self, pick: impl Fn(&Claim<P>) -> Option<T>) -> impl Iterator<Item = T> {
        let places = self.table.lock().entries.places();
        (0..places).filter_map(move |number| pick(&self.table.lock().entries.get(number)?.claim))
    }
}
